"""Convert each value of a column to words: 64-bit numbers whose lexicographic order is the order of the values.

| type | words |
|---|---|
| integer, date, time, timestamp, boolean, decimal within 64 bits | one int64 (one uint64 for uint64) |
| float | one float64 |
| decimal beyond 64 bits | one int64, then uint64 |
| string, binary | up to MAX_AXIS_WORDS uint64, from the bytes after the common prefix of all values |

Numbers are not rounded: two of them have equal words only if they are equal. Long strings that differ only after the
words that are kept have equal words. Their distance is 0, but their ranks differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from zlayout.errors import TableError
from zlayout.table.order import byte_order, changes, order_and_sorted, order_of
from zlayout.table.state import Int64

Words = tuple[NDArray[Any], ...]
MAX_AXIS_WORDS = 4  # words of a string that are kept to measure distances. Ranks are computed from all words.
WORD_SPAN = 2.0**64  # number of values that a word can have


@dataclass(frozen=True, slots=True)
class Axis:
    """R distinct values of a column in ascending order, as words.

    Attributes:
        words: For each word an array of length R, the most significant word first.
        point: The width of a single value, in units of the first word: 0 for floats, else one unit of the last word.
        countable: Whether the type has a next value for each value (integers, dates, times, booleans, decimals), so
            that `width` counts values.
    """

    words: Words
    point: float
    countable: bool

    def __len__(self) -> int:
        return len(self.words[0])

    def at(self, rank: Int64) -> Axis:
        """The values at the given ranks, in that order. Ranks may repeat."""
        return Axis(tuple(word[rank] for word in self.words), self.point, self.countable)

    def width(self, start: Int64 | slice, stop: Int64 | slice) -> NDArray[np.float64]:
        """float64, at least 0: the distances from the values at ranks `start` to those at ranks `stop` (start <= stop).

        The unit is that of the first word. Words are subtracted before they are converted to float64, so that the
        distance of two neighbours near 10^18 is exact.
        """
        total = _difference(self.words[0][start], self.words[0][stop])
        for position, word in enumerate(self.words[1:], 1):
            total += _difference(word[start], word[stop]) / WORD_SPAN**position
        return np.maximum(total, 0.0, out=total)


def _difference(low: NDArray[Any], high: NDArray[Any]) -> NDArray[np.float64]:
    """float64: high - low for each pair of words. Floats are first limited, so that no sum overflows."""
    if low.dtype.kind == "f":
        span = np.finfo(np.float64).max / 4
        distance: NDArray[np.float64] = np.clip(high, -span, span) - np.clip(low, -span, span)
        return distance
    unsigned = high.view(np.uint64) - low.view(np.uint64)  # exact modulo 2^64
    if (high >= low).all():  # always the case for the first word
        return unsigned.astype(np.float64)
    return np.where(high >= low, unsigned.astype(np.float64), -((~unsigned + np.uint64(1)).astype(np.float64)))


def axis_and_ranks(values: pa.Array) -> tuple[Axis, Int64]:
    """Rank the values of one column.

    Args:
        values: M values of any orderable type, without nulls and NaN.

    Returns:
        The R distinct values, and int64[M], the rank of each value among them.

    Raises:
        TableError: ZL109 for a type without an order.
    """
    values = _storage(values)
    type_ = values.type
    if pt.is_binary(type_) or pt.is_large_binary(type_):
        return _bytes_axis(values)
    words = _decimal_words(values) if pt.is_decimal(type_) else (_number_word(values),)
    floating = words[0].dtype.kind == "f"
    if len(words) == 1:
        ranks, distinct = dense_values(words[0])
        return Axis((distinct,), 0.0 if floating else 1.0, not floating), ranks
    ranks, first = dense(words)
    return Axis(tuple(w[first] for w in words), WORD_SPAN ** (1 - len(words)), True), ranks


def dense(words: Words) -> tuple[Int64, Int64]:
    """int64[M], the dense rank of each row by (words[0], words[1], ...), and for each rank the index of one row."""
    if len(words) == 1 and (counted := _dense_by_counting(words[0])) is not None:
        return counted
    order = order_of(words[0]) if len(words) == 1 else np.lexsort(words[::-1])
    fresh = np.zeros(len(order), bool)
    for word in words:
        fresh |= changes(word[order])
    return _ranks(order, fresh), order[fresh]


def dense_values(word: NDArray[Any]) -> tuple[Int64, NDArray[Any]]:
    """int64[M], the dense rank of each row, and the distinct values in ascending order."""
    if (counted := _dense_by_counting(word)) is not None:
        return counted[0], word[counted[1]]
    order, ordered = order_and_sorted(word)
    fresh = changes(ordered)
    return _ranks(order, fresh), ordered[fresh]


def _ranks(order: Int64, fresh: NDArray[np.bool_]) -> Int64:
    """The dense rank of each row. order: the sorted rows. fresh: whether each of them has a new value."""
    rank: Int64 = np.cumsum(fresh)
    rank -= 1
    ranks = np.empty_like(rank)
    ranks[order] = rank
    return ranks


def _dense_by_counting(word: NDArray[Any]) -> tuple[Int64, Int64] | None:
    """The result of `dense`, by counting, for integers in a short range (dates, flags, ids); None for other words."""
    if len(word) == 0 or word.dtype != np.int64:
        return None
    low, high = int(word.min()), int(word.max())
    if high - low >= 2 * len(word) + 1024:
        return None
    offset = word - low
    row = np.full(high - low + 1, -1, np.int64)
    row[offset] = np.arange(len(word))
    seen = row >= 0
    return (np.cumsum(seen) - 1)[offset], row[seen]


def _storage(values: pa.Array) -> pa.Array:
    """The values in the type that defines their order: not a dictionary or extension type, and strings as binary."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if pt.is_dictionary(values.type):
        values = values.dictionary_decode()
    if isinstance(values.type, pa.BaseExtensionType):
        values = values.storage
    type_ = values.type
    if pt.is_string(type_):
        return values.cast(pa.binary())  # shares the buffers
    if pt.is_large_string(type_):
        return values.cast(pa.large_binary())
    if pt.is_string_view(type_) or pt.is_binary_view(type_) or pt.is_fixed_size_binary(type_):
        return values.cast(pa.large_binary())
    return values


