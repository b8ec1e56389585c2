"""The plan as plain data. Every report reads it, and `zlayout.planner.document` writes it as JSON.

A plan contains no path of a data file. `apply` selects the files again, and compares their digests with those of the
groups.

An action is one change of a table, with its reason and its numbers. The requirements are facts that must be the same
when the actions are carried out; `zlayout.session.plan_file` compares them for a saved plan.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Literal

from zlayout.errors import Diagnostic, Location
from zlayout.table.external import MAX_MILLISECONDS
from zlayout.table.location import canonical

# Types of fields of the plan document, with their limits. `zlayout.planner.document` checks the limits when it reads a
# file, and the JSON Schema states them.


class Limited:
    """Declares to pydantic what its function `Field` does, which most commands need not import: they read no plan file.

    Args:
        settings: The arguments of `pydantic.Field`.
    """

    def __init__(self, **settings: Any) -> None:
        self._settings = settings

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic import Field

        return handler(Annotated[source, Field(**self._settings)])


BY_KIND = Limited(discriminator="kind")  # the tag of a tagged union
Count = Annotated[int, Limited(ge=0)]
# A time as milliseconds since 1970, up to the end of the year 9999: reports write it as a date.
Milliseconds = Annotated[int, Limited(ge=0, le=MAX_MILLISECONDS)]
# The label of each class with its number of files, in the order of the classes.
Histogram = Annotated[tuple[tuple[str, Count], ...], Limited(max_length=100)]


class Reason(StrEnum):
    """Why a group of files is rewritten."""

    NOT_LAID_OUT = "not_laid_out"
    PARTITION_NOT_LAID_OUT = "partition_not_laid_out"
    LAYOUT_CHANGED = "layout_changed"
    PARTITIONING_CHANGED = "partitioning_changed"
    BOUNDS_TRUNCATED = "bounds_cut"
    DELETED_ROWS = "deleted_rows"
    DECAYED = "decayed"
    SMALL_FILES = "small_files"


# The reasons that other writers cause after a layout was applied.
DECAY_REASONS = (Reason.PARTITION_NOT_LAID_OUT, Reason.DELETED_ROWS, Reason.DECAYED, Reason.SMALL_FILES)


class PropertyReason(StrEnum):
    """Why a table property is set."""

    NO_STATISTICS = "no_statistics"
    BOUNDS_TRUNCATED = "bounds_cut"


@dataclass(frozen=True, slots=True)
class TruncatedBounds:
    """How the bounds of a string or binary column are truncated."""

    column: str
    """The column."""
    length: Count
    """The most frequent length of truncated bounds, in characters (bytes of a binary column)."""
    equal: Count
    """The number of files whose two bounds are one truncated prefix, which another file of the partition has too."""
    of: Count
    """The number of files that were examined."""
    same: bool
    """Whether the bounds are indistinct: so many are equal that queries cannot skip files by them."""


def truncation_text(bounds: TruncatedBounds) -> str:
    """Describe truncated bounds: the column, the length, and the number of files with equal bounds if it is high."""
    equal = f" and equal in {bounds.equal:,} of {bounds.of:,} files" if bounds.same else ""
    return f"bounds of {bounds.column} are truncated to length {bounds.length}{equal}"


@dataclass(frozen=True, slots=True)
class PropertyChange:
    """A table property to set."""

    name: str
    """The name of the property."""
    before: str | None
    """The present value; null if the property is not set."""
    after: str
    """The value to set."""
    reason: PropertyReason
    """The reason."""
    column: str
    """The column whose bounds the property affects."""
    cut: TruncatedBounds | None = None
    """How the bounds of the column are truncated; null unless the reason is `bounds_cut`."""


@dataclass(frozen=True, slots=True)
class SetProperties:
    """Set table properties, all of them in one commit."""

    changes: tuple[PropertyChange, ...]
    """The properties to set."""
    kind: Literal["set_properties"] = "set_properties"
    """The kind of action."""


@dataclass(frozen=True, slots=True)
class ChangePartitioning:
    """Change the partition keys."""

    before: tuple[str, ...]
    """The present partition keys."""
    after: tuple[str, ...]
    """The declared partition keys."""
    full_rewrite: bool
    """Whether the change replaces every file of the table, as on Delta Lake."""
    location: Location | None
    """The location of `partition_by` in the layout spec."""
    kind: Literal["change_partitioning"] = "change_partitioning"
    """The kind of action."""


@dataclass(frozen=True, slots=True)
class ChangeClustering:
    """Change the clustering columns of a table that its format clusters. This action rewrites no file."""

    before: tuple[str, ...]
    """The present clustering columns."""
    after: tuple[str, ...]
    """The declared z-order columns."""
    location: Location | None
    """The location of `zorder.columns` in the layout spec."""
    kind: Literal["change_clustering"] = "change_clustering"
    """The kind of action."""


@dataclass(frozen=True, slots=True)
class RewriteGroup:
    """Rewrite one group of files."""

    id: str
    """The id of the group, a hash of its layout and its files."""
    partition: str
    """The partition as text, for example `l_month=2026-01`; empty for an unpartitioned table."""
    files: Count
    """The number of files to replace."""
    bytes: Count
    """The size of these files in bytes."""
    rows: Count
    """The number of live rows in these files."""
    target_files: Count
    """The estimated number of files to write."""
    reason: Reason
    """The reason for the rewrite."""
    digest: str
    """The digest of the files, which must be the same when the plan is applied."""
    partitions: Count = 1
    """The number of partitions that contain the files; more than one only if the partitioning changes."""
    partition_number: Count = 0
    """The number of the partition, from 1 in the order of the names of all partitions; 0 for an unpartitioned table."""
    kind: Literal["rewrite_group"] = "rewrite_group"
    """The kind of action."""


Action = Annotated[SetProperties | ChangePartitioning | ChangeClustering | RewriteGroup, BY_KIND]


def parts_of(rewrites: Iterable[RewriteGroup], max_bytes: int | None) -> list[list[RewriteGroup]]:
    """Divide groups, in their order, into parts. Each part is committed before the next one begins.

    Args:
        rewrites: The groups to rewrite.
        max_bytes: The maximum size of a part; None for no limit. A larger group is a part of its own.
    """
    parts: list[list[RewriteGroup]] = []
    room = 0
    for rewrite in rewrites:
        if not parts or (max_bytes is not None and rewrite.bytes > room):
            parts.append([])
            room = max_bytes or 0
        parts[-1].append(rewrite)
        room -= rewrite.bytes
    return parts


# What must hold when the actions are carried out.


@dataclass(frozen=True, slots=True)
class Requirements:
    """The facts that a plan was made from. Each of them must be the same when the plan is applied.

    So must the values of the properties that the plan sets (`PropertyChange.before`) and the files of its groups
    (`RewriteGroup.digest`).
    """

    table_id: str
    """The id of the table in its metadata: it was not dropped and created again."""
    version: int
    """The Delta version or the id of the Iceberg snapshot; -1 for a table without a snapshot. Appends after it are
    accepted unless `apply --stale strict` is given."""
    schema: str
    """The digest of the schema."""
    layout_id: str
    """The layout id of the layout spec."""
    partitioning: tuple[str, ...]
    """The partition keys as text."""
    clustering: tuple[str, ...] | None
    """The clustering columns, empty after CLUSTER BY NONE; null for a table that its format does not cluster."""
    location: str | None
    """The location that the catalog states for a Delta table by name; null for another table."""
    branch: str
    """The branch that the plan is for; empty for main."""


def is_at(location: str, planned: str | None) -> bool:
    """Return whether a location is the planned one. planned: `Requirements.location`."""
    return planned is None or canonical(location) == canonical(planned)


# The forecasts of a plan, and the totals of the groups that wait. A prediction exists only if a sample of the rows
# supports it. Without a sample, a range states what metadata guarantees.


# Bytes read after a rewrite count as more only above this multiple of the present ones, because these are an estimate
# (docs/metrics.md, "bytes read").
SAME_READS = 1.1


@dataclass(frozen=True, slots=True)
class TouchedRange:
    """The forecast of `touched` of one z-order column for the time after a rewrite."""

    column: str
    """The column."""
    predicted: float | None
    """The forecast from a sample; null without a sample."""
    low: float | None
    """The lowest possible value; null if it is unknown."""
    high: float | None
    """The highest possible value; null if it is unknown."""
    floor: float | None
    """The lowest value of any layout with as many files, from a sample; null without a sample."""


@dataclass(frozen=True, slots=True)
class FilesAfter:
    """The number of live files of the table after apply, and the sizes of the new ones."""

    predicted: Count | None
    """The forecast from a sample; null without a sample."""
    low: Count | None
    """The lowest possible number; null if it is unknown."""
    high: Count | None
    """The highest possible number; null if it is unknown."""
    median_bytes: Count | None = None
    """The median size of a new file if rows keep their size, predicted from a sample; null without a sample."""
    small: Count | None = None
    """The number of new files below half of the target size, if rows keep their size; null without a sample."""


@dataclass(frozen=True, slots=True)
class SampleFacts:
    """The sample of key columns that a forecast was made from."""

    rows: Count
    """The number of sampled rows."""
    row_groups: Count
    """The number of row groups that they were read from."""
    files: Count
    """The number of files that they were read from."""
    bytes_read: Count
    """The size of the column chunks that were read."""
    seed: Count
    """The seed of the random choice."""
    row_groups_in_files: Count | None = None
    """The number of all row groups of these files; null if it is unknown."""


@dataclass(frozen=True, slots=True)
class BytesRead:
    """The size of the files that a query for one value opens, in bytes. After apply: if rows keep their size."""

    now: Count
    """The expected size at present."""
    predicted: Count | None = None
    """The forecast for the time after apply, from a sample of the rows; null without a sample."""
    low: Count | None = None
    """The lowest value after apply if rows keep their size; null if it is unknown or nothing is rewritten."""
    high: Count | None = None
    """The highest value after apply if rows keep their size; null if it is unknown or nothing is rewritten."""
    in_row_groups: Count | None = None
    """The part of `now` in row groups that cannot be skipped, from the footers of sampled files; null if unknown."""

    @property
    def predicted_or_low(self) -> int | None:
        """The prediction, or without one the lowest possible value; None if both are unknown."""
        return self.low if self.predicted is None else self.predicted

    def grows_to(self, after: float | None) -> bool:
        """Return whether `after` exceeds `now` by more than the error of the estimate. None is unknown."""
        return after is not None and after > SAME_READS * self.now


@dataclass(frozen=True, slots=True)
class QueryCost:
    """What a query of the workload opens: the mean over its queries, weighted by their executions."""

    files: float
    """The number of files."""
    bytes: Count
    """The size of these files in bytes."""


@dataclass(frozen=True, slots=True)
class Payback:
    """When the bytes that the workload no longer reads exceed those that the rewrite reads and writes."""

    rewrite_bytes: Count
    """The size, in bytes, of the files to rewrite, which are read and written once."""
    seconds: float | None
    """The expected duration of the rewrite, from the bytes per second of the last run; null before the first apply."""
    queries: float | None
    """The number of queries after which the rewrite has paid back; null if it is unknown whether it does."""
    saved_per_day: Count | None = None
    """The bytes that the workload no longer reads in a day; null if the days of the workload are unknown."""
    days: float | None = None
    """The number of days after which the rewrite has paid back; null if it is unknown."""
    cost: float | None = None
    """The price of the rewrite; null without prices or seconds."""
    worth_per_day: float | None = None
    """The price of `saved_per_day`; null without prices or days."""
    money_days: float | None = None
    """The number of days after which the price of the rewrite is saved; null if one of the prices is unknown."""


@dataclass(frozen=True, slots=True)
class BetterLayout:
    """A layout by which the workload would read less than by the declared one, by more than `tolerance.workload`."""

    columns: tuple[str, ...]
    """The z-order columns."""
    curve: str
    """The curve."""
    yaml: str
    """The keys for the layout spec, on one line."""
    declared: QueryCost
    """What a query opens after a rewrite of the whole table by the declared layout, simulated on the sample; or what it
    opens at present, if that is less."""
    cost: QueryCost
    """What a query opens after a rewrite by this layout, simulated on the same sample."""


@dataclass(frozen=True, slots=True)
class QueryGroup:
    """The queries of a workload with conditions on the same columns. Conditions are not stored: they contain values."""

    columns: tuple[str, ...]
    """The columns, sorted by name."""
    queries: Count
    """The number of queries."""
    share: float
    """Their share of the weight of all queries that can skip files."""
    now: QueryCost
    """What one of these queries opens at present."""
    predicted: QueryCost | None = None
    """What one of them opens after apply: the forecast from a sample, or `now` if nothing is rewritten; null if it is
    unknown."""


@dataclass(frozen=True, slots=True)
class WorkloadForecast:
    """What the queries of a workload open of the table, now and after apply."""

    sources: tuple[str, ...]
    """The workload files, relative to the project."""
    queries: Count
    """The number of queries with a condition that can skip files."""
    share: float
    """Their share of the weight of all queries on the table."""
    now: QueryCost
    """The cost at present, from the bounds in the metadata."""
    predicted: QueryCost | None = None
    """The cost after apply: the forecast from a sample, or `now` if nothing is rewritten; null if it is unknown."""
    low: QueryCost | None = None
    """The lower end of the error range of `predicted`; null without a prediction."""
    high: QueryCost | None = None
    """The upper end of the error range of `predicted`; null without a prediction."""
    floor: QueryCost | None = None
    """The cost if the table were laid out for each query alone, from a sample; null without a sample."""
    better: BetterLayout | None = None
    """The layout because of which the declared one no longer fits the workload; null if none is known."""
    payback: Payback | None = None
    """When the rewrite has paid back; null if nothing is rewritten or the cost after it is unknown."""
    groups: tuple[QueryGroup, ...] = ()
    """The groups of queries that open most bytes at present; at most ten."""
    through: tuple[str, ...] = ()
    """The conditions through joins that are used, each as a column and the joined table: `sold_date_sk = date_dim`."""


@dataclass(frozen=True, slots=True)
class ColumnForecast:
    """The present metrics of one z-order column, and its forecast."""

    column: str
    """The column."""
    touched: float
    """The expected number of files that a query for one value opens."""
    predicted: float | None
    """The forecast of `touched` for the time after apply, from a sample of the rows; null without a sample."""
    low: float | None
    """The lowest possible `touched` after apply; null if it is unknown or nothing is rewritten."""
    high: float | None
    """The highest possible `touched` after apply; null if it is unknown or nothing is rewritten."""
    floor: float | None
    """The lowest `touched` of any layout with as many files; null if it is unknown how often the values occur."""
    depth: float
    """For each file, the largest number of files that share one value of its interval; mean over files."""
    overlaps: float
    """For each file, the number of other files whose interval intersects its own; mean over files."""
    unbounded: Count
    """The number of files without bounds."""
    truncated: Count
    """The number of files with truncated bounds."""
    depth_histogram: Histogram
    """The number of files per class of depth."""
    bytes_read: BytesRead = BytesRead(0)
    """The size of the files that a query for one value opens."""


class RankedBy(StrEnum):
    """The measure by which a budget ranks the groups of a table: by its decrease for each byte rewritten."""

    TOUCHED = "touched"
    """Touched, summed over the z-order columns."""
    FULL_SCAN = "full_scan"
    """The files that a full scan opens, for a table without z-order columns."""
    WORKLOAD = "workload"
    """The bytes that the queries of the workload open."""


class Wait(StrEnum):
    """Why groups wait for a later run. `zlayout.planner.passes` has a module for each reason that a plan states."""

    BUDGET = "budget"
    """The budget of the run is spent on other groups."""
    HOT = "hot"
    """Another writer wrote to their partitions a short time ago."""
    RARELY_READ = "rarely_read"
    """The queries of the workload rarely read their partitions."""
    NO_GAIN = "no_gain"
    """Their rewrite would gain nothing, so that no budget is spent on them."""
    REFUSED = "refused"
    """Their partitions must not be rewritten."""

    @property
    def tolerated(self) -> bool:
        """Whether groups that wait for this reason count as within tolerance."""
        return self in (Wait.RARELY_READ, Wait.NO_GAIN, Wait.REFUSED)


@dataclass(frozen=True, slots=True)
class WaitingGroups:
    """Totals of the groups that wait for a later run for one reason."""

    reason: Wait
    """The reason."""
    groups: Count
    """The number of groups."""
    files: Count
    """The number of files in these groups."""
    bytes: Count
    """The size of these files in bytes."""
    partition_numbers: tuple[Count, ...] = ()
    """The number of each partition that contains the files, from 1 in the order of the names of all partitions; empty
    for the reason `budget`."""
    after: Milliseconds | None = None
    """Milliseconds since 1970. A partition in which another writer wrote a file later is hot; null unless the reason is
    `hot`."""
    budget: Count | None = None
    """The budget of the run in bytes; null unless it is the reason."""
    ranked_by: RankedBy | None = None
    """The measure by which the budget ranked the groups; null unless it is the reason."""
    columns: tuple[TouchedRange, ...] = ()
    """The forecast of touched of each z-order column after these groups are rewritten too; empty unless the budget is
    the reason."""


# The plans of one table and of many tables.

READS_MORE = "ZL440"  # the warning that queries read more bytes after the rewrite than now
UNFIT = "ZL446"  # the warning that the declared layout no longer fits the workload
NOT_REVIEWED = "ZL451"  # the warning that a plan with changes is not the reviewed one
FORMAT_VERSION: Literal[3] = 3


class Status(StrEnum):
    """Whether the plan changes a table, or why it does not."""

    UNCHANGED = "unchanged"
    CHANGES = "changes"
    REFUSED = "refused"
    ERROR = "error"


class Measure(StrEnum):
    """A decay measure, named as in `tolerance` of the layout spec."""

    UNCLUSTERED = "unclustered"
    TOUCHED = "touched"
    SMALL_FILES = "small_files"
    DELETED_ROWS = "deleted_rows"


@dataclass(frozen=True, slots=True)
class SettingDrift:
    """A declared setting that differs from the setting of the table."""

    key: str
    """The dotted name of the setting."""
    before: Any
    """The value that the table has; null if it is unknown."""
    after: Any
    """The declared value."""
    location: Location | None
    """Where the setting is declared."""


@dataclass(frozen=True, slots=True)
class LayoutChange:
    """How the layout of a table differs from that at another revision of the project (`changed:REV`)."""

    is_new: bool
    """Whether the table had no layout at that revision."""
    settings: tuple[SettingDrift, ...]
    """The settings whose values differ: `before` at that revision, `after` now. Of a new layout, those that differ from
    their defaults."""
    catalog: tuple[str, ...] = ()
    """The keys of the table's catalog in `zlayout.yaml` whose values differ."""
    seconds: float | None = None
    """The expected duration of the rewrite, from the bytes per second of the last run; null before the first apply."""
    cost: float | None = None
    """The price of the rewrite; null without prices or seconds."""

    @property
    def is_change(self) -> bool:
        """Whether anything differs."""
        return self.is_new or bool(self.settings or self.catalog)


