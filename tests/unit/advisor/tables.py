"""Observed tables for the tests of advise, made without a format, and an evaluator of predicates row by row."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from support.builders import make_file_table, make_layout, make_state

from zlayout.planner.simulation import MAX_ROWS, Drawn, Rewrite, draw
from zlayout.predicate.model import And, Compare, In, IsNull, Not, Or, Predicate
from zlayout.table.partition import Partition, PartitionField
from zlayout.table.samples import KeySample, RowGroups
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


def sample_of(data: Mapping[str, pa.Array], file: np.ndarray, seed: int = 0, rows: int | None = None) -> KeySample:
    """Rows that were drawn one by one, with the file of each; rows: of the whole table."""
    nothing, count = np.zeros(0, np.int64), len(file)
    return KeySample(
        keys=data,
        file=file.astype(np.int64),
        row_group=np.arange(count),
        row_groups=count,
        files=len(np.unique(file)),
        bytes_read=0,
        seed=seed,
        complete=rows is None or rows == count,
        footers=RowGroups(nothing, nothing, nothing, {}),
        by_row=True,
    )


def rewrite_of(
    data: Mapping[str, pa.Array],
    targets: Sequence[int],
    *,
    partition: np.ndarray | None = None,
    rows: Sequence[int] | None = None,
    size: Sequence[int] | None = None,
    lengths: Mapping[str, int] | None = None,
    seed: int = 0,
) -> Rewrite:
    """A rewrite of one file in each partition, of which these rows were drawn.

    Args:
        targets: The number of files to write in each partition.
        partition: The partition of each row.
        rows, size: The rows and bytes of each partition; without, those of the sample and 10 bytes for each row.
        lengths: The bound length of columns.
    """
    file = np.zeros(len(next(iter(data.values()))), np.int64) if partition is None else partition
    live = np.bincount(file, minlength=len(targets)) if rows is None else np.array(rows)
    files = make_file_table(
        live.tolist(),
        bytes=(live * 10 if size is None else np.array(size)),
        partition=range(len(targets)),
        partitions=tuple(Partition(0, (PartitionField("p"),), (n,)) for n in range(len(targets))),
    )
    columns = tuple(Column(n, v.type, True, bound_length=(lengths or {}).get(n)) for n, v in data.items())
    sample = sample_of(data, file, seed, int(live.sum()))
    group, fields = np.arange(len(targets)), (PartitionField("p"),)
    return Rewrite(make_layout(), files, group, np.array(targets, np.int64), columns, fields, sample)


def drawn_of(*arguments: Any, **named: Any) -> Drawn:
    """All rows of `rewrite_of`."""
    rewrite = rewrite_of(*arguments, **named)
    return draw(rewrite, rewrite.weights, rows_per_file=MAX_ROWS)


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
