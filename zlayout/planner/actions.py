"""What a plan does to a table: a tagged union of actions, each with its reason and the numbers behind it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from zlayout.errors import Location


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
    """How the bounds of the text column `column` are truncated.

    length: the characters (bytes for binary) that most truncated bounds have. equal: how many of all `of` files have
    two bounds that are one truncated prefix, which another file of the partition has too. same: whether so many are
    equal that queries cannot skip by them.
    """

    column: str
    length: int
    equal: int
    of: int
    same: bool


def cut_text(cut: CutBounds) -> str:
    """Which bounds are truncated, where, and how many files that makes equal, for people."""
    equal = f" and equal in {cut.equal:,} of {cut.of:,} files" if cut.same else ""
    return f"bounds of {cut.column} are cut at {cut.length} characters{equal}"


@dataclass(frozen=True, slots=True)
class PropertyChange:
    """A table property to set. before: its value now, None where it is not set.

    column: the column whose bounds it concerns. cut: how they are truncated, for the reason BOUNDS_CUT.
    """

    name: str
    before: str | None
    after: str
    reason: PropertyReason
    column: str
    cut: CutBounds | None = None


@dataclass(frozen=True, slots=True)
class SetProperties:
    """Set table properties, all of them in one commit."""

    changes: tuple[PropertyChange, ...]
    kind: Literal["set_properties"] = "set_properties"


@dataclass(frozen=True, slots=True)
class ChangePartitioning:
    """Change the partition keys from `before` to `after`. full_rewrite: this replaces every file (Delta Lake).

    location: where the spec declares them.
    """

    before: tuple[str, ...]
    after: tuple[str, ...]
    full_rewrite: bool
    location: Location | None
    kind: Literal["change_partitioning"] = "change_partitioning"


@dataclass(frozen=True, slots=True)
class RewriteGroup:
    """Rewrite one group of files of one partition.

    id: deterministic, from the layout and the files. partition: the name for people (`l_month=2026-01`), '' for an
    unpartitioned table. target_files: how many files to write. partitions: how many the files are in; more than one
    where the files move to another partitioning.
    """

    id: str
    partition: str
    files: int
    bytes: int
    rows: int
    target_files: int
    reason: Reason
    partitions: int = 1
    kind: Literal["rewrite_group"] = "rewrite_group"


Action = SetProperties | ChangePartitioning | RewriteGroup
