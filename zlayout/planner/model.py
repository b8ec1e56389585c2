"""The plan as plain data. Every report reads this; the plan file is its JSON (`zlayout.planner.document`).

Nothing here holds a file path of a table: `apply` finds the files anew and compares their digest with `Requires`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from zlayout.errors import Diagnostic, Location
from zlayout.planner.picture import Picture
from zlayout.planner.result import TableResult

FORMAT_VERSION = 1

# The reason of a group in a partition that zlayout never laid out.
FIRST = "not laid out yet"
BLIND = "bounds cut short"
DELETED = "deleted rows"

Status = Literal["unchanged", "changes", "refused", "error"]
Measure = Literal["unclustered", "touched", "small_files", "deleted_rows"]


@dataclass(frozen=True, slots=True)
class SettingDrift:
    """A declared setting that the table does not have: it has `before`, None where that is not known."""

    key: str
    before: Any
    after: Any
    location: Location | None


@dataclass(frozen=True, slots=True)
class PropertyChange:
    """A table property that apply will set, and why."""

    name: str
    before: str | None
    after: str
    reason: str


@dataclass(frozen=True, slots=True)
class PartitionChange:
    """A change of the partitioning. full_rewrite: every file of the table is replaced (Delta)."""

    before: tuple[str, ...]
    after: tuple[str, ...]
    full_rewrite: bool
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
class GroupPlan:
    """One rewrite: its files inside one partition. `partition` is for reading (`l_month=2026-01`), '' if none.

    partitions: how many its files are in; more than one where they are to be partitioned anew.
    """

    id: str
    partition: str
    files: int
    bytes: int
    rows: int
    target_files: int
    reason: str
    partitions: int = 1


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
class Requires:
    """What must still hold when the plan is applied. `files` is the digest of the groups' files."""

    table_id: str
    version: int
    layout_id: str
    schema: str
    partitioning: str
    files: str


@dataclass(frozen=True, slots=True)
class TablePlan:
    """All that the plan says about one table. `settings` is the declared layout under the spec's own keys.

    picture: for the HTML report, where one was asked for. result: what apply did, in the report of an apply; None in
    every plan.
    """

    table: str
    format: str
    location: Location
    status: Status
    requires: Requires | None = None
    settings: tuple[tuple[str, Any], ...] = ()
    drift: tuple[SettingDrift, ...] = ()
    properties: tuple[PropertyChange, ...] = ()
    partitioning: PartitionChange | None = None
    groups: tuple[GroupPlan, ...] = ()
    left_over: LeftOver | None = None
    decay: tuple[Decay, ...] = ()
    columns: tuple[ColumnForecast, ...] = ()
    files: int = 0
    bytes: int = 0
    rows: int = 0
    partitions: int = 0
    size_histogram: tuple[tuple[str, int], ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    picture: Picture | None = None
    result: TableResult | None = None

    @property
    def is_open(self) -> bool:
        """Whether the table is not as declared, or not known to be, after an apply if there was one."""
        if self.result is not None:
            return self.result.outcome not in ("as_declared", "within_budget")
        return self.status != "unchanged"

    @property
    def is_first(self) -> bool:
        """Whether all that is planned is a first layout."""
        return not self.drift and bool(self.groups) and all(g.reason == FIRST for g in self.groups)

    @property
    def rewrite_bytes(self) -> int:
        return sum(g.bytes for g in self.groups)

    @property
    def alters(self) -> bool:
        return bool(self.properties) or self.partitioning is not None


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
        return any(t.status == "changes" for t in self.tables)

    @property
    def exit_code(self) -> int:
        """1 when a table could not be planned, 3 when one is refused, else 0."""
        if self.with_status("error"):
            return 1
        return 3 if self.with_status("refused") else 0


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
    changing = [t for t in tables if t.status == "changes"]
    return Summary(
        alter=sum(t.alters for t in changing),
        rewrite=sum(bool(t.groups) for t in changing),
        unchanged=sum(t.status == "unchanged" for t in tables),
        refused=sum(t.status == "refused" for t in tables),
        failed=sum(t.status == "error" for t in tables),
        rewrite_bytes=sum(t.rewrite_bytes for t in changing),
        rewrite_files=sum(g.files for t in changing for g in t.groups),
    )
