"""The actions of a plan: a tagged union of changes of one table, each with its reason and its numbers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Literal

from zlayout.errors import Location
from zlayout.planner.fields import BY_KIND, Count


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
