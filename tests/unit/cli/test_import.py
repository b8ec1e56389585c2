"""import: what a live table says of itself, as a layout that plans without drift."""

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyiceberg.catalog import load_catalog
from pyiceberg.transforms import BucketTransform
from support.projects import LAYOUT, PROJECT, Cli, Scripted

from zlayout.cli.main import run
from zlayout.formats.delta.read.history import external
from zlayout.session.import_ import recorded_settings, target_size
from zlayout.spec.load import load_project
from zlayout.spec.model import LayoutSpec

MINE = """\
version: 1
table: lake.db.orders
zorder:
  columns: [{name: a, weight: 2}, b]
  curve: zorder
  range_ids: 50
files: {target_size: 2000B, sort_within: false}
"""


def the_layout() -> LayoutSpec:
    (spec,) = load_project(Path(), {}).layouts
    return spec


@pytest.mark.usefixtures("memory")
def test_what_zlayout_laid_out_is_imported_without_drift(cli: Cli) -> None:
    Path("layouts/orders.yaml").write_text(MINE.replace(", b]", "]"))
    cli("apply", "--auto-approve")
    laid_out = the_layout().layout
    Path("layouts/orders.yaml").unlink()
    assert cli("import", "lake.db.orders").out.endswith("wrote layouts/db_orders.yaml\n")
    assert the_layout().layout == laid_out
    cli("drift")


def test_the_last_optimize_of_a_delta_table_is_its_order(root: Path, cli: Cli) -> None:
    log = root / "tables" / "db" / "orders" / "_delta_log"
    info = {"operation": "OPTIMIZE", "operationParameters": {"zOrderBy": '["B","a"]', "predicate": "[]"}}
    (log / "00000000000000000002.json").write_text(json.dumps({"commitInfo": info}) + "\n")
    Path("layouts/orders.yaml").unlink()
    assert "OPTIMIZE ZORDER BY at version 2" in cli("import", "lake.db.orders").err
    assert (the_layout().column_names, the_layout().layout.curve) == (("b", "a"), "zorder")
    assert "  ordered by      OPTIMIZE ZORDER BY at version 2: zorder [b, a]\n" in cli("inspect", "lake.db.orders").out
    assert json.loads(cli("plan", "--output", "json").out)["tables"][0]["drift"] == []


def test_a_history_that_makes_no_sense_says_nothing(root: Path, cli: Cli) -> None:
    log = root / "tables" / "db" / "orders" / "_delta_log"
    info = {"operation": "OPTIMIZE", "operationParameters": {"zOrderBy": "[b"}}
    (log / "00000000000000000002.json").write_text(json.dumps({"commitInfo": info}) + "\n")
    Path("layouts/orders.yaml").unlink()
    assert "ZL065" in cli("import", "lake.db.orders", code=1).err


def test_the_newest_optimize_with_an_order_counts() -> None:
    compaction = {"operation": "OPTIMIZE", "operationParameters": {"zOrderBy": "[]"}, "version": 9}
    older = {"operation": "OPTIMIZE", "operationParameters": {"zOrderBy": '["a"]'}, "version": 5}
    write = {"operation": "WRITE", "operationParameters": {}, "version": 10}
    other = {"operation": "RESTORE", "operationParameters": {"zOrderBy": '["z"]'}, "version": 11}
    found = external([other, write, compaction, older, {**older, "version": 2}]).ordering
    assert (found.columns, found.source) == (("a",), "OPTIMIZE ZORDER BY at version 5")
    assert external([write]).ordering is None


def test_a_layout_that_no_file_has_is_not_what_the_table_has(memory: Scripted) -> None:
    assert run(["apply", "--auto-approve"]) == 0
    state = memory.observe(the_layout().table, ())
    assert recorded_settings(state) is not None
    none_left = replace(state.files, layout=state.files.layout * 0 - 1)
    assert recorded_settings(replace(state, files=none_left)) is None


@pytest.mark.parametrize(
    "settings",
    [
        {"engine": "native"},
        {"zorder.columns": ["a"]},
        {"zorder.columns": "a", "files.target_size": 1},
        {"zorder.columns": ["a"], "files.target_size": "1"},
    ],
)
def test_a_record_without_what_every_layout_has_does_not_count(memory: Scripted, settings: dict[str, object]) -> None:
    assert run(["apply", "--auto-approve"]) == 0
    state = memory.observe(the_layout().table, ())
    layouts = tuple(replace(record, settings=settings) for record in state.files.layouts)
    assert recorded_settings(replace(state, files=replace(state.files, layouts=layouts))) is None


