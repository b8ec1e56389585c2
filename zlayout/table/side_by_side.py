"""Run computations in threads if that is faster, and divide ranges into pieces.

Threads help because numpy, Arrow and hashlib release the interpreter lock.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TypeVar

K = TypeVar("K")
S = TypeVar("S")
T = TypeVar("T")

MIN_FILES_FOR_THREADS = 50_000
# More threads than cores save no time, and each needs about 0.4 GB for a million files.
MAX_THREADS = max(os.cpu_count() or 1, 2)


def side_by_side(measure: Callable[[K], T], items: Sequence[K], files: int) -> list[T]:
    """The result of `measure` for each item, in order. Threads are used for at least MIN_FILES_FOR_THREADS files."""
    if files < MIN_FILES_FOR_THREADS or len(items) < 2:
        return [measure(item) for item in items]
    with ThreadPoolExecutor(min(len(items), MAX_THREADS)) as pool:
        return list(pool.map(measure, items))


def both(one: Callable[[], S], other: Callable[[], T], files: int) -> tuple[S, T]:
    """The results of both functions. One runs in a thread under the condition of `side_by_side`."""
    if files < MIN_FILES_FOR_THREADS:
        return one(), other()
    with ThreadPoolExecutor(1) as pool:
        second = pool.submit(other)
        return one(), second.result()


def pieces(start: int, stop: int, size: int) -> list[tuple[int, int]]:
    """The start and the end of each piece of the range from `start` to `stop`, in order.

    Every piece has the length `size`, except for the last one, which may be shorter.
    """
    return list(pairwise([*range(start, stop, size), stop]))
