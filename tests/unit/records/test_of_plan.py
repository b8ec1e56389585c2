"""What a record states of a plan and of a result, and which state that is."""

from dataclasses import replace

import pytest
from support.records import START
from unit.report.sample_plans import DONE, EVENTS, ORDERS, UNCHANGED

from zlayout.history_records import Command, Record, RecordState, records_of, state_of
from zlayout.planner.model import Plan, Reason, Status, TablePlan
from zlayout.planner.run_report import ResultStatus, RunReport, TableResult


def record_of(table: TablePlan, result: TableResult | None = None) -> Record:
    command = Command.APPLY if result else Command.DRIFT
    report = RunReport(Plan("0", (table,)), {table.table: result} if result else {})
    (record,) = records_of(report, {table.table: "id"}, command, "r1", START)
    assert Record.of_row(record.row()) == record
    return record


def test_a_plan_gives_what_there_is_and_what_is_to_be_rewritten() -> None:
    record = record_of(ORDERS)
    assert (record.command, record.run_id, record.layout_id, record.time) == (Command.DRIFT, "r1", "id", START)
    assert (record.files, record.rewrite_bytes, record.rewrote) == (9610, 1200 * 2**30, False)
    assert [(c.column, c.touched, c.predicted, c.measured) for c in record.columns] == [
        ("customer_id", 9610.0, 35.4, None),
        ("order_date", 9610.0, 35.4, None),
    ]
    assert [column.last for column in record.columns] == [9610.0, 9610.0]


def test_a_result_gives_what_was_rewritten_and_measured() -> None:
    measured = DONE.columns[0]
    record = record_of(ORDERS, replace(DONE, bytes_removed=700, columns=(replace(measured, predicted=30.0),)))
    assert (record.run_id, record.rewrite_bytes, record.rewrote) == (DONE.run_id, 700, True)
    assert record.files == 9610 - DONE.files_removed + DONE.files_added
    assert record.bytes == ORDERS.bytes - 700 + DONE.bytes_added
    first, second = record.columns
    assert (first.column, first.touched, first.predicted, first.measured) == (
        "customer_id",
        9610.0,
        30.0,
        measured.touched,
    )
    assert (first.last, second.measured, second.last) == (measured.touched, None, 9610.0)


def test_a_table_that_apply_did_not_start_with_has_rewritten_nothing() -> None:
    (record,) = records_of(RunReport(Plan("0", (ORDERS,))), {}, Command.APPLY, "r1", START)
    assert (record.rewrite_bytes, record.run_id, record.state) == (0, "r1", RecordState.DRIFT)


@pytest.mark.parametrize("outcome", [ResultStatus.INTERRUPTED, ResultStatus.FAILED, ResultStatus.UNKNOWN])
def test_a_table_that_was_not_read_after_a_commit_has_no_metrics_of_before(outcome: ResultStatus) -> None:
    left = replace(DONE, outcome=outcome, commits=1, columns=())
    record = record_of(ORDERS, left)
    assert record.files == 9610 - DONE.files_removed + DONE.files_added
    assert (record.columns, record.decay) == ((), ())
    assert record.state == ("interrupted" if outcome is ResultStatus.INTERRUPTED else "error")
    nothing = replace(left, commits=0, files_removed=0, files_added=0, bytes_added=0, bytes_removed=0)
    assert record_of(ORDERS, nothing).columns == record_of(ORDERS).columns
    assert record_of(ORDERS, nothing).state == ("drift" if outcome is ResultStatus.INTERRUPTED else "error")


LAID_OUT = replace(ORDERS, drift=(), actions=(replace(ORDERS.groups[0], reason=Reason.DECAYED),))


@pytest.mark.parametrize(
    ("table", "state"),
    [
        (UNCHANGED, "as_declared"),
        (replace(UNCHANGED, selects_nothing=True), "drift"),
        (ORDERS, "drift"),
        (EVENTS, "drift"),  # the partitioning changes
        (LAID_OUT, "decay"),
        (replace(LAID_OUT, actions=(replace(ORDERS.groups[0], reason=Reason.LAYOUT_CHANGED),)), "drift"),
        (replace(LAID_OUT, actions=(replace(ORDERS.groups[0], reason=Reason.NOT_LAID_OUT),)), "first_layout"),
        (replace(ORDERS, status=Status.REFUSED), "refused"),
        (replace(ORDERS, status=Status.ERROR), "error"),
    ],
)
def test_the_state_is_that_of_the_plan(table: TablePlan, state: str) -> None:
    assert state_of(table) == state


@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        ("as_declared", "as_declared"), ("within_budget", "drift"), ("out_of_time", "drift"), ("not_yet", "drift"),
        ("interrupted", "interrupted"), ("failed", "error"), ("unknown", "error"),
    ],
)  # fmt: skip
def test_a_result_that_left_work_keeps_the_state_of_the_plan_unless_interrupted(outcome: str, state: str) -> None:
    assert state_of(ORDERS, replace(DONE, outcome=ResultStatus(outcome))) == state


def test_a_record_of_another_version_is_no_record() -> None:
    row = record_of(ORDERS).row()
    with pytest.raises(ValueError, match="expected record version 1, found 2"):
        Record.of_row(row | {"record_version": 2})
