"""Small tables in all variants that a rewrite must be safe on, each with deleted rows in it from the start."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder
from pyspark.sql import SparkSession
from support.builders import make_layout, make_spec

from zlayout.formats.base import Backend
from zlayout.formats.iceberg.read.catalog import load_table
from zlayout.spec.model import CatalogConfig, LayoutSpec, TableName

Rows = Mapping[int, tuple[int, str, int]]  # a, b, p by id

COLUMNS = "id BIGINT, a INT, b STRING, p INT"
COUNT = 240
TARGET_SIZE = 1500  # bytes: two files for each partition

_CHANGE_FEED = {"delta.enableInCommitTimestamps": "true", "delta.enableChangeDataFeed": "true"}
_VECTORS = {"delta.enableDeletionVectors": "true"}
_ROW_IDS = {"delta.enableRowTracking": "true"}
_NAMES = {"delta.columnMapping.mode": "name"}
DELTA: dict[str, dict[str, str]] = {
    "delta-plain": {},
    "delta-vectors": _VECTORS,
    "delta-row-ids": _ROW_IDS,
    "delta-names": _NAMES,
    "delta-all": _VECTORS | _ROW_IDS | _NAMES | _CHANGE_FEED,
}
ICEBERG = {
    "iceberg-2-merge-on-read": (2, "merge-on-read"),
    "iceberg-2-copy-on-write": (2, "copy-on-write"),
    "iceberg-3-merge-on-read": (3, "merge-on-read"),
    "iceberg-3-copy-on-write": (3, "copy-on-write"),
}
# one of each format with all that a rewrite must keep, then others for the long run
SOME_VARIANTS = (
    "delta-all",
    "iceberg-3-merge-on-read",
    pytest.param("delta-plain", marks=pytest.mark.long),
    pytest.param("iceberg-2-copy-on-write", marks=pytest.mark.long),
)


def row(id: int) -> tuple[int, str, int]:
    """a, b and p of a row as `values_of` makes it in SQL."""
    return id * 7919 % 1009, f"k{id * 104729 % 997}", id % 2


def values_of(start: int, stop: int) -> str:
    """A query of new rows, in one file for each partition and task."""
    columns = "id, CAST(id * 7919 % 1009 AS INT) a, CONCAT('k', id * 104729 % 997) b, CAST(id % 2 AS INT) p"
    return f"SELECT {columns} FROM RANGE({start}, {stop}, 1, 2)"


# the second half comes after the delete, so that no partition is left with a single file, which nothing would improve
FIRST_STATEMENTS = (
    f"INSERT INTO {{t}} {values_of(0, COUNT // 2)}",
    "DELETE FROM {t} WHERE id % 10 = 3",
    f"INSERT INTO {{t}} {values_of(COUNT // 2, COUNT)}",
)


def first_rows() -> Rows:
    """What a fresh table holds."""
    return {id: row(id) for id in range(COUNT) if id % 10 != 3 or id >= COUNT // 2}


def quoted(properties: Mapping[str, str]) -> str:
    return ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())


@dataclass
class Table:
    """One table of a variant, of two partitions and at least four files."""

    spark: SparkSession
    backend: Backend
    catalog: CatalogConfig
    name: TableName
    variant: str
    folder: Path

    has_row_ids = False
    row_id = ""

    @property
    def format(self) -> str:
        return self.variant.partition("-")[0]

    @property
    def in_sql(self) -> str:
        raise NotImplementedError

    @property
    def spec(self) -> LayoutSpec:
        return make_spec(make_layout("a", "b", target_size=TARGET_SIZE), self.name)

    def sql(self, statement: str) -> None:
        """Run a statement in which `{t}` stands for the table."""
        self.spark.sql(statement.format(t=self.in_sql)).collect()

    def create(self) -> None:
        raise NotImplementedError

    def rows(self) -> list[tuple[Any, ...]]:
        """id, a, b, p and row id (None where the table keeps none) of every row, as Spark reads them, sorted."""
        row_id = self.row_id if self.has_row_ids else "NULL"
        return sorted(map(tuple, self.spark.sql(f"SELECT id, a, b, p, {row_id} FROM {self.in_sql}").collect()))

    def row_ids(self) -> dict[int, int | None]:
        """Row id by id; empty where the table keeps none."""
        return {row[0]: row[-1] for row in self.rows()} if self.has_row_ids else {}

    def rows_elsewhere(self) -> list[tuple[Any, ...]]:
        """id, a, b, p of every row, by a reader that is not Spark, sorted."""
        raise NotImplementedError

    def files(self) -> list[tuple[str, int]]:
        """Place and size of every live file, as that reader finds them in the metadata."""
        raise NotImplementedError

    def stored_size(self, place: str) -> int | None:
        """The size of a file on storage; None if there is none."""
        path = Path(place)
        return path.stat().st_size if path.exists() else None

    def stored_files(self) -> set[Path]:
        """All Parquet data files in the table's folder, live or not."""
        return {path for path in self.folder.rglob("*.parquet") if "_delta_log" not in path.parts}


