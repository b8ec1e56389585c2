"""The curves z-order (Morton 1966), Hilbert and linear: positions, the kd tree of a sample, and z-ranges.

Positions are computed for all points at once. `build_on_curve` cuts a sample along a curve and makes the kd tree.

Curve `linear` uses the functions of z-order with another order of the bits that z-order interleaves. The algorithm of
the Hilbert curve is that of J. Skilling, "Programming the Hilbert curve", AIP Conf. Proc. 707 (2004). It converts the
coordinates to the "transposed" index, d words of `bits` bits, whose interleaved bits are the position on the curve.

For query boxes on the z-order curve, `is_relevant` and `next_jump_in` test z-addresses, and `meets_box` tests files.
`z_ranges` computes the ranges that a key-value store or an external index scans. Its decomposition into cells of the
z-order curve is that of J. A. Orenstein and T. H. Merrett, "A class of data structures for associative searching", PODS
1984.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zlayout.curve.tree import Bool, Float64, Int32, Int64, KdTree, snap_cuts

LONG_BITS = 63  # bits of a position that fit into an int64


def round_robin(widths: Sequence[int], weights: Sequence[float] | None = None) -> tuple[int, ...]:
    """The schedule of a z-order curve: the column of each bit of a position, the most significant bit first.

    Columns take turns in the given order. A column of weight 2**k is k bits ahead of one of weight 1.

    Args:
        widths: the number of bits of each column.
        weights: the weight of each column, above 0; None for equal weights.
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


def interleave(coordinates: Sequence[Int64], widths: Sequence[int], schedule: Sequence[int]) -> Int64:
    """Interleave the bits of coordinates to positions of at most 63 bits.

    Args:
        coordinates: int64[n] for each column, 0..2**width-1.
        widths: the number of bits of each column.
        schedule: the column of each bit of a position, the most significant bit first.

    Returns:
        int64[n], the positions.

    Raises:
        ValueError: for more than 63 bits.
    """
    if len(schedule) > LONG_BITS:
        raise ValueError(f"expected at most {LONG_BITS} bits, found {len(schedule)}")
    positions = np.zeros(len(coordinates[0]), np.int64)
    left = list(widths)
    for column in schedule:
        left[column] -= 1
        positions = positions << 1 | (coordinates[column] >> left[column]) & 1
    return positions


def deinterleave(positions: Int64, widths: Sequence[int], schedule: Sequence[int]) -> tuple[Int64, ...]:
    """The inverse of `interleave`: the coordinates of positions, int64[n] for each column."""
    coordinates = [np.zeros(len(positions), np.int64) for _ in widths]
    for turn, column in enumerate(schedule):
        bit = (positions >> (len(schedule) - 1 - turn)) & 1
        coordinates[column] = coordinates[column] << 1 | bit
    return tuple(coordinates)


