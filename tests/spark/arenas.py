"""Delta and Iceberg tables for the contract suite, made and changed with Spark itself."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame

from zlayout.formats.base import Backend
from zlayout.formats.delta.backend import DeltaBackend
from zlayout.formats.delta.write.jvm import DeltaJvm
from zlayout.formats.iceberg.backend import IcebergBackend
from zlayout.formats.iceberg.write.commit import Committer
from zlayout.rewrite.engine import to_partitions
from zlayout.spark.arrow import to_arrow
from zlayout.spark.session import SparkRuntime
from zlayout.spec.model import Project, TableName

# What the contract's rows take in a Parquet file of a few hundred rows, measured; only file counts depend on it.
BYTES_PER_ROW = 16.0


@dataclass
class SparkArena:
    """What both formats share: rows go in through a Parquet file, in the order given. `str` of it is its SQL name."""

    project: Project
    runtime: SparkRuntime
    table: TableName
    folder: Path
    engine: str
    curve: str
    bytes_per_row: float = BYTES_PER_ROW
    backend: Backend = field(init=False)
    _batches: int = 0

    format = ""
    catalog = ""
    services: ClassVar[tuple[str, ...]] = ()  # the fixtures that start what the catalog needs
    location: ClassVar[str] = ""  # the folder of the tables; empty for the one that the catalog chooses
    properties: ClassVar[Mapping[str, str]] = {}
    has_history: ClassVar[bool] = True  # whether the metadata of a table has snapshots before the newest
    committer: ClassVar[Any] = None  # the class whose method `commit` makes the commits of zlayout
    data_folder: ClassVar[str] = ""  # the folder of the data files below the location

    def sql(self, statement: str) -> None:
        self.runtime.session.sql(statement)

    def create(self, rows: pa.Table, files: int, partition_by: tuple[str, ...] = ()) -> None:
        frame = self.frame(rows, files)
        columns = ", ".join(f"{name} {kind}" for name, kind in frame.dtypes)
        partitioned = f"PARTITIONED BY ({', '.join(partition_by)})" if partition_by else ""
        properties = ", ".join(f"'{key}' = '{value}'" for key, value in self.properties.items())
        location = f"LOCATION '{self.location}/{self.table.name}'" if self.location else ""
        self.sql(
            f"CREATE TABLE {self} ({columns}) USING {self.format} {partitioned} {location} TBLPROPERTIES ({properties})"
        )
        if len(rows):
            self.write(frame)

    def append(self, rows: pa.Table, files: int = 1) -> None:
        self.write(self.frame(rows, files))

    def frame(self, rows: pa.Table, files: int) -> DataFrame:
        """The rows as `files` Spark partitions, in order."""
        self._batches += 1
        path = self.folder / f"batch{self._batches}.parquet"
        part = np.arange(len(rows), dtype=np.int32) * files // max(len(rows), 1)
        pq.write_table(rows.append_column("part", pa.array(part)), path)
        frame = self.runtime.session.read.parquet(str(path))
        return to_partitions(frame, files, frame.part).drop("part")

    def write(self, frame: DataFrame) -> None:
        raise NotImplementedError

    def delete_below(self, id: int) -> None:
        self.sql(f"DELETE FROM {self} WHERE id < {id}")

    def read(self) -> DataFrame:
        raise NotImplementedError

    def rows(self) -> pa.Table:
        return to_arrow(self.read())


@dataclass
class DeltaArena(SparkArena):
    format = "delta"
    catalog = "lake"
    properties: ClassVar = {"delta.enableDeletionVectors": "true"}
    committer = DeltaJvm

    def __post_init__(self) -> None:
        catalog = self.project.catalogs[self.catalog]
        self.backend = DeltaBackend(catalog, self.runtime)
        self.path = f"{catalog.options['warehouse']}/db/{self.table.name}"

    def __str__(self) -> str:
        return f"delta.`{self.path}`"

    def write(self, frame: DataFrame) -> None:
        frame.write.format("delta").mode("append").save(self.path)

    def read(self) -> DataFrame:
        return self.runtime.session.read.format("delta").load(self.path)


@dataclass
class IcebergArena(SparkArena):
    format = "iceberg"
    catalog = "ice"
    properties: ClassVar = {
        "format-version": "2",
        "write.delete.mode": "merge-on-read",
        "write.distribution-mode": "none",
        "write.spark.fanout.enabled": "true",
    }
    committer = Committer
    data_folder = "data/"

    def __post_init__(self) -> None:
        self.backend = IcebergBackend(self.project.catalogs[self.catalog], self.runtime)

    def __str__(self) -> str:
        return str(self.table)

    def write(self, frame: DataFrame) -> None:
        frame.writeTo(str(self)).append()

    def read(self) -> DataFrame:
        return self.runtime.session.table(str(self))


class S3DeltaArena(DeltaArena):
    catalog = "s3lake"
    services = ("s3",)


class S3IcebergArena(IcebergArena):
    catalog = "s3ice"
    services = ("s3",)


def delete_before_first_commit(arena: SparkArena, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let another writer delete the rows with ids below 5 directly before the first commit of zlayout."""
    commit, deleted = arena.committer.commit, []

    def after_a_delete(self: Any, *arguments: Any) -> Any:
        if not deleted:
            deleted.append(True)
            arena.delete_below(5)
        return commit(self, *arguments)

    monkeypatch.setattr(arena.committer, "commit", after_a_delete)
