"""Make the `Picture` of a table from its file bounds. Pure functions; pictures are limited in size.

The rows of a file are assumed to be evenly distributed over its interval.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zlayout.curve.layout import build_map
from zlayout.planner.forecast import measure
from zlayout.planner.partitions import Bools, Floats, partition_names
from zlayout.planner.run_report import SCALE, Boxes, Picture, StripBin
from zlayout.planner.selection import Group
from zlayout.spec.model import Layout, LayoutSpec
from zlayout.table.metrics import size_histogram
from zlayout.table.ranks import rank_bounds
from zlayout.table.state import ColumnBounds, FileTable, Int64, TableState, counts, identities, target_files

# Readers cannot distinguish more boxes, and the page would become large.
MAX_BOXES = 400
MAX_STRIP_BINS = 120
# The number of random rows for each predicted file, and the number of different values that they have on a column.
POINTS_PER_FILE = 24
_POINTS_PER_AXIS = 2**30


def draw(
    spec: LayoutSpec, state: TableState, groups: Sequence[Group], *, predictable: bool, after: FileTable | None = None
) -> Picture:
    """Make the picture of one table.

    Args:
        spec: The layout spec.
        state: The observed table.
        groups: The groups that the plan rewrites.
        predictable: Whether the files after the rewrite can be drawn: the engine orders by the declared curve, and the
            partitioning does not change.
        after: `PlannedTable.after`, the files after the rewrite as a sample predicts them; None without a sample.
    """
    files = state.files
    rewritten = pc.is_in(files.identity(), identities([g.files for g in groups])).to_numpy(zero_copy_only=False)
    partition = most_interesting(files, rewritten)
    sampled = predictable and after is not None
    # Without a sample, random rows in the intervals of the files are used. They have no values that could be compared
    # with declared cuts.
    illustrated = predictable and not sampled and not spec.layout.cuts
    before, then = _boxes(spec, files, partition, rewritten, groups if illustrated else ())
    if sampled and after is not None:
        then = _boxes(spec, after, partition, np.zeros(len(after), bool), ())[0]
    names, numbers = partition_names(files.partitions)
    name = names[partition] if names else ""
    return Picture(
        columns=columns_of_picture(spec),
        partition=name,
        before=before,
        after=then,
        strip=strip(spec, files, rewritten),
        sizes_after=_sizes_after(spec, files, rewritten, groups),
        partition_number=int(numbers[partition]) if name else 0,
        sampled=sampled,
    )


def boxes_of(spec: LayoutSpec, files: FileTable, name: str) -> Boxes:
    """Return the boxes of the partition `name`, or of the partition with most files if that one no longer exists."""
    names, _ = partition_names(files.partitions)
    nothing = np.zeros(len(files), bool)
    partition = names.index(name) if name in names else most_interesting(files, nothing)
    return _boxes(spec, files, partition, nothing, ())[0]


def strip(spec: LayoutSpec, files: FileTable, rewritten: Bools) -> tuple[StripBin, ...]:
    """Divide the partitions, sorted by name, into at most MAX_STRIP_BINS bins; empty for a table with one partition."""
    count = len(files.partitions)
    if count < 2:
        return ()
    names, position = partition_names(files.partitions)
    order = np.argsort(position)
    number = counts(files.partition, count)
    planned = counts(files.partition[rewritten], count)
    ratio = measure(files, spec).ratio
    return tuple(
        StripBin(
            label=" to ".join(dict.fromkeys((names[part[0]], names[part[-1]]))),
            partitions=len(part),
            files=int(number[part].sum()),
            rewritten=int(planned[part].sum()),
            excess=round(float(ratio[part].max()), 2),
        )
        for part in np.array_split(order, min(count, MAX_STRIP_BINS))
    )


def columns_of_picture(spec: LayoutSpec) -> tuple[str, ...]:
    """Return the columns that a picture shows: the first two z-order columns."""
    return spec.column_names[:2]


def most_interesting(files: FileTable, rewritten: Bools) -> int:
    """Return the index of the partition with most bytes to rewrite, or with most files if nothing is rewritten."""
    if not len(files):
        return 0
    weights = files.bytes * rewritten if rewritten.any() else np.ones(len(files))
    return int(np.bincount(files.partition, weights=weights).argmax())


def _sizes_after(
    spec: LayoutSpec, files: FileTable, rewritten: Bools, groups: Sequence[Group]
) -> tuple[tuple[str, int], ...]:
    """Return the size histogram after the rewrite. The new files of a group are assumed to have equal sizes."""
    if not groups:
        return ()
    kept, new = files.bytes[~rewritten], np.array([g.target_files for g in groups])
    size = np.array([int(g.files.live_bytes.sum()) for g in groups]) // new
    number = np.concatenate((np.ones_like(kept), new))
    buckets = size_histogram(np.concatenate((kept, size)), spec.layout.target_size, number)
    return tuple((b.label, b.files) for b in buckets)


def _boxes(
    spec: LayoutSpec, files: FileTable, partition: int, rewritten: Bools, groups: Sequence[Group]
) -> tuple[Boxes, Boxes | None]:
    inside = np.flatnonzero(files.partition == partition)
    count = len(inside)
    # The sample is evenly spaced in the order of the file table, so that it has old and new files.
    index = inside[np.linspace(0, count - 1, min(count, MAX_BOXES)).astype(np.int64)] if count else inside
    sample = files.take(index)
    names = columns_of_picture(spec)
    if not count or any(name not in sample.bounds for name in names):
        return Boxes((), count), None
    axes = [_Positions(sample.bounds[name], sample) for name in names]
    kept = np.logical_and.reduce([axis.holds_values for axis in axes])
    before = Boxes(_flat([axis.boxes(kept) for axis in axes]), count)
    replaced = rewritten[index] & kept
    if not groups or not replaced.any():
        return before, None
    targets = int(target_files(files.live_bytes[inside[rewritten[inside]]].sum(), spec.layout.target_size))
    after = _predict(spec.layout, axes, sample, replaced, min(targets, MAX_BOXES))
    rest = kept & ~replaced
    unchanged = int((~rewritten[inside]).sum())
    coarse = targets > MAX_BOXES
    together = [np.concatenate([a, axis.boxes(rest)]) for a, axis in zip(after, axes, strict=True)]
    return before, Boxes(_flat(together), targets + unchanged, coarse)


class _Positions:
    """The intervals of N files on one column. low, high: distances from the smallest bound; 1 is the largest bound."""

    def __init__(self, bounds: ColumnBounds, files: FileTable) -> None:
        ranked = rank_bounds(bounds, files.rows)
        ranks = np.arange(len(ranked.axis), dtype=np.int64)
        distance = ranked.axis.width(np.zeros_like(ranks), ranks) if len(ranks) else np.zeros(1)
        whole = distance[-1]
        self._at: Floats = distance / whole if whole > 0 else np.zeros(len(distance))
        self.holds_values = ~ranked.empty
        last = len(self._at) - 1
        self.low: Floats = np.where(ranked.open_lo, 0.0, self._at[np.clip(ranked.lo, 0, last)])
        self.high: Floats = np.where(ranked.open_hi, self._at[-1], self._at[np.clip(ranked.hi, 0, last)])
        self._below, self._upto = self._shares(files.live_rows.astype(np.float64))

    def _shares(self, rows: Floats) -> tuple[Floats, Floats]:
        """Return the share of the rows below each of R bounds, and up to and including it: float64[R] each."""
        weight = np.where(self.holds_values, np.maximum(rows, 1.0), 0.0)
        if not weight.sum():
            return np.zeros(len(self._at)), np.ones(len(self._at))
        low, high, at = self.low[:, None], self.high[:, None], self._at[None, :]
        span = np.where(high > low, high - low, 1.0)
        with np.errstate(over="ignore"):
            spread = np.clip((at - low) / span, 0.0, 1.0)
        point = (high <= low).astype(np.float64)
        below = (weight[:, None] * np.where(point, at > low, spread)).sum(axis=0) / weight.sum()
        upto = (weight[:, None] * np.where(point, at >= low, spread)).sum(axis=0) / weight.sum()
        return below, upto

    def positions(self, low: Floats, high: Floats) -> Int64:
        """Return the positions of the ends of n intervals, int64[n, 2], from 0 to SCALE."""
        ends = [np.interp(low, self._at, self._below), np.interp(high, self._at, self._upto)]
        return np.rint(np.stack(ends, axis=1) * SCALE).astype(np.int64)

    def boxes(self, which: Bools) -> Int64:
        """Return the positions of the files `which` (bool[N]), int64[n, 2]."""
        return self.positions(self.low[which], self.high[which])


def _predict(
    layout: Layout, axes: Sequence[_Positions], files: FileTable, replaced: Bools, targets: int
) -> list[Int64]:
    """Return the new files, int64[n, 2] for each axis, by the curve on random rows with independent columns."""
    random = np.random.default_rng(0)
    rows = np.maximum(files.live_rows[replaced].astype(np.float64), 1.0)
    file = random.choice(len(rows), size=max(targets * POINTS_PER_FILE, 500), p=rows / rows.sum())
    points = []
    for axis in axes:
        low, high = axis.low[replaced][file], axis.high[replaced][file]
        points.append(np.rint((low + random.random(len(file)) * (high - low)) * _POINTS_PER_AXIS).astype(np.int64))
    names = [c.name for c in layout.columns[: len(axes)]]
    keys = {name: pa.array(p) for name, p in zip(names, points, strict=True)}
    to = build_map(keys, layout, targets).locate(keys)
    order = np.argsort(to)
    first = np.flatnonzero(np.diff(to[order], prepend=-1))
    lows = [np.minimum.reduceat(p[order], first) / _POINTS_PER_AXIS for p in points]
    highs = [np.maximum.reduceat(p[order], first) / _POINTS_PER_AXIS for p in points]
    return [axis.positions(low, high) for axis, low, high in zip(axes, lows, highs, strict=True)]


def _flat(sides: Sequence[Int64]) -> tuple[int, ...]:
    """Return four positions per box (see `Boxes`), given int64[n, 2] for each column."""
    across = sides[0]
    if len(sides) == 1:
        across = across[np.lexsort((across[:, 1], across[:, 0]))]
        edges = np.rint(np.linspace(0, SCALE, len(across) + 1)).astype(np.int64)
        up = np.stack([edges[:-1], edges[1:]], axis=1)
    else:
        up = sides[1]
    return tuple(np.concatenate([across, up], axis=1).reshape(-1).tolist())