def width_that_fits(columns: int, wanted: int) -> int:
    """The number of bits per column: `wanted`, or fewer if `columns` columns would need more than 63 bits."""
    return max(1, min(wanted, LONG_BITS // columns))


def hilbert(coordinates: Sequence[Int64], bits: int) -> Int64:
    """int64[n]: the positions of points on the Hilbert curve.

    Args:
        coordinates: for each of d columns int64[n], 0..2**bits-1.
        bits: the number of bits of each column; d * bits is at most 63.
    """
    x = [c.copy() for c in coordinates]
    for level in range(bits - 1, 0, -1):
        for axis in range(len(x)):
            _reflect_or_exchange(x, axis, level)
    for axis in range(1, len(x)):
        x[axis] ^= x[axis - 1]
    flips = np.zeros_like(x[0])
    for level in range(bits - 1, 0, -1):
        flips ^= ((x[-1] >> level) & 1) * ((1 << level) - 1)
    widths = [bits] * len(x)
    return interleave([c ^ flips for c in x], widths, round_robin(widths))


def hilbert_inverse(positions: Int64, columns: int, bits: int) -> tuple[Int64, ...]:
    """The inverse of `hilbert`: the coordinates of positions, int64[n] for each of `columns` columns."""
    widths = [bits] * columns
    x = list(deinterleave(positions, widths, round_robin(widths)))
    gray = x[-1] >> 1
    for axis in range(columns - 1, 0, -1):
        x[axis] ^= x[axis - 1]
    x[0] ^= gray
    for level in range(1, bits):
        for axis in range(columns - 1, -1, -1):
            _reflect_or_exchange(x, axis, level)
    return tuple(x)


def _reflect_or_exchange(x: list[Int64], axis: int, level: int) -> None:
    """Where bit `level` of `axis` is set, invert the lower bits of axis 0. Elsewhere swap those of both axes."""
    low = (1 << level) - 1
    is_set = -((x[axis] >> level) & 1)
    exchanged = (x[0] ^ x[axis]) & low & ~is_set
    x[0] ^= (low & is_set) | exchanged
    if axis:
        x[axis] ^= exchanged


# The kd tree of a curve: the curve is cut by rows, then grid cells are halved at the cuts.
#
# The points whose positions begin with the same bits form a grid cell. The next bit halves this cell on one column: for
# interleaved bits by definition, for Hilbert because the halves are in Gray-code order. A curve that is cut into files
# is therefore a kd tree whose thresholds are borders of grid cells. Spark does not compute positions: it compares keys
# with thresholds, as for curve `kd`. A cell is halved until all its sample rows are in one leaf.


# A cut moves by up to this share of the rows of a file to reach the border of a large cell.
MAX_SHIFT = 0.05


@dataclass(frozen=True, slots=True)
class BitOrder:
    """The order of interleaved bits: z-order, or linear order if the schedule has all bits of the first column first.

    Attributes:
        widths: The number of bits of each column.
        schedule: The column of each bit of a position, the most significant bit first.
    """

    widths: tuple[int, ...]
    schedule: tuple[int, ...]

    @property
    def bits(self) -> int:
        """The number of bits of a position, at most 63."""
        return len(self.schedule)

    def positions(self, coordinates: Sequence[Int64]) -> Int64:
        """int64[n]: the position of each point. coordinates: int64[n] for each column."""
        return interleave(coordinates, self.widths, self.schedule)

    def halve(self, middle: Int64, bit: int) -> tuple[Int32, Int64, Bool]:
        """Halve cells of one size.

        Args:
            middle: int64[n], the position at which the second half of each cell begins.
            bit: log2 of the number of positions of each half.

        Returns:
            int32[n], the column on which the halves differ; int64[n], the coordinate at which the half with the higher
            coordinates begins; bool[n], whether the half with the lower coordinates is the first one on the curve.
        """
        column = self.schedule[self.bits - 1 - bit]
        threshold = deinterleave(middle, self.widths, self.schedule)[column]
        return np.full(len(middle), column, np.int32), threshold, np.ones(len(middle), np.bool_)


@dataclass(frozen=True, slots=True)
class HilbertCurve:
    """The Hilbert curve over `columns` columns of `width` bits each. It has the same methods as `BitOrder`."""

    columns: int
    width: int

    @property
    def bits(self) -> int:
        return self.columns * self.width

    def positions(self, coordinates: Sequence[Int64]) -> Int64:
        return hilbert(coordinates, self.width)

    def halve(self, middle: Int64, bit: int) -> tuple[Int32, Int64, Bool]:
        """Compare the last point of the first half with the first point of the second, which differ in one column."""
        del bit
        last = np.stack(hilbert_inverse(middle - 1, self.columns, self.width))
        first = np.stack(hilbert_inverse(middle, self.columns, self.width))
        axis = (last != first).argmax(axis=0)
        each = np.arange(len(middle))
        before, after = last[axis, each], first[axis, each]
        return axis.astype(np.int32), np.maximum(before, after), before < after


Curve = BitOrder | HilbertCurve


@dataclass(frozen=True, slots=True)
class Pieces:
    """The k distinct positions of a sample of n rows on the curve, cut into pieces, and each piece cut into leaves.

    A piece is one file. With noise, a piece of a single position may become several files.

    Attributes:
        position: int64[k], the positions, ascending.
        begin: int64[k + 1], the index of the first row at each position, of the rows in curve order, then n.
        leaf: int64[k], the leaf of each position, ascending.
        file_begin: int64[pieces + 1], the index into `position` at which each piece begins, then k.
    """

    position: Int64
    begin: Int64
    leaf: Int64
    file_begin: Int64


def build_on_curve(
    curve: Curve,
    coordinates: Sequence[Int64],
    thresholds: Sequence[Int64],
    ordinals: Sequence[Int64],
    n_files: int,
    noise: bool,
    depth_within: int = 0,
) -> KdTree:
    """The kd tree of a curve that is cut into files with equal numbers of rows. Rows at one position are not separated.

    Args:
        curve: the curve.
        coordinates: int64[n] for each column, the grid coordinates of the sample rows, of which there is at least one.
        thresholds: int64[2**width + 1] for each column, for each coordinate x the lowest ordinal whose coordinate
            is at least x. The last entry is not used.
        ordinals: int64[n] for each column, the ordinals of the sample rows.
        n_files, noise, depth_within: as in `build_kd`. A position with more rows than two files counts as one key.
    """
    n_files = max(1, min(n_files, len(ordinals[0])))
    positions = curve.positions(coordinates)
    order = np.argsort(positions, kind="stable")
    pieces = _cut(positions[order], n_files, 1 << depth_within)
    nodes = _halve_cells(curve, pieces, thresholds)
    return _assemble(nodes, pieces, [c[order] for c in ordinals], n_files, noise)


def _cut(positions: Int64, n_files: int, parts_within: int) -> Pieces:
    """Cut sorted positions near quantiles into files, and each file likewise into at most `parts_within` leaves."""
    distinct, starts = np.unique(positions, return_index=True)
    begin = np.append(starts, len(positions)).astype(np.int64)
    # log2 of the size of the cell that begins at each distinct position
    cell_size = np.append(np.inf, np.floor(np.log2(distinct[1:] ^ distinct[:-1])))
    files = np.append(_file_cuts(begin, n_files, cell_size), len(distinct))
    is_leaf_start = np.zeros(len(distinct), np.bool_)
    is_leaf_start[files[:-1]] = True
    if parts_within > 1:
        for first, end in pairwise(files.tolist()):
            rows = begin[first:end] - begin[first]
            inner = _round_cuts(rows, int(begin[end] - begin[first]), parts_within, cell_size[first:end])
            is_leaf_start[first + inner] = True
    return Pieces(distinct, begin, np.cumsum(is_leaf_start) - 1, files.astype(np.int64))


def _file_cuts(begin: Int64, n_files: int, cell_size: Float64) -> Int64:
    rows = np.diff(begin)
    target = begin[-1] / n_files
    large = np.flatnonzero(rows > 2 * target)  # such a position is one file; the runs between are cut
    edges = np.unique(np.concatenate(([0], large, large + 1, [len(rows)])))
    cuts = []
    for first, end in pairwise(edges.tolist()):
        total = int(begin[end] - begin[first])
        parts = max(1, round(total / target))
        cuts.append(first + _round_cuts(begin[first:end] - begin[first], total, parts, cell_size[first:end]))
    return np.concatenate(cuts)


def _round_cuts(starts: Int64, total: int, parts: int, cell_size: Float64) -> Int64:
    """As `snap_cuts`, but each cut moves by up to MAX_SHIFT of a part to the border of the largest cell in reach."""
    if len(starts) <= parts:
        return np.arange(len(starts), dtype=np.int64)
    cuts = snap_cuts(starts, total, parts)
    # Cuts at borders of large cells result in compact files and a shallow tree.
    slack = MAX_SHIFT * total / parts
    wanted = np.rint(starts[cuts] * parts / total) * total / parts
    low, high = np.searchsorted(starts, wanted - slack), np.searchsorted(starts, wanted + slack, side="right")
    # A cut outside of the range that it may move in is at the edge of a position with many rows, and stays there.
    for index in np.flatnonzero((cuts > 0) & (cuts >= low) & (cuts < high)):
        cuts[index] = low[index] + int(cell_size[low[index] : high[index]].argmax())
    return np.unique(cuts)


@dataclass(frozen=True, slots=True)
class _Cells:
    """n grid cells of one size that contain rows. All arrays are int64[n]."""

    base: Int64
    first: Int64  # with `end`, a slice of `Pieces.position`
    end: Int64
    link: Int64  # the entry of the flat node table: 4 * parent + 2 (left) or + 3 (right); -1 for the root

    def pick(self, chosen: Bool) -> _Cells:
        return _Cells(self.base[chosen], self.first[chosen], self.end[chosen], self.link[chosen])


def _halve_cells(curve: Curve, pieces: Pieces, thresholds: Sequence[Int64]) -> Int64:
    """int64[nodes, 4]: column, threshold, left, right of each node. All cells of one size are halved at once."""
    nodes: list[Int64] = [np.empty((0, 4), np.int64)]
    links: list[tuple[Int64, Int64]] = []
    made = 0
    cells = _Cells(*(np.array([v], np.int64) for v in (0, 0, len(pieces.position), -1)))
    for bit in range(curve.bits - 1, -2, -1):
        mixed = pieces.leaf[cells.first] != pieces.leaf[cells.end - 1]
        done, cells = cells.pick(~mixed), cells.pick(mixed)
        links.append((done.link, ~pieces.leaf[done.first]))
        if not mixed.any():
            break
        middle = cells.base + (1 << bit)
        split = np.searchsorted(pieces.position, middle)
        both = (split > cells.first) & (split < cells.end)  # both halves contain rows
        node = made + np.arange(int(both.sum()), dtype=np.int64)
        made += len(node)
        links.append((cells.link[both], node))
        column, coordinate, first_is_low = curve.halve(middle[both], bit)
        threshold = np.array([thresholds[c][x] for c, x in zip(column, coordinate, strict=True)], np.int64)
        nodes.append(np.stack((column.astype(np.int64), threshold, np.zeros_like(node), np.zeros_like(node)), axis=1))
        cells = _halves(cells, middle, split, both, 4 * node + 2, first_is_low)
    table = np.concatenate(nodes)
    link, child = (np.concatenate(part) for part in zip(*links, strict=True))
    table.reshape(-1)[link[link >= 0]] = child[link >= 0]
    return table


def _halves(cells: _Cells, middle: Int64, split: Int64, both: Bool, left: Int64, first_is_low: Bool) -> _Cells:
    one = ~both
    only_second = split <= cells.first
    return _Cells(
        base=np.concatenate((cells.base[both], middle[both], np.where(only_second, middle, cells.base)[one])),
        first=np.concatenate((cells.first[both], split[both], cells.first[one])),
        end=np.concatenate((split[both], cells.end[both], cells.end[one])),
        link=np.concatenate((left + ~first_is_low, left + first_is_low, cells.link[one])),
    )


def _assemble(nodes: Int64, pieces: Pieces, ordinals: Sequence[Int64], n_files: int, noise: bool) -> KdTree:
    """ordinals: int64[n] for each column, of the rows in curve order."""
    first, end = pieces.file_begin[:-1], pieces.file_begin[1:]
    rows = pieces.begin[end] - pieces.begin[first]
    n = int(rows.sum())
    is_large = (end - first == 1) & (rows * n_files > 2 * n)
    is_null = np.logical_and.reduce([np.maximum.reduceat(c, pieces.begin[first]) < 0 for c in ordinals])
    is_divided = noise | is_null
    spread = np.where(is_large & is_divided, np.maximum(1, np.rint(rows * n_files / n)), 1).astype(np.int32)
    file_of_piece = np.cumsum(spread) - spread
    leaf_start = np.flatnonzero(np.diff(pieces.leaf, prepend=-1))
    piece_of_leaf = np.searchsorted(first, leaf_start, side="right") - 1
    return KdTree(
        column=nodes[:, 0].astype(np.int32),
        threshold=nodes[:, 1],
        left=nodes[:, 2].astype(np.int32),
        right=nodes[:, 3].astype(np.int32),
        file=file_of_piece[piece_of_leaf].astype(np.int32),
        spread=spread[piece_of_leaf],
        rows=np.repeat(rows / spread, spread),
        oversized=file_of_piece[is_large & ~is_divided].astype(np.int32),
    )


# Tests of z-addresses.
#
# Source: H. Tropf and H. Herzog, "Multidimensional range search in dynamically balanced trees", Angewandte Informatik
# 2/1981, pp. 71-77. Their BIGMIN is `next_jump_in`.
#
# In every function, `zmin` and `zmax` are the z-addresses of the lowest and the highest corner of the box, inclusive.
# `schedule` is the column of each bit, the most significant bit first, as for `interleave`. None means two
# columns in turn. The results do not depend on which number each column has. Z-addresses are int64 (at most 63 bits) or
# Python ints in an object array (any length).


Positions = NDArray[Any]  # int64, or Python ints of any length in an object array
NONE = -1  # the result where there is no z-address


def is_relevant(zmin: int, zmax: int, z: ArrayLike, schedule: Sequence[int] | None = None) -> Bool:
    """Return whether each z-address is in a query box.

    Args:
        zmin: the z-address of the lowest corner of the box, inclusive.
        zmax: the z-address of the highest corner, inclusive.
        z: z-addresses of any shape, int64 or Python ints in an object array.
        schedule: the column of each bit, the most significant bit first; None for two columns in turn.

    Returns:
        bool, of the shape of `z`.

    Raises:
        ValueError: for an address outside the schedule, and for a zmin above zmax in some column.
    """
    z = _positions(z)
    bits = _schedule(zmin, zmax, z, schedule)
    inside: Bool = np.ones(z.shape, np.bool_)
    for mask in _masks(bits):
        own = z & mask
        inside &= (own >= (zmin & mask)) & (own <= (zmax & mask))
    return inside


def next_jump_in(zmin: int, zmax: int, z: ArrayLike, schedule: Sequence[int] | None = None) -> Positions:
    """Return, for each z-address, the lowest one in the box that is greater (BIGMIN by Tropf and Herzog).

    For example, next_jump_in(11, 37, 16) is 33. One pass over the bits, from the most significant one, applies the
    decision table of the paper to all z-addresses at once. `lowest` and `highest` are the corners of the part of the
    box in which the result can be.

    Args:
        zmin: the z-address of the lowest corner of the box, inclusive.
        zmax: the z-address of the highest corner, inclusive.
        z: z-addresses of any shape, inside or outside the box, int64 or Python ints in an object array.
        schedule: the column of each bit, the most significant bit first; None for two columns in turn.

    Returns:
        Z-addresses of the shape of `z`, int64 or Python ints as in `z`; -1 where the box has no greater one.

    Raises:
        ValueError: for an address outside the schedule, and for a zmin above zmax in some column.
    """
    z = _positions(z)
    bits = _schedule(zmin, zmax, z, schedule)
    masks = _masks(bits)
    found, lowest, highest = (np.full_like(z, start) for start in (NONE, zmin, zmax))
    searching = np.ones(z.shape, np.bool_)
    for turn, column in enumerate(bits):
        bit = 1 << (len(bits) - 1 - turn)
        below = masks[column] & (bit - 1)
        here, low, high = ((word & bit) != 0 for word in (z, lowest, highest))
        # (z, lowest, highest) is 0 0 1: the start of the upper half is a candidate; the lower half may have a lower one
        fork = searching & ~here & ~low & high
        found = np.where(fork, lowest & ~below | bit, found)
        highest = np.where(fork, highest & ~bit | below, highest)
        # 0 1 1: the whole remaining part of the box is above z, and the result is its lowest corner
        above = searching & ~here & low
        found = np.where(above, lowest, found)
        # 1 0 1: only the upper half can contain the result, unless it is the candidate
        lowest = np.where(searching & here & ~low & high, lowest & ~below | bit, lowest)
        # 1 0 0: the whole remaining part of the box is below z, and the result is the last candidate
        searching &= ~above & ~(here & ~high)
    return found


def meets_box(first: ArrayLike, last: ArrayLike, zmin: int, zmax: int, schedule: Sequence[int] | None = None) -> Bool:
    """Return whether each closed interval of z-addresses contains a point of a query box.

    A reader with an index of z-addresses opens exactly the files for which this is true. A reader that has min and max
    of each column prunes files as `zlayout.predicate.prune` does.

    Args:
        first: int64[n], the lowest z-address of each file, or Python ints in an object array.
        last: int64[n], the highest z-address of each file, likewise.
        zmin: the z-address of the lowest corner of the box, inclusive.
        zmax: the z-address of the highest corner, inclusive.
        schedule: the column of each bit, the most significant bit first; None for two columns in turn.

    Returns:
        bool[n]; False where first > last.

    Raises:
        ValueError: for an address outside the schedule, and for a zmin above zmax in some column.
    """
    begin, end = _positions(first), _positions(last)
    entry = next_jump_in(zmin, zmax, begin, schedule)
    met: Bool = (entry != NONE) & (entry <= end) | is_relevant(zmin, zmax, begin, schedule)
    return met & (begin <= end)


def count_files(first: ArrayLike, last: ArrayLike, zmin: int, zmax: int, schedule: Sequence[int] | None = None) -> int:
    """Return the number of files for which `meets_box` is true. Arguments and errors are those of `meets_box`."""
    return int(meets_box(first, last, zmin, zmax, schedule).sum())


def _positions(z: ArrayLike) -> Positions:
    array = np.asarray(z)
    if array.dtype == object:
        return array
    if array.dtype.kind not in "iu" and array.size:
        raise ValueError(f"expected whole numbers as z-addresses, found {array.dtype}")
    if array.size and array.dtype.kind == "u" and int(array.max()) >> LONG_BITS:
        raise ValueError(f"expected z-addresses of at most {LONG_BITS} bits, or an object array of Python ints")
    return array.astype(np.int64)


def _schedule(zmin: int, zmax: int, z: Positions, schedule: Sequence[int] | None) -> Sequence[int]:
    lowest, highest = (min(int(z.min()), zmin), max(int(z.max()), zmax)) if z.size else (min(zmin, zmax), zmax)
    if schedule is None:
        schedule = [turn % 2 for turn in range(max(highest.bit_length(), int(zmin).bit_length()))]
    if lowest < 0 or max(highest, zmin) >> len(schedule):
        raise ValueError(f"expected z-addresses of {len(schedule)} bits, found {lowest} to {max(highest, zmin)}")
    if z.dtype != object and len(schedule) > LONG_BITS:
        raise ValueError(f"expected an object array of Python ints for {len(schedule)} bits, found {z.dtype}")
    if any(zmin & mask > zmax & mask for mask in _masks(schedule)):
        raise ValueError(f"expected corners of a box, found {zmin} above {zmax} in some column")
    return schedule


def _masks(schedule: Sequence[int]) -> list[int]:
    masks = [0] * (max(schedule, default=-1) + 1)
    for turn, column in enumerate(schedule):
        masks[column] |= 1 << (len(schedule) - 1 - turn)
    return masks


@dataclass(frozen=True, slots=True)
class _Ranges:
    """Disjoint closed ranges in order. is_cell: whether a range is a grid cell that must be halved further."""

    first: Int64
    last: Int64
    is_cell: Bool

    def gaps(self) -> Int64:
        """int64[n - 1]: the number of z-addresses between each range and the next one."""
        return self.first[1:] - self.last[:-1] - 1

    def join(self, over: Bool) -> _Ranges:
        """Join each range with the next one where `over`, bool[n - 1], is true. Joined ranges must not be cells."""
        starts = np.flatnonzero(np.append(True, ~over))
        ends = np.append(starts[1:], len(self.first)) - 1
        return _Ranges(self.first[starts], self.last[ends], self.is_cell[starts])


def z_ranges(
    zmin: int, zmax: int, schedule: Sequence[int] | None = None, limit: int | None = None
) -> tuple[Int64, Int64]:
    """The smallest set of closed ranges of z-addresses that covers a query box.

    Without a limit, the ranges contain exactly the box. Their number grows with the surface of the box: a box of 2**20
    by 2**20 points may need a million ranges. With a limit, ranges are joined over the smallest gaps between them (of
    equal gaps, the later ones), so that no other cover by as few ranges contains fewer z-addresses.

    The algorithm begins with a cell that contains the whole grid. It halves cells, keeps those inside the box and drops
    those outside. With a limit, it does not halve cells whose gaps cannot be among the largest, so that its time
    depends on the limit and not on the surface of the box.

    Args:
        zmin: the z-address of the lowest corner of the box, inclusive, at most 63 bits.
        zmax: the z-address of the highest corner, inclusive.
        schedule: the column of each bit, the most significant bit first; None for two columns in turn.
        limit: the maximum number of ranges, at least 1; None for as many as needed.

    Returns:
        int64[k] twice, ascending: the first and the last z-address of each range.

    Raises:
        ValueError: for a limit below 1, a corner outside the schedule, or a zmin above zmax in some column.
    """
    if limit is not None and limit < 1:
        raise ValueError(f"expected a limit of at least 1, found {limit}")
    columns = _schedule(zmin, zmax, np.zeros(0, np.int64), schedule)
    masks, bits = _masks(columns), len(columns)
    found = _Ranges(np.zeros(1, np.int64), np.full(1, (1 << bits) - 1, np.int64), np.ones(1, np.bool_))
    if limit == 1:
        return np.full(1, zmin, np.int64), np.full(1, zmax, np.int64)
    for bit in range(bits, -1, -1):
        found = _compare_with_box(found, zmin, zmax, masks)
        if limit is not None:
            found = _drop_small_gaps(found, limit, 1 << bit)
        done = ~found.is_cell
        found = found.join((found.gaps() == 0) & done[1:] & done[:-1])
        if not found.is_cell.any():
            break
        found = _halve(found, bit)
    if limit is not None:
        found = found.join(_smallest(found.gaps(), len(found.first) - limit))
    # With a limit, the first and the last cell may not be halved completely and extend beyond the corners.
    return np.maximum(found.first, zmin), np.minimum(found.last, zmax)


def _compare_with_box(found: _Ranges, zmin: int, zmax: int, masks: Sequence[int]) -> _Ranges:
    """Drop the cells outside the box. Those inside the box no longer count as cells."""
    outside, inside = np.zeros(len(found.first), np.bool_), np.ones(len(found.first), np.bool_)
    for mask in masks:
        low, high = found.first & mask, found.last & mask
        outside |= (high < (zmin & mask)) | (low > (zmax & mask))
        inside &= (low >= (zmin & mask)) & (high <= (zmax & mask))
    keep = ~(found.is_cell & outside)
    return _Ranges(found.first[keep], found.last[keep], (found.is_cell & ~inside)[keep])


def _halve(found: _Ranges, bit: int) -> _Ranges:
    copies = np.where(found.is_cell, 2, 1)
    is_cell = np.repeat(found.is_cell, copies)
    first, last = np.repeat(found.first, copies), np.repeat(found.last, copies)
    second = np.zeros(len(first), np.bool_)
    second[np.cumsum(copies)[found.is_cell] - 1] = True
    half = 1 << (bit - 1)
    return _Ranges(np.where(second, first + half, first), np.where(is_cell & ~second, last - half, last), is_cell)


def _drop_small_gaps(found: _Ranges, limit: int, size: int) -> _Ranges:
    """Join ranges over gaps that cannot be among the `limit` - 1 largest. size: the z-addresses of a cell."""
    gaps = found.gaps()
    if len(gaps) < limit:
        return found
    enough = np.partition(gaps, len(gaps) - limit + 1)[len(gaps) - limit + 1]
    if size > enough:
        return found
    # When cells are halved, a gap between them grows by less than one cell at each end, and a gap that appears inside
    # a cell is smaller than the cell. A cell that is partly in the box never disappears.
    may_count = gaps >= enough - 2 * (size - 1)
    beside = np.append(False, may_count) | np.append(may_count, False)
    is_cell = found.is_cell & beside
    return _Ranges(found.first, found.last, is_cell).join(~may_count & ~is_cell[1:] & ~is_cell[:-1])


def _smallest(gaps: Int64, count: int) -> Bool:
    """Whether each gap is among the `count` smallest ones. Of equal gaps, the later ones count as smaller."""
    chosen = np.zeros(len(gaps), np.bool_)
    if count > 0:
        chosen[len(gaps) - 1 - np.argsort(gaps[::-1], kind="stable")[:count]] = True
    return chosen
