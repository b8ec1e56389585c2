"""Simulate on a sample of the rows what a plan rewrites, and measure the files that are live afterwards: `simulate`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from zlayout.curve.layout import FileMap, build_map, file_limits, simulated_bounds
from zlayout.curve.tree import Ranked, rank
from zlayout.planner.partitions import Bools, Floats, Index
from zlayout.planner.selection import Group
from zlayout.spec.model import Layout
from zlayout.table.key_sample import RowGroupSample, errors_of_shares
from zlayout.table.metrics import floor_of_shares, layout_metrics
from zlayout.table.python_values import python_values
from zlayout.table.state import ColumnBounds, FileTable, PartitionField, counts, joined_bounds, maxima
from zlayout.table.transforms import transformed

# The rewrite of one group: the partition of each sampled row, and the files to write.


@dataclass(frozen=True, slots=True)
class Simulated:
    """F files that a rewrite would write.

    Attributes:
        bounds: The bounds of the files, by name of the column.
        rows: int64[F], the estimated number of rows.
        bytes: int64[F], the estimated size in bytes.
        partition: int64[F], the partition of each file.
    """

    bounds: Mapping[str, ColumnBounds]
    rows: Index
    bytes: Index
    partition: Index


@dataclass(frozen=True, slots=True)
class Column:
    """A column whose bounds are simulated.

    Attributes:
        name: The name of the column.
        bound_length: The length to which writers truncate string bounds; None if they do not.
        bounded: Whether writers store bounds of the column.
    """

    name: str
    bound_length: int | None
    bounded: bool


class Outputs:
    """Assigns sampled rows to the partitions of new files.

    Partitions of the table keep their numbers. New ones are numbered after them, in the order in which they are found.

    Attributes:
        count: The number of partitions of the table and of new ones.
    """

    def __init__(self, files: FileTable, fields: tuple[PartitionField, ...]) -> None:
        """Number the partitions of the table.

        Args:
            files: The files of the table.
            fields: The partitioning of new files.
        """
        self._files, self._fields = files, fields
        self._stays = np.array([p.fields == fields for p in files.partitions], bool)
        filled = [i for i, field in enumerate(fields) if field.transform != "void"]
        own = ((n, p.values) for n, p in enumerate(files.partitions) if p.fields == fields)
        self._numbers = {tuple(values[i] for i in filled): n for n, values in own}
        self.count = max(len(files.partitions), 1)

    def partition_of(self, sample: RowGroupSample, rows: Index) -> Index:
        """Return the partition of each sampled row after the rewrite, int64[n].

        Rows of files that have the partitioning of new files stay in their partition.

        Args:
            sample: The sample.
            rows: int64[n], the indices of the rows in the sample.
        """
        found: Index = self._files.partition[sample.file[rows]].astype(np.int64)
        moves = ~self._stays[found]
        if moves.any():
            found[moves] = self._moved(sample, rows[moves])
        return found

    def _moved(self, sample: RowGroupSample, rows: Index) -> Index:
        """Return the partition of each row, as the transforms of the partition fields determine it."""
        taken = pa.array(rows)
        code = np.zeros(len(rows), np.int64)
        values: list[pa.Array] = []
        for field in self._fields:
            if field.transform == "void":
                continue
            part = transformed(sample.keys[field.source].take(taken), field.transform)
            part = part.combine_chunks() if isinstance(part, pa.ChunkedArray) else part
            encoded = part.dictionary_encode()
            index = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64) + 1
            _, code = np.unique(code * (len(encoded.dictionary) + 1) + index, return_inverse=True)
            values.append(part)
        _, first, inverse = np.unique(code, return_index=True, return_inverse=True)
        keys = list(zip(*[python_values(v.take(pa.array(first))) for v in values], strict=True)) or [()]
        return np.array([self._number(key) for key in keys], np.int64)[inverse]

    def _number(self, key: tuple[object, ...]) -> int:
        number = self._numbers.setdefault(key, self.count)
        self.count = max(self.count, number + 1)
        return number


class Part(NamedTuple):
    """The part of a group that is written to one partition.

    Attributes:
        partition: The partition.
        files: The number of files to write.
        rows: The estimated number of live rows.
        size: The estimated size of these rows in bytes.
        whole: Whether the sample has nearly all rows, so that its minima and maxima are those of the files. If not, the
            intervals are extended, see `simulated_bounds`.
    """

    partition: int
    files: int
    rows: float
    size: float
    whole: bool


def simulate_part(keys: Mapping[str, pa.Array], layout: Layout, columns: Sequence[Column], part: Part) -> Simulated:
    """Simulate the files of one group in one partition.

    Args:
        keys: The values of the sampled rows, by column. All rows of the group are equally likely to be sampled.
        layout: The declared layout.
        columns: The columns whose bounds are simulated: the z-order columns in the order of the layout, then others.
        part: The partition, and what is written to it.
    """
    by = {name: keys[name] for name in layout.weights}
    built = build_map(by, layout, part.files)
    count = len(next(iter(keys.values())))
    # Where the rewrite distributes rows with equal keys by a hash, the index of the row is used here.
    place = built.locate(by, np.arange(count, dtype=np.int64))
    number = np.bincount(place, minlength=built.files)
    ranked = [rank(keys[column.name]) for column in columns]
    limits = None if part.whole else _limits(built, ranked, len(by))
    inside = np.maximum(np.rint(number / count * part.rows), 1).astype(np.int64)
    bounds = {}
    for at, column in enumerate(columns):
        length = column.bound_length
        found = simulated_bounds(ranked[at], place, built.files, 0, length, None if limits is None else limits[at])
        nulls = np.rint(found.null_count / np.maximum(number, 1) * inside).astype(np.int64)
        bounds[column.name] = _stored(found, nulls, bounded=column.bounded)
    filled = np.flatnonzero(number > 0)
    keep = pa.array(filled)
    return Simulated(
        {name: b.gathered(lambda v: v.take(keep), lambda v: v[filled]) for name, b in bounds.items()},
        inside[filled],
        np.rint(number / count * part.size).astype(np.int64)[filled],
        np.full(len(filled), part.partition, np.int64),
    )


def _limits(built: FileMap, ranked: list[Ranked], cut: int) -> Index:
    """Return the limits of the files, as `file_limits` does. The kd tree has only the first `cut` of the columns."""
    inner = file_limits(built, ranked[:cut])
    others = np.array([len(r.distinct) - 1 for r in ranked[cut:]], np.int64)
    outer = np.zeros((len(others), *inner.shape[1:]), np.int64)
    outer[:, 1] = others[:, None]
    return np.concatenate([inner, outer])


def _stored(found: ColumnBounds, nulls: Index, *, bounded: bool) -> ColumnBounds:
    """Return the bounds with the null counts `nulls`. Both are missing if writers store none (`bounded`)."""
    if bounded:
        return ColumnBounds(found.lower, found.upper, nulls, found.truncated)
    none = pa.nulls(len(nulls), found.lower.type)
    return ColumnBounds(none, none, np.full(len(nulls), -1, np.int64), np.zeros(len(nulls), bool))


def together(kept: FileTable, new: Sequence[Simulated], names: Sequence[str], partitions: int) -> FileTable:
    """Return the kept files and the simulated ones as one file table, with only what metrics need.

    Args:
        kept: The files that stay.
        new: The simulated files.
        names: The columns whose bounds the table has.
        partitions: The number of partitions. Partition values in the result are not meaningful.
    """
    rows = np.concatenate([kept.live_rows, *(s.rows for s in new)]).astype(np.int64)
    count = len(rows)
    nothing = pa.nulls(count, pa.string())
    named = kept.partitions[0] if kept.partitions else None
    return FileTable(
        path=nothing,
        version_key=nothing,
        rows=rows,
        deleted=np.zeros(count, np.int64),
        shared_deletes=np.zeros(count, bool),
        bytes=np.concatenate([kept.bytes, *(s.bytes for s in new)]).astype(np.int64),
        partition=np.concatenate([kept.partition, *(s.partition for s in new)]).astype(np.int32),
        partitions=(named,) * partitions if named is not None else (),
        layout=np.full(count, -1, np.int32),
        layouts=(),
        group=np.full(count, -1, np.int32),
        bounds={name: joined_bounds([kept.bounds[name], *(s.bounds[name] for s in new)]) for name in names},
    )


def resample(weights: Floats, limit: int, offset: float) -> Index:
    """Draw rows in proportion to their weights, by systematic sampling.

    Only rows with the highest weights, about a tenth of all rows, may be drawn more than once.

    Args:
        weights: float64[n], the number of rows of the table that each sampled row represents.
        limit: The largest number of rows to draw.
        offset: A random number from 0 to 1.

    Returns:
        int64, the indices of the drawn rows, ascending.
    """
    if not len(weights) or weights.sum() <= 0:
        return np.zeros(0, np.int64)
    total = float(weights.sum())
    number = int(np.clip(total / max(float(np.quantile(weights, 0.9)), 1e-9), 1, min(limit, len(weights))))
    at = (np.arange(number) + offset) * total / number
    return np.minimum(np.searchsorted(np.cumsum(weights), at, side="right"), len(weights) - 1).astype(np.int64)


# The rewrite of all groups, and the metrics of the table after it.

# The rewrite itself samples MAX_ROWS_PER_FILE rows for each new file. MAX_ROWS rows are simulated in a few seconds.
MAX_ROWS_PER_FILE = 2000
MAX_ROWS = 400_000
# After this number of simulated partitions of groups, touched of the remaining groups is extrapolated.
MAX_GROUPS = 1000
# To estimate the error of the forecast, it is repeated without each of FOLDS parts of the row groups.
FOLDS = 4


@dataclass(frozen=True, slots=True)
class Rewrite:
    """The input of a simulation: what a plan rewrites, and a sample of the rows.

    Attributes:
        layout: The declared layout.
        files: The N files of the table.
        groups: The G groups.
        group: int64[N], the group of each file; -1 for files that stay.
        columns: The columns whose bounds are simulated: the z-order columns, then others.
        fields: The partitioning of new files.
        sample: n sampled rows.
    """

    layout: Layout
    files: FileTable
    groups: tuple[Group, ...]
    group: Index
    columns: tuple[Column, ...]
    fields: tuple[PartitionField, ...]
    sample: RowGroupSample

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def moves(self) -> bool:
        """Whether rows change their partition."""
        old = np.unique(self.files.partition[self.group >= 0])
        return any(self.files.partitions[n].fields != self.fields for n in old.tolist())

    @property
    def weights(self) -> Floats:
        """The number of live rows that each sampled row represents, float64[n]; see `weights_of`."""
        return weights_of(self.files, self.group, self.sample)


class NewFiles(NamedTuple):
    """The simulated files of a rewrite.

    Attributes:
        new: The new files.
        unknown: The numbers of the groups that were not simulated: those without sampled rows, and those after
            MAX_GROUPS.
        partition: int64[n], the partition of each sampled row after the rewrite; -1 for rows that are not rewritten.
        partitions: The number of partitions afterwards.
    """

    new: list[Simulated]
    unknown: list[int]
    partition: Index
    partitions: int


@dataclass(frozen=True, slots=True)
class Simulation:
    """The result of one simulation.

    Attributes:
        touched: float64[d], touched of each column after the rewrite; NaN if unknown.
        bytes_read: float64[d], the bytes read of each column; NaN if unknown.
        floor: float64[d], the floor of each column; NaN if unknown or not computed.
        files: The number of files of the table after the rewrite.
        new: The simulated files.
        partitions: The number of partitions with simulated files.
    """

    touched: Floats
    bytes_read: Floats
    floor: Floats
    files: int
    new: tuple[Simulated, ...]
    partitions: int


def weights_of(files: FileTable, group: Index, sample: RowGroupSample) -> Floats:
    """Return how many live rows each sampled row represents, float64[n]; 0 for rows of files that are not rewritten.

    A file without sampled rows is represented by the nearest one of its group with sampled rows, in the order of the
    file table. The arguments are those of `Rewrite`.
    """
    sampled = np.unique(sample.file)
    rows = counts(sample.file, len(files)).astype(np.float64)
    represented = np.zeros(len(files))
    live = files.live_rows.astype(np.float64)
    for number in np.unique(group[sampled[group[sampled] >= 0]]).tolist():
        members = np.flatnonzero(group == number)
        known = members[rows[members] > 0]
        nearest = np.clip(np.searchsorted(known, members), 0, len(known) - 1)
        before = np.maximum(nearest - 1, 0)
        nearest = np.where(members - known[before] < known[nearest] - members, before, nearest)
        represented[known] = np.bincount(nearest, live[members], len(known))
    weight: Floats = np.divide(represented, rows, out=np.zeros(len(files)), where=rows > 0)[sample.file]
    return weight


def simulate(rewrite: Rewrite, weights: Floats, draw: int = 0, *, with_floor: bool = False) -> Simulation:
    """Simulate the rewrite, and measure the table after it.

    Args:
        rewrite: The input.
        weights: float64[n], the number of live rows that each sampled row represents.
        draw: The number of the random choice of rows. Different choices have different results, because a few rows may
            decide which column is cut first. This is so in the rewrite too.
        with_floor: Whether to compute the floor, which takes about as long as the rest.
    """
    found = simulate_files(rewrite, weights, draw)
    touched, read, floor = _measured(rewrite, weights, found, with_floor)
    written = sum(len(s.rows) for s in found.new) + sum(rewrite.groups[n].target_files for n in found.unknown)
    partitions = len({int(p) for s in found.new for p in s.partition[:1]})
    return Simulation(touched, read, floor, int((rewrite.group < 0).sum()) + written, tuple(found.new), partitions)


def simulate_files(rewrite: Rewrite, weights: Floats, draw: int = 0) -> NewFiles:
    """Simulate the files that a rewrite would write. The arguments are those of `simulate`."""
    sample, of_row = rewrite.sample, rewrite.group[rewrite.sample.file]
    budget = min(1.0, MAX_ROWS / max(MAX_ROWS_PER_FILE * sum(g.target_files for g in rewrite.groups), 1))
    by_group = np.argsort(of_row, kind="stable")
    starts = np.searchsorted(of_row[by_group], np.arange(len(rewrite.groups) + 1))
    random = np.random.default_rng((sample.seed, draw))
    outputs = Outputs(rewrite.files, rewrite.fields)
    new: list[Simulated] = []
    unknown = []
    partition = np.full(len(sample), -1, np.int64)
    for number, group in enumerate(rewrite.groups):
        rows = by_group[starts[number] : starts[number + 1]]
        partition[rows] = outputs.partition_of(sample, rows)
        limit = max(int(budget * MAX_ROWS_PER_FILE * group.target_files), 1)
        drawn = rows[resample(weights[rows], limit, float(random.random()))]
        if not len(drawn) or len(new) >= MAX_GROUPS:
            unknown.append(number)
            continue
        new += _simulated(rewrite, group, drawn, partition[drawn])
    return NewFiles(new, unknown, partition, outputs.count)


def _simulated(rewrite: Rewrite, group: Group, drawn: Index, partition: Index) -> list[Simulated]:
    """drawn: the indices of the group's rows in the sample. partition: that of each of these rows after the rewrite."""
    files, sample = group.files, rewrite.sample
    live = float(files.live_rows.sum())
    size = float(files.live_bytes.sum())
    found = []
    for at in np.unique(partition).tolist():
        inside = drawn[partition == at]
        share = len(inside) / len(drawn)
        keys = {name: sample.keys[name].take(pa.array(inside)) for name in rewrite.names}
        wanted = max(1, round(group.target_files * share))
        whole = sample.complete and len(inside) >= 0.5 * live * share
        part = Part(int(at), wanted, live * share, size * share, whole)
        found.append(simulate_part(keys, rewrite.layout, rewrite.columns, part))
    return found


