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
    """The number of files whose depth is from `low` to `high`, inclusive. label: for example "3" or "17-32"."""

    label: str
    low: int
    high: int
    files: int


@dataclass(frozen=True, slots=True)
class SizeBucket:
    """The number and the total size of the files of one size class.

    Attributes:
        label: The upper border as a multiple of the target size, for example "<= 1/4", or "> 2" for the last class.
        files: The number of files.
        bytes: The sum of their sizes.
    """

    label: str
    files: int
    bytes: int


def depth_histogram(depths: Int64) -> tuple[DepthBucket, ...]:
    """The number of files of each depth from 1 to 16, then of the depths 17-32, 33-64 and so on up to the deepest file.

    depths: int64[N], the depth of each file that has a value.
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

    Args:
        sizes: int64[N], sizes in bytes.
        target: the target size in bytes.
        number: int64[N], the number of files of each of these sizes; None for one of each.
    """
    labels = [label for _, label in SIZE_BORDERS] + ["> 2"]
    bucket = np.zeros(len(sizes), np.uint8)
    for border, _ in SIZE_BORDERS:
        bucket += sizes > int(border * target)
    files = np.bincount(bucket, number, len(labels))
    size = sizes if number is None else sizes * number
    return tuple(SizeBucket(x, int(files[i]), int(size[bucket == i].sum())) for i, x in enumerate(labels))
