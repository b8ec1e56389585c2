"""Refuses partition values that Delta would change when it writes them to the log.

The gate compares rows before and after the shuffle. It does not detect such a change, because partition values are
converted to strings in the log after the gate.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from zlayout.errors import Diagnostic, Refused
from zlayout.formats.base import Work
from zlayout.formats.delta.read.schema import leaves
from zlayout.formats.delta.write.outcome import spark_errors
from zlayout.formats.kernel.requirements import planned_paths
from zlayout.spark.arrow import to_arrow
from zlayout.spark.jvm import scala_items

if TYPE_CHECKING:
    from pyspark.sql import Column

    from zlayout.formats.delta.write.jvm import DeltaJvm

_ZONE = r"(Z|[+-]\d{2}:?\d{2})$"
WRITTEN_AS_NULL = ("", "__HIVE_DEFAULT_PARTITION__")


@dataclass(frozen=True, slots=True)
class _Problem:
    """A reason to refuse partition values. `found` and `hint` are templates that may contain {column}."""

    code: str
    found: str
    hint: str


_EMPTY = _Problem(
    "ZL217",
    "an empty string in the partition column {column}, which Delta would store as null",
    "UPDATE these rows, or exclude them by `where` of the layout: {column} != ''",
)
# Delta wrote these before version 3.3. A rewrite would interpret them in the session's time zone and store the instant.
_NO_ZONE = _Problem(
    "ZL218",
    "a timestamp without a time zone in the partition column {column}, which readers in different time zones interpret "
    "as different instants",
    "declare partition_timezone: UTC in the layout if their writer used UTC; else rewrite these partitions in the time "
    "zone of their writer, with Delta 3.3 or later, which records UTC",
)
# Delta takes the value from the name of a folder, which has no time zone.
_AMBIGUOUS_HOUR = _Problem(
    "ZL218",
    "a timestamp in the partition column {column} in an hour that the session's time zone skips or repeats, which "
    "Delta would store as another instant",
    "set spark.sql.session.timeZone in zlayout.yaml to UTC, or exclude these partitions by `where` of the layout",
)


def refuse_changing_values(delta: DeltaJvm, work: Work) -> None:
    """Check that the rewrites of the plan would keep the partition values of the files.

    Raises:
        Refused: ZL217 for strings, ZL218 for timestamps.
    """
    table = str(work.table)
    with spark_errors(table, "checking its partition values"):
        snapshot = delta.snapshot()
        found = [
            _refused(problem, table, column, len(paths))
            for problem, column, condition in _conditions(delta, snapshot, work)
            if (paths := _planned(work, to_arrow(delta.all_files(snapshot).where(condition).select("path"))["path"]))
        ]
    if found:
        raise Refused(*found)


def _conditions(delta: DeltaJvm, snapshot: Any, work: Work) -> list[tuple[_Problem, str, Column]]:
    """Return each problem with its column, and the condition that is true for AddFiles that have the problem."""
    from pyspark.sql import functions as F

    # Data files store the values of former partition columns. `refuse_changing_strings` and reading the new files back
    # check the values of new ones.
    moves = work.partition_by is not None
    partitioned_by = set(scala_items(snapshot.metadata().partitionColumns()))
    conditions = []
    for leaf in leaves(json.loads(delta.schema(snapshot))):
        if len(leaf.path) > 1 or leaf.path[0] not in partitioned_by:
            continue
        value = F.col("partitionValues").getItem(leaf.physical[0])
        if (pa.types.is_string(leaf.type) or pa.types.is_binary(leaf.type)) and not moves:
            conditions.append((_EMPTY, leaf.path[0], value.isin(*WRITTEN_AS_NULL)))
        if pa.types.is_timestamp(leaf.type) and leaf.type.tz:
            if not work.partition_timezone:
                conditions.append((_NO_ZONE, leaf.path[0], (value != "") & ~value.rlike(_ZONE)))
            if not moves:
                time = F.try_to_timestamp(value)  # null if the value is not a time
                conditions.append((_AMBIGUOUS_HOUR, leaf.path[0], time.cast("string").cast("timestamp") != time))
    return conditions


def _planned(work: Work, paths: pa.ChunkedArray) -> list[str]:
    found: list[str] = paths.to_pylist()
    if not found or work.partition_by is not None:  # a partitioning change rewrites every file
        return found
    planned = set(planned_paths(work).to_pylist())
    return [path for path in found if path in planned]


def _refused(problem: _Problem, table: str, column: str, files: int) -> Diagnostic:
    found, hint = (text.format(column=column) for text in (problem.found, problem.hint))
    return Diagnostic(problem.code, f"{table}: {files:,} files have {found}", "refused", hint)