@dataclass(frozen=True, slots=True)
class RemovedLayout:
    """A layout that a table had at another revision of the project. The table has none now, and keeps its files."""

    table: str
    """The name of the table."""
    location: Location
    """Where the layout was."""
    rule: str = ""
    """The pattern of the rule that gave the table its layout; empty if the layout named the table."""


@dataclass(frozen=True, slots=True)
class Changes:
    """With which revision the layouts of a plan were compared (`changed:REV`), and which layouts are gone."""

    revision: str
    """The revision as the user named it."""
    base: str
    """The id of the commit: the merge base of HEAD with the revision."""
    removed: tuple[RemovedLayout, ...] = ()
    """The tables that have no layout any more, sorted by name."""
    unchanged: Count = 0
    """The number of layouts and rules that are the same."""


@dataclass(frozen=True, slots=True)
class Decay:
    """The value of one decay measure, and its tolerance."""

    measure: Measure
    """The measure."""
    value: float
    """The value in the partition where it is highest."""
    tolerance: float
    """The highest value for which nothing is rewritten."""
    partitions: Count = 1
    """The number of partitions that exceed the tolerance."""
    estimated: bool = False
    """Whether the value is an estimate: delete files do not state how many rows of a data file they delete."""

    @property
    def exceeded(self) -> bool:
        return self.value > self.tolerance


