"""import: what the formats' own commands ordered is imported as it is, and has not drifted."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from contract import Contract, make_rows
from spark.arenas import DeltaArena, IcebergArena, SparkArena

from zlayout.cli.main import run
from zlayout.spark.jvm import session_conf
from zlayout.spec.load import load_project
from zlayout.spec.model import LayoutSpec, Project

ROWS, FILES = 6000, 6
SIZE = 1_200_000


@pytest.fixture
def cli(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project on disk without layouts, over the catalogs of the session, as the current folder."""
    folder = tmp_path / "cli"
    folder.mkdir()
    catalogs = {name: {"format": c.format, "type": c.type, **c.options} for name, c in project.catalogs.items()}
    (folder / "zlayout.yaml").write_text(json.dumps({"version": 1, "catalogs": catalogs}))
    monkeypatch.chdir(folder)
    return folder


def imported(arena: SparkArena, *options: str) -> LayoutSpec:
    assert run(["import", str(arena.table), *options]) == 0
    (spec,) = load_project(Path(), {}).layouts
    return spec


def planned(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capsys.readouterr()
    run(["plan", "--output", "json"])
    (table,) = json.loads(capsys.readouterr().out)["tables"]
    return dict(table)


def codes(table: dict[str, Any]) -> list[str]:
    return [diagnostic["code"] for diagnostic in table["diagnostics"]]


def optimize(arena: SparkArena) -> None:
    with session_conf(arena.runtime.session, {"spark.databricks.delta.optimize.maxFileSize": str(SIZE)}):
        arena.sql(f"OPTIMIZE {arena} ZORDER BY (a, b)")


def rewrite(arena: SparkArena, order: str) -> None:
    options = f"map('rewrite-all', 'true', 'target-file-size-bytes', '{SIZE}', 'max-file-size-bytes', '{2 * SIZE}')"
    arena.sql(
        f"CALL ice.system.rewrite_data_files(table => '{'.'.join(arena.table.identifier)}', "
        f"strategy => 'sort', sort_order => '{order}', options => {options})"
    )


def sort(arena: SparkArena) -> None:
    arena.sql(f"ALTER TABLE {arena} WRITE LOCALLY ORDERED BY a, b")
    rewrite(arena, "a, b")


def wide_rows() -> pa.Table:
    """Rows of about 1 KiB, so that files of 1 MiB are a few: a smaller size is never imported as a target size."""
    random = np.random.default_rng(4)
    return make_rows(ROWS).append_column("pad", pa.array([random.bytes(1000) for _ in range(ROWS)]))


@pytest.mark.parametrize(
    ("arena", "order", "curve"),
    [(DeltaArena, optimize, "zorder"), (IcebergArena, sort, "linear")],
    ids=["delta", "iceberg"],
    indirect=["arena"],
)
@pytest.mark.parametrize("partition_by", [(), ("region",)])
@pytest.mark.usefixtures("cli")
def test_what_the_format_itself_ordered_is_as_declared(
    arena: SparkArena,
    order: Callable[[SparkArena], None],
    curve: str,
    partition_by: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
) -> None:
    arena.create(wide_rows(), FILES, partition_by)
    order(arena)
    spec = imported(arena)
    assert (spec.column_names, spec.layout.curve) == (("a", "b"), curve)
    assert [str(f) for f in spec.partition_by or ()] == list(partition_by)
    table = planned(capsys)
    assert (table["drift"], table["status"]) == ([], "unchanged")
    assert run(["drift"]) == 0


@pytest.mark.parametrize("arena", [IcebergArena], indirect=True)
@pytest.mark.usefixtures("cli")
def test_a_z_order_that_helps_one_column_alone_is_not_adopted(
    arena: IcebergArena, capsys: pytest.CaptureFixture[str]
) -> None:
    """Iceberg interleaves the bytes of the values: its z-order divides these few files by the column b alone."""
    arena.create(wide_rows(), FILES)
    rewrite(arena, "zorder(a, b)")
    assert imported(arena, "--columns", "a,b").column_names == ("a", "b")
    table = planned(capsys)
    touched = {column["column"]: column["touched"] for column in table["columns"]}
    assert touched["a"] > 3 * touched["b"]
    assert (table["drift"], table["status"]) == ([], "changes")
    assert run(["drift"]) == 2


@pytest.mark.parametrize("arena", [IcebergArena], indirect=True)
@pytest.mark.usefixtures("cli")
def test_files_in_no_order_are_no_drift_but_a_first_layout(
    arena: IcebergArena, capsys: pytest.CaptureFixture[str]
) -> None:
    arena.create(wide_rows(), FILES)
    assert imported(arena, "--columns", "a,b").column_names == ("a", "b")
    table = planned(capsys)
    assert (table["drift"], table["status"]) == ([], "changes")
    assert run(["drift"]) == 2


@pytest.mark.usefixtures("cli")
def test_what_zlayout_laid_out_has_the_same_layout_again(arena: SparkArena, capsys: pytest.CaptureFixture[str]) -> None:
    contract = Contract()
    arena.create(make_rows(contract.rows), contract.files, ("region",))
    spec = contract.spec(arena)
    contract.apply(arena, contract.plan(arena, spec))
    assert imported(arena).layout.layout_id == spec.layout.layout_id
    table = planned(capsys)
    assert (table["drift"], table["actions"], table["diagnostics"]) == ([], [], [])
    assert run(["drift"]) == 0
