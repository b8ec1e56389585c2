"""The seam between the core and a table format: two verbs, `observe` and `execute`.

Everything that can be computed from a `TableState` lives in the core, once; a backend only reads metadata
and carries out a `Work` that the planner decided on. `zlayout.formats.registry` names the backends there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from zlayout.errors import Diagnostic, ZlayoutError
from zlayout.planner.work import Capabilities, Group, Work
from zlayout.spec.model import Layout, TableName
from zlayout.table.state import PartitionField, TableState

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
    "Work",
]


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit that zlayout made. groups: ids of the groups it finished. Byte counts are of files on disk."""

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
    """A group that was dropped (a concurrent change, a failed gate); the table keeps the other side's change."""

    groups: tuple[str, ...]
    error: ZlayoutError


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that the user should know of how the work is done; it changes nothing."""

    diagnostic: Diagnostic


Outcome = Commit | GroupFailed | Notice


@dataclass(frozen=True, slots=True)
class Progress:
    """What is happening now: a stage name in plain words, and tasks done of total where Spark knows them."""

    table: str
    stage: str
    done: int = 0
    total: int = 0


Notify = Callable[[Progress], None]


class Backend(Protocol):
    """One table format in one catalog."""

    capabilities: Capabilities

    def observe(self, table: TableName, columns: Sequence[str], version: int | None = None) -> TableState:
        """Read the table's metadata, with bounds for `columns` (those that exist); no JVM, no data file.

        version: an older version or snapshot id, None for the current one. Raises TableError.
        """
        ...

    def native_diagnostics(self, layout: Layout, state: TableState) -> tuple[Diagnostic, ...]:
        """ZL401 for each setting that the format's own rewrite cannot honour."""
        ...

    def partition_diagnostics(self, fields: tuple[PartitionField, ...], state: TableState) -> tuple[Diagnostic, ...]:
        """Why the table cannot change to this partitioning, refused by name; none where it can."""
        ...

    def execute(self, work: Work, notify: Notify) -> Iterator[Outcome]:
        """Do the work; yields each commit once it is known to be in the table, and what the user should know.

        Raises Refused before any write, EngineError when the rest cannot go on; what was yielded stays.
        """
        ...
