"""What a plan leaves for a later run, as plain data of the plan document."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from zlayout.planner.fields import Count
from zlayout.planner.forecasts import TouchedRange


class RankedBy(StrEnum):
    """The measure whose decrease for each byte written ranks the groups of a table for a budget."""

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
    """The size of these files."""
    columns: tuple[TouchedRange, ...]
    """The touched of each z-order column after these groups are rewritten too."""
    ranked_by: RankedBy = RankedBy.TOUCHED
    """The measure by which the budget ranked the groups."""


@dataclass(frozen=True, slots=True)
class HotGroups:
    """Totals of the groups that wait for a later run because their partitions are hot."""

    after: Count
    """Milliseconds since 1970. A partition in which another writer wrote a file later is hot."""
    partitions: Count
    """The number of partitions that contain the files of these groups."""
    groups: Count
    """The number of groups."""
    files: Count
    """The number of files in these groups."""
    bytes: Count
    """The size of these files."""


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
    """The size of these files."""
    partition_numbers: tuple[Count, ...]
    """The number of each of these partitions, from 1 in the order of the names of all partitions."""
