"""What a plan does to a table: a tagged union of actions, each with its reason and the numbers behind it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Literal

from zlayout.errors import Location
from zlayout.planner.fields import BY_KIND, Count


class Reason(StrEnum):
    """Why a group of files is rewritten."""

    NOT_LAID_OUT = "not_laid_out"
    LAYOUT_CHANGED = "layout_changed"
    PARTITIONING_CHANGED = "partitioning_changed"
    BOUNDS_CUT = "bounds_cut"
    DELETED_ROWS = "deleted_rows"
    DECAYED = "decayed"


class PropertyReason(StrEnum):
    """Why a table property is set."""

    NO_STATISTICS = "no_statistics"
    BOUNDS_CUT = "bounds_cut"


@dataclass(frozen=True, slots=True)
class CutBounds:
    """How the bounds of a text column are truncated."""

    column: str
    """The column."""
    length: Count
    """The length of most truncated bounds, in characters (bytes of a binary column)."""
    equal: Count
    """How many files have two bounds that are one truncated prefix, shared with another file of the partition."""
    of: Count
    """The number of all files."""
    same: bool
    """Whether so many bounds are equal that queries cannot skip files by them."""


def cut_text(cut: CutBounds) -> str:
    """Which bounds are truncated, where, and how many files that makes equal, for people."""
    equal = f" and equal in {cut.equal:,} of {cut.of:,} files" if cut.same else ""
    return f"bounds of {cut.column} are cut at {cut.length} characters{equal}"


@dataclass(frozen=True, slots=True)
class PropertyChange:
    """A table property to set."""

    name: str
    """The name of the property."""
    before: str | None
    """Its value now, null where it is not set."""
    after: str
    """The value to set."""
    reason: PropertyReason
    """Why it is set."""
    column: str
    """The column whose bounds it concerns."""
    cut: CutBounds | None = None
    """How the bounds are truncated, for the reason `bounds_cut`."""


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
    """Whether this replaces every file of the table, as in Delta Lake."""
    location: Location | None
    """Where the spec declares the partition keys."""
    kind: Literal["change_partitioning"] = "change_partitioning"
    """The kind of action."""


@dataclass(frozen=True, slots=True)
class RewriteGroup:
    """Rewrite one group of files of one partition."""

    id: str
    """Identifies the group: made from the layout and the files."""
    partition: str
    """The name of the partition for people (`l_month=2026-01`); empty for an unpartitioned table."""
    files: Count
    """The number of files to replace."""
    bytes: Count
    """Their size."""
    rows: Count
    """The number of their rows."""
    target_files: Count
    """The number of files to write, an estimate."""
    reason: Reason
    """Why the group is rewritten."""
    partitions: Count = 1
    """How many partitions the files are in: more than one where they move to another partitioning."""
    kind: Literal["rewrite_group"] = "rewrite_group"
    """The kind of action."""


Action = Annotated[SetProperties | ChangePartitioning | RewriteGroup, BY_KIND]
