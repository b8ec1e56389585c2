"""Sort values as 64-bit words, and find distinct values and distinct rows.

Strings and binary are sorted by their bytes, eight bytes at a time. For file names with UUIDs this is several times as
fast as a comparison of whole values, because the first eight bytes after the common prefix distinguish nearly all of
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from zlayout.table.state import Int32, Int64

UInt64 = NDArray[np.uint64]
WORD = 8  # bytes per word


def order_of(word: NDArray[Any]) -> Int64:
    """int64[M]: the indices that sort the values. See `order_and_sorted`."""
    return order_and_sorted(word)[0]


def order_and_sorted(word: NDArray[Any]) -> tuple[Int64, NDArray[Any]]:
    """int64[M], the indices that sort the values, and the sorted values. word: M values of any dtype.

    Each int64 value is packed with its index into one word, if both fit into 63 bits. Sorting these words takes half
    the time of an argsort, and is stable.
    """
    if word.dtype == np.int64 and len(word) > 1:
        low, high = int(word.min()), int(word.max())
        bits = (len(word) - 1).bit_length()
        if (high - low).bit_length() + bits <= 63:
            packed = word - low
            packed <<= bits
            packed |= np.arange(len(word))
            packed.sort()
            ordered = packed >> bits
            ordered += low
            packed &= (1 << bits) - 1
            return packed, ordered
    order = np.argsort(word)
    return order, word[order]


def changes(ordered: NDArray[Any]) -> NDArray[np.bool_]:
    """bool[M]: whether each value differs from the previous one; True for the first value."""
    fresh = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=fresh[1:])
    return fresh


def distinct_rows(codes: Sequence[Int32 | Int64]) -> tuple[Int64, Int64]:
    """The sorted distinct rows, and the index of each row among them.

    The codes of each row are combined into one number, because `np.unique` along an axis takes ten times as long.

    Args:
        codes: for each column int32[rows] or int64[rows], at least -1.

    Returns:
        int64[distinct, columns] and int64[rows].
    """
    which = np.zeros(len(codes[0]), np.int64)
    for column in codes:
        number = which * (int(column.max(initial=-1)) + 2) + (column + 1)
        _, first, which = np.unique(number, return_index=True, return_inverse=True)
    return np.stack([column[first] for column in codes], axis=1).astype(np.int64, copy=False), which


@dataclass(frozen=True, slots=True)
class ByteOrder:
    """The order of M values by their bytes. A value precedes longer values that begin with it.

    Attributes:
        order: int64[M], the indices of the sorted values.
        fresh: bool[M], whether each sorted value differs from the previous one.
    """

    order: Int64
    fresh: NDArray[np.bool_]
    _text: Values
    _prefix: int
    _words: int

    def words(self, limit: int) -> tuple[UInt64, ...]:
        """The D sorted distinct values as words: uint64[D] for each eight bytes after the common prefix.

        There are at most `limit` words, and no more than are needed to distinguish the values. Values that differ only
        in trailing zero bytes, or only after the last word, have equal words.
        """
        first = self.order[self.fresh]
        return tuple(self._text.word(first, self._prefix + WORD * n) for n in range(min(self._words, limit)))


def byte_order(values: pa.Array) -> ByteOrder:
    """Sort strings or binary values, of types with 32-bit or 64-bit offsets, without nulls."""
    text = Values.of(values)
    prefix = at = _common_prefix(values)
    order, word = order_and_sorted(text.word(np.arange(len(values)), at))
    fresh, words = changes(word), 1
    while len(tied := _tied(fresh)):
        at += WORD
        lengths = text.lengths[order[tied]]
        run = np.cumsum(fresh[tied]) - 1
        longer = (np.bincount(run, lengths > at) > 0)[run]
        if not longer.any():
            _sort_ties(order, fresh, tied, lengths)  # equal except for trailing zero bytes
            break
        tied = tied[longer]
        words += 1
        _sort_ties(order, fresh, tied, text.word(order[tied], at))
    return ByteOrder(order, fresh, text, prefix, words)


def _tied(fresh: NDArray[np.bool_]) -> Int64:
    """The positions, in sorted order, of the values that are not yet distinguished from a neighbour."""
    alone = fresh.copy()
    alone[:-1] &= fresh[1:]
    return np.flatnonzero(~alone)


def _sort_ties(order: Int64, fresh: NDArray[np.bool_], tied: Int64, key: NDArray[Any]) -> None:
    """Sort each run of tied values by `key`, and change `order` and `fresh` in place. key: one for each of `tied`."""
    run = np.cumsum(fresh[tied]) - 1
    differs = changes(key) & ~fresh[tied]
    some = (np.bincount(run, differs) > 0)[run]
    if not some.all():
        tied, key, run = tied[some], key[some], run[some]
    by_key = order_of(key)
    by_key = by_key[order_of(run[by_key])]
    order[tied] = order[tied][by_key]
    fresh[tied] |= changes(key[by_key])


@dataclass(frozen=True, slots=True)
class Values:
    """M strings or binary values in one buffer.

    Attributes:
        starts: int64[M], the position of the first byte of each value in `data`.
        lengths: int64[M], the number of bytes of each value.
        data: uint8[at least WORD].
    """

    starts: Int64
    lengths: Int64
    data: NDArray[np.uint8]

    @staticmethod
    def of(values: pa.Array) -> Values:
        """The values of an Arrow array, whose buffers are shared. values: as in `byte_order`."""
        wide = pt.is_large_binary(values.type) or pt.is_large_string(values.type)
        _, offsets, data = values.buffers()
        ends = np.zeros(1, np.int64)
        if len(values):
            every = np.frombuffer(offsets, np.int64 if wide else np.int32)
            ends = every[values.offset : values.offset + len(values) + 1].astype(np.int64, copy=False)
        bytes_ = np.frombuffer(data, np.uint8) if data else np.zeros(0, np.uint8)
        if len(bytes_) < WORD:
            bytes_ = np.append(bytes_, np.zeros(WORD, np.uint8))
        return Values(ends[:-1], np.diff(ends), bytes_)

    def between(self, start: int, stop: int) -> memoryview:
        """The bytes of the values from `start` to `stop` - 1. There must be at least one value."""
        return self.data[self.starts[start] : self.starts[stop - 1] + self.lengths[stop - 1]].data

    def word(self, rows: Int64, at: int) -> UInt64:
        """uint64[rows]: eight bytes of each of `rows`, beginning with byte `at`, big-endian and padded with zeros."""
        start, left = self.starts[rows], self.lengths[rows]
        start += at
        left -= at
        last = len(self.data) - WORD  # start of the last whole word
        late, cut = np.flatnonzero(start > last), np.flatnonzero(left < WORD)
        beyond = start[late] - last
        start[late] = last
        words = np.lib.stride_tricks.as_strided(self.data[:WORD].view(">u8"), (last + 1,), (1,))
        word: UInt64 = words[start].astype(np.uint64)
        word[late] = _left(word[late], np.minimum(beyond, WORD))
        word[cut] = _without_end(word[cut], np.minimum(WORD - left[cut], WORD))
        return word


def _left(word: UInt64, count: Int64) -> UInt64:
    """The words, shifted so that they begin after their first `count` bytes (1 to 8), and padded with zeros."""
    bits = (count * 8 - 1).astype(np.uint64)
    shifted: UInt64 = word << bits << np.uint64(1)  # a single shift by 64 bits is undefined
    return shifted


def _without_end(word: UInt64, count: Int64) -> UInt64:
    """The words with zeros as their last `count` bytes (1 to 8)."""
    bits = (count * 8 - 1).astype(np.uint64)
    cut: UInt64 = word >> bits >> np.uint64(1) << bits << np.uint64(1)
    return cut


def _common_prefix(values: pa.Array) -> int:
    if len(values) == 0:
        return 0
    extremes = pc.min_max(values)
    return common_length(*(memoryview(extremes[end].as_buffer()) for end in ("min", "max")))


def common_length(low: str | bytes | memoryview, high: str | bytes | memoryview) -> int:
    """The length of the common prefix of two values, in characters or bytes."""
    return next((n for n, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), min(len(low), len(high)))
