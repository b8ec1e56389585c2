"""Simulate what a plan rewrites on a sample of the rows, and measure the files that are live afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from zlayout.planner.partitions import Bools, Floats, Index
from zlayout.planner.placement import outputs_of
from zlayout.planner.simulated import Column, Simulated, resample, simulate_group, together
from zlayout.planner.work import Group
from zlayout.spec.model import LayoutSpec
from zlayout.table.floor import floor_of_shares
from zlayout.table.key_sample import RowGroupSample
from zlayout.table.metrics import layout_metrics
from zlayout.table.state import FileTable, PartitionField, TableState
from zlayout.table.sums import counts

# As many rows per file as the rewrite itself samples, and as many in total as are simulated in a few seconds.
MAX_ROWS_PER_FILE = 2000
MAX_ROWS = 400_000
# More groups than this are not simulated; their touched is that of the others with as many files.
MAX_GROUPS = 1000
# The number of parts that row groups are divided into to estimate the error of the forecast, by leaving out one part.
FOLDS = 4


@dataclass(frozen=True, slots=True)
class Rewrite:
    """What a plan rewrites.

    Attributes:
        groups: The G groups.
        group: int64[N], the group of each file of the table; -1 for files that stay.
        columns: The columns as rewritten files store their bounds: the z-order columns, then others.
        fields: The partitioning of new files.
    """

    groups: tuple[Group, ...]
    group: Index
    columns: tuple[Column, ...]
    fields: tuple[PartitionField, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)


@dataclass(frozen=True, slots=True)
class Outcome:
    """One simulation: touched, bytes read and floor of each z-order column (NaN if unknown), and the new files."""

    touched: Floats
    bytes_read: Floats
    floor: Floats
    files: int
    new: tuple[Simulated, ...]
    partitions: int


def weights_of(files: FileTable, group: Index, sample: RowGroupSample) -> Floats:
    """Return how many live rows each sampled row represents, float64[n]; 0 for rows of files that are not rewritten.

    A file that was not sampled is represented by the nearest sampled one of its group, in the order of the files.
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


def simulate(
    spec: LayoutSpec, state: TableState, rewrite: Rewrite, sample: RowGroupSample, weights: Floats, draw: int = 0
) -> Outcome:
    """Simulate the rewrite of every group with sampled rows, and measure the files of the partitions that change.

    draw: numbers the random choices of rows. Where several columns are cut equally often, a few rows decide which one
    is cut first, in the rewrite as here.
    """
    new, unknown, partition, partitions = simulate_files(spec, state, rewrite, sample, weights, draw)
    touched, read, floor = _measured(state, rewrite, new, unknown, sample, weights, partition, partitions)
    kept = int((rewrite.group < 0).sum())
    written = sum(len(s.rows) for s in new) + sum(rewrite.groups[n].target_files for n in unknown)
    return Outcome(
        touched, read, floor, kept + written, tuple(new), len({int(p) for s in new for p in s.partition[:1]})
    )


def simulate_files(
    spec: LayoutSpec, state: TableState, rewrite: Rewrite, sample: RowGroupSample, weights: Floats, draw: int = 0
) -> tuple[list[Simulated], list[int], Index, int]:
    """Simulate the files that a rewrite would write. The arguments are those of `simulate`.

    Returns:
        The new files, the numbers of the groups without sampled rows, int64[n], the output partition of each sampled
        row (-1 if it is not rewritten), and the number of partitions afterwards.
    """
    group = rewrite.group
    budget = min(1.0, MAX_ROWS / max(MAX_ROWS_PER_FILE * sum(g.target_files for g in rewrite.groups), 1))
    by_group = np.argsort(group[sample.file], kind="stable")
    starts = np.searchsorted(group[sample.file][by_group], np.arange(len(rewrite.groups) + 1))
    random = np.random.default_rng((sample.seed, draw))
    outputs = outputs_of(state, rewrite.groups, rewrite.fields, group)
    new: list[Simulated] = []
    unknown = []
    partition = np.full(len(sample), -1, np.int64)
    for number, g in enumerate(rewrite.groups):
        rows = by_group[starts[number] : starts[number + 1]]
        partition[rows] = outputs.partition_of(number, sample, rows)
        limit = max(int(budget * MAX_ROWS_PER_FILE * g.target_files), 1)
        drawn = rows[resample(weights[rows], limit, float(random.random()))]
        if not len(drawn) or len(new) >= MAX_GROUPS:
            unknown.append(number)
            continue
        new += _outputs(spec, rewrite, g, sample, drawn, partition[drawn])
    return new, unknown, partition, outputs.partitions


def _outputs(
    spec: LayoutSpec, rewrite: Rewrite, g: Group, sample: RowGroupSample, drawn: Index, partition: Index
) -> list[Simulated]:
    """Simulate each output partition of one group, as the rewrite divides a group by its sample.

    drawn: the drawn rows of the sample. partition: their output partitions.
    """
    live = float(g.files.live_rows.sum())
    size = float((g.files.bytes * np.divide(g.files.live_rows, np.maximum(g.files.rows, 1))).sum())
    found = []
    for at in np.unique(partition).tolist():
        inside = drawn[partition == at]
        share = len(inside) / len(drawn)
        keys = {name: sample.keys[name].take(pa.array(inside)) for name in rewrite.names}
        wanted = max(1, round(g.target_files * share))
        whole = sample.complete and len(inside) >= 0.5 * live * share
        args = (keys, spec.layout, rewrite.columns, wanted, live * share, size * share, int(at))
        found.append(simulate_group(*args, whole=whole))
    return found


