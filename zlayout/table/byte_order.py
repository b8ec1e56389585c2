"""Strings and binary sorted by their bytes, eight bytes at a time.

For file names with UUIDs this is several times as fast as comparing whole values, since the first eight bytes after
the common prefix distinguish nearly all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from zlayout.table.order import changes, order_of, sorted_places

Int64 = NDArray[np.int64]
UInt64 = NDArray[np.uint64]
WORD = 8  # bytes in a word


@dataclass(frozen=True, slots=True)
class ByteOrder:
    """M values in ascending order of their bytes; a value comes before longer ones that begin with it.

    order: int64[M], the indices of the values in that order. fresh: bool[M], which of them differ from the one before.
    """

    order: Int64
    fresh: NDArray[np.bool_]
    _text: _Bytes
    _prefix: int
    _words: int

    def words(self, limit: int) -> tuple[UInt64, ...]:
        """The D distinct values in their order, as uint64[D] for each word of eight bytes after the common prefix.

        Returns at most `limit` words, and no more than needed to distinguish values that differ in more than trailing
        zero bytes.
        """
        first = self.order[self.fresh]
        return tuple(self._text.word(first, self._prefix + WORD * n) for n in range(min(self._words, limit)))


def byte_order(values: pa.Array) -> ByteOrder:
    """Sort strings or binary, large or not, without nulls."""
    text = _Bytes.of(values)
    prefix = at = _common_prefix(values)
    order, word = sorted_places(text.word(np.arange(len(values)), at))
    fresh, words = changes(word), 1
    while len(tied := _tied(fresh)):
        at += WORD
        lengths = text.lengths[order[tied]]
        run = np.cumsum(fresh[tied]) - 1
        longer = (np.bincount(run, lengths > at) > 0)[run]
        if not longer.any():
            _settle(order, fresh, tied, lengths)  # equal except for trailing zero bytes
            break
        tied = tied[longer]
        words += 1
        _settle(order, fresh, tied, text.word(order[tied], at))
    return ByteOrder(order, fresh, text, prefix, words)


def _tied(fresh: NDArray[np.bool_]) -> Int64:
    """The positions, in the order so far, of values that are not distinguished from a neighbour."""
    alone = fresh.copy()
    alone[:-1] &= fresh[1:]
    return np.flatnonzero(~alone)


def _settle(order: Int64, fresh: NDArray[np.bool_], tied: Int64, key: NDArray[Any]) -> None:
    """Sort, in place, the runs of tied values that `key` distinguishes."""
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
class _Bytes:
    """Values in one buffer. starts, lengths: int64[M], the range of each value in `data`, uint8[at least WORD]."""

    starts: Int64
    lengths: Int64
    data: NDArray[np.uint8]

    @staticmethod
    def of(values: pa.Array) -> _Bytes:
        wide = pt.is_large_binary(values.type) or pt.is_large_string(values.type)
        _, offsets, data = values.buffers()
        ends = np.zeros(1, np.int64)
        if len(values):
            every = np.frombuffer(offsets, np.int64 if wide else np.int32)
            ends = every[values.offset : values.offset + len(values) + 1].astype(np.int64)
        bytes_ = np.frombuffer(data, np.uint8) if data else np.zeros(0, np.uint8)
        if len(bytes_) < WORD:
            bytes_ = np.append(bytes_, np.zeros(WORD, np.uint8))
        return _Bytes(ends[:-1], np.diff(ends), bytes_)

    def word(self, rows: Int64, at: int) -> UInt64:
        """uint64: eight bytes of the values at `rows`, from byte `at` on, big-endian, padded with zeros."""
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
    """The words without their first `count` bytes, 1..8."""
    bits = (count * 8 - 1).astype(np.uint64)
    shifted: UInt64 = word << bits << np.uint64(1)  # a shift by 64 at once is undefined
    return shifted


def _without_end(word: UInt64, count: Int64) -> UInt64:
    """The words with zeros as their last `count` bytes, 1..8."""
    bits = (count * 8 - 1).astype(np.uint64)
    cut: UInt64 = word >> bits >> np.uint64(1) << bits << np.uint64(1)
    return cut


def _common_prefix(values: pa.Array) -> int:
    """Length in bytes of the prefix that all values share: that of the smallest and the largest value."""
    if len(values) == 0:
        return 0
    extremes = pc.min_max(values)
    low, high = (memoryview(extremes[end].as_buffer()) for end in ("min", "max"))
    shared = min(len(low), len(high))
    return next((i for i in range(shared) if low[i] != high[i]), shared)
