"""A harness that uses the names in `zlayout.__all__` alone: apply while other writers commit right before it.

After each scenario, the rows are those that the writers left, and what is not as declared says why.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, write_deltalake
from deltalake.schema import PrimitiveType
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import LongType
from pyspark.sql import SparkSession

import zlayout
from zlayout.spec.model import Project as SessionProject

ROWS, FILES = 2_000, 4
DELTA_RACES = ("nothing", "append", "delete", "optimize", "add_column", "properties")
RARE = (("delta", "optimize"), ("delta", "add_column"), ("delta", "properties"))  # which `make test` leaves out
ICEBERG_RACES = ("nothing", "append", "delete", "overwrite", "add_column", "properties", "partitioning")


def rows_of(seed: int, count: int = ROWS) -> pa.Table:
    random = np.random.default_rng(seed)
    return pa.table({name: pa.array(random.integers(0, 10_000, count), pa.int64()) for name in ("a", "b")})


@dataclass
class Delta:
    path: str

    def create(self, seed: int) -> None:
        for at in range(FILES):
            write_deltalake(self.path, rows_of(seed + at), mode="append")

    def change(self, race: str, seed: int) -> None:
        table = DeltaTable(self.path)
        match race:
            case "append":
                write_deltalake(self.path, rows_of(seed, 100), mode="append")
            case "delete":
                table.delete("a < 1000")
            case "optimize":
                table.optimize.compact()
            case "add_column":
                table.alter.add_columns([Field("c", PrimitiveType("long"))])
            case "properties":
                table.alter.set_table_properties({"delta.logRetentionDuration": "interval 40 days"})

    def rows(self) -> pa.Table:
        return DeltaTable(self.path).to_pyarrow_table()


@dataclass
class Iceberg:
    catalog: SqlCatalog
    name: str

    def create(self, seed: int) -> None:
        table = self.catalog.create_table(self.name, rows_of(0, 0).schema)
        for at in range(FILES):
            table.append(rows_of(seed + at))

    def change(self, race: str, seed: int) -> None:
        table = self.catalog.load_table(self.name)
        match race:
            case "append":
                table.append(rows_of(seed, 100))
            case "delete":
                table.delete("a < 1000")
            case "overwrite":
                table.overwrite(rows_of(seed, 100))
            case "add_column":
                with table.update_schema() as update:
                    update.add_column("c", LongType())
            case "properties":
                with table.transaction() as transaction:
                    transaction.set_properties({"note": "other"})
            case "partitioning":
                with table.update_spec() as spec:
                    spec.add_field("b", BucketTransform(2), "b_bucket")

    def rows(self) -> pa.Table:
        return self.catalog.load_table(self.name).scan().to_arrow()


def scenarios(seeds: range) -> list[tuple[str, str, int]]:
    kinds = [("delta", race) for race in DELTA_RACES] + [("iceberg", race) for race in ICEBERG_RACES]
    return [(kind, race, seed) for seed in seeds for kind, race in kinds]


@pytest.fixture
def run(tmp_path: Path, project: SessionProject, spark: SparkSession) -> Callable[[str, str, int], None]:
    options = project.catalogs["ice"].options
    (tmp_path / "layouts").mkdir()
    (tmp_path / "zlayout.yaml").write_text(
        "version: 1\ncatalogs:\n  lake: {format: delta, type: path, warehouse: ./delta}\n  ice: {format: iceberg, "
        f"type: sql, uri: '{options['uri']}', warehouse: '{options['warehouse']}'}}\n"
    )
    catalog = SqlCatalog("ice", uri=options["uri"], warehouse=options["warehouse"])

    def scenario(kind: str, race: str, seed: int) -> None:
        name = f"h_{tmp_path.name[-12:].replace('-', '_')}_{race}_{seed}".lower()
        full = f"{'lake' if kind == 'delta' else 'ice'}.db.{name}"
        table: Any = Delta(f"{tmp_path}/delta/db/{name}") if kind == "delta" else Iceberg(catalog, f"db.{name}")
        table.create(seed * 1_000)
        (tmp_path / "layouts/t.yaml").write_text(
            f"version: 1\ntable: {full}\nzorder: {{columns: [a, b]}}\nfiles: {{target_size: 16KiB}}\n"
        )
        expected: list[pa.Table] = [table.rows()]

        def meanwhile(event: zlayout.ApplyEvent) -> None:
            right_before = isinstance(event, zlayout.Progress) and event.stage is zlayout.Stage.COMMITTING
            if right_before and len(expected) == 1:
                table.change(race, seed * 1_000 + 500)
                expected.append(table.rows())

        report = zlayout.apply(zlayout.plan(zlayout.load_project(tmp_path)), spark=spark, on_event=meanwhile)
        assert len(expected) == 2
        assert sorted_rows(table.rows()) == sorted_rows(expected[1])
        check(report, full)

    return scenario


def check(report: zlayout.RunReport, name: str) -> None:
    """What is not done has a problem and a plan after the run, or the error that ended the work."""
    result = report.results[name]
    if result.outcome is zlayout.ResultStatus.AS_DECLARED:
        assert name not in report.failed
        assert report.after[name].status is zlayout.Status.UNCHANGED
        return
    if result.outcome is zlayout.ResultStatus.AS_PLANNED:  # all is done; what others did meanwhile is news
        assert name not in report.failed
        assert report.after[name].status is not zlayout.Status.UNCHANGED
        return
    assert report.failed[name]
    if name in report.after:
        assert report.after[name].status is not zlayout.Status.UNCHANGED
    else:
        assert isinstance(report.errors[name], zlayout.ZlayoutError)


def sorted_rows(table: pa.Table) -> list[dict[str, Any]]:
    return table.select(["a", "b"]).sort_by([("a", "ascending"), ("b", "ascending")]).to_pylist()


@pytest.mark.parametrize(("kind", "race", "seed"), [case for case in scenarios(range(1)) if case[:2] not in RARE])
def test_races_right_before_the_commit(run: Callable[..., None], kind: str, race: str, seed: int) -> None:
    run(kind, race, seed)


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "race", "seed"), [*(case for case in scenarios(range(1)) if case[:2] in RARE), *scenarios(range(1, 16))]
)
def test_200_races_right_before_the_commit(run: Callable[..., None], kind: str, race: str, seed: int) -> None:
    run(kind, race, seed)


def test_the_settings_of_a_project_start_a_session_that_apply_accepts(tmp_path: Path) -> None:
    (tmp_path / "layouts").mkdir()
    (tmp_path / "zlayout.yaml").write_text(
        "version: 1\ncatalogs:\n  lake: {format: delta, type: path, warehouse: ./delta}\n  my: {format: iceberg, "
        f"type: sql, uri: 'sqlite:///{tmp_path}/my.db', warehouse: 'file://{tmp_path}/my'}}\n"
    )
    conf = zlayout.spark_conf(zlayout.load_project(tmp_path))
    assert conf["spark.sql.catalog.my.uri"].startswith("jdbc:sqlite:")
    assert "DeltaSparkSessionExtension" in conf["spark.sql.extensions"]
    assert "io.delta:" in conf["spark.jars.packages"]
    assert "spark.sql.session.timeZone" not in conf
