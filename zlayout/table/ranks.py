"""Convert file bounds to dense integer ranks, so that the metrics do not depend on the type of the column."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from zlayout.errors import TableError
from zlayout.table.order import byte_order, changes, order_and_sorted, order_of
from zlayout.table.state import ColumnBounds, Float64, Int32, Int64, pieces

# Convert each value of a column to words: 64-bit numbers whose lexicographic order is the order of the values.
#
# | type | words |
# |---|---|
# | integer, date, time, timestamp, boolean, decimal within 64 bits | one int64 (one uint64 for uint64) |
# | float | one float64 |
# | decimal beyond 64 bits | one int64, then uint64 |
# | string, binary | up to MAX_AXIS_WORDS uint64, from the bytes after the common prefix of all values |
#
# Numbers are not rounded: two of them have equal words only if they are equal. Long strings that differ only after the
# words that are kept have equal words. Their distance is 0, but their ranks differ.


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


@dataclass(frozen=True, slots=True)
class Ranked:
    """The closed intervals [lo, hi] of N files as ranks among the R distinct bounds.

    Attributes:
        lo: int64[N], the rank of the lower bound, at least 0; 0 if it is missing.
        hi: int64[N], the rank of the upper bound, from lo to R - 1; R - 1 (or 0 if R is 0) if it is missing. It is -1
            for a file without a value (all null), which no query touches.
        open_lo: bool[N], whether the lower bound is missing.
        open_hi: bool[N], whether the upper bound is missing.
        axis: The values of the ranks, to measure distances.
    """

    lo: Int64
    hi: Int64
    open_lo: NDArray[np.bool_]
    open_hi: NDArray[np.bool_]
    axis: Axis

    def __len__(self) -> int:
        return len(self.lo)

    @property
    def empty(self) -> NDArray[np.bool_]:
        """bool[N]: the files without a value of this column."""
        return self.lo > self.hi

    @property
    def unbounded(self) -> int:
        """The number of files that have a value and an open bound."""
        return int(((self.open_lo | self.open_hi) & ~self.empty).sum())


def rank_bounds(bounds: ColumnBounds, rows: Int64) -> Ranked:
    """Rank the bounds of one column.

    NaN counts as a missing bound, and -0.0 equals 0.0. If the lower bound is above the upper bound, both count as
    missing. Truncated bounds are used as they are, because the lower one is rounded down and the upper one up.

    Args:
        bounds: the bounds of N files.
        rows: int64[N], the number of rows of each file, to find the files that are null in every row.

    Raises:
        TableError: ZL109 for a type without an order.
    """
    known_lo, known_hi = _known(bounds.lower), _known(bounds.upper)
    values = pa.concat_arrays([_filter(bounds.lower, known_lo), _filter(bounds.upper, known_hi)])
    axis, ranks = axis_and_ranks(values)
    split = int(known_lo.sum())
    lo = np.zeros(len(rows), np.int64)
    hi = np.full(len(rows), max(len(axis) - 1, 0), np.int64)
    lo[known_lo], hi[known_hi] = ranks[:split], ranks[split:]
    inverted = lo > hi
    open_lo, open_hi = ~known_lo | inverted, ~known_hi | inverted
    empty = (bounds.null_count >= rows) & (rows >= 0) & ~(known_lo & known_hi)
    lo[inverted | empty] = 0
    hi[inverted] = max(len(axis) - 1, 0)
    hi[empty] = -1
    return Ranked(lo, hi, open_lo, open_hi, axis)


def _known(values: pa.Array) -> NDArray[np.bool_]:
    known = values.is_valid().to_numpy(zero_copy_only=False)
    if pt.is_floating(values.type):
        finite = pc.fill_null(pc.invert(pc.is_nan(values)), False)
        known = known & finite.to_numpy(zero_copy_only=False)
    return np.asarray(known, bool)


def _filter(values: pa.Array, known: NDArray[np.bool_]) -> pa.Array:
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    return values if known.all() else values.filter(pa.array(known))


# Divide the axis of one column in each partition into segments, so that numpy measures all partitions at once.


PerSegment = tuple[Float64, Float64]  # float64[R] for the points, and float64[R] for the gaps after them
FILES_PER_BLOCK = 1 << 17  # temporary arrays of this length fit into the CPU cache


@dataclass(frozen=True, slots=True)
class Segments:
    """The M files that have a value, as closed intervals of points, in P partitions.

    The points are the R distinct bounds of each partition, ordered by (partition, value), so that no two partitions
    share a point. R is at least 1, or 0 if `among` selects no file. A segment is a point or the open gap after it. The
    gap after the last point of a partition is empty.

    Attributes:
        lo: int64[M], the first point of each file. The files are in ascending order of lo, because reading memory
            sequentially is several times as fast for a million files.
        hi: int64[M], the last point of each file.
        file: int64[M], the index of each file among the N files of the ranked column.
        partition: int64[M], the partition of each file.
        start: int64[P + 1], the first point of each partition, then R.
        begun: int32[R], the number of files whose first point is this point or an earlier one.
        ended: int32[R], the number of files whose last point is this point or an earlier one.
        bounded: bool[2, M], whether the metadata has the lower and the upper bound of each file.
        point: The width of a point (see `Axis`).
        gap: float64[R], the width of the gap after each point.
        span: float64[M], the width of the interval of each file.
    """

    lo: Int64
    hi: Int64
    file: Int64
    partition: Int64
    start: Int64
    begun: Int32
    ended: Int32
    bounded: NDArray[np.bool_]
    point: float
    gap: Float64
    span: Float64

    @property
    def depth(self) -> Int32:
        """int32[R]: the number of files whose interval contains each point."""
        depth = self.begun.copy()
        depth[1:] -= self.ended[:-1]
        return depth

    @property
    def coverage(self) -> tuple[Int32, Int32]:
        """int32[R] twice: the number of files whose interval contains each point, and each gap."""
        return self.depth, self.begun - self.ended

    def cover(self, amount: Float64) -> PerSegment:
        """The sum over the files whose interval contains each segment. amount: float64[M], what is summed."""
        # bincount returns integers if there is no file
        gaps, points = (
            np.bincount(ends, amount, len(self.begun)).astype(np.float64, copy=False) for ends in (self.lo, self.hi)
        )
        gaps -= points
        np.cumsum(gaps, out=gaps)
        points += gaps  # a file that ends at a point contains the point, but not the gap after it
        return points, gaps

    def among(self, member: NDArray[np.bool_]) -> Segments:
        """The segments of some of the files, without the points that only other files have.

        member: bool[N], whether a file of the ranked column is one of them.
        """
        kept = np.flatnonzero(member[self.file])
        lo, hi = self.lo[kept], self.hi[kept]
        used = np.zeros(len(self.begun), bool)
        used[lo] = used[hi] = True
        points = np.flatnonzero(used)
        number = np.empty(len(used), np.int64)
        number[points] = np.arange(len(points))
        lo, hi, start = number[lo], number[hi], np.searchsorted(points, self.start)
        begun, ended = _counts(lo, hi, len(points))
        gap = np.zeros(len(points))
        if len(points):
            np.add.reduceat(self.gap + self.point, points, out=gap)
            gap -= self.point
            gap[_last_points(start)] = 0.0
        file, partition, span, bounded = self.file[kept], self.partition[kept], self.span[kept], self.bounded[:, kept]
        return Segments(lo, hi, file, partition, start, begun, ended, bounded, self.point, gap, span)

    def blocks(self) -> Iterator[tuple[slice, slice, Segments]]:
        """Yield consecutive partitions that have about FILES_PER_BLOCK files together.

        Yields:
            The range of their files, the range of their points, and their segments with both numbered from 0.
        """
        first_file = np.searchsorted(self.lo, self.start)
        _, first = np.unique(first_file[:-1] // FILES_PER_BLOCK, return_index=True)
        for one, end in zip(first, [*first[1:], len(self.start) - 1], strict=True):
            files, points = slice(first_file[one], first_file[end]), slice(self.start[one], self.start[end])
            yield files, points, self._block(one, end, files, points)

    def _block(self, one: int, end: int, files: slice, points: slice) -> Segments:
        if end - one == len(self.start) - 1:
            return self
        begun, ended = (self.begun[points.start - 1], self.ended[points.start - 1]) if points.start else (0, 0)
        return Segments(
            self.lo[files] - points.start,
            self.hi[files] - points.start,
            self.file[files],
            self.partition[files] - one,
            self.start[one : end + 1] - points.start,
            self.begun[points] - begun,
            self.ended[points] - ended,
            self.bounded[:, files],
            self.point,
            self.gap[points],
            self.span[files],
        )

    def per_partition(self, values: Float64) -> Float64:
        """float64[P]: the sum over the points of each partition. values: float64[R], what is summed."""
        filled = np.diff(self.start) > 0
        out = np.zeros(len(filled))
        if filled.any():
            out[filled] = np.add.reduceat(values, self.start[:-1][filled])
        return out


def before(values: PerSegment) -> Float64:
    """float64[R]: the sum of `values` over all segments before each point, in all partitions."""
    points, gaps = values
    sums = np.empty_like(points)
    sums[:1] = 0.0
    np.add(points[:-1], gaps[:-1], out=sums[1:])
    np.cumsum(sums[1:], out=sums[1:])
    return sums


def segments_of(ranked: Ranked, partition: Int32 | None = None, partitions: int = 1) -> Segments:
    """The segments of a ranked column.

    Args:
        ranked: the bounds of N files.
        partition: int32[N], the partition of each file; None if all files are in one partition.
        partitions: the number of partitions P.
    """
    file = np.flatnonzero(~ranked.empty)
    lo, hi, axis = ranked.lo[file], ranked.hi[file], ranked.axis
    start, files = np.full(partitions + 1, max(len(axis), 1)), np.array([len(file)])
    start[0] = 0
    if partitions > 1 and partition is not None and len(file):
        owner = partition[file].astype(np.int64)
        files = np.bincount(owner, minlength=partitions)
        lo, hi, axis, start = _apart(ranked, file, owner, partitions)
    if (lo[1:] < lo[:-1]).any():
        order, lo = order_and_sorted(lo)
        hi, file = hi[order], file[order]
    begun, ended = _counts(lo, hi, start[-1])
    bounded = np.stack((~ranked.open_lo[file], ~ranked.open_hi[file]))
    gap, span = _measures(axis, start, lo, hi)
    owner = np.repeat(np.arange(len(files)), files)  # files are sorted by lo, and so by partition
    return Segments(lo, hi, file, owner, start, begun, ended, bounded, axis.point, gap, span)


def _last_points(start: Int64) -> Int64:
    return start[1:][np.diff(start) > 0] - 1


def _counts(lo: Int64, hi: Int64, points: int) -> tuple[Int32, Int32]:
    begun, ended = (np.cumsum(np.bincount(ends, minlength=points), dtype=np.int32) for ends in (lo, hi))
    return begun, ended


def _apart(ranked: Ranked, file: Int64, owner: Int64, partitions: int) -> tuple[Int64, Int64, Axis, Int64]:
    """Number the points of each partition separately. Return `lo` and `hi` of `Segments`, the values, and `start`."""
    lo, hi, open_lo, open_hi = (side[file] for side in (ranked.lo, ranked.hi, ranked.open_lo, ranked.open_hi))
    any_open = bool(open_lo.any() or open_hi.any())
    if any_open:
        bound = np.zeros(partitions, np.int64)
        bound[owner[~open_lo]] = lo[~open_lo]
        bound[owner[~open_hi]] = hi[~open_hi]
        # a missing bound gets the rank of a bound of its partition, so that it adds no point
        lo[open_lo], hi[open_hi] = bound[owner[open_lo]], bound[owner[open_hi]]
    width = max(len(ranked.axis), 1)
    first_of_owner = owner * width
    lo += first_of_owner
    hi += first_of_owner
    # A point is a distinct key. A partition without any bound has one point, its first key.
    point, key = dense_values(np.concatenate((lo, hi)))
    first_key = np.arange(partitions + 1) * width
    start = np.searchsorted(key, first_key)
    lo, hi = point[: len(file)], point[len(file) :]
    if any_open:
        lo[open_lo], hi[open_hi] = start[owner[open_lo]], start[owner[open_hi] + 1] - 1
    rank = key - np.repeat(first_key[:-1], np.diff(start))
    return lo, hi, ranked.axis.at(rank) if len(ranked.axis) else ranked.axis, start


def _measures(axis: Axis, start: Int64, lo: Int64, hi: Int64) -> tuple[Float64, Float64]:
    gap = np.zeros(start[-1])
    if len(axis) == 0:
        return gap, np.full(len(lo), axis.point)
    span = np.empty(len(lo))
    for at, stop in pieces(0, len(gap) - 1, FILES_PER_BLOCK):
        gap[at:stop] = axis.width(slice(at, stop), slice(at + 1, stop + 1))
    for at, stop in pieces(0, len(span), FILES_PER_BLOCK):
        span[at:stop] = axis.width(lo[at:stop], hi[at:stop])
    gap -= axis.point
    np.maximum(gap, 0.0, out=gap)
    gap[_last_points(start)] = 0.0
    span += axis.point
    return gap, span
