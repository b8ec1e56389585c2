"""Changes the partitioning of a Delta table by a full rewrite in one commit, with conflict checks.

docs/adr/0002-delta-repartition.md explains why this uses a transaction and not `overwriteSchema`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, StringType

from zlayout.errors import Diagnostic, Refused
from zlayout.formats.base import Commit, Group, Notify, PlannedTable, Progress, Stage
from zlayout.formats.delta.read.observe import WRITTEN_AS_NULL, ZONE, empty_string, has_zone, no_zone
from zlayout.formats.delta.read.schema import leaves
from zlayout.formats.delta.write.jvm import DeltaJvm
from zlayout.formats.delta.write.transaction import Log, spark_errors
from zlayout.formats.kernel.requirements import planned_paths
from zlayout.planner.model import Reason
from zlayout.rewrite.engine import rewrite_conf
from zlayout.rewrite.gate import Gate, column
from zlayout.spark.arrow import to_arrow
from zlayout.spark.jvm import scala_items
from zlayout.table.state import PartitionRefusal, TableState, is_text
from zlayout.text import path_of, quote_identifier

# Partition values that Delta would change when it writes them to the log, which are refused.
#
# The gate compares rows before and after the shuffle. It does not detect such a change, because partition values are
# converted to strings in the log after the gate.


def _ambiguous_hour(column: str) -> PartitionRefusal:
    """Delta takes the value from the name of a folder, which has no time zone."""
    found = (
        f"a timestamp in the partition column {column} in an hour that the session's time zone skips or repeats, which "
        "Delta would store as another instant"
    )
    hint = "set spark.sql.session.timeZone in zlayout.yaml to UTC, or exclude these partitions by `where` of the layout"
    return PartitionRefusal("ZL218", found, hint)


def refuse_changing_values(delta: DeltaJvm, work: PlannedTable) -> None:
    """Check that the rewrites of the plan would keep the partition values of the files.

    Raises:
        Refused: ZL217 for strings, ZL218 for timestamps.
    """
    table = str(work.table)
    with spark_errors(table, "checking its partition values"):
        snapshot = delta.snapshot()
        found = [
            Diagnostic(p.code, f"{table}: {len(paths):,} files have {p.found}", "refused", p.hint)
            for p, condition in _conditions(delta, snapshot, work)
            if (paths := _planned(work, to_arrow(delta.all_files(snapshot).where(condition).select("path"))["path"]))
        ]
    if found:
        raise Refused(*found)


def _conditions(delta: DeltaJvm, snapshot: Any, work: PlannedTable) -> list[tuple[PartitionRefusal, Column]]:
    """Return each reason to refuse, and the condition that is true for AddFiles that have it."""
    # Data files store the values of former partition columns. `refuse_changing_strings` and reading the new files back
    # check the values of new ones.
    moves = work.partition_by is not None
    partitioned_by = set(scala_items(snapshot.metadata().partitionColumns()))
    conditions = []
    for leaf in leaves(json.loads(delta.schema(snapshot))):
        if len(leaf.path) > 1 or leaf.path[0] not in partitioned_by:
            continue
        value = F.col("partitionValues").getItem(leaf.physical[0])
        if is_text(leaf.type) and not moves:
            conditions.append((empty_string(leaf.path[0]), value.isin(*WRITTEN_AS_NULL)))
        if has_zone(leaf.type):
            if not work.spec.partition_timezone:
                conditions.append((no_zone(leaf.path[0]), (value != "") & ~value.rlike(ZONE)))
            if not moves:
                time = F.try_to_timestamp(value)  # null if the value is not a time
                conditions.append((_ambiguous_hour(leaf.path[0]), time.cast("string").cast("timestamp") != time))
    return conditions


def _planned(work: PlannedTable, paths: pa.ChunkedArray) -> list[str]:
    found: list[str] = paths.to_pylist()
    if not found or work.partition_by is not None:  # a partitioning change rewrites every file
        return found
    planned = set(planned_paths(work).to_pylist())
    return [path for path in found if path in planned]


# The full rewrite.


def repartition(
    delta: DeltaJvm, log: Log, snapshot: Any, state: TableState, work: PlannedTable, notify: Notify
) -> Commit:
    """Replace all files by files with the new partitioning, in one commit.

    Args:
        log: Makes the commits of the run.
        snapshot: The snapshot that is read (py4j).
        state: The table state of the snapshot.
        work: The planned table, which has the new partitioning.
        notify: Called with each stage.

    Raises:
        EngineError: ZL310, ZL311 if the new files do not contain exactly the live rows; ZL316.
        CommitConflict: ZL321, also for an append, because its files have the old partitioning.
        CommitUnknown: ZL331.
    """
    assert work.partition_by is not None
    table, columns = str(work.table), [path_of(field.source)[0] for field in work.partition_by]
    notify(Progress(table, Stage.REWRITING, f"the table, partitioned by {', '.join(columns) or 'nothing'}"))
    with spark_errors(table, "repartitioning"):
        transaction = delta.begin(snapshot)
        old = delta.live_files(snapshot)
        transaction.readWholeTable()
        delta.change_partition_columns(transaction, columns)
        added, rows = _write(delta, snapshot, transaction, old, columns, state)
        now = int(time.time() * 1000)
        actions = delta.seq(delta.files.replacing(added, old, now, data_change=True))
        operation = delta.overwrite(columns)
        notify(Progress(table, Stage.COMMITTING))  # Ctrl-C does not interrupt this stage
        delta.require_files(added)
        # Call the JVM for the sizes before the commit. Nothing after the commit may fail, even if the JVM dies.
        sizes, removed = delta.files.sizes(added), len(old)
        version = log.commit(transaction, actions, operation, "repartitioning")
    return Commit(
        kind="rewrite",
        version=version,
        files_removed=removed,
        files_added=len(sizes),
        bytes_removed=int(state.files.bytes.sum()),
        bytes_added=int(sizes.sum()),
        rows=rows,
    )


def _write(
    delta: DeltaJvm, snapshot: Any, transaction: Any, adds: Any, columns: Sequence[str], state: TableState
) -> tuple[Any, int]:
    """Write all rows by partition, and check the gate. `adds` and the new AddFiles are java.util.List."""
    with rewrite_conf(delta.spark):
        source = delta.data_frame(snapshot, adds)
        # a note on the table state means that row counts are estimates
        rows_now = source.count() if state.notes else int(state.files.live_rows.sum())
        gate = Gate(source, rows_now, table=state.table, has_deletes=bool(state.files.deleted.any()))
        frame = gate.watch_source(source)
        placed = frame.repartition(*map(column, columns)) if columns else frame
        added = delta.write_files(transaction, gate.watch_result(placed))
        rows = gate.check().rows
        if not adds.isEmpty():  # partition values become strings in the log after the gate
            gate.verify(delta.read_back(delta.as_written(transaction), added, adds[0]))
    return added, rows


def regrouped(work: PlannedTable, state: TableState) -> PlannedTable:
    """Return the planned table with one group per partition, for the files that a full rewrite has just written.

    The groups have the ids of the planned groups, as far as there are enough. The planned number of files is divided
    among the partitions by their bytes.

    Args:
        work: The planned table, whose files the full rewrite has replaced.
        state: The table state after the full rewrite.
    """
    planned, files = [group.id for group in work.groups], state.files
    wanted, size = sum(group.target_files for group in work.groups), max(int(files.bytes.sum()), 1)
    pinned = {}
    for at in range(len(files.partitions)):
        index = np.flatnonzero(files.partition == at)
        part = files.take(index)
        target = max(1, round(wanted * int(part.bytes.sum()) / size))
        id = planned[at] if at < len(planned) else f"partition-{at}"
        pinned[id] = Group(index, Reason.PARTITIONING_CHANGED, id=id, files=part, target_files=target)
    work = work.with_rewrites(group.action() for group in pinned.values())
    # The full rewrite has replaced all files of the table, also those out of scope.
    return replace(work, spec=replace(work.spec, where=None), plan=replace(work.plan, files=len(files)), pinned=pinned)


def refuse_changing_strings(delta: DeltaJvm, work: PlannedTable) -> None:
    """Check before any write that Delta stores every string of a new partition column as it is.

    Rows that are appended after this check are checked when the new files are read back.

    Raises:
        Refused: ZL217, if Delta would store another value.
    """
    table = str(work.table)
    with spark_errors(table, "checking its partition columns"):
        snapshot = delta.snapshot()
        rows = delta.data_frame(snapshot, delta.live_files(snapshot))
        columns = [path_of(field.source)[0] for field in work.partition_by or ()]
        names = [name for name in columns if isinstance(rows.schema[name].dataType, StringType | BinaryType)]
        counts = (
            rows.agg(*[F.count_if(_is_changed(F.col(quote_identifier(name)))) for name in names]).collect()[0]
            if names
            else ()
        )
    for name, count in zip(names, counts, strict=True):
        if count:
            raise Refused.of(
                "ZL217",
                f"{table}: {count:,} rows have an empty string in {name}, {WRITTEN_AS_NULL[1]} or invalid UTF-8, which "
                "Delta stores as null or as other characters in a partition column",
                hint="keep the partitioning, or UPDATE these rows first",
            )


def _is_changed(value: Column) -> Column:
    """Return whether Delta would store another value for this string or binary value of a partition column."""
    text = value.cast("string")
    # Spark returns the bytes of a string as they are if it encodes to UTF-8.
    return text.isin(*WRITTEN_AS_NULL) | (F.decode(F.encode(text, "UTF-16BE"), "UTF-16BE") != text)
