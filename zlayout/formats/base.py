"""The interface of a backend, which reads and changes the tables of one catalog.

A backend observes tables and carries out plans. What can be computed from a `TableState` is not part of a backend.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal, Protocol

from zlayout.errors import Diagnostic, ZlayoutError
from zlayout.formats.undo import Undo
from zlayout.planner.model import QueryCost
from zlayout.planner.selection import Group as Group
from zlayout.planner.work import Capabilities as Capabilities
from zlayout.planner.work import PlannedTable as PlannedTable
from zlayout.reading import parse_json
from zlayout.spec.model import Layout, TableName
from zlayout.table.samples import KeySample, StoredRows
from zlayout.table.state import SIGNIFICANT_DIGITS, Int64, PartitionField, TableState

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

# What a run predicted, measured and cost, and how its commits store it.
#
# Each commit stores up to three properties in JSON:
#
# - TOUCHED has one entry per z-order column: the column, and predicted and measured touched in the table. For example,
#   `[["a",4.1,4.3],["b",null,12]]`.
# - COST has the bytes that the run has rewritten and the seconds that this took, for example `[1048576,8.5]`.
# - QUERY_COST has the predicted number of files and bytes that a query of the workload opens, for example
#   `[2.5,1048576]`.


TOUCHED = "zlayout.touched"
COST = "zlayout.cost"
QUERY_COST = "zlayout.asked"
# A longer text is neither stored nor read.
MAX_CHARACTERS = 4096


@dataclass(frozen=True, slots=True)
class RunColumn:
    """Touched of one z-order column over all partitions.

    Attributes:
        predicted: The prediction of the plan; None if it had none.
        measured: The value directly after the commit.
    """

    column: str
    predicted: float | None
    measured: float


@dataclass(frozen=True, slots=True)
class RunCost:
    """What a run has rewritten up to a commit.

    Attributes:
        bytes: The size of the files that were replaced.
        seconds: The time from the first read of a row to the commit.
    """

    bytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class RunMetrics:
    """The metrics that the newest commit of a run stored.

    Attributes:
        version: The version that the commit made.
        columns: Predicted and measured touched; empty if they are not stored or cannot be read.
        cost: Bytes and seconds of the rewrite; None if they are not stored or cannot be read.
        query_cost: The prediction of what a query of the workload opens after the run; None if it is not stored or
            cannot be read.
    """

    run_id: str
    version: int
    columns: tuple[RunColumn, ...]
    cost: RunCost | None = None
    query_cost: QueryCost | None = None

    @property
    def bytes_per_second(self) -> float | None:
        """The rewritten bytes per second; None if they are unknown."""
        return self.cost.bytes / self.cost.seconds if self.cost and self.cost.seconds and self.cost.bytes else None


def run_metrics(run_id: str, version: int, columns: tuple[RunColumn, ...], stored: Mapping[str, object]) -> RunMetrics:
    """Return the metrics of a run. stored: the properties of its newest commit."""
    return RunMetrics(run_id, version, columns, parse_cost(stored.get(COST)), parse_query_cost(stored.get(QUERY_COST)))


def render_touched(columns: tuple[RunColumn, ...]) -> str | None:
    """Return the text of TOUCHED; None if there is no column, or if the text is longer than MAX_CHARACTERS."""
    entries = [
        [c.column, None if c.predicted is None else _rounded(c.predicted), _rounded(c.measured)] for c in columns
    ]
    text = json.dumps(entries, separators=(",", ":"))
    return text if entries and len(text) <= MAX_CHARACTERS else None


def parse_touched(text: object) -> tuple[RunColumn, ...]:
    """Parse the text of TOUCHED. Return an empty tuple for anything that `render_touched` cannot have written."""
    entries = _items(text)
    return tuple(RunColumn(*entry) for entry in entries) if all(map(_is_column, entries)) else ()


def render_cost(cost: RunCost) -> str:
    """Return the text of COST."""
    return json.dumps([cost.bytes, _rounded(cost.seconds)], separators=(",", ":"))


def parse_cost(text: object) -> RunCost | None:
    """Parse the text of COST. Return None for anything that `render_cost` cannot have written."""
    found = _items(text)
    return RunCost(*found) if _is_pair(found) and isinstance(found[0], int) else None


def render_query_cost(cost: QueryCost) -> str:
    """Return the text of QUERY_COST."""
    return json.dumps([_rounded(cost.files), cost.bytes], separators=(",", ":"))


def parse_query_cost(text: object) -> QueryCost | None:
    """Parse the text of QUERY_COST. Return None for anything that `render_query_cost` cannot have written."""
    found = _items(text)
    return QueryCost(*found) if _is_pair(found) and isinstance(found[1], int) else None


def _items(text: object) -> list[Any]:
    if not isinstance(text, str) or len(text) > MAX_CHARACTERS:
        return []
    try:
        found = parse_json(text)
    except ValueError:
        return []
    return found if isinstance(found, list) else []


def _is_pair(items: Sequence[object]) -> bool:
    return len(items) == 2 and all(map(_is_number, items))


def _is_column(entry: object) -> bool:
    match entry:
        case [str(), predicted, measured]:
            return (predicted is None or _is_number(predicted)) and _is_number(measured)
    return False


def _is_number(value: object) -> bool:
    return type(value) in (int, float) and isinstance(value, int | float) and 0 <= value < math.inf


def _rounded(value: float) -> float:
    return float(f"{value:.{SIGNIFICANT_DIGITS}g}")


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
        rows: The number of live rows in the added files.
        rebased: The number of rows that other writers deleted from the replaced files while these were rewritten, and
            that the commit deletes from the added files.
    """

    kind: Literal["settings", "rewrite", "record", "rollback"]
    version: int
    groups: tuple[str, ...] = ()
    files_removed: int = 0
    files_added: int = 0
    bytes_removed: int = 0
    bytes_added: int = 0
    rows: int = 0
    rebased: int = 0


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
    """The phase of the work on a table. When a user stops a run, a rewrite and a rebase are abandoned, and a commit is
    completed.
    """

    STARTING_SPARK = "starting_spark"
    STARTING = "starting"
    CHANGING_SETTINGS = "changing_settings"
    REWRITING = "rewriting"
    COMMITTING = "committing"
    REBASING = "rebasing"
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

        A namespace that cannot be listed has an error; the rest of the name is that of the pattern.

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
    ) -> KeySample:
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

    def stored_rows(
        self, table: TableName, state: TableState, chosen: Int64, columns: Sequence[str], max_bytes: int
    ) -> StoredRows | None:
        """Read consecutive rows of a few files with all columns, without a JVM.

        Args:
            chosen: int64, indices of the files in `state.files` from which files are chosen.
            columns: The names of the columns by which layouts order the rows.
            max_bytes: The limit on the expected size of the pages that are read.

        Returns:
            The rows; None if the pages of one file exceed the limit, or if the files have too few rows.

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

    def native_refusals(self, work: PlannedTable, state: TableState) -> tuple[Diagnostic, ...]:
        """Return ZL224 if engine native would also rewrite files that are not part of the work."""
        ...

    def partition_diagnostics(self, fields: tuple[PartitionField, ...], state: TableState) -> tuple[Diagnostic, ...]:
        """Return the reasons why the table cannot change to this partitioning, empty if it can."""
        ...

    def execute(self, work: PlannedTable, notify: Notify) -> Iterator[Event]:
        """Carry out the plan of the table.

        Args:
            work: The planned table.
            notify: Called with each stage.

        Yields:
            Each commit as soon as it is known to be in the table, groups that were dropped, and notices.

        Raises:
            Refused: If the work is not allowed. Nothing has been written.
            EngineError: If the work cannot be continued. The commits that were yielded stay in the table.
        """
        ...
