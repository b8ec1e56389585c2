"""The layout of a table as plain data for the HTML report: sampled, and without a value of any row.

Positions are integers from 0 to 1000: the share of the rows, in thousandths, that lies below a bound. They state where
files lie relative to each other, and nothing about the values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Len

from zlayout.planner.fields import Count, Histogram

SCALE = 1000


@dataclass(frozen=True, slots=True)
class Boxes:
    """Files of one partition as boxes over one or two z-order columns."""

    positions: Annotated[tuple[Count, ...], Len(0, 40_000)]
    """Four numbers for each box: left, right, bottom, top. With one column, bottom and top count files."""
    files: Count
    """The number of files of the partition."""
    coarse: bool = False
    """Whether the boxes are not a sample of the files, but each stands for several that are too many to draw."""

    @property
    def count(self) -> int:
        return len(self.positions) // 4


@dataclass(frozen=True, slots=True)
class StripCell:
    """Some neighbouring partitions."""

    label: str
    """The name of the first and of the last of them."""
    partitions: Count
    """The number of partitions."""
    files: Count
    """The number of their files."""
    rewritten: Count
    """How many of the files are to be rewritten."""
    excess: float
    """Files touched as a multiple of what a rewrite would leave, in the worst of the partitions; 1 is best."""


Strip = Annotated[tuple[StripCell, ...], Len(0, 10_000)]


@dataclass(frozen=True, slots=True)
class Picture:
    """The layout of one table."""

    columns: Annotated[tuple[str, ...], Len(1, 2)]
    """The first two z-order columns."""
    partition: str
    """The partition whose files are drawn; empty for an unpartitioned table."""
    before: Boxes
    """The files as they are."""
    after: Boxes | None
    """The files after the rewrite, predicted from file bounds; null where no prediction is made."""
    strip: Strip
    """The partitions in the order of their names; empty for a table with one partition."""
    sizes_after: Histogram
    """Files per size class after the rewrite; empty where nothing is rewritten."""
