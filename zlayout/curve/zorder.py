"""Interleave the bits of several columns (Morton 1966). `linear` is another order of the same bits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Int64 = NDArray[np.int64]
UInt64 = NDArray[np.uint64]
WORD = 64  # bits per word
LONG_BITS = 63  # bits of a position that fit into an int64


def round_robin(widths: Sequence[int], weights: Sequence[float] | None = None) -> tuple[int, ...]:
    """The column of each bit of a position, the most significant bit first.

    Columns take turns in the given order; a column of weight 2**k is k bits ahead of one of weight 1.
    """
    lead = [float(np.log2(w)) for w in weights] if weights is not None else [0.0] * len(widths)
    left = list(widths)
    turns: list[int] = []
    while any(left):
        column = max((c for c in range(len(left)) if left[c]), key=lambda c: (lead[c], -c))
        turns.append(column)
        left[column] -= 1
        lead[column] -= 1.0
    return tuple(turns)


def interleave_words(coordinates: Sequence[Int64], widths: Sequence[int], schedule: Sequence[int]) -> UInt64:
    """Interleave to positions of any length, as words with the most significant word first.

    Args:
        coordinates: int64[n] for each column, 0..2**width-1.
        widths: bits of each column.
        schedule: the column of each bit, from the top.

    Returns:
        uint64[n, words]; the last bit of a position is bit 0 of the last word.
    """
    total = len(schedule)
    words = np.zeros((len(coordinates[0]), max(1, -(-total // WORD))), dtype=np.uint64)
    taken = list(widths)
    for turn, column in enumerate(schedule):
        taken[column] -= 1
        place = total - 1 - turn
        bit = (coordinates[column] >> taken[column]).astype(np.uint64) & np.uint64(1)
        words[:, words.shape[1] - 1 - place // WORD] |= bit << np.uint64(place % WORD)
    return words


def interleave(coordinates: Sequence[Int64], widths: Sequence[int], schedule: Sequence[int]) -> Int64:
    """Interleave to positions of at most 63 bits. Arguments are those of `interleave_words`.

    Returns:
        int64[n].

    Raises:
        ValueError: for more than 63 bits.
    """
    if len(schedule) > LONG_BITS:
        raise ValueError(f"expected at most {LONG_BITS} bits, found {len(schedule)}")
    return interleave_words(coordinates, widths, schedule)[:, 0].astype(np.int64)


def deinterleave(positions: Int64, widths: Sequence[int], schedule: Sequence[int]) -> tuple[Int64, ...]:
    """The inverse of `interleave`: the coordinates, int64[n] for each column."""
    coordinates = [np.zeros(len(positions), np.int64) for _ in widths]
    for turn, column in enumerate(schedule):
        bit = (positions >> (len(schedule) - 1 - turn)) & 1
        coordinates[column] = coordinates[column] << 1 | bit
    return tuple(coordinates)


def width_that_fits(columns: int, wanted: int) -> int:
    """The number of bits per column: `wanted`, or fewer if all columns together would need more than 63 bits."""
    return max(1, min(wanted, LONG_BITS // columns))