def _measured(rewrite: Rewrite, weights: Floats, found: NewFiles, with_floor: bool) -> tuple[Floats, Floats, Floats]:
    files, group, names = rewrite.files, rewrite.group, rewrite.names
    changed = np.zeros(found.partitions, bool)
    changed[files.partition[group >= 0]] = True
    for s in found.new:
        changed[s.partition] = True
    stays = changed[files.partition] & (group < 0)
    after = together(files.take(np.flatnonzero(stays)), found.new, names, found.partitions)
    metrics = layout_metrics(after, names)
    missing = np.zeros(found.partitions, bool)
    for number in found.unknown:
        missing[rewrite.groups[number].files.partition] = True
    rest = layout_metrics(files.take(np.flatnonzero(~changed[files.partition])), names)
    touched, read, floor = (np.empty(len(names)) for _ in range(3))
    for at, (name, m) in enumerate(zip(names, metrics, strict=True)):
        inside = m.by_partition.touched
        if missing.any():
            inside = _extrapolated(inside, counts(after.partition, found.partitions), missing, rewrite, found.unknown)
        lowest = rest[at].floor
        touched[at] = rest[at].touched + inside[changed].sum()
        read[at] = np.nan if missing.any() else rest[at].bytes_read + m.bytes_read
        floor[at] = np.nan
        if with_floor and lowest is not None and not missing.any():
            floor[at] = lowest + _floor(rewrite, weights, found, name, after, changed)
    return touched, read, floor


