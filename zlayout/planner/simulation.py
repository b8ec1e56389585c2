"""Simulate a rewrite on a sample of the rows. Forecasts of plans and advice are made by the same code.

`draw` chooses rows of the sample that stand for equally many rows of the table. `new_files` lays them out, and
returns the files that a writer would store; for one draw, it can do so in many layouts. `simulate` measures the table
after the rewrite of a plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from zlayout.curve.layout import FileMap, Unseen, build_map, file_limits, reach, simulated_bounds
from zlayout.curve.tree import NULL, Ranked, rank
from zlayout.planner.partitions import Bools, Floats, Index
from zlayout.spec.model import Layout
from zlayout.table.metrics import floor_of_shares, layout_metrics
from zlayout.table.partition import source_columns
from zlayout.table.partition_values import python_values, transformed
from zlayout.table.samples import KeySample, StoredRows, errors_of_shares
from zlayout.table.state import (
    Column,
    ColumnBounds,
    FileTable,
    Partition,
    PartitionField,
    TableState,
    counts,
    joined,
    maxima,
    sums,
    target_files,
)

# The rewrite itself samples MAX_ROWS_PER_FILE rows for each new file. MAX_ROWS rows are simulated in a few seconds.
MAX_ROWS_PER_FILE = 2000
MAX_ROWS = 400_000
# After this number of simulated partitions of groups, touched of the remaining groups is extrapolated.
MAX_PARTS = 1000
# The number of simulations with different rows of the sample. Their mean is the prediction.
DRAWS = 3
# The id of the partition spec of partitions that the table does not have yet.
NEW_SPEC_ID = -1
# The values of files that stay are unknown. If they have a larger share of the rows, the floor would be far too low.
MAX_KEPT_SHARE = 0.1
# To estimate the error of the forecast, it is repeated without each of FOLDS parts of the row groups.
FOLDS = 4


@dataclass(frozen=True, slots=True)
class Rewrite:
    """What is rewritten of a table, and a sample of its rows.

    Attributes:
        layout: The layout in which the rows are written.
        files: The N files of the table.
        group: int64[N], the group of each file; -1 for files that stay.
        targets: int64[G], the number of files that each group becomes.
        columns: The columns whose bounds are simulated, as writers will store them: the z-order columns, then others.
        fields: The partitioning of new files.
        sample: n sampled rows.
        stored: Rows of the files, by which the size of new files is estimated; None if there are none.
    """

    layout: Layout
    files: FileTable
    group: Index
    targets: Index
    columns: tuple[Column, ...]
    fields: tuple[PartitionField, ...]
    sample: KeySample
    stored: StoredRows | None = None

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
        """The number of live rows that each sampled row represents, float64[n]; 0 for rows that are not rewritten.

        A file without sampled rows is represented by the nearest one of its group with sampled rows, in the order of
        the file table. If every row was drawn on its own, all rows of a group represent equally many.
        """
        files, group, sample = self.files, self.group, self.sample
        rows = counts(sample.file, len(files)).astype(np.float64)
        live = files.live_rows.astype(np.float64)
        sampled = np.flatnonzero(rows)
        represented = np.zeros(len(files))
        for number in np.unique(group[sampled[group[sampled] >= 0]]).tolist():
            members = np.flatnonzero(group == number)
            known = members[rows[members] > 0]
            if sample.by_row:
                represented[known] = rows[known] / rows[known].sum() * live[members].sum()
                continue
            nearest = np.clip(np.searchsorted(known, members), 0, len(known) - 1)
            before = np.maximum(nearest - 1, 0)
            nearest = np.where(members - known[before] < known[nearest] - members, before, nearest)
            represented[known] = np.bincount(nearest, live[members], len(known))
        weight: Floats = np.divide(represented, rows, out=np.zeros(len(files)), where=rows > 0)[sample.file]
        return weight

    def of_groups(self, values: Floats | Index) -> Floats:
        """Return the sum over the files of each group, float64[G]. values: [N]."""
        inside = self.group >= 0
        return sums(self.group[inside], len(self.targets), values[inside])


def whole_rewrite(
    layout: Layout,
    state: TableState,
    columns: tuple[Column, ...],
    sample: KeySample,
    number: int | None = None,
    fields: tuple[PartitionField, ...] | None = None,
) -> Rewrite:
    """Return the rewrite of the whole table, of each partition as a group, or of one group to other partitions.

    Args:
        layout: The layout.
        state: The observed table.
        columns: See `Rewrite`.
        sample: Rows of the whole table.
        number: The number of files, which is divided among the partitions in proportion to their bytes; None for the
            number that follows from the target size.
        fields: The partitioning of new files; None for that of the table.
    """
    files, fields = state.files, state.partition_fields if fields is None else fields
    group = files.partition.astype(np.int64)
    if fields != state.partition_fields:
        files = replace(files, partition=np.zeros_like(files.partition), partitions=files.partitions[:1])
        group = np.zeros_like(group)
    targets = targets_of(files, layout.target_size, number)
    return Rewrite(layout, state.files, group, targets, columns, fields, sample)


def targets_of(files: FileTable, target_size: int, number: int | None = None) -> Index:
    """Return the number of files that each partition becomes, int64[P]. The arguments are those of `whole_rewrite`."""
    partitions = max(len(files.partitions), 1)
    live, size = (sums(files.partition, partitions, values) for values in (files.live_rows, files.live_bytes))
    wanted, per_file = (size, target_size) if number is None else (size / max(size.sum(), 1.0) * number, 1)
    return np.where(live > 0, target_files(wanted, per_file), 0)


# The rows of a sample that are laid out.


class Outputs:
    """Assigns sampled rows to the partitions of new files.

    Partitions of the table keep their numbers. New ones are numbered after them, in the order in which they are found.
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
        self._others = max(len(files.partitions), 1) - len(self._numbers)
        self._filled = filled

    @property
    def count(self) -> int:
        """The number of partitions of the table and of new ones."""
        return self._others + len(self._numbers)

    @property
    def new(self) -> tuple[Partition, ...]:
        """The new partitions, in the order of their numbers."""

        def whole(key: tuple[Any, ...]) -> tuple[Any, ...]:
            known = dict(zip(self._filled, key, strict=True))
            return tuple(known.get(at) for at in range(len(self._fields)))

        first = max(len(self._files.partitions), 1)
        keys = (key for key, number in self._numbers.items() if number >= first)  # in the order of insertion
        return tuple(Partition(NEW_SPEC_ID, self._fields, whole(key)) for key in keys)

    def partition_of(self, keys: Mapping[str, pa.Array], file: Index, rows: Index) -> Index:
        """Return the partition of some rows after the rewrite, int64[n].

        Rows of files that have the partitioning of new files stay in their partition.

        Args:
            keys: The values of the source columns, of the rows of a sample.
            file: int64, the index of the file of each of them.
            rows: int64[n], the indices of the n rows among them.
        """
        found: Index = self._files.partition[file[rows]].astype(np.int64)
        moves = ~self._stays[found]
        if moves.any():
            found[moves] = self._moved(keys, rows[moves])
        return found

    def _moved(self, keys: Mapping[str, pa.Array], rows: Index) -> Index:
        """Return the partition of each row, as the transforms of the partition fields determine it."""
        taken = pa.array(rows)
        code = np.zeros(len(rows), np.int64)
        values: list[pa.Array] = []
        for field in self._fields:
            if field.transform == "void":
                continue
            part = transformed(keys[field.source].take(taken), field.transform)
            part = part.combine_chunks() if isinstance(part, pa.ChunkedArray) else part
            encoded = part.dictionary_encode()
            index = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64) + 1
            _, code = np.unique(code * (len(encoded.dictionary) + 1) + index, return_inverse=True)
            values.append(part)
        _, first, inverse = np.unique(code, return_index=True, return_inverse=True)
        found = list(zip(*[python_values(v.take(pa.array(first))) for v in values], strict=True)) or [()]
        return np.array([self._numbers.setdefault(key, self.count) for key in found], np.int64)[inverse]


