"""The interface of a backend, which reads and changes the tables of one catalog.

A backend observes tables and executes work orders. What can be computed from a `TableState` is not part of a backend.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Literal, Protocol

from zlayout.errors import Diagnostic, ZlayoutError
from zlayout.formats.run_metrics import RunMetrics
from zlayout.formats.undo import Undo
from zlayout.planner.work import Capabilities as Capabilities
from zlayout.planner.work import Group as Group
from zlayout.planner.work import Work as Work
from zlayout.spec.model import Layout, TableName
from zlayout.table.key_sample import RowGroupSample
from zlayout.table.state import Int64, PartitionField, TableState

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit that zlayout made.

    Attributes:
        kind: What the commit did: it changed properties or the partitioning ("settings"), replaced files ("rewrite"),
            stored layout records ("record"), or undid a run ("rollback").
        version: The version that the commit made. For a commit on Iceberg that makes no snapshot, the id of one that
            exists.
        groups: The ids of the groups that the commit completed.
        bytes_removed: The size of the removed files on storage.
        bytes_added: The size of the added files on storage.
        rows: The number of rows in the added files.
    """

    kind: Literal["settings", "rewrite", "record", "rollback"]
    version: int
    groups: tuple[str, ...] = ()
    files_removed: int = 0
    files_added: int = 0
    bytes_removed: int = 0
    bytes_added: int = 0
    rows: int = 0


@dataclass(frozen=True, slots=True)
class GroupFailed:
    """Groups that were not committed, and the error because of which they were not."""

    groups: tuple[str, ...]
    error: ZlayoutError


@dataclass(frozen=True, slots=True)
class Notice:
    """A diagnostic that informs the user how the work is done."""

    diagnostic: Diagnostic


Event = Commit | GroupFailed | Notice


class Stage(StrEnum):
    """The phase of the work on a table. When a user stops a run, a rewrite is abandoned, and a commit is completed."""

    STARTING_SPARK = "starting_spark"
    STARTING = "starting"
    CHANGING_SETTINGS = "changing_settings"
    REWRITING = "rewriting"
    COMMITTING = "committing"
    RECORDING = "recording"
    OBSERVING = "observing"
    REPLAYING = "replaying"


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of the work on a table.

    Attributes:
        detail: What exactly happens in the stage, for people.
        done: The number of finished tasks.
        total: The number of all tasks, 0 if unknown.
    """

    table: str
    stage: Stage
    detail: str = ""
    done: int = 0
    total: int = 0


Notify = Callable[[Progress], None]


@dataclass(frozen=True, slots=True)
class SampleSource:
    """The rows that a sample is drawn from.

    Attributes:
        frame: The live rows.
        file: The path of each row's file.
        draw: A pseudo-random number from 0 to 1 for each row.
        paths: A function that returns string[files], the paths of the observed files in the form of `file`.
    """

    frame: DataFrame
    file: Column
    draw: Column
    paths: Callable[[], pa.Array]


@dataclass(frozen=True, slots=True)
class Listed:
    """A name that a catalog lists.

    Attributes:
        problem: Why it is not a usable table of the format; None if it is one.
    """

    table: TableName
    problem: ZlayoutError | None = None


class Backend(Protocol):
    """A table format connected to one catalog."""

    capabilities: Capabilities

    def list_tables(self, pattern: TableName) -> Iterator[Listed]:
        """List the names of the catalog whose namespace and name match the globs in `pattern`, sorted by name.

        Raises:
            TableError: If the catalog cannot be reached.
        """
        ...

    def list_storage(self, table: TableName) -> str | None:
        """List the location of a table, or its warehouse, to check that the credentials of a reader suffice.

        Returns:
            The location that was listed; None if no location is known before the metadata of the table is read.

        Raises:
            Exception: Of any type, if the location cannot be listed.
        """
        ...

    def last_run(self, table: TableName, state: TableState) -> RunMetrics | None:
        """Return the newest metrics that a run stored with a commit, read without a JVM; None if no commit has any.

        Raises:
            TableError: If the metadata of the table cannot be read.
        """
        ...

    def undo(self, table: TableName, run: str | None) -> Undo:
        """Determine the rollback of a run without a JVM.

        Args:
            run: The id of the run; None for the newest run that rewrote files and was not rolled back.

        Raises:
            Refused: If there is no such run, or if the rollback would lose or change rows.
            TableError: If the metadata of the table cannot be read.
        """
        ...

    def roll_back(self, undo: Undo, run_id: str, properties: Mapping[str, str], notify: Notify) -> Commit:
        """Undo a run in one commit, which fails if another writer concurrently changes a file of the rollback.

        Args:
            undo: The rollback.
            run_id: The id of the rollback itself, which its commit stores.
            properties: The commit properties of the project.
            notify: Called with each stage.

        Raises:
            Refused: If the rollback is not allowed, or no longer allowed. Nothing has been written.
            CommitUnknown: If it is unknown whether the commit was made.
            EngineError: If the commit failed for another reason.
        """
        ...

    def sample_source(self, table: TableName, state: TableState, seed: int) -> SampleSource:
        """Return the rows of the table at the version of `state`, with random numbers that `seed` determines."""
        ...

    def sample_keys(
        self, table: TableName, state: TableState, chosen: Int64, columns: Sequence[str], max_bytes: int, seed: int
    ) -> RowGroupSample:
        """Read columns of randomly chosen row groups without a JVM.

        Deleted rows are included, because reading deletes may take longer than reading the sample.

        Args:
            chosen: int64, indices of the files to sample in `state.files`.
            columns: The names of the columns to read.
            max_bytes: The limit on the size of the column chunks that are read. A single row group may exceed it.
            seed: The seed of the random choice.

        Raises:
            Exception: Of any type, if a file cannot be read.
        """
        ...

    def observe(self, table: TableName, columns: Sequence[str], version: int | None = None) -> TableState:
        """Read the table's metadata without a JVM and without opening a data file.

        Args:
            columns: The columns whose bounds are read. Names of columns that do not exist are ignored.
            version: The version to observe, None for the current one.

        Raises:
            TableError: If the table or the version does not exist or cannot be read.
        """
        ...

    def native_diagnostics(self, layout: Layout, state: TableState) -> tuple[Diagnostic, ...]:
        """Return ZL401 or ZL223 for each part of the layout that engine native does not support."""
        ...

    def partition_diagnostics(self, fields: tuple[PartitionField, ...], state: TableState) -> tuple[Diagnostic, ...]:
        """Return the reasons why the table cannot change to this partitioning, empty if it can."""
        ...

    def execute(self, work: Work, notify: Notify) -> Iterator[Event]:
        """Carry out the work order.

        Args:
            work: The work order.
            notify: Called with each stage.

        Yields:
            Each commit as soon as it is known to be in the table, groups that were dropped, and notices.

        Raises:
            Refused: If the work is not allowed. Nothing has been written.
            EngineError: If the work cannot be continued. The commits that were yielded stay in the table.
        """
        ...