def test_a_column_that_reads_like_a_number_stays_a_name(root: Path, cli: Cli) -> None:
    write_deltalake(str(root / "tables" / "db" / "other"), pa.table({"1e5": [1]}))
    assert "  - '1e5'\n" in cli("import", "lake.db.other", "--columns", "1e5", "--out", "-").out


def test_partitioning_is_kept_and_columns_can_be_named(root: Path, cli: Cli) -> None:
    rows = pa.table({"day": ["a", "b"], "id": [1, 2]})
    write_deltalake(str(root / "tables" / "db" / "days"), rows, partition_by=["day"])
    assert cli("import", "lake.db.days", "--columns", "id", "--out", "-").out.splitlines()[1:] == [
        "version: 1",
        "table: lake.db.days",
        "partition_by: [day]",
        "zorder:",
        "  columns: [id]",
        "files: {target_size: 128MiB}",
    ]
    assert "ZL035" in cli("import", "lake.db.days", "--columns", "day", code=1).err


def test_an_iceberg_table_says_its_sort_order_and_transforms(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    monkeypatch.chdir(tmp_path)
    options = {"uri": f"sqlite:///{tmp_path}/ice.db", "warehouse": f"file://{tmp_path}/w"}
    catalog = load_catalog("ice", type="sql", **options)
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", pa.schema([("id", pa.int64()), ("city", pa.string())]))
    with table.update_spec() as update:
        update.add_field("id", BucketTransform(4), "id_bucket")
    with table.update_sort_order() as order:
        order.asc("city", "identity")
    with table.transaction() as change:
        change.set_properties({"write.target-file-size-bytes": str(64 * 1024**2)})
    catalog.close()
    Path("zlayout.yaml").write_text(
        f"version: 1\ncatalogs:\n  ice: {{format: iceberg, type: sql, uri: '{options['uri']}', "
        f"warehouse: '{options['warehouse']}'}}\n"
    )
    assert "the table's sort order" in cli("import", "ice.db.t").err
    spec = the_layout()
    assert (spec.column_names, spec.layout.curve, spec.layout.target_size) == (("city",), "linear", 64 * 1024**2)
    assert list(map(str, spec.partition_by or ())) == ["bucket(4, id)"]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["lake.db.orders"], "ZL064"),
        (["nowhere.db.orders"], "ZL021"),
        (["lake.db.other"], "ZL065"),
        (["lake.db.other", "--columns", "nope"], "ZL012"),
        (["lake.db.other", "--columns", "xs"], "ZL034"),
        (["lake.db.other", "--columns", "a", "--out", "zlayout.yaml"], "ZL063"),
        (["lake.db.other", "--columns", "a", "--out", "zlayout.yaml/x.yaml"], "ZL066"),
        (["lake.db.gone"], "ZL110"),
    ],
)
def test_refusals_write_nothing(root: Path, arguments: list[str], code: str, cli: Cli) -> None:
    write_deltalake(str(root / "tables" / "db" / "other"), pa.table({"a": [1], "xs": [[1]]}))
    assert code in cli("import", *arguments, code=1).err
    assert Path("layouts/orders.yaml").read_text() == LAYOUT
    assert Path("zlayout.yaml").read_text() == PROJECT
    assert len(list(Path("layouts").iterdir())) == 1


def test_a_file_that_no_pattern_matches_is_reported(root: Path, cli: Cli) -> None:
    write_deltalake(str(root / "tables" / "db" / "other"), pa.table({"a": [1]}))
    err = cli("import", "lake.db.other", "--columns", "a", "--out", "elsewhere.yaml").err
    assert "`layouts:` in zlayout.yaml does not match elsewhere.yaml" in err


def test_the_source_of_the_orderings_of_many_tables_is_stated_once(root: Path, cli: Cli) -> None:
    for name in "xyz":
        write_deltalake(str(root / "tables" / "db" / name), pa.table({"a": [1]}))
    printed = cli("import", "lake.db.?", "--columns", "a")
    assert printed.out.count("wrote ") == 3
    assert printed.err.count("The ordering is from --columns, not from zlayout.") == 1


