"""The baseline of a laid-out group: the number of files that a rewrite wrote, and their touched.

The table stores it as text: the number of files and touched of each z-order column, separated by spaces, for example
`60 3.52 2.94`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

SIGNIFICANT_DIGITS = 4
# A stored baseline that exceeds one of these limits is ignored.
MAX_CHARACTERS = 512
MAX_FILES = 1 << 40


@dataclass(frozen=True, slots=True)
class Baseline:
    """What one rewrite wrote for one group.

    Attributes:
        files: The number of files.
        touched: Touched among these files for each z-order column, in the order of the layout.
    """

    files: int
    touched: tuple[float, ...]

    def __str__(self) -> str:
        return " ".join((str(self.files), *(f"{value:.{SIGNIFICANT_DIGITS}g}" for value in self.touched)))


def parse_baseline(text: object) -> Baseline | None:
    """Parse a stored baseline. Return None for anything that is not a valid baseline."""
    if not isinstance(text, str) or len(text) > MAX_CHARACTERS or not text.isascii():
        return None
    first, *others = text.split(" ")
    try:
        files, touched = int(first), tuple(map(float, others))
    except ValueError:
        return None
    if not touched or not 0 < files <= MAX_FILES:
        return None
    # touched is rounded, so that it may be slightly above the number of files
    if not all(math.isfinite(value) and 0 <= value <= 1.001 * files for value in touched):
        return None
    return Baseline(files, touched)
