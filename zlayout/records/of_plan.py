"""Make history records from a plan or a run report. All functions are pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

from zlayout.planner.actions import Reason
from zlayout.planner.model import Status, TablePlan
from zlayout.planner.result import ResultStatus, TableResult
from zlayout.planner.run_report import RunReport
from zlayout.records.model import ColumnRecord, Command, DecayRecord, Record, RecordState

_OF_RESULT = {
    ResultStatus.AS_DECLARED: RecordState.AS_DECLARED,
    ResultStatus.FAILED: RecordState.ERROR,
    ResultStatus.UNKNOWN: RecordState.ERROR,
}
_DRIFTED = (Reason.LAYOUT_CHANGED, Reason.PARTITIONING_CHANGED)


def records_of(
    report: RunReport, layout_ids: Mapping[str, str], command: Command, run_id: str, time: datetime
) -> list[Record]:
    """Return one record per table.

    Args:
        report: What the command found, and the results of `apply`.
        layout_ids: The id of the declared layout of each table, by table name.
        run_id: The id for the records of tables without a result of `apply`.
        time: The end of the command, in UTC.
    """
    records = []
    for table in report.plan.tables:
        result = report.results.get(table.table)
        rewritten = result.bytes_removed if result else 0
        record = Record(
            time=time,
            run_id=result.run_id if result else run_id,
            command=command,
            table=table.table,
            layout_id=layout_ids.get(table.table, ""),
            state=state_of(table, result),
            files=table.files + (result.files_added - result.files_removed if result else 0),
            bytes=table.bytes + (result.bytes_added - rewritten if result else 0),
            rewrite_bytes=rewritten if command is Command.APPLY else table.rewrite_bytes,
            columns=tuple(_columns(table, result)),
            decay=tuple(DecayRecord(decay.measure.value, decay.value, decay.tolerance) for decay in table.decay),
        )
        records.append(record)
    return records


def _columns(table: TablePlan, result: TableResult | None) -> Iterator[ColumnRecord]:
    measured = {column.column: column for column in result.columns} if result else {}
    for column in table.columns:
        after = measured.get(column.column)
        predicted = after.predicted if after and after.predicted is not None else column.predicted
        yield ColumnRecord(column.column, column.touched, column.floor, predicted, after.touched if after else None)


def state_of(table: TablePlan, result: TableResult | None = None) -> RecordState:
    """Return the state of a table at the end of a command.

    It is that of the plan if the command did not apply it, or if `apply` left changes for a later run.
    """
    if result is not None and result.outcome in _OF_RESULT:
        return _OF_RESULT[result.outcome]
    if table.status in (Status.REFUSED, Status.ERROR):
        return RecordState.REFUSED if table.status is Status.REFUSED else RecordState.ERROR
    if table.as_declared:
        return RecordState.AS_DECLARED
    if table.is_first:
        return RecordState.FIRST_LAYOUT
    drifted = table.selects_nothing or table.drift or table.partitioning
    if drifted or any(group.reason in _DRIFTED for group in table.groups):
        return RecordState.DRIFT
    return RecordState.DECAY