@dataclass(frozen=True, slots=True)
class Drawn:
    """n rows of a sample, each of which stands for about equally many rows of its group, in K parts.

    A part is what a group writes to one partition. The rows are sorted by part. Groups without drawn rows are the last
    parts.

    Attributes:
        rewrite: What is rewritten.
        rows: int64[n], the indices of the rows in the sample.
        starts: int64[K + 1], the first row of each part, and n.
        partition: int64[K], the partition of each part.
        targets: int64[K], the number of files to write.
        live: float64[K], the estimated number of live rows.
        size: float64[K], the estimated size of these rows in bytes.
        whole: bool[K], whether the drawn rows are nearly all rows, so that their minima and maxima are those of the
            files. If not, rows that are not drawn extend the bounds, see `Unseen`.
        unknown: int64, the groups without drawn rows, also those after the limit on parts.
        has_every_row: Whether the drawn rows are all rows of the sample with a weight.
        of_sample: int64, the partition of each row of the sample after the rewrite; -1 for rows that stay.
        reached: int64, the partitions to which rows of other partitions move.
        new_partitions: The partitions that the table does not have now, in the order of their numbers, which follow
            those of its partitions. The values of buckets are not Iceberg's.
        keys: The values of the drawn rows, by column.
        ranked: Each column as ordinals.
        in_parts: By column, the ordinals of the distinct values of each part, ascending in each part, and int64[K + 1],
            the first one of each part.
        reach: By column, int64[2, K], the lowest and the highest ordinal that a row of each part can have.
        ends: By column, the lowest and the highest value of each part by the bounds of its present files, K each; null
            where these do not show it.
    """

    rewrite: Rewrite
    rows: Index
    starts: Index
    partition: Index
    targets: Index
    live: Floats
    size: Floats
    whole: Bools
    unknown: Index
    has_every_row: bool
    of_sample: Index
    reached: Index
    new_partitions: tuple[Partition, ...]
    keys: Mapping[str, pa.Array]
    ranked: Mapping[str, Ranked]
    in_parts: Mapping[str, tuple[Index, Index]]
    reach: Mapping[str, Index]
    ends: Mapping[str, tuple[pa.Array, pa.Array]]

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def is_complete(self) -> bool:
        """Whether all rows that are rewritten are drawn."""
        return self.has_every_row and self.rewrite.sample.complete

    @property
    def partitions(self) -> int:
        """The number of partitions after the rewrite. Those of the table keep their numbers."""
        return max(len(self.rewrite.files.partitions), 1) + len(self.new_partitions)

    @property
    def group(self) -> Index:
        """The group of each row, int64[n]."""
        found: Index = self.rewrite.group[self.rewrite.sample.file[self.rows]]
        return found

    @property
    def part(self) -> Index:
        """The part of each row, int64[n]."""
        return np.repeat(np.arange(len(self.targets)), np.diff(self.starts))