def _measured(
    state: TableState,
    rewrite: Rewrite,
    new: Sequence[Simulated],
    unknown: Sequence[int],
    sample: RowGroupSample,
    weights: Floats,
    partition: Index,
    partitions: int,
) -> tuple[Floats, Floats, Floats]:
    """Return touched, bytes read and floor of each z-order column after the rewrite, float64[d]; NaN if unknown."""
    files, group, names = state.files, rewrite.group, rewrite.names
    changed = np.zeros(partitions, bool)
    changed[files.partition[group >= 0]] = True
    for s in new:
        changed[s.partition] = True
    inside = np.flatnonzero(changed[files.partition])
    kept = files.take(inside[group[inside] < 0])
    after = together(kept, new, names, partitions)
    metrics = layout_metrics(after, names)
    missing = np.zeros(partitions, bool)
    for number in unknown:
        missing[rewrite.groups[number].files.partition] = True
    rest = layout_metrics(files.take(np.flatnonzero(~changed[files.partition])), names)
    largest = np.zeros(partitions)
    np.maximum.at(largest, after.partition, after.rows)
    moves = _moves(rewrite, files)
    shares = [_Shares(sample, weights, partition, name, files, after, moves=moves) for name in names]
    touched, read, floor = (np.empty(len(names)) for _ in range(3))
    written = counts(after.partition, partitions)
    for at, m in enumerate(metrics):
        found = m.by_partition.touched.copy()
        if missing.any():
            found = _extrapolated(found, written, missing, rewrite, unknown)
        lowest = rest[at].floor
        touched[at] = rest[at].touched + found[changed].sum()
        read[at] = np.nan if missing.any() else rest[at].bytes_read + m.bytes_read
        alone = np.nan if missing.any() else shares[at].floor(largest, np.flatnonzero(changed), written)
        floor[at] = np.nan if lowest is None else lowest + alone
    return touched, read, floor


def _moves(rewrite: Rewrite, files: FileTable) -> bool:
    """Return whether files change their partition."""
    old = np.unique(files.partition[rewrite.group >= 0])
    return any(files.partitions[n].fields != rewrite.fields for n in old.tolist())


class _Shares:
    """How often the values of one column occur in each partition after the rewrite, from the sample."""

    def __init__(
        self,
        sample: RowGroupSample,
        weights: Floats,
        partition: Index,
        column: str,
        files: FileTable,
        after: FileTable,
        *,
        moves: bool,
    ) -> None:
        self._values = sample.keys[column]
        self._partition = partition
        filled = self._values.is_valid().to_numpy(zero_copy_only=False)
        self._weights = np.where(filled, weights, 0.0)
        self._certain = filled & (files.deleted[sample.file] == 0)
        nulls = np.maximum(after.bounds[column].null_count, 0)
        self._rows = np.bincount(after.partition, np.maximum(after.rows - nulls, 0), len(after.partitions) or 1)
        self._complete, self._moves = sample.complete, moves

    def floor(self, largest: Floats, changed: Index, written: Index) -> float:
        """Return the floor, summed over the partitions that change.

        Shares are lowered by twice their standard error, so that the floor holds for the table and not only for the
        sample. Rows of files that stay count as rare values.

        Args:
            largest: float64[P], the rows of the largest file of each partition.
            changed: int64, the partitions that change.
            written: int64[P], the number of files of each partition.
        """
        codes = self._values.dictionary_encode().indices.fill_null(0).to_numpy(zero_copy_only=False)
        total = 0.0
        for p in changed.tolist():
            here = self._partition == p
            inside = here & (self._weights > 0)
            number = int(inside.sum())
            if self._moves and not self._certain[here].any():
                continue  # all sampled rows of a new partition may be deleted
            if self._rows[p] <= 0 or not number:
                total += float(self._rows[p] > 0)
                continue
            sampled = np.bincount(codes[inside], self._weights[inside])
            share = np.minimum(sampled / max(self._rows[p], sampled.sum()), 1.0)
            if not self._complete:
                share = np.maximum(share - 2 * np.sqrt(share * (1 - share) / number), 0.0)
            # the sizes of new files vary by about 2 % around those that were simulated
            size = 1.02 * max(largest[p], 1.0) / self._rows[p]
            if self._moves:  # the rewrite rounds the share of a partition to files by a sample of its own
                size *= written[p] / max(written[p] - 1, 1)
            total += floor_of_shares(share, size)
        return total


def _extrapolated(touched: Floats, files: Index, missing: Bools, rewrite: Rewrite, unknown: Sequence[int]) -> Floats:
    """Fill in touched of partitions without a sample, from those with one: (touched - 1) / (files - 1) is alike."""
    number = files.astype(np.float64)
    for n in unknown:
        number[rewrite.groups[n].files.partition[0]] += rewrite.groups[n].target_files
    known = ~missing & (number > 1)
    excess = (touched[known] - 1).sum() / (number[known] - 1).sum() if known.any() else np.nan
    return np.where(missing, np.where(number > 1, 1 + excess * (number - 1), 1.0), touched)


def errors_of(
    spec: LayoutSpec, state: TableState, rewrite: Rewrite, sample: RowGroupSample, weights: Floats
) -> tuple[Floats, Floats]:
    """Return the standard errors of touched and bytes read, float64[d] each: the jackknife over FOLDS of row groups."""
    fold = np.random.default_rng(sample.seed).permutation(sample.row_groups)[sample.row_group] % FOLDS
    found = []
    for part in range(min(FOLDS, sample.row_groups)):
        rest = np.where(fold == part, 0.0, weights)
        outcome = simulate(spec, state, rewrite, sample, rest)
        found.append(np.stack((outcome.touched, outcome.bytes_read)))
    if len(found) < 2:
        unknown = np.full(len(rewrite.columns), np.inf)
        return unknown, unknown
    touched, read = np.sqrt((len(found) - 1) * np.stack(found).var(axis=0))
    return touched, read
