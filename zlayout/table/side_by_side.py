"""One after the other, or side by side where it pays: numpy, Arrow and hashes let other threads run meanwhile."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar, cast

K = TypeVar("K")
S = TypeVar("S")
T = TypeVar("T")

FEW_FILES = 50_000
# More threads than cores take more memory (about 0.4 GB each for a million files) and no less time.
AT_ONCE = max(os.cpu_count() or 1, 2)


def side_by_side(measure: Callable[[K], T], items: Sequence[K], files: int) -> list[T]:
    """`measure` of each item (a column, say), in their order; in threads from FEW_FILES `files` on."""
    if files < FEW_FILES or len(items) < 2:
        return [measure(item) for item in items]
    with ThreadPoolExecutor(min(len(items), AT_ONCE)) as pool:
        return list(pool.map(measure, items))


def both(one: Callable[[], S], other: Callable[[], T], files: int) -> tuple[S, T]:
    """What the two give, in their order; as `side_by_side`."""
    return cast("tuple[S, T]", tuple(side_by_side(lambda give: give(), (one, other), files)))