def draw(
    rewrite: Rewrite,
    weights: Floats,
    number: int = 0,
    rows_per_file: float = MAX_ROWS_PER_FILE,
    max_parts: int | None = None,
) -> Drawn:
    """Draw rows of a sample in proportion to their weights.

    Args:
        rewrite: What is rewritten.
        weights: float64, the number of live rows that each row of the sample represents.
        number: The number of the random choice of rows. Different choices have different results, because a few rows
            may decide which column is cut first. This is so in the rewrite too.
        rows_per_file: The number of rows for each new file. At most MAX_ROWS are drawn in total.
        max_parts: The limit on the number of parts; None for no limit.

    Raises:
        TableError: ZL109 for a column type without an order.
    """
    sample, targets = rewrite.sample, rewrite.targets
    of_row = rewrite.group[sample.file]
    budget = min(1.0, MAX_ROWS / max(rows_per_file * int(targets.sum()), 1))
    by_group = np.argsort(of_row, kind="stable")
    starts = np.searchsorted(of_row[by_group], np.arange(len(targets) + 1))
    random = np.random.default_rng((sample.seed, number))
    outputs = Outputs(rewrite.files, rewrite.fields)
    of_sample = np.full(len(sample), -1, np.int64)
    live, size = rewrite.of_groups(rewrite.files.live_rows), rewrite.of_groups(rewrite.files.live_bytes)
    parts: list[Index] = []
    groups: list[int] = []
    facts: list[tuple[float, ...]] = []
    unknown: dict[int, tuple[float, ...]] = {}
    for group, target in enumerate(targets.tolist()):
        rows = by_group[starts[group] : starts[group + 1]]
        of_sample[rows] = outputs.partition_of(sample.keys, sample.file, rows)
        limit = max(int(budget * rows_per_file * target), 1)
        found = rows[resample(weights[rows], limit, float(random.random()))]
        if not len(found) or (max_parts is not None and len(parts) >= max_parts):
            members = np.flatnonzero(rewrite.group == group)[:1]
            at = int(rewrite.files.partition[members[0]]) if len(members) else 0
            unknown[group] = (at, target, live[group], size[group], False)
            continue
        to = of_sample[found]
        for at in np.unique(to).tolist():
            inside = found[to == at]
            share = len(inside) / len(found)
            whole = sample.complete and len(inside) >= 0.5 * live[group] * share
            facts.append((at, max(1, round(target * share)), live[group] * share, size[group] * share, whole))
            parts.append(inside)
            groups.append(group)
    facts += unknown.values()
    partition, written, rows_of, size_of, whole_of = np.array(facts, np.float64).reshape(-1, 5).T
    lengths = np.array([*map(len, parts), *[0] * len(unknown)], np.int64)
    chosen = np.concatenate([np.zeros(0, np.int64), *parts])
    part = np.repeat(np.arange(len(lengths)), lengths)
    keys = {name: sample.keys[name].take(pa.array(chosen)) for name in rewrite.names}
    ranked = {name: rank(values) for name, values in keys.items()}
    in_parts = {name: _in_parts(found, part, len(lengths)) for name, found in ranked.items()}
    ends = _present_ends(rewrite, np.array([*groups, *unknown], np.int64), ranked)
    sources = source_columns(rewrite.fields)
    moved = (of_sample >= 0) & (of_sample != rewrite.files.partition[sample.file])
    return Drawn(
        rewrite=rewrite,
        rows=chosen,
        starts=np.concatenate(([0], np.cumsum(lengths))),
        partition=partition.astype(np.int64),
        targets=written.astype(np.int64),
        live=rows_of,
        size=size_of,
        whole=whole_of.astype(bool),
        unknown=np.array([*unknown], np.int64),
        has_every_row=len(np.unique(chosen)) == np.count_nonzero(weights),
        of_sample=of_sample,
        reached=np.unique(of_sample[moved]),
        new_partitions=outputs.new,
        keys=keys,
        ranked=ranked,
        in_parts=in_parts,
        reach={
            name: _reach(found, part, in_parts[name], ends[name], name in sources) for name, found in ranked.items()
        },
        ends=ends,
    )


