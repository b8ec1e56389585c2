"""The output partition of sampled rows: the present one, or that of a new partitioning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from zlayout.planner.partitions import Index
from zlayout.planner.work import Group
from zlayout.table.key_sample import RowGroupSample
from zlayout.table.python_values import python_values
from zlayout.table.state import FileTable, PartitionField, TableState
from zlayout.table.transforms import transformed


@dataclass(slots=True)
class Output:
    """Numbers output partitions. The first ones are those of the table.

    Attributes:
        fields: The partitioning of new files.
        numbers: The number of each partition, by its fields and values; new ones are added.
        moves: bool[G], whether the rows of each group change their partition.
    """

    fields: tuple[PartitionField, ...]
    files: FileTable
    numbers: dict[Any, int]
    partitions: int
    moves: tuple[bool, ...]

    def partition_of(self, group: int, sample: RowGroupSample, rows: Index) -> Index:
        """Return the output partition of each of the sampled rows of a group, int64."""
        found: Index = self.files.partition[sample.file[rows]].astype(np.int64)
        if not self.moves[group]:
            return found
        stays = np.array([p.fields == self.fields for p in self.files.partitions], bool)[found]
        found[~stays] = self._moved(sample, rows[~stays])
        return found

    def _moved(self, sample: RowGroupSample, rows: Index) -> Index:
        taken = pa.array(rows)
        code = np.zeros(len(rows), np.int64)
        values: list[pa.Array] = []
        for field in self.fields:
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

    def _number(self, key: tuple[Any, ...]) -> int:
        number = self.numbers.setdefault((self.fields, key), self.partitions)
        self.partitions = max(self.partitions, number + 1)
        return number


def outputs_of(state: TableState, groups: Sequence[Group], fields: tuple[PartitionField, ...], group: Index) -> Output:
    """Return the output partitions of the groups. group: int64[N], the group of each file."""
    files = state.files
    known = {(p.fields, _values(p.fields, p.values)): n for n, p in enumerate(files.partitions)}
    moves = [False] * len(groups)
    for number in np.flatnonzero([p.fields != fields for p in files.partitions]).tolist():
        for owner in np.unique(group[files.partition == number]).tolist():
            if owner >= 0:
                moves[owner] = True
    return Output(fields, files, known, max(len(files.partitions), 1), tuple(moves))


def _values(fields: Sequence[PartitionField], values: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(v for f, v in zip(fields, values, strict=True) if f.transform != "void")
