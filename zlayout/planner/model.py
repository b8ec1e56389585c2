"""The plan as plain data. Every report reads this; the plan file is its JSON (`zlayout.planner.document`).

Nothing here holds a path of a data file: `apply` selects the files again and compares their digests with `FilesAre`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

from zlayout.errors import Diagnostic, Location
from zlayout.planner.actions import Action, ChangePartitioning, PropertyChange, Reason, RewriteGroup, SetProperties
from zlayout.planner.fields import Count, Histogram
from zlayout.planner.requirements import Requirement, VersionIs

FORMAT_VERSION: Literal[2] = 2


class Status(StrEnum):
    """What the plan says about a table as a whole."""

    UNCHANGED = "unchanged"
    CHANGES = "changes"
    REFUSED = "refused"
    ERROR = "error"


class Measure(StrEnum):
    """A measure of decay, under its name in the spec's `tolerance`."""

    UNCLUSTERED = "unclustered"
    TOUCHED = "touched"
    SMALL_FILES = "small_files"
    DELETED_ROWS = "deleted_rows"


@dataclass(frozen=True, slots=True)
class SettingDrift:
    """A declared setting that the table does not have."""

    key: str
    """The key in the spec."""
    before: Any
    """What the table has, null where that is not known."""
    after: Any
    """What is declared."""
    location: Location | None
    """Where it is declared."""


@dataclass(frozen=True, slots=True)
class Decay:
    """One measure of how far the data changed since it was laid out, with its tolerance."""

    measure: Measure
    """What is measured."""
    value: float
    """The value of the worst partition."""
    tolerance: float
    """The greatest tolerated value."""
    partitions: Count = 1
    """How many partitions exceed the tolerance."""

    @property
    def exceeded(self) -> bool:
        return self.value > self.tolerance


@dataclass(frozen=True, slots=True)
class LeftOver:
    """The groups of files that a byte budget leaves for a later run."""

    budget: Count
    """The budget of the run, in bytes."""
    groups: Count
    """The number of groups."""
    files: Count
    """The number of their files."""
    bytes: Count
    """Their size."""
    columns: tuple[tuple[str, float], ...]
    """Each z-order column with the files that a query for one value opens once these are rewritten too."""


@dataclass(frozen=True, slots=True)
class ColumnForecast:
    """The metrics of one z-order column now, and a prediction for after the plan."""

    column: str
    """The column."""
    touched: float
    """Files that a query for one value opens."""
    predicted: float | None
    """The same after the plan; null where nothing is rewritten."""
    floor: float
    """The least number of files that such a query can open."""
    depth: float
    """Files that share one value."""
    overlaps: float
    """Files that overlap with a file."""
    unbounded: Count
    """The number of files without bounds."""
    truncated: Count
    """The number of files with truncated bounds."""
    depth_histogram: Histogram
    """Number of files per class of depth."""


@dataclass(frozen=True, slots=True)
class TablePlan:
    """The plan for one table."""

    table: str
    """The name of the table."""
    format: str
    """The table format."""
    location: Location
    """Where the spec of the table is."""
    status: Status
    """What the plan says about the table as a whole."""
    actions: tuple[Action, ...] = ()
    """What apply does, in this order."""
    requirements: tuple[Requirement, ...] = ()
    """What must still hold when the plan is applied."""
    settings: tuple[tuple[str, Any], ...] = ()
    """The declared layout: keys of the spec and their values."""
    drift: tuple[SettingDrift, ...] = ()
    """The declared settings that the table does not have."""
    left_over: LeftOver | None = None
    """What a byte budget leaves for a later run."""
    decay: tuple[Decay, ...] = ()
    """How far the data changed since it was laid out."""
    columns: tuple[ColumnForecast, ...] = ()
    """The metrics of the z-order columns."""
    files: Count = 0
    """The number of files."""
    bytes: Count = 0
    """Their size."""
    rows: Count = 0
    """The number of rows."""
    partitions: Count = 0
    """The number of partitions."""
    size_histogram: Histogram = ()
    """Number of files per class of size."""
    diagnostics: tuple[Diagnostic, ...] = ()
    """Errors, refusals, warnings and notes."""

    @property
    def properties(self) -> tuple[PropertyChange, ...]:
        """The table properties to set."""
        return tuple(
            change for action in self.actions if isinstance(action, SetProperties) for change in action.changes
        )

    @property
    def partitioning(self) -> ChangePartitioning | None:
        """The change of the partitioning, if there is one."""
        return next((action for action in self.actions if isinstance(action, ChangePartitioning)), None)

    @property
    def groups(self) -> tuple[RewriteGroup, ...]:
        """The groups of files to rewrite."""
        return tuple(action for action in self.actions if isinstance(action, RewriteGroup))

    @property
    def version(self) -> int | None:
        """The version or snapshot that was planned from (-1: a table without one), None where none was read."""
        return next((r.version for r in self.requirements if isinstance(r, VersionIs)), None)

    @property
    def is_first(self) -> bool:
        """Whether all that is planned is a first layout."""
        groups = self.groups
        return not self.drift and bool(groups) and all(g.reason is Reason.NOT_LAID_OUT for g in groups)

    @property
    def rewrite_bytes(self) -> int:
        return sum(group.bytes for group in self.groups)

    @property
    def alters(self) -> bool:
        """Whether table properties or the partitioning change."""
        return any(not isinstance(action, RewriteGroup) for action in self.actions)


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of one run over many tables, in the order of their names."""

    zlayout_version: str
    tables: tuple[TablePlan, ...]
    format_version: int = FORMAT_VERSION

    def with_status(self, *statuses: Status) -> tuple[TablePlan, ...]:
        return tuple(t for t in self.tables if t.status in statuses)

    @property
    def has_changes(self) -> bool:
        return any(t.status is Status.CHANGES for t in self.tables)

    @property
    def exit_code(self) -> int:
        """1 when a table could not be planned, 3 when one is refused, else 0."""
        if self.with_status(Status.ERROR):
            return 1
        return 3 if self.with_status(Status.REFUSED) else 0


@dataclass(frozen=True, slots=True)
class Summary:
    """The counts of the last line of a plan."""

    alter: int
    """Tables whose properties or partitioning change."""
    rewrite: int
    """Tables with files to rewrite."""
    unchanged: int
    """Tables that are as declared."""
    refused: int
    """Tables whose plan is refused."""
    failed: int
    """Tables that could not be planned."""
    rewrite_bytes: int
    """The size of the files to rewrite."""
    rewrite_files: int
    """The number of files to rewrite."""


def summary(tables: Iterable[TablePlan]) -> Summary:
    tables = tuple(tables)
    changing = [t for t in tables if t.status is Status.CHANGES]
    return Summary(
        alter=sum(t.alters for t in changing),
        rewrite=sum(bool(t.groups) for t in changing),
        unchanged=sum(t.status is Status.UNCHANGED for t in tables),
        refused=sum(t.status is Status.REFUSED for t in tables),
        failed=sum(t.status is Status.ERROR for t in tables),
        rewrite_bytes=sum(t.rewrite_bytes for t in changing),
        rewrite_files=sum(g.files for t in changing for g in t.groups),
    )
