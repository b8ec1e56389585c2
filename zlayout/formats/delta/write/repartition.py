"""Changes `partition_by`: every file is rewritten under the new partition columns, in one checked commit.

Why this uses the transaction and not `overwriteSchema`: docs/adr/0002-delta-repartition.md.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import pyarrow.fs as pa_fs
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from zlayout.errors import Refused
from zlayout.formats.base import Commit, Notify, Progress, Work
from zlayout.formats.delta.write.failures import spark_errors
from zlayout.formats.delta.write.jvm import DeltaJvm
from zlayout.formats.delta.write.outcome import Log
from zlayout.sql_text import quoted
from zlayout.table.state import TableState


def repartition(
    delta: DeltaJvm, storage: pa_fs.FileSystem, snapshot: Any, state: TableState, work: Work, notify: Notify
) -> Commit:
    """Write all live rows into the new partitioning and replace all files, or change nothing.

    state: what the snapshot holds.

    Raises:
        EngineError: ZL310, ZL311 if the written rows are not exactly the live rows; ZL316.
        CommitConflict: ZL321 for any other commit since the snapshot, including appends, since their files would have
            the old partitioning.
        CommitUnknown: ZL331.
    """
    assert work.partition_by is not None
    table, columns = str(work.table), [field.source for field in work.partition_by]
    log = Log(delta, storage, table, work.run_id)
    notify(Progress(table, f"rewriting the table, partitioned by {', '.join(columns) or 'nothing'}"))
    with spark_errors(table, "repartitioning"):
        transaction = delta.begin(snapshot)
        old = delta.whole(snapshot)
        transaction.readWholeTable()
        delta.change_partition_columns(transaction, columns)
        added, rows = _write(delta, snapshot, transaction, delta.seq(old), columns, state)
        now = int(time.time() * 1000)
        removed = [old.get(at).removeWithTimestamp(now, True) for at in range(old.size())]
        actions, operation = delta.seq([*added, *removed]), delta.overwrite(columns)
        notify(Progress(table, "committing"))  # a Ctrl-C lets this stage finish
        delta.require_files(added)
        size = sum(file.size() for file in added)  # once it is committed nothing may fail, even if the JVM dies
        version = log.commit(transaction, actions, operation, "repartitioning")
    return Commit(
        kind="rewrite",
        version=version,
        files_removed=len(removed),
        files_added=len(added),
        bytes_removed=int(state.files.bytes.sum()),
        bytes_added=size,
        rows=rows,
    )


def _write(
    delta: DeltaJvm, snapshot: Any, transaction: Any, adds: Any, columns: Sequence[str], state: TableState
) -> tuple[list[Any], int]:
    """Write the rows, those of a partition together, and pass the gate. Returns the AddFiles and the number of rows.

    They are always read back, since partition values become text in the log only after the gate.
    """
    from zlayout.rewrite.engine import settings
    from zlayout.rewrite.gate import Gate, column

    with settings(delta.spark):
        source = delta.data_frame(snapshot, adds)
        # with a note, the metadata does not have the exact number of live rows
        gate = Gate(source, source.count() if state.notes else int(state.files.live_rows.sum()))
        frame = gate.watch_source(source)
        placed = frame.repartition(*map(column, columns)) if columns else frame
        added = delta.write_files(transaction, gate.watch_result(placed), optimize=True)
        rows = gate.check().rows
        if not adds.isEmpty():
            gate.verify(delta.read_back(delta.as_written(transaction), added, adds.head()))
    return added, rows


def refuse_empty_text(delta: DeltaJvm, work: Work) -> None:
    """Refuse (ZL217) to partition by a column with an empty string, which the log stores as null.

    This is checked before anything is written, settings included. Later rows are checked when files are read back.
    """
    table = str(work.table)
    with spark_errors(table, "checking its partition columns"):
        snapshot = delta.snapshot()
        rows = delta.data_frame(snapshot, delta.seq(delta.whole(snapshot)))
        columns = [field.source for field in work.partition_by or ()]
        names = [name for name in columns if isinstance(rows.schema[name].dataType, StringType)]
        counts = rows.agg(*[F.count_if(F.col(quoted(name)) == "") for name in names]).collect()[0] if names else ()
    for name, count in zip(names, counts, strict=True):
        if count:
            raise Refused.of(
                "ZL217",
                f"{table}: {count:,} rows have an empty string in {name}, which Delta stores as null in a partition "
                "column",
                hint="keep the partitioning, or UPDATE these rows first",
            )
