"""The statement and the session configuration of OPTIMIZE, and the layout settings that it does not support."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from math import ceil
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zlayout.errors import Diagnostic
from zlayout.formats.base import Work
from zlayout.formats.delta.read.schema import dotted, path_of
from zlayout.formats.delta.write.outcome import USER_METADATA, user_metadata
from zlayout.formats.kernel.requirements import partitions_of
from zlayout.planner.clustering import LARGE_CUBE, NEW_CUBE, is_full
from zlayout.planner.partitions import SMALL_BELOW
from zlayout.spec.layout import CLUSTERING_CURVE, Layout
from zlayout.sql_text import quote_identifier, quote_path, string_literal
from zlayout.table.partition import FarTime
from zlayout.table.state import FileTable, Partition, TableState

_FEW_VALUES = 64  # up to this number of values, Delta's range ids differ only in their lowest 6 bits
_USE_ZLAYOUT = "use engine: zlayout"


def optimize_conf(layout: Layout, run_id: str, properties: Mapping[str, str]) -> dict[str, str]:
    """Return the session configuration with which OPTIMIZE applies the layout settings and stores the user metadata."""
    return {
        "spark.databricks.io.skipping.mdc.rangeId.max": str(layout.range_ids),
        "spark.databricks.io.skipping.mdc.addNoise": str(layout.noise).lower(),
        "spark.databricks.io.skipping.mdc.sortWithinFiles": str(layout.sort_within).lower(),
        "spark.databricks.delta.optimize.maxFileSize": str(layout.target_size),
        "spark.databricks.delta.optimize.clustering.mergeStrategy.minCubeSize.threshold": str(LARGE_CUBE),
        "spark.databricks.delta.optimize.clustering.mergeStrategy.minCubeSize.targetCubeSize": str(NEW_CUBE),
        USER_METADATA: user_metadata(run_id, properties),
        "spark.databricks.delta.commit.idempotencyCheck.enabled": "true",
        "spark.sql.readSideCharPadding": "false",
        "spark.databricks.delta.write.utcTimestampPartitionValues": "true",
    }


def selection_conf(layout: Layout) -> dict[str, str]:
    """Return the session configuration with which OPTIMIZE selects only small files.

    It is empty for a layout with z-order columns, because OPTIMIZE ZORDER BY selects all files.
    """
    if layout.orders:
        return {}
    return {
        "spark.databricks.delta.optimize.minFileSize": str(ceil(SMALL_BELOW * layout.target_size)),
        "spark.databricks.delta.optimize.maxDeletedRowsRatio": "1.0",
    }


def optimize_statement(location: str, work: Work, state: TableState) -> str:
    """Return the OPTIMIZE statement for the partitions of a work order.

    It has no WHERE if the work order has all partitions of the table. The statement for a clustered table has neither
    WHERE nor columns.
    """
    if state.clustering:
        return f"OPTIMIZE delta.{quote_identifier(location)}{' FULL' if is_full(work.layout, state.files) else ''}"
    type_of = {column.name: column.type for column in state.columns}
    types = [type_of[dotted([field.source])] for field in state.partition_fields]
    where, layout = "", work.layout
    whole = work.covers_table and {state.files.partitions[at] for at in np.unique(state.files.partition)} <= set(
        partitions_of(work.groups)
    )
    if types and not whole:
        where = f" WHERE {partitions_predicate(partitions_of(work.groups), types)}"
    columns = ", ".join(quote_path(path_of(c.name)) for c in layout.columns)
    return f"OPTIMIZE delta.{quote_identifier(location)}{where}{f' ZORDER BY ({columns})' if columns else ''}"


def literal(value: Any, type_: pa.DataType) -> str:
    """Return the typed literal of a value. type_: the Arrow type of its column."""
    match value:
        case bool():
            return "TRUE" if value else "FALSE"
        case FarTime() if pa.types.is_date(type_):
            return f"DATE'{value}'"
        case FarTime():
            return f"{'TIMESTAMP' if type_.tz else 'TIMESTAMP_NTZ'}'{value}'"
        case str():
            return string_literal(value)
        case bytes():
            return f"X'{value.hex().upper()}'"
        case Decimal():
            return f"CAST('{value}' AS DECIMAL({type_.precision}, {type_.scale}))"
        case datetime() if value.tzinfo is not None:
            utc = value.astimezone(UTC).replace(tzinfo=None)
            return f"TIMESTAMP'{utc.isoformat(sep=' ')}Z'"
        case datetime():
            return f"TIMESTAMP_NTZ'{value.isoformat(sep=' ')}'"
        case date():
            return f"DATE'{value.isoformat()}'"
        case float():
            return f"CAST('{value!r}' AS {'FLOAT' if pa.types.is_float32(type_) else 'DOUBLE'})"
        case int():
            return f"CAST({value} AS BIGINT)" if pa.types.is_int64(type_) else str(value)
    raise TypeError(f"expected a partition value of a primitive type, found {type(value).__name__}")


def partitions_predicate(partitions: Sequence[Partition], types: Sequence[pa.DataType]) -> str:
    """Return a predicate that is true in exactly these partitions. types: the types of the partition columns.

    The OR is a balanced tree, because a long chain overflows the stack of Spark's parser.
    """
    return _balanced([_in_partition(partition, types) for partition in partitions])


def _in_partition(partition: Partition, types: Sequence[pa.DataType]) -> str:
    tests = [
        f"{quote_identifier(field.source)} IS NULL"
        if value is None
        else f"{quote_identifier(field.source)} = {literal(value, type_)}"
        for field, value, type_ in zip(partition.fields, partition.values, types, strict=True)
    ]
    return "(" + " AND ".join(tests) + ")"


def _balanced(tests: list[str]) -> str:
    if len(tests) == 1:
        return tests[0]
    half = len(tests) // 2
    return f"({_balanced(tests[:half])} OR {_balanced(tests[half:])})"


def native_diagnostics(layout: Layout, state: TableState) -> tuple[Diagnostic, ...]:
    """Return ZL401 for each layout setting that OPTIMIZE does not support."""
    return tuple(Diagnostic("ZL401", message, "note", hint) for message, hint in _unsupported(layout, state))


def _unsupported(layout: Layout, state: TableState) -> Iterator[tuple[str, str]]:
    clustered, several = bool(state.clustering), len(layout.columns) > 1
    if not layout.orders and not clustered:
        # OPTIMIZE without ZORDER BY never rewrites a single file, even if most of its rows are deleted.
        yield "deleted rows stay: engine native without zorder combines small files only", _USE_ZLAYOUT
        return
    by, curve = ("liquid clustering", CLUSTERING_CURVE) if clustered else ("Delta's OPTIMIZE", "zorder")
    if layout.curve != curve and several:
        hint = f"declare zorder.curve: {curve}" if clustered else _USE_ZLAYOUT
        yield f"zorder.curve {layout.curve} is not supported by {by}, which uses {curve}", hint
    if any(column.weight != 1.0 for column in layout.columns):
        yield f"weights in zorder.columns are ignored by {by}", "remove the weights" if clustered else _USE_ZLAYOUT
    if layout.noise:
        yield "zorder.noise is rand() without a seed in Delta's OPTIMIZE, so runs differ", "set zorder.noise to false"
    for column in layout.columns if several and not clustered else ():
        if _few_values(state.files, column.name):
            yield (
                f"column {column.name} has at most {_FEW_VALUES} values, for which Delta's OPTIMIZE uses only the "
                "lowest bits: file skipping by it will hardly improve",
                _USE_ZLAYOUT,
            )


def _few_values(files: FileTable, name: str) -> bool:
    bounds = files.bounds.get(name)
    if bounds is None or not len(files):
        return False
    is_date = pa.types.is_date32(bounds.lower.type)
    if not is_date and not pa.types.is_integer(bounds.lower.type):
        return False
    integer = pa.int32() if is_date else pa.int64()
    low, high = pc.min(bounds.lower.cast(integer)).as_py(), pc.max(bounds.upper.cast(integer)).as_py()
    return low is not None and high is not None and high - low < _FEW_VALUES