def _floor(rewrite: Rewrite, weights: Floats, found: NewFiles, column: str, after: FileTable, changed: Bools) -> float:
    """Return the floor, summed over the partitions that change. after: the files of these after the rewrite."""
    sample, values, moves = rewrite.sample, rewrite.sample.keys[column], rewrite.moves
    filled = values.is_valid().to_numpy(zero_copy_only=False)
    weights = np.where(filled, weights, 0.0)
    certain = filled & ((rewrite.files.deleted == 0) & ~rewrite.files.shared_deletes)[sample.file]
    rows = np.bincount(after.partition, after.rows_with_value(column), len(after.partitions) or 1)
    codes = values.dictionary_encode().indices.fill_null(0).to_numpy(zero_copy_only=False)
    largest = maxima(after.partition, found.partitions, after.rows)
    written = counts(after.partition, found.partitions)
    total = 0.0
    for p in np.flatnonzero(changed).tolist():
        here = found.partition == p
        inside = here & (weights > 0)
        number = int(inside.sum())
        if moves and not certain[here].any():
            continue  # all sampled rows of a new partition may be deleted
        if rows[p] <= 0 or not number:
            total += float(rows[p] > 0)
            continue
        sampled = np.bincount(codes[inside], weights[inside])
        # Rows of files that stay count as rare values.
        share = np.minimum(sampled / max(rows[p], sampled.sum()), 1.0)
        if not sample.complete:
            # Lowered shares make the floor hold for the table and not only for the sample.
            error = np.sqrt(share * (1 - share) / number)
            spread = errors_of_shares(codes[inside], weights[inside], sample.row_group[inside])
            share = np.maximum(share - 2 * np.maximum(error, spread), 0.0)
        # The sizes of new files vary by about 2 % around those that were simulated.
        size = 1.02 * max(largest[p], 1.0) / rows[p]
        if moves:  # with its own sample, the rewrite may write one file less in the partition
            size *= written[p] / max(written[p] - 1, 1)
        total += floor_of_shares(share, size)
    return total