def draws_of(rewrite: Rewrite, max_parts: int | None = None) -> tuple[Drawn, ...]:
    """Return DRAWS draws, or a single one if every draw has all rows of the sample. max_parts: see `draw`."""
    weights = rewrite.weights
    first = draw(rewrite, weights, max_parts=max_parts)
    count = 1 if first.has_every_row else DRAWS
    return (first, *(draw(rewrite, weights, number, max_parts=max_parts) for number in range(1, count)))


def _in_parts(ranked: Ranked, part: Index, parts: int) -> tuple[Index, Index]:
    """Return `Drawn.in_parts` of one column. part: int64[n], the part of each row."""
    count, valid = max(len(ranked.distinct), 1), ranked.ordinals >= 0
    found = np.sort(part[valid] * count + ranked.ordinals[valid])
    found = found[np.diff(found, prepend=-1) > 0]
    return found % count, np.searchsorted(found, np.arange(parts + 1) * count)


def _reach(
    ranked: Ranked, part: Index, own: tuple[Index, Index], ends: tuple[pa.Array, pa.Array], is_source: bool
) -> Index:
    """Return `Drawn.reach` of one column.

    Args:
        ranked: The column of the n drawn rows.
        part: int64[n], the part of each row.
        own: `Drawn.in_parts` of the column.
        ends: `Drawn.ends` of the column.
        is_source: Whether the table is partitioned by the column. Rows of a part are then not beyond the sampled ones,
            where the values of other partitions are.
    """
    ordinals, starts = own
    valid, filled = ranked.ordinals >= 0, np.diff(starts) > 0
    found = np.repeat([[0], [len(ranked.distinct) - 1]], len(filled), axis=1)
    if not filled.any():
        return found
    low, high = ordinals[starts[:-1][filled]], ordinals[starts[1:][filled] - 1]
    if is_source:
        found[:, filled] = low, high
        return found
    rows = np.bincount(part[valid], minlength=len(filled))[filled]
    lower, upper = reach(np.bincount(ranked.ordinals[valid]), low, high, rows)
    least, most = (end.filter(pa.array(filled)) for end in ends)
    found[0, filled] = np.maximum(lower, np.minimum(_places(ranked.distinct, least, lower, low, "left"), low))
    found[1, filled] = np.minimum(upper, np.maximum(_places(ranked.distinct, most, high, upper, "right") - 1, high))
    return found


