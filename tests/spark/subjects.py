"""A fresh Delta or Iceberg table, and what a backend does to it: the set-up that most Spark tests share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from support.builders import make_group, make_layout, make_work

from zlayout.formats.base import Backend, Commit, GroupFailed, Notify, PlannedTable
from zlayout.formats.delta.backend import DeltaBackend
from zlayout.formats.iceberg.backend import IcebergBackend
from zlayout.formats.iceberg.write.commit import Committer, write_groups
from zlayout.formats.iceberg.write.jvm import IcebergJvm
from zlayout.formats.iceberg.write.staging import staged
from zlayout.formats.kernel.commits import Measurement, NewFiles, Rewritten, commit_apart, new_files
from zlayout.spark.session import SparkRuntime
from zlayout.spec.model import CatalogConfig, Layout, Project, TableName
from zlayout.table.state import TableState

LAYOUT = make_layout("a", "b")


@dataclass(frozen=True)
class SparkSubject:
    """One table, not created yet. `str` of it is its name in SQL. files: that each group of a rewrite becomes."""

    catalog_name: ClassVar[str]
    make_backend: ClassVar[Any]

    project: Project
    runtime: SparkRuntime
    name: TableName
    layout: Layout = LAYOUT
    files: int = 2

    def __str__(self) -> str:
        return str(self.name)

    @property
    def spark(self) -> SparkSession:
        return self.runtime.session

    @property
    def catalog(self) -> CatalogConfig:
        return self.project.catalogs[self.catalog_name]

    @property
    def backend(self) -> Backend:
        made: Backend = self.make_backend(self.catalog, self.runtime)
        return made

    def sql(self, statement: str) -> DataFrame:
        return self.spark.sql(statement)

    def rows(self, columns: str = "*", where: str = "true") -> list[Any]:
        return sorted(map(tuple, self.sql(f"select {columns} from {self} where {where}").collect()), key=repr)

    def observe(self, *columns: str, version: int | None = None) -> TableState:
        return self.backend.observe(self.name, columns, version)

    def work(
        self,
        state: TableState | None = None,
        layout: Layout | None = None,
        *,
        files: int | None = None,
        partitions: Iterable[int] | None = None,
        **changes: Any,
    ) -> PlannedTable:
        """All files of the state (default: the present one) or of some of its partitions, one group for each.

        files: that each group becomes, `self.files` by default. changes: any other arguments of `make_work`.
        """
        state = self.observe() if state is None else state
        chosen = np.unique(state.files.partition).tolist() if partitions is None else sorted(partitions)
        groups = tuple(
            make_group(f"g{at}", state.files.take(np.flatnonzero(state.files.partition == at)), files or self.files)
            for at in chosen
        )
        settings: dict[str, Any] = {
            "run_id": f"run-{self.name.name}-{state.version}",
            "version": state.version,
            "table_id": state.table_id,
            "partitioning": tuple(map(str, state.partition_fields)),
            "groups": groups,
            "covers_table": sum(len(g.files) for g in groups) == len(state.files),
        }
        return make_work(layout or self.layout, self.name, **(settings | changes))

    def execute(self, work: PlannedTable, notify: Notify = lambda _: None) -> Iterator[Commit | GroupFailed]:
        return self.backend.execute(work, notify)

    def run(self, state: TableState | None = None, layout: Layout | None = None, **changes: Any) -> list[Any]:
        """Carry out `work` of the same arguments and return all outcomes."""
        return list(self.execute(self.work(state, layout, **changes)))


@dataclass(frozen=True)
class DeltaSubject(SparkSubject):
    catalog_name = "lake"
    make_backend = DeltaBackend

    def __str__(self) -> str:
        return f"delta.`{self.path}`"

    @property
    def path(self) -> Path:
        return self.project.root.joinpath("delta", *self.name.identifier)

    def append(self, rows: DataFrame) -> None:
        rows.write.format("delta").mode("append").save(str(self.path))

    def history(self) -> dict[int, Any]:
        """The rows of DESCRIBE HISTORY by version."""
        return {row.version: row for row in self.sql(f"describe history {self}").collect()}


@dataclass(frozen=True)
class IcebergSubject(SparkSubject):
    catalog_name = "ice"
    make_backend = IcebergBackend

    def __str__(self) -> str:
        return f"{self.name.on('')}{f'.branch_{self.name.branch}' if self.name.branch else ''}"

    def on(self, branch: str) -> IcebergSubject:
        """The same table on a branch: what is read, rewritten and written is there."""
        return replace(self, name=self.name.on(branch))

    @property
    def identifier(self) -> str:
        """The name inside the catalog, as Iceberg's procedures take it."""
        return ".".join(self.name.identifier)

    def append(self, rows: DataFrame) -> None:
        rows.writeTo(str(self)).append()

    @property
    def jvm(self) -> IcebergJvm:
        return IcebergJvm(self.spark)

    def java_table(self) -> Any:
        return self.jvm.load(self.name)

    def race(self, state: TableState, change: Callable[[], Any]) -> list[Any]:
        """Write the new files, let `change` happen, then commit. Return all outcomes."""
        jvm, work = self.jvm, self.work(state)
        with staged(jvm, jvm.load(self.name), work) as pinned:
            new, _ = write_groups(pinned, work)
            change()
            return list(commit_apart(new, Committer(pinned, self.catalog, work, Measurement(state.files, work)).commit))

    def ids(self) -> list[int]:
        return [row[0] for row in self.sql(f"select id from {self} order by id").collect()]

    def lineage(self) -> dict[int, tuple[int, int]]:
        """(row id, sequence number of the last change) by id."""
        found = self.sql(f"select id, _row_id, _last_updated_sequence_number s from {self}").collect()
        return {row.id: (row._row_id, row.s) for row in found}


def shifted_files(rewritten: Sequence[Rewritten]) -> NewFiles:
    """Return the new files of groups as `new_files`, with an error in their positions."""
    found = new_files(rewritten)
    return replace(found, at=np.roll(found.at, 1))
