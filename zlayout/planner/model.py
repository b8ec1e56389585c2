"""The plan as plain data. Every report reads this; the plan file is its JSON (`zlayout.planner.document`).

Nothing here holds a path of a data file: `apply` selects the files again and compares their digests with `FilesAre`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from zlayout.errors import Diagnostic, Location
from zlayout.planner.actions import Action, ChangePartitioning, PropertyChange, Reason, RewriteGroup, SetProperties
from zlayout.planner.requirements import Requirement, VersionIs

FORMAT_VERSION = 2


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
    """A declared setting that the table does not have: it has `before`, None where that is not known."""

    key: str
    before: Any
    after: Any
    location: Location | None


@dataclass(frozen=True, slots=True)
class Decay:
    """One measure of how far the data moved on since it was laid out, beside its tolerance.

    value: of the worst partition. partitions: how many are past the tolerance.
    """

    measure: Measure
    value: float
    tolerance: float
    partitions: int = 1

    @property
    def exceeded(self) -> bool:
        return self.value > self.tolerance


@dataclass(frozen=True, slots=True)
class LeftOver:
    """What a byte budget leaves for later: groups of files (of `files`, `bytes`) that are not rewritten now.

    budget: the bytes that the run was given. columns: touched of each z-order column once all of it is done too.
    """

    budget: int
    groups: int
    files: int
    bytes: int
    columns: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class ColumnForecast:
    """The metrics of one z-order column now, and predicted for after the plan (None: nothing will be rewritten).

    touched, predicted, floor: files that an equality query opens. unbounded, truncated: files without bounds and
    with cut ones. depth_histogram: (label, files).
    """

    column: str
    touched: float
    predicted: float | None
    floor: float
    depth: float
    overlaps: float
    unbounded: int
    truncated: int
    depth_histogram: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class TablePlan:
    """All that the plan says about one table.

    actions: what apply does, in this order. requirements: what must still hold then. settings: the declared layout
    under the keys of the spec.
    """

    table: str
    format: str
    location: Location
    status: Status
    actions: tuple[Action, ...] = ()
    requirements: tuple[Requirement, ...] = ()
    settings: tuple[tuple[str, Any], ...] = ()
    drift: tuple[SettingDrift, ...] = ()
    left_over: LeftOver | None = None
    decay: tuple[Decay, ...] = ()
    columns: tuple[ColumnForecast, ...] = ()
    files: int = 0
    bytes: int = 0
    rows: int = 0
    partitions: int = 0
    size_histogram: tuple[tuple[str, int], ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()

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
    """The counts of the plan's last line."""

    alter: int
    rewrite: int
    unchanged: int
    refused: int
    failed: int
    rewrite_bytes: int
    rewrite_files: int


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