def _places(distinct: pa.Array, values: pa.Array, low: Index, high: Index, side: Literal["left", "right"]) -> Index:
    """Return the place of each value among the ordinals from low to high, as `np.searchsorted` does."""
    # Without a value, the place is the end of the range. The ranges overlap and have few ordinals, so that ranking them
    # takes much less time than ranking all.
    starts = np.bincount(low, minlength=len(distinct)) - np.bincount(high + 1, minlength=len(distinct) + 1)[:-1]
    ordinals = np.flatnonzero(np.cumsum(starts) > 0)
    ranks = rank(pa.concat_arrays([distinct.take(pa.array(ordinals)), values])).ordinals
    known, own = ranks[: len(ordinals)], ranks[len(ordinals) :]
    place = np.append(ordinals, len(distinct))[np.searchsorted(known, own, side=side)]
    return np.where(own == NULL, low if side == "left" else high + 1, place)


def _present_ends(
    rewrite: Rewrite, groups: Index, ranked: Mapping[str, Ranked]
) -> Mapping[str, tuple[pa.Array, pa.Array]]:
    """Return `Drawn.ends`. groups: int64[K], the group of each part."""
    inside = np.flatnonzero(rewrite.group >= 0)
    files, group = rewrite.files.take(inside), rewrite.group[inside]
    # Rows that move are elsewhere in new files, and those of several partitions in several parts.
    leaves = np.array([p.fields != rewrite.fields for p in files.partitions], bool)[files.partition]
    first = np.zeros(len(rewrite.targets), np.int64)
    first[group] = files.partition
    leaves |= files.partition != first[group]

    def ends(name: str) -> tuple[pa.Array, pa.Array]:
        type_ = ranked[name].distinct.type
        if name not in files.bounds:
            nothing = pa.nulls(len(groups), type_)
            return nothing, nothing
        bounds = files.bounds[name]
        unbounded = bounds.lower.is_null().to_numpy(zero_copy_only=False) & (bounds.null_count != files.rows)
        table = pa.table({"group": group, "lower": bounds.lower, "upper": bounds.upper})
        found = table.group_by("group").aggregate([("lower", "min"), ("upper", "max")]).combine_chunks()
        at = np.full(len(rewrite.targets), -1, np.int64)
        at[found["group"].to_numpy()] = np.arange(len(found))
        at[group[leaves | unbounded]] = -1
        index = pa.array(at[groups], mask=at[groups] < 0)
        lower, upper = (found[end].combine_chunks().take(index).cast(type_) for end in ("lower_min", "upper_max"))
        return lower, upper

    return {name: ends(name) for name in rewrite.names}


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
    # Rounded, because the weights of equally many rows differ by rounding errors.
    wanted = np.floor(total / max(float(np.quantile(weights, 0.9)), 1e-9) + 1e-6)
    number = int(np.clip(wanted, 1, min(limit, len(weights))))
    at = (np.arange(number) + offset) * total / number
    return np.minimum(np.searchsorted(np.cumsum(weights), at, side="right"), len(weights) - 1).astype(np.int64)


# The files that a rewrite writes.


