"""Reads the bounds of new files from the statistics that are about to be committed, for baselines and metrics."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from zlayout.formats.delta.read.bounds import read_bounds
from zlayout.formats.delta.read.schema import Leaf
from zlayout.formats.kernel.commits import NewFiles, file_table
from zlayout.table.state import FileTable, Partition

# The names of statistics in the log, and those that deltalake gives them.
_STATISTICS = (("minValues", "min"), ("maxValues", "max"), ("nullCount", "null_count"))
_PARSED_AT_ONCE = 2000  # files. Parsed statistics of a wide table may be a hundred kilobytes for each


def written_files(
    files: NewFiles, stats: pa.Array, wanted: Sequence[Leaf], partition: Partition, prefix: int
) -> FileTable | None:
    """Return the new files of one group with the bounds of the z-order columns.

    Args:
        stats: string[files], the statistics as in the log.
        prefix: The length to which writers truncate string bounds.

    Returns:
        The files; None if the statistics cannot be read, for which a rewrite must not fail.
    """
    try:
        parsed = [[_statistics(part, leaf) for leaf in wanted] for part in _parsed(stats)]
        bounds = {
            leaf.name: read_bounds(pa.concat_tables([part[n] for part in parsed]), [leaf], (), prefix)[leaf.name]
            for n, leaf in enumerate(wanted)
        }
    except (ValueError, TypeError, ArithmeticError, AttributeError, pa.ArrowException):
        return None
    return file_table(files, np.zeros(len(files), np.int64), (partition,), bounds)


def _parsed(stats: pa.Array) -> Iterator[list[Any]]:
    """Yield the parsed statistics of some files at a time, at least once."""
    for start in range(0, max(len(stats), 1), _PARSED_AT_ONCE):
        yield [json.loads(text, parse_float=Decimal) for text in stats[start : start + _PARSED_AT_ONCE].to_pylist()]


def _statistics(documents: Sequence[Mapping[str, Any]], leaf: Leaf) -> pa.Table:
    """Return the statistics of one column in the form of `DeltaTable.get_add_actions`."""
    columns = {}
    for name, short in _STATISTICS:
        values = [_value(document.get(name), leaf.physical) for document in documents]
        column = _typed(values, pa.int64() if short == "null_count" else leaf.type)
        for part in reversed(leaf.physical):
            column = pa.StructArray.from_arrays([column], [part])
        columns[short] = column
    return pa.table(columns)


def _value(document: Any, path: Sequence[str]) -> Any:
    for part in path:
        document = document.get(part) if isinstance(document, dict) else None
    return document


def _typed(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Convert the values of JSON: dates and times are strings there."""
    if pa.types.is_temporal(kind):
        return pa.array(values, pa.string()).cast(kind)
    if pa.types.is_floating(kind):
        return pa.array([None if v is None else float(v) for v in values], kind)
    return pa.array([Decimal(v) if pa.types.is_decimal(kind) and v is not None else v for v in values], kind)
