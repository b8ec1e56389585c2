"""Histograms of depth and file size. The class borders are fixed, so that two histograms can be compared."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from zlayout.table.state import Int64

SINGLE_DEPTHS = 16  # number of depths that have a class of their own
SIZE_BORDERS = ((1 / 16, "<= 1/16"), (1 / 8, "<= 1/8"), (1 / 4, "<= 1/4"), (1 / 2, "<= 1/2"), (1, "<= 1"), (2, "<= 2"))


@dataclass(frozen=True, slots=True)
class DepthBucket:
    """Files whose depth is in low..high (inclusive). label: "3" or "17-32"."""

    label: str
    low: int
    high: int
    files: int


@dataclass(frozen=True, slots=True)
class SizeBucket:
    """Files of one size class. label: the upper border as a multiple of the target size."""

    label: str
    files: int
    bytes: int


def depth_histogram(depths: Int64) -> tuple[DepthBucket, ...]:
    """The number of files for each depth from 1 to 16, then for 17-32, 33-64 and so on up to the deepest file.

    depths: int64[N]. Files of depth 0, which have no value, are not counted.
    """
    borders = list(range(SINGLE_DEPTHS + 1))
    deepest = int(depths.max()) if len(depths) else 0
    while borders[-1] < deepest:
        borders.append(borders[-1] * 2)
    up_to = np.cumsum(np.bincount(depths, minlength=1))  # files of each depth and below
    files = np.diff(up_to[np.minimum(borders, deepest)]).tolist()
    return tuple(
        DepthBucket(str(high) if high == low + 1 else f"{low + 1}-{high}", low + 1, high, count)
        for (low, high), count in zip(pairwise(borders), files, strict=True)
    )


def size_histogram(sizes: Int64, target: int, number: Int64 | None = None) -> tuple[SizeBucket, ...]:
    """The number of files up to 1/16, 1/8, 1/4, 1/2, 1 and 2 times `target` bytes, and of larger files.

    sizes: int64[N], bytes. number: int64[N], the number of files of each size; None for one each.
    """
    labels = [label for _, label in SIZE_BORDERS] + ["> 2"]
    slot = np.zeros(len(sizes), np.uint8)
    for border, _ in SIZE_BORDERS:
        slot += sizes > int(border * target)
    files = np.bincount(slot, number, len(labels))
    size = sizes if number is None else sizes * number
    held = [int(size[slot == i].sum()) if files[i] else 0 for i in range(len(labels))]
    return tuple(SizeBucket(x, int(files[i]), held[i]) for i, x in enumerate(labels))
