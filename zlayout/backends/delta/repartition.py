"""A changed `partition_by`: every file is written again under the new partition columns, in one checked commit.

Why through the transaction and not `overwriteSchema`: docs/adr/0002-delta-repartition.md.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from zlayout.backends.base import Commit, Notify, Progress, Work
from zlayout.backends.delta.failures import spark_errors
from zlayout.backends.delta.jvm import DeltaJvm
from zlayout.backends.delta.run_history import RUN
from zlayout.backends.delta.schema import quoted
from zlayout.errors import CommitConflict, Refused
from zlayout.table.state import TableState


def check_repartition(state: TableState) -> None:
    """Raise Refused for tables whose partitioning cannot be changed safely: ZL214 append-only, ZL215 identity."""
    if state.properties.get("delta.appendOnly", "").lower() == "true":
        raise Refused.of(
            "ZL214",
            f"{state.table}: partition_by cannot change while delta.appendOnly is true: every file would be removed",
            hint="ALTER TABLE ... SET TBLPROPERTIES ('delta.appendOnly' = 'false') first, or keep the partitioning",
        )
    if "identityColumns" in state.features:
        raise Refused.of(
            "ZL215",
            f"{state.table}: partition_by cannot change on a table with identity columns, whose counters would move",
            hint="keep the partitioning, or copy the table into a new one",
        )


def repartition(delta: DeltaJvm, work: Work, notify: Notify) -> Commit:
    """Write all live rows into the new partitioning and replace all files, or change nothing.

    Raises EngineError ZL310 when rows out are not exactly rows in; CommitConflict ZL321 for any other commit since
    the snapshot was taken, appends too, for their files would have the old partitioning.
    """
    assert work.partition_by is not None
    table, columns = str(work.table), [field.source for field in work.partition_by]
    notify(Progress(table, f"rewriting the table, partitioned by {', '.join(columns) or 'nothing'}"))
    with spark_errors(table, "repartitioning"):
        snapshot = delta.snapshot()
        if snapshot.version() < work.version:
            raise CommitConflict.of("ZL320", f"{table}: expected version {work.version}, found {snapshot.version()}")
        transaction = delta.begin(snapshot)
        old = snapshot.allFiles().collectAsList()
        transaction.readWholeTable()
        delta.change_partition_columns(transaction, columns)
        added = _write(delta, transaction, delta.data_frame(snapshot, delta.seq(old)), columns)
        now = int(time.time() * 1000)
        removed = [old.get(at).removeWithTimestamp(now, True) for at in range(old.size())]
        operation = delta.overwrite(columns)
        version = delta.commit(transaction, delta.seq([*added, *removed]), operation, {RUN: work.run_id})
    return Commit(
        kind="rewrite",
        version=version,
        files_removed=len(removed),
        files_added=len(added),
        bytes_removed=sum(file.size() for file in old),
        bytes_added=sum(file.size() for file in added),
        rows=sum(file.numLogicalRecords().get() for file in added if file.numLogicalRecords().isDefined()),
    )


def _write(delta: DeltaJvm, transaction: Any, source: Any, columns: Sequence[str]) -> list[Any]:
    """Write the rows, near each other where they share a partition; the AddFiles once the gate has passed."""
    from zlayout.rewrite.gate import Gate

    gate = Gate(source, source.count())
    frame = gate.watch_source(source)
    placed = frame.repartition(*[frame[quoted(name)] for name in columns]) if columns else frame
    added = delta.write_files(transaction, gate.watch_result(placed), optimize=True)
    gate.check()
    delta.require_files(added)
    return added
