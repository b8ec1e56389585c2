"""Simulate the rewrite of one group on a sample of its rows: the partition of each row, and the files to write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from zlayout.curve.layout import FileMap, build_map
from zlayout.curve.order import Ranked, rank
from zlayout.curve.simulate import file_limits, simulated_bounds
from zlayout.planner.partitions import Floats, Index
from zlayout.spec.layout import Layout
from zlayout.table.joined import joined_bounds
from zlayout.table.key_sample import RowGroupSample
from zlayout.table.python_values import python_values
from zlayout.table.state import ColumnBounds, FileTable, PartitionField
from zlayout.table.transforms import transformed


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