@dataclass(frozen=True, slots=True)
class TablePlan:
    """The plan for one table."""

    table: str
    """The name of the table, followed by the branch if it is not main, for example `lake.sales.orders@audit`."""
    format: str
    """The table format."""
    location: Location
    """The location of the layout spec."""
    status: Status
    """Whether the plan changes the table, or why it does not."""
    actions: tuple[Action, ...] = ()
    """The actions, in the order in which apply carries them out."""
    requirements: Requirements | None = None
    """The facts that must be the same when the plan is applied; null if the table could not be planned."""
    settings: tuple[tuple[str, Any], ...] = ()
    """The declared layout settings: dotted names and values."""
    drift: tuple[SettingDrift, ...] = ()
    """The declared settings that differ from the settings of the table."""
    waiting: tuple[WaitingGroups, ...] = ()
    """The groups that wait for a later run, by the reason."""
    decay: tuple[Decay, ...] = ()
    """The decay measures of the table."""
    columns: tuple[ColumnForecast, ...] = ()
    """The metrics of the z-order columns."""
    files: Count = 0
    """The number of live files."""
    bytes: Count = 0
    """The size of the live files in bytes."""
    rows: Count = 0
    """The number of live rows."""
    partitions: Count = 0
    """The number of partitions."""
    selects_nothing: bool = False
    """Whether `where` matches no partition, and the layout spec does not declare that this is intended."""
    size_histogram: Histogram = ()
    """The number of live files per class of size."""
    commit_bytes: Count | None = None
    """The maximum number of bytes that one commit of several groups replaces; null for no limit."""
    sample: SampleFacts | None = None
    """The sample that the forecast was made from; null if it was made from metadata alone."""
    files_after: FilesAfter | None = None
    """The number of files after apply; null if nothing is rewritten."""
    workload: WorkloadForecast | None = None
    """What the queries of the workload open; null if no workload reads the table."""
    diagnostics: tuple[Diagnostic, ...] = ()
    """Errors, refusals, warnings and notes."""
    rule: str = ""
    """The pattern of the rule that gives the table its layout; empty if the layout spec names the table itself."""
    files_outside: Count = 0
    """The number of live files, including those with deletes, that are outside of the table's location."""
    change: LayoutChange | None = None
    """How the layout differs from that at another revision; null if it does not, or was not compared."""
    rebases: bool | None = None
    """Whether rows that other writers mark as deleted during apply are deleted from the new files too, instead of a
    conflict; null if nothing is rewritten."""

    @property
    def as_declared(self) -> bool:
        """Whether the table is laid out as declared, and the layout applies to at least one partition."""
        return self.status is Status.UNCHANGED and not self.selects_nothing

    def that_wait(self, reason: Wait) -> WaitingGroups | None:
        """Return the totals of the groups that wait for this reason; None if there are none."""
        return next((waiting for waiting in self.waiting if waiting.reason is reason), None)

    @property
    def waits(self) -> bool:
        """Whether the plan has no actions because groups wait, and not for a budget."""
        others = (waiting.reason for waiting in self.waiting if waiting.reason is not Wait.BUDGET)
        return not self.actions and not all(reason.tolerated for reason in others)

    @property
    def properties(self) -> tuple[PropertyChange, ...]:
        """The table properties to set."""
        return tuple(change for a in self.actions if isinstance(a, SetProperties) for change in a.changes)

    @property
    def partitioning(self) -> ChangePartitioning | None:
        """The partitioning change; None if there is none."""
        return next((action for action in self.actions if isinstance(action, ChangePartitioning)), None)

    @property
    def groups(self) -> tuple[RewriteGroup, ...]:
        """The groups of files to rewrite."""
        return tuple(action for action in self.actions if isinstance(action, RewriteGroup))

    @property
    def version(self) -> int | None:
        """The version that was planned from: -1 for a table without a snapshot, None if no version was read."""
        return None if self.requirements is None else self.requirements.version

    @property
    def storage_location(self) -> str | None:
        """The location that the catalog states for a Delta table by name; None for another table."""
        return None if self.requirements is None else self.requirements.location

    @property
    def is_first(self) -> bool:
        """Whether the plan is a first layout: nothing has drift, and all groups have the reason NOT_LAID_OUT."""
        return not self.drift and {group.reason for group in self.groups} == {Reason.NOT_LAID_OUT}

    @property
    def reads_more(self) -> bool:
        """Whether queries read more bytes after apply."""
        return any(diagnostic.code == READS_MORE for diagnostic in self.diagnostics)

    @property
    def fits(self) -> bool:
        """Whether the declared layout fits the workload, as far as is known: see `WorkloadForecast.better`."""
        return self.workload is None or self.workload.better is None

    @property
    def rewrite_bytes(self) -> int:
        """The size of the files to rewrite in bytes."""
        return sum(group.bytes for group in self.groups)

    @property
    def rewrite_files(self) -> int:
        """The number of files to rewrite."""
        return sum(group.files for group in self.groups)

    @property
    def alters(self) -> bool:
        """Whether table properties or the partitioning change."""
        return any(not isinstance(action, RewriteGroup) for action in self.actions)


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of many tables, sorted by table name. Its own diagnostics concern no single table."""

    zlayout_version: str
    tables: tuple[TablePlan, ...]
    format_version: int = FORMAT_VERSION
    diagnostics: tuple[Diagnostic, ...] = ()
    changes: Changes | None = None

    def with_status(self, *statuses: Status) -> tuple[TablePlan, ...]:
        return tuple(t for t in self.tables if t.status in statuses)

    @property
    def not_as_declared(self) -> tuple[TablePlan, ...]:
        """The tables that the plan changes or refuses, or whose `where` matches no partition."""
        return tuple(t for t in self.tables if not t.as_declared and t.status is not Status.ERROR)

    @property
    def changed(self) -> tuple[TablePlan, ...]:
        """The tables whose layouts differ from those of the compared revision."""
        return tuple(t for t in self.tables if t.change is not None)

    @property
    def unfit(self) -> tuple[TablePlan, ...]:
        """The tables whose declared layout no longer fits the workload."""
        return tuple(t for t in self.tables if not t.fits)

    @property
    def has_changes(self) -> bool:
        return any(t.status is Status.CHANGES for t in self.tables)

    @property
    def only_waits(self) -> bool:
        """Whether tables have changes, and all of them wait because partitions are hot."""
        return self.has_changes and all(t.waits for t in self.with_status(Status.CHANGES))

    @property
    def reads_more(self) -> bool:
        """Whether queries of a table read more bytes after apply."""
        return any(t.reads_more for t in self.tables)

    def withheld(self, *, all_or_nothing: bool) -> bool:
        """Return whether apply must change no table because some tables are refused or cannot be planned.

        Args:
            all_or_nothing: Whether one such table is enough. If not, apply changes nothing only if a table is refused
                and no other table has changes.
        """
        if all_or_nothing:
            return self.exit_code != 0
        return bool(self.with_status(Status.REFUSED)) and not self.has_changes

    @property
    def exit_code(self) -> int:
        """1 if a table could not be planned, 3 if a table is refused, else 0."""
        if self.with_status(Status.ERROR):
            return 1
        return 3 if self.with_status(Status.REFUSED) else 0


@dataclass(frozen=True, slots=True)
class Summary:
    """The counts in the last line of the text report."""

    alter: int
    """The number of tables whose settings, properties or partitioning change."""
    rewrite: int
    """The number of tables with files to rewrite."""
    unchanged: int
    """The number of tables that are as declared."""
    refused: int
    """The number of refused tables."""
    failed: int
    """The number of tables that could not be planned."""
    empty: int
    """The number of tables that do not change because `where` matches no partition."""
    rewrite_bytes: int
    """The size of the files to rewrite in bytes."""
    rewrite_files: int
    """The number of files to rewrite."""


def summary(tables: Iterable[TablePlan]) -> Summary:
    """Count the tables by what the plan does to them, and the files and bytes to rewrite."""
    tables = tuple(tables)
    changing = [t for t in tables if t.status is Status.CHANGES]
    return Summary(
        alter=sum(
            t.alters or (bool(t.drift) and bool(t.actions or all(w.reason.tolerated for w in t.waiting)))
            for t in changing
        ),
        rewrite=sum(bool(t.groups) for t in changing),
        unchanged=sum(t.as_declared for t in tables),
        refused=sum(t.status is Status.REFUSED for t in tables),
        failed=sum(t.status is Status.ERROR for t in tables),
        empty=sum(t.status is Status.UNCHANGED and t.selects_nothing for t in tables),
        rewrite_bytes=sum(t.rewrite_bytes for t in changing),
        rewrite_files=sum(t.rewrite_files for t in changing),
    )
