"""The forecasts of a plan, as plain data.

A prediction exists only if a sample of the rows supports it. Without a sample, a range states what metadata guarantees.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from zlayout.planner.fields import Count, Histogram, Milliseconds

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
    """What a query opens after a rewrite of the whole table by the declared layout, simulated on the sample."""
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


@dataclass(frozen=True, slots=True)
class DeferredGroups:
    """Totals of the groups that a budget defers to a later run."""

    budget: Count
    """The budget of the run, in bytes."""
    groups: Count
    """The number of groups."""
    files: Count
    """The number of files in these groups."""
    bytes: Count
    """The size of these files in bytes."""
    columns: tuple[TouchedRange, ...]
    """The forecast of touched of each z-order column after these groups are rewritten too."""
    ranked_by: RankedBy = RankedBy.TOUCHED
    """The measure by which the budget ranked the groups."""


@dataclass(frozen=True, slots=True)
class HotGroups:
    """Totals of the groups that wait for a later run because their partitions are hot."""

    after: Milliseconds
    """Milliseconds since 1970. A partition in which another writer wrote a file later is hot."""
    partitions: Count
    """The number of partitions that contain the files of these groups."""
    groups: Count
    """The number of groups."""
    files: Count
    """The number of files in these groups."""
    bytes: Count
    """The size of these files in bytes."""


@dataclass(frozen=True, slots=True)
class RarelyReadGroups:
    """Totals of the groups that wait because the queries of the workload rarely read their partitions."""

    partitions: Count
    """The number of partitions that contain the files of these groups."""
    groups: Count
    """The number of groups."""
    files: Count
    """The number of files in these groups."""
    bytes: Count
    """The size of these files in bytes."""
    partition_numbers: tuple[Count, ...]
    """The number of each of these partitions, from 1 in the order of the names of all partitions."""