class Delta(Table):
    row_id = "_metadata.row_id"

    @property
    def has_row_ids(self) -> bool:  # type: ignore[override]
        return "delta.enableRowTracking" in DELTA[self.variant]

    @property
    def in_sql(self) -> str:
        return f"delta.`{self.location}`"

    @property
    def location(self) -> str:
        return str(self.folder)

    def create(self) -> None:
        """Copies one that was made before: paths in a Delta log are relative."""
        shutil.copytree(self.template(), self.folder, dirs_exist_ok=True)

    def template(self) -> Path:
        """A table of this variant in a folder that nobody writes to."""
        made = self.folder.parent / f"template-{self.variant}"
        if not made.exists():
            properties = {"delta.enableDeletionVectors": "false"} | DELTA[self.variant]
            name = f"delta.`{made}`"
            self.spark.sql(
                f"CREATE TABLE {name} ({COLUMNS}) USING delta PARTITIONED BY (p) TBLPROPERTIES ({quoted(properties)})"
            )
            for statement in FIRST_STATEMENTS:
                self.spark.sql(statement.format(t=name))
        return made

    def opened(self) -> DeltaTable:
        """The table in deltalake."""
        return DeltaTable(self.location)

    def rows_elsewhere(self) -> list[tuple[Any, ...]]:
        query = QueryBuilder().register("t", self.opened())
        found = query.execute("SELECT id, a, b, p FROM t").read_all()
        return sorted(zip(*(column.to_pylist() for column in found.columns), strict=True))

    def files(self) -> list[tuple[str, int]]:
        live = self.opened().get_add_actions()
        paths = [f"{self.location}/{unquote(path)}" for path in live["path"].to_pylist()]
        return list(zip(paths, live["size_bytes"].to_pylist(), strict=True))


class Iceberg(Table):
    row_id = "_row_id"

    @property
    def has_row_ids(self) -> bool:  # type: ignore[override]
        return ICEBERG[self.variant][0] == 3

    @property
    def in_sql(self) -> str:
        return str(self.name)

    def create(self) -> None:
        version, mode = ICEBERG[self.variant]
        properties = {
            "format-version": str(version),
            "write.distribution-mode": "none",
            "write.spark.fanout.enabled": "true",
        } | {f"write.{change}.mode": mode for change in ("delete", "update", "merge")}
        self.sql(
            f"CREATE TABLE {{t}} ({COLUMNS}) USING iceberg PARTITIONED BY (p) TBLPROPERTIES ({quoted(properties)})"
        )
        for statement in FIRST_STATEMENTS:
            self.sql(statement)

    def rows_elsewhere(self) -> list[tuple[Any, ...]]:
        found = load_table(self.catalog, self.name).scan().to_arrow().select(["id", "a", "b", "p"])
        return sorted(zip(*(column.to_pylist() for column in found.columns), strict=True))

    def files(self) -> list[tuple[str, int]]:
        inspect = load_table(self.catalog, self.name).inspect
        vectors = set(_paths_and_sizes(inspect.delete_files()))  # a file may hold many of them
        return [*_paths_and_sizes(inspect.data_files()), *vectors]


def _paths_and_sizes(files: pa.Table) -> list[tuple[str, int]]:
    paths = [path.removeprefix("file:") for path in files["file_path"].to_pylist()]
    return list(zip(paths, files["file_size_in_bytes"].to_pylist(), strict=True))
