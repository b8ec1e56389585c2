"""Refuses partition values whose text in the log Delta reads as one value and writes as another.

The gate compares the rows that were read with the rows that are written. It does not see the text in the log.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from zlayout.errors import Diagnostic, Refused
from zlayout.formats.base import Work
from zlayout.formats.delta.read.schema import leaves
from zlayout.formats.delta.write.failures import spark_errors

if TYPE_CHECKING:
    from pyspark.sql import Column

    from zlayout.formats.delta.write.jvm import DeltaJvm

_ZONE = r"(Z|[+-]\d{2}:?\d{2})$"
_NO_VALUE = ("", "__HIVE_DEFAULT_PARTITION__")  # what Spark's writers treat as null


@dataclass(frozen=True, slots=True)
class _Problem:
    """found, hint: templates that may contain {column}."""

    code: str
    found: str
    hint: str


_EMPTY = _Problem(
    "ZL217",
    "an empty string as their {column}, which Delta would store as null",
    "UPDATE these rows, or leave them out by the layout's `where`, as in {column} != ''",
)
_NO_ZONE = _Problem(
    "ZL218",
    "a {column} without a time zone, which readers in other zones read as other times",
    "rewrite these partitions in the zone that wrote them, with Delta 3.3 or later, which records UTC",
)
_TWICE = _Problem(
    "ZL218",
    "a {column} in an hour that the session's time zone has twice or not at all, which Delta would store as another",
    "set spark.sql.session.timeZone of zlayout.yaml to UTC, or leave them out by the layout's `where`",
)


def refuse_changing_values(delta: DeltaJvm, work: Work) -> None:
    """Check that a rewrite keeps the partition values of the files.

    Raises:
        Refused: ZL217, if a text is empty: Spark reads it as an empty string, and writes that as null. ZL218, for a
            timestamp without a zone, as Delta wrote it before 3.3: it is in the zone of its reader, and a rewrite would
            fix it in that of this session. ZL218 also for a timestamp in an hour that clocks repeat or skip, since the
            name of the folder through which it gets into the log has no zone.
    """
    table = str(work.table)
    with spark_errors(table, "checking its partition values"):
        snapshot = delta.snapshot()
        found = [
            _refused(problem, table, column, len(paths))
            for problem, column, condition in _conditions(delta, snapshot, moves=work.partition_by is not None)
            if (paths := _planned(work, delta.all_files(snapshot).where(condition).select("path").toArrow()["path"]))
        ]
    if found:
        raise Refused(*found)


def _conditions(delta: DeltaJvm, snapshot: Any, *, moves: bool) -> list[tuple[_Problem, str, Column]]:
    """Problem, column and condition on the live AddFiles. moves: the partition columns change.

    A column that is no partition column any more has plain values. New partition columns are checked by
    `refuse_empty_text` and by reading the written files back.
    """
    from pyspark.sql import functions as F

    names = snapshot.metadata().partitionColumns()
    partitioned_by = {names.apply(at) for at in range(names.size())}
    conditions = []
    for leaf in leaves(json.loads(delta.schema(snapshot))):
        if len(leaf.path) > 1 or leaf.path[0] not in partitioned_by:
            continue
        value = F.col("partitionValues").getItem(leaf.physical[0])
        if (pa.types.is_string(leaf.type) or pa.types.is_binary(leaf.type)) and not moves:
            conditions.append((_EMPTY, leaf.path[0], value.isin(*_NO_VALUE)))
        if pa.types.is_timestamp(leaf.type) and leaf.type.tz:
            conditions.append((_NO_ZONE, leaf.path[0], (value != "") & ~value.rlike(_ZONE)))
            if not moves:
                time = value.try_cast("timestamp")
                conditions.append((_TWICE, leaf.path[0], time.cast("string").cast("timestamp") != time))
    return conditions


def _planned(work: Work, paths: pa.ChunkedArray) -> list[str]:
    found: list[str] = paths.to_pylist()
    if not found or work.partition_by is not None:
        return found
    planned = {path for group in work.groups for path in group.files.path.to_pylist()}
    return [path for path in found if path in planned]


def _refused(problem: _Problem, table: str, column: str, files: int) -> Diagnostic:
    found, hint = (text.format(column=column) for text in (problem.found, problem.hint))
    return Diagnostic(problem.code, f"{table}: {files:,} files have {found}", "refused", hint)