def test_the_file_size_is_that_of_the_middle_byte(memory: Scripted) -> None:
    state = replace(memory.observe(the_layout().table, ()), format="delta")
    assert target_size(state) == 2**20
    large = state.files.bytes * 0 + [10, 60_000_000, 70_000_000, 20]
    assert target_size(replace(state, files=replace(state.files, bytes=large))) == 64 * 2**20
    assert target_size(replace(state, properties={"delta.targetFileSize": "1000"})) == 1000
    for odd in ("²", "٣", "0", "9" * 5000, "1.5g", "128 sheep", "mb", "-1"):
        assert target_size(replace(state, properties={"delta.targetFileSize": odd})) == 2**20


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("134217728", 2**27),
        ("128mb", 2**27),
        ("128M", 2**27),
        ("1g", 2**30),
        ("2 GB", 2**31),
        ("64k", 2**16),
        ("7b", 7),
    ],
)
def test_the_target_size_is_read_in_every_unit(memory: Scripted, text: str, size: int) -> None:
    state = replace(memory.observe(the_layout().table, ()), format="delta")
    assert target_size(replace(state, properties={"delta.targetFileSize": text})) == size


def test_a_pattern_that_imports_nothing_fails_unless_all_tables_have_layouts(root: Path, cli: Cli) -> None:
    assert "already has a layout" in cli("import", "lake.db.*").err
    Path("layouts/orders.yaml").unlink()
    said = cli("import", "lake.db.*", code=1).err
    assert "ZL065" in said
    assert said.endswith("nothing was imported\n")
    (root / "tables" / "db" / "empty").mkdir()
    assert "nothing was imported" in cli("import", "lake.db.emp*", code=1).err


def test_tables_of_unknown_order_are_one_line_and_a_rule_that_plans(root: Path, cli: Cli) -> None:
    tables = root / "tables" / "db"
    for n in range(30):
        write_deltalake(str(tables / f"events_{n:02}"), pa.table({"at": [1], "who": ["x"]}))
    write_deltalake(str(tables / "events_other"), pa.table({"z": [1]}))
    printed = cli("import", "lake.db.events_*", code=1)
    assert printed.out == ""
    lines = printed.err.splitlines()
    assert [line.split(" (")[0] for line in lines if "ZL065" in line] == [
        "not imported: 31 tables of unknown order: "
        + ", ".join(f"lake.db.events_{n:02}" for n in range(10))
        + " and 21 more"
    ]
    assert "30 tables have the same columns (at, who)." in printed.err
    assert lines[-1] == "nothing was imported"
    rule = [line.removeprefix("  ") for line in lines if line.startswith("  ")]
    assert rule == [
        "version: 1",
        "match: lake.db.events_*",
        "exclude: [lake.db.events_other]",
        "files: {target_size: 128MiB}",
    ]
    Path("layouts/rule.yaml").write_text("\n".join(rule))
    planned = json.loads(cli("plan", "lake.db.events_*", "--output", "json").out)["tables"]
    assert {table["table"] for table in planned} == {f"lake.db.events_{n:02}" for n in range(30)}


def test_nothing_was_imported_although_some_tables_have_layouts(root: Path, cli: Cli) -> None:
    write_deltalake(str(root / "tables" / "db" / "other"), pa.table({"a": [1]}))
    said = cli("import", "lake.db.*", code=1).err
    assert "ZL064" in said
    assert said.endswith("nothing was imported\n")


def test_a_rule_needs_two_tables_with_the_same_columns_and_plain_names(root: Path, cli: Cli) -> None:
    for name, columns in (("a", "x"), ("b", "y"), ("c ${x}", "z"), ("c d", "z")):
        write_deltalake(str(root / "tables" / "db" / name), pa.table({columns: [1]}))
    printed = cli("import", "lake.db.*", code=1)
    assert "not imported: 4 tables of unknown order: " in printed.err
    assert "match:" not in printed.err


def test_a_rule_that_would_take_many_other_tables_is_not_proposed(root: Path, cli: Cli) -> None:
    for name in ("one", "two", *"abcdef"):
        columns = {"x" if len(name) > 1 else f"only_{name}": [1]}
        write_deltalake(str(root / "tables" / "db" / name), pa.table(columns))
    assert "match:" not in cli("import", "lake.db.*", code=1).err
