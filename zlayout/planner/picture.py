"""What a table's layout looks like, as plain data for the HTML report: sampled, and without a value of any row.

Positions are whole numbers from 0 to 1000: the share of the rows, in thousandths, that lies below a bound. They say
where files lie among each other, and nothing of the values.
"""

from __future__ import annotations

from dataclasses import dataclass

SCALE = 1000


@dataclass(frozen=True, slots=True)
class Boxes:
    """Files of one partition as boxes over one or two z-order columns.

    positions: flat, four numbers a box: left, right, bottom, top; bottom and top count files where there is just one
    column. files: how many files the partition has. coarse: the boxes are not a sample of the files; each stands for
    files / boxes of them, since so many could not be told apart.
    """

    positions: tuple[int, ...]
    files: int
    coarse: bool = False

    @property
    def count(self) -> int:
        return len(self.positions) // 4


@dataclass(frozen=True, slots=True)
class StripCell:
    """Some neighbouring partitions. excess: touched beside what a rewrite would leave, the worst of them; 1 is best."""

    label: str
    partitions: int
    files: int
    rewritten: int
    excess: float


@dataclass(frozen=True, slots=True)
class Picture:
    """The layout of one table. partition: the one whose files are drawn, '' where there is just one.

    after: predicted from the file bounds, None where nothing is rewritten or no prediction is made. sizes_after: the
    size histogram after the rewrite, empty likewise.
    """

    columns: tuple[str, ...]
    partition: str
    before: Boxes
    after: Boxes | None
    strip: tuple[StripCell, ...]
    sizes_after: tuple[tuple[str, int], ...]