def new_files(drawn: Drawn, layout: Layout) -> FileTable:
    """Return the files that a rewrite writes of the drawn rows in a layout, with only what metrics need.

    Files of parts without rows have no bounds.
    """
    place, count = np.zeros(len(drawn), np.int64), 0
    files: list[int] = []
    limits: dict[str, list[Index]] = {name: [np.zeros((2, 0), np.int64)] for name in drawn.keys}
    for part, (start, stop) in enumerate(pairwise(drawn.starts.tolist())):
        built, wanted = None, int(drawn.targets[part])
        if stop > start:
            by = {name: drawn.keys[name].slice(start, stop - start) for name in layout.weights}
            built = build_map(by, layout, wanted)
            # Where the rewrite distributes rows with equal keys by a hash, the index of the row is used here.
            place[start:stop] = built.locate(by, np.arange(stop - start, dtype=np.int64)) + count
            wanted = built.files
        for name, limit in _limits(drawn, built, part, wanted).items():
            limits[name].append(limit)
        files.append(wanted)
        count += wanted
    part_of = np.repeat(np.arange(len(files)), files)
    number, drawn_rows = np.bincount(place, minlength=count), np.diff(drawn.starts)[part_of]
    known = drawn_rows > 0
    share = np.where(known, number / np.maximum(drawn_rows, 1), 1 / np.maximum(drawn.targets[part_of], 1))
    rows = np.maximum(np.rint(share * drawn.live[part_of]), 1).astype(np.int64)
    bounds = {}
    unseen = np.where(drawn.whole[part_of], 0.0, np.maximum(rows / np.maximum(number, 1) - 1, 0))
    for at, column in enumerate(drawn.rewrite.columns):
        # Equidistant numbers, so that as many files as expected have a rare value.
        random = (np.random.default_rng((count, at)).permuted(np.tile(np.arange(count), (2, 1)), axis=1) + 0.5) / count
        limit, ends = np.concatenate(limits[column.name], axis=1), drawn.ends[column.name]
        others = Unseen(unseen, limit, random, part_of, ends)
        found = simulated_bounds(drawn.ranked[column.name], place, count, column.bound_length, others)
        nulls = np.rint(found.null_count / np.maximum(number, 1) * rows).astype(np.int64)
        bounds[column.name] = _stored(found, np.where(known, nulls, -1), bounded=column.stats)
    present = drawn.rewrite.files.partitions
    nothing = pa.nulls(count, pa.string())
    new = FileTable(
        path=nothing,
        version_key=nothing,
        rows=rows,
        deleted=np.zeros(count, np.int64),
        shared_deletes=np.zeros(count, bool),
        bytes=np.rint(share * drawn.size[part_of]).astype(np.int64),
        partition=drawn.partition[part_of].astype(np.int32),
        partitions=(*present, *drawn.new_partitions),
        layout=np.full(count, -1, np.int32),
        layouts=(),
        group=np.full(count, -1, np.int32),
        bounds=bounds,
    )
    return new.take(np.flatnonzero((number > 0) | ~known))


def _limits(drawn: Drawn, built: FileMap | None, part: int, files: int) -> Mapping[str, Index]:
    """Return int64[2, files] by column: the lowest and the highest ordinal that a row of each file can have."""
    # See `file_limits`. The file map has only some of the columns.
    outer = {name: found[:, part] for name, found in drawn.reach.items()}
    limits = {name: np.repeat(ends[:, None], files, axis=1) for name, ends in outer.items()}
    if built is None:
        return limits
    own = {name: found[slice(*of_part[part : part + 2])] for name, (found, of_part) in drawn.in_parts.items()}
    inner = file_limits(built, [drawn.ranked[name].distinct.take(pa.array(own[name])) for name in built.columns])
    for name, (lowest, highest) in zip(built.columns, inner, strict=True):
        # Files at an end of the part reach as far as the part. The others end at one of its values.
        lower, upper = (np.append(own[name], end) for end in outer[name])
        lower[0], upper[len(own[name]) - 1] = outer[name]
        limits[name] = np.stack((lower[lowest], upper[highest]))
    return limits


def _stored(found: ColumnBounds, nulls: Index, *, bounded: bool) -> ColumnBounds:
    """Return the bounds with the null counts `nulls`. Both are missing if writers store none (`bounded`)."""
    if bounded:
        return ColumnBounds(found.lower, found.upper, nulls, found.truncated)
    none = pa.nulls(len(nulls), found.lower.type)
    return ColumnBounds(none, none, np.full(len(nulls), -1, np.int64), np.zeros(len(nulls), bool))


def with_kept(drawn: Drawn, new: FileTable) -> FileTable:
    """Return the files that stay and the new files, with the bounds of the simulated columns."""
    kept = np.flatnonzero(drawn.rewrite.group < 0)
    return _together(drawn.rewrite.files.take(kept), new) if len(kept) else new


def _together(kept: FileTable, new: FileTable) -> FileTable:
    return joined([replace(kept, bounds={name: kept.bounds[name] for name in new.bounds}), new])