def _number_word(values: pa.Array) -> NDArray[Any]:
    type_ = values.type
    if pt.is_floating(type_):
        return np.asarray(values.cast(pa.float64()).to_numpy(zero_copy_only=False))  # numpy holds -0.0 == 0.0
    if pt.is_uint64(type_):
        return np.asarray(values.to_numpy(zero_copy_only=False))
    if pt.is_boolean(type_) or pt.is_integer(type_):
        return np.asarray(values.cast(pa.int64()).to_numpy(zero_copy_only=False))
    if pt.is_temporal(type_) and not pt.is_interval(type_):
        stored = pa.int32() if type_.bit_width == 32 else pa.int64()
        return np.asarray(values.view(stored).cast(pa.int64()).to_numpy(zero_copy_only=False))
    if pt.is_null(type_):
        return np.zeros(len(values), np.int64)
    raise TableError.of(
        "ZL109",
        f"expected a column of an orderable type, found {type_}",
        hint="use a column of numbers, strings, binary, dates, times, timestamps or booleans",
    )


def _decimal_words(values: pa.Array) -> Words:
    """The unscaled integers as words. There is one word if all of them have at most 64 bits."""
    if values.type.bit_width < 128:
        values = values.cast(pa.decimal128(values.type.precision, values.type.scale))
    count = values.type.bit_width // 64
    raw = np.frombuffer(values.buffers()[1], "<u8")[values.offset * count : (values.offset + len(values)) * count]
    little = raw.reshape(len(values), count)
    low = np.ascontiguousarray(little[:, 0]).view(np.int64)
    if all((np.ascontiguousarray(little[:, i]).view(np.int64) == low >> 63).all() for i in range(1, count)):
        return (low,)
    top = np.ascontiguousarray(little[:, -1]).view(np.int64)
    return (top, *(np.ascontiguousarray(little[:, i]) for i in range(count - 2, -1, -1)))


def _bytes_axis(values: pa.Array) -> tuple[Axis, Int64]:
    # If more than half of a sample of the values are duplicates, only the distinct values are sorted.
    sample = values.take(pa.array(np.linspace(0, max(len(values) - 1, 0), min(len(values), 1000)).astype(np.int64)))
    if len(pc.unique(sample)) * 2 < len(sample):
        encoded = values.dictionary_encode()
        codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        axis, ranks = _order_bytes(encoded.dictionary)
        return axis, ranks[codes]
    return _order_bytes(values)


def _order_bytes(values: pa.Array) -> tuple[Axis, Int64]:
    found = byte_order(values)
    words = found.words(MAX_AXIS_WORDS)
    return Axis(words, WORD_SPAN ** (1 - len(words)), False), _ranks(found.order, found.fresh)
