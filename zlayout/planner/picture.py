"""A picture of the layout of a table as plain data, for the HTML report. It shows a sample of the files.

A position is an integer from 0 to 1000: the share of rows below a bound, in thousandths. Positions show how files lie
relative to each other, but no values of rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Len

from zlayout.planner.fields import Count, Histogram

SCALE = 1000


@dataclass(frozen=True, slots=True)
class Boxes:
    """The files of one partition, as boxes over one or two z-order columns."""

    positions: Annotated[tuple[Count, ...], Len(0, 40_000)]
    """Four positions per box: left, right, bottom, top. With one column, boxes are stacked from bottom to top."""
    files: Count
    """The number of files of the partition."""
    coarse: bool = False
    """Whether each box represents several predicted files. If not, each box is one file of a sample."""

    @property
    def count(self) -> int:
        return len(self.positions) // 4


@dataclass(frozen=True, slots=True)
class StripBin:
    """Neighbouring partitions that are drawn as one rectangle."""

    label: str
    """The names of the first and the last of these partitions."""
    partitions: Count
    """The number of partitions."""
    files: Count
    """The number of files in these partitions."""
    rewritten: Count
    """The number of these files that the plan rewrites."""
    excess: float
    """The highest touched ratio of these partitions, by theory; 1 is best."""


Strip = Annotated[tuple[StripBin, ...], Len(0, 10_000)]


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture of the layout of one table."""

    columns: Annotated[tuple[str, ...], Len(1, 2)]
    """The first two z-order columns."""
    partition: str
    """The partition whose files are drawn; empty for an unpartitioned table."""
    before: Boxes
    """The present files."""
    after: Boxes | None
    """The files after the rewrite, from sampled rows or from file bounds; null if they are not known."""
    strip: Strip
    """The partitions, sorted by name; empty for a table with one partition."""
    sizes_after: Histogram
    """The predicted number of files per class of size; empty if nothing is rewritten."""
    partition_number: Count = 0
    """The number of the partition, as in `RewriteGroup`; 0 for an unpartitioned table."""
    sampled: bool = False
    """Whether `after` was predicted from sampled rows. If not, it is an illustration from bounds alone."""
