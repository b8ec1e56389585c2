"""Observed tables for the tests of advise, made without a format, and an evaluator of predicates row by row."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from support.builders import make_file_table, make_state

from zlayout.predicate.model import And, Compare, In, IsNull, Not, Or, Predicate
from zlayout.table.partition import Partition
from zlayout.table.state import Column, ColumnBounds, TableState


def bounds_of(values: pa.Array, file: np.ndarray, files: int) -> ColumnBounds:
    """Bounds by brute force: each file's values as Python objects."""
    rows: list[list[Any]] = [[] for _ in range(files)]
    for value, at in zip(values.to_pylist(), file.tolist(), strict=True):
        rows[at].append(value)
    known = [[v for v in part if v is not None] for part in rows]
    return ColumnBounds(
        pa.array([min(k, default=None) for k in known], values.type),
        pa.array([max(k, default=None) for k in known], values.type),
        np.array([len(r) - len(k) for r, k in zip(rows, known, strict=True)], np.int64),
        np.zeros(files, bool),
    )


def table_state(
    data: Mapping[str, pa.Array],
    file: np.ndarray,
    *,
    partitions: Sequence[Partition] = (Partition(0, (), ()),),
    partition: Sequence[int] | None = None,
    bytes_per_row: int = 10,
    format: str = "delta",
    properties: Mapping[str, str] | None = None,
) -> TableState:
    """A table of these rows, row i in file file[i]; partition: of each file."""
    files = int(file.max()) + 1
    rows = np.bincount(file, minlength=files).astype(np.int64)
    table = make_file_table(
        rows,
        bytes=rows * bytes_per_row,
        partition=partition,
        partitions=partitions,
        bounds={name: bounds_of(values, file, files) for name, values in data.items()},
    )
    columns = tuple(Column(name, values.type, True) for name, values in data.items())
    fields = partitions[0].fields
    return make_state(table, format=format, columns=columns, partition_fields=fields, properties=properties or {})


def holds(predicate: Predicate, row: Mapping[str, Any]) -> bool | None:
    """SQL's answer for one row, in three-valued logic."""
    match predicate:
        case And(operands):
            answers = [holds(p, row) for p in operands]
            return False if False in answers else None if None in answers else True
        case Or(operands):
            answers = [holds(p, row) for p in operands]
            return True if True in answers else None if None in answers else False
        case Not(operand):
            answer = holds(operand, row)
            return None if answer is None else not answer
        case IsNull(column):
            return row[column] is None
        case In(column, values):
            return None if row[column] is None else row[column] in values
        case Compare(column, operator, value):
            mine = row[column]
            if mine is None:
                return None
            return {
                "=": mine == value,
                "!=": mine != value,
                "<": mine < value,
                "<=": mine <= value,
                ">": mine > value,
                ">=": mine >= value,
            }[operator]


def matching_rows(predicate: Predicate, data: Mapping[str, pa.Array]) -> np.ndarray:
    rows = pa.table(dict(data)).to_pylist()
    return np.array([holds(predicate, row) is True for row in rows], bool)


def lineitem_like(rows: int, seed: int = 0) -> dict[str, pa.Array]:
    """ship: days. receipt: follows it. part: uniform. mode: 7 texts. few: 3 numbers, some null."""
    rng = np.random.default_rng(seed)
    ship = rng.integers(0, 2500, rows)
    modes = pa.array(["AIR", "FOB", "MAIL", "RAIL", "REG AIR", "SHIP", "TRUCK"])
    few = pa.array(rng.integers(0, 3, rows), mask=rng.random(rows) < 0.1)
    return {
        "ship": pa.array(ship, pa.int32()).cast(pa.date32()),
        "receipt": pa.array(ship + rng.integers(1, 31, rows), pa.int32()).cast(pa.date32()),
        "part": pa.array(rng.integers(0, 20_000, rows)),
        "mode": modes.take(pa.array(rng.integers(0, 7, rows))),
        "few": pc.cast(few, pa.int64()),
    }