# The metrics of the table after a rewrite.


@dataclass(frozen=True, slots=True)
class Simulation:
    """The result of one simulation.

    Attributes:
        touched: float64[d], touched of each column after the rewrite; NaN if unknown.
        bytes_read: float64[d], the bytes read of each column; NaN if unknown.
        floor: float64[d], the floor of each column; NaN if unknown or not computed.
        files: The number of files of the table after the rewrite.
        new: The new files, without those of groups without drawn rows.
        drawn: The rows that were laid out.
    """

    touched: Floats
    bytes_read: Floats
    floor: Floats
    files: int
    new: FileTable
    drawn: Drawn


def simulate(rewrite: Rewrite, weights: Floats, number: int = 0, *, with_floor: bool = False) -> Simulation:
    """Simulate the rewrite, and measure the table after it.

    Args:
        rewrite: What is rewritten.
        weights: float64[n], the number of live rows that each sampled row represents.
        number: See `draw`.
        with_floor: Whether to compute the floor, which takes about as long as the rest.
    """
    files, group, names = rewrite.files, rewrite.group, rewrite.names
    drawn = draw(rewrite, weights, number, max_parts=MAX_PARTS)
    new = new_files(drawn, rewrite.layout)
    changed, missing = np.zeros((2, drawn.partitions), bool)
    changed[files.partition[group >= 0]] = True
    changed[new.partition] = True
    missing[files.partition[np.isin(group, drawn.unknown)]] = True
    kept = files.take(np.flatnonzero(changed[files.partition] & (group < 0)))
    after = _together(kept, new)
    metrics = layout_metrics(after, names)
    are_few = float(kept.live_rows.sum()) <= MAX_KEPT_SHARE * float(after.live_rows.sum())
    with_floor = with_floor and are_few and not missing.any()
    rest = layout_metrics(files.take(np.flatnonzero(~changed[files.partition])), names)
    touched, read, floor = (np.empty(len(names)) for _ in range(3))
    for at, (name, m) in enumerate(zip(names, metrics, strict=True)):
        inside = m.by_partition.touched
        if missing.any():
            inside = _extrapolated(inside, counts(after.partition, drawn.partitions), missing)
        lowest = rest[at].floor
        touched[at] = rest[at].touched + inside[changed].sum()
        read[at] = np.nan if missing.any() else rest[at].bytes_read + m.bytes_read
        floor[at] = np.nan
        if with_floor and lowest is not None:
            floor[at] = lowest + _floor(drawn, weights, name, after, changed)
    known = np.arange(len(new) - int(rewrite.targets[drawn.unknown].sum()))
    return Simulation(touched, read, floor, int((group < 0).sum()) + len(new), new.take(known), drawn)


def _floor(drawn: Drawn, weights: Floats, column: str, after: FileTable, changed: Bools) -> float:
    """Return the floor, summed over the partitions that change. after: the files of these after the rewrite."""
    rewrite, of_sample = drawn.rewrite, drawn.of_sample
    sample, values, moves = rewrite.sample, rewrite.sample.keys[column], rewrite.moves
    filled = values.is_valid().to_numpy(zero_copy_only=False)
    weights = np.where(filled, weights, 0.0)
    certain = filled & ((rewrite.files.deleted == 0) & ~rewrite.files.shared_deletes)[sample.file]
    rows = np.bincount(after.partition, after.rows_with_value(column), len(after.partitions) or 1)
    codes = values.dictionary_encode().indices.fill_null(0).to_numpy(zero_copy_only=False)
    largest = maxima(after.partition, drawn.partitions, after.live_rows)
    written = counts(after.partition, drawn.partitions)
    total = 0.0
    for p in np.flatnonzero(changed).tolist():
        here = of_sample == p
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


def _extrapolated(touched: Floats, files: Index, missing: Bools) -> Floats:
    """Return touched, extrapolated where `missing`. files: int64[P]."""
    # It is assumed that (touched - 1) / (files - 1) is the same in all partitions.
    known = ~missing & (files > 1)
    excess = (touched[known] - 1).sum() / (files[known] - 1).sum() if known.any() else np.nan
    return np.where(missing, np.where(files > 1, 1 + excess * (files - 1), 1.0), touched)


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
