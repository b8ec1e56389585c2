"""The actions and requirements of a plan, as plain data of the plan document.

An action is one change of a table, with its reason and its numbers. The requirements are facts that must be the same
when the actions are carried out; `zlayout.session.plan_file` compares them for a saved plan.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Literal

from zlayout.errors import Location
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
