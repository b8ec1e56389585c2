"""The interface between the core and the tables of one catalog: `observe` reads, `execute` writes.

Everything that can be computed from a `TableState` is in the core. A backend only reads metadata and carries out a
`Work` that the planner decided on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from zlayout.errors import Diagnostic, ZlayoutError
from zlayout.formats.orphans import Orphans
from zlayout.planner.work import Capabilities, Group, Work
from zlayout.spec.model import Layout, TableName
from zlayout.table.state import PartitionField, TableState

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

__all__ = [
    "Backend",
    "Capabilities",
    "Commit",
    "Group",
    "GroupFailed",
    "Notice",
    "Notify",
    "Outcome",
    "Progress",
    "SampleSource",
    "Work",
]


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit that zlayout made. groups: ids of the groups that it finished. Bytes are those of files on storage."""

    kind: Literal["settings", "rewrite", "record"]
    version: int
    groups: tuple[str, ...] = ()
    files_removed: int = 0
    files_added: int = 0
    bytes_removed: int = 0
    bytes_added: int = 0
    rows: int = 0


@dataclass(frozen=True, slots=True)
class GroupFailed:
    """Groups that were dropped because of a concurrent change or a failed gate; the concurrent change stands."""

    groups: tuple[str, ...]
    error: ZlayoutError


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that the user should know about how the work is done. It changes nothing."""

    diagnostic: Diagnostic


Outcome = Commit | GroupFailed | Notice


@dataclass(frozen=True, slots=True)
class Progress:
    """The current stage in plain words, and how many of its tasks are done if Spark knows."""

    table: str
    stage: str
    done: int = 0
    total: int = 0


Notify = Callable[[Progress], None]


@dataclass(frozen=True, slots=True)
class SampleSource:
    """The rows to draw a sample from.

    frame: the live rows. file: the name of the column with a row's file. draw: a number from 0 to 1 for each row.
    paths: returns string[files], the paths of the observed files as `file` has them.
    """

    frame: DataFrame
    file: str
    draw: Column
    paths: Callable[[], pa.Array]


class Backend(Protocol):
    """One table format in one catalog."""

    capabilities: Capabilities

    def orphans(self, table: TableName) -> Orphans:
        """List the files in the table's folder that no retained version of the table names.

        A file that another writer has not committed yet is found too. Nothing is deleted. Raises TableError.
        """
        ...

    def sample_source(self, table: TableName, state: TableState, seed: int) -> SampleSource:
        """Return the rows of the table at the version of `state`, for a sample that depends on the seed alone."""
        ...

    def observe(self, table: TableName, columns: Sequence[str], version: int | None = None) -> TableState:
        """Read the table's metadata without a JVM and without any data file.

        columns: those of which bounds are read, if they exist. version: an older version or snapshot id, None for the
        current one. Raises TableError.
        """
        ...

    def native_diagnostics(self, layout: Layout, state: TableState) -> tuple[Diagnostic, ...]:
        """Return ZL401 for each setting that the format's own rewrite cannot honour."""
        ...

    def partition_diagnostics(self, fields: tuple[PartitionField, ...], state: TableState) -> tuple[Diagnostic, ...]:
        """Return why the table cannot change to this partitioning; empty if it can."""
        ...

    def execute(self, work: Work, notify: Notify) -> Iterator[Outcome]:
        """Do the work. Yields each commit once it is known to be in the table, dropped groups, and notices.

        Raises Refused before any write, EngineError if the rest cannot go on. What was yielded stays.
        """
        ...