def _extrapolated(touched: Floats, files: Index, missing: Bools, rewrite: Rewrite, unknown: Sequence[int]) -> Floats:
    """Return touched, extrapolated where `missing`. files: int64[P], without the new files of the groups `unknown`."""
    number = files.astype(np.float64)
    for n in unknown:
        number[rewrite.groups[n].files.partition[0]] += rewrite.groups[n].target_files
    # It is assumed that (touched - 1) / (files - 1) is the same in all partitions.
    known = ~missing & (number > 1)
    excess = (touched[known] - 1).sum() / (number[known] - 1).sum() if known.any() else np.nan
    return np.where(missing, np.where(number > 1, 1 + excess * (number - 1), 1.0), touched)


def errors_of(rewrite: Rewrite, weights: Floats) -> tuple[Floats, Floats]:
    """Return the standard errors of touched and bytes read, float64[d] each, by the jackknife over parts of row groups.

    They are infinity if the sample has only one row group.
    """
    sample = rewrite.sample
    fold = np.random.default_rng(sample.seed).permutation(sample.row_groups)[sample.row_group] % FOLDS
    parts = range(min(FOLDS, sample.row_groups))
    found = [simulate(rewrite, np.where(fold == part, 0.0, weights)) for part in parts]
    if len(found) < 2:
        unknown = np.full(len(rewrite.columns), np.inf)
        return unknown, unknown
    touched, read = np.sqrt((len(found) - 1) * np.array([(f.touched, f.bytes_read) for f in found]).var(axis=0))
    return touched, read
