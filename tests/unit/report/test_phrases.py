"""The phrases of several reports: decay measures, counts of partitions, and when a rewrite has paid back."""

from dataclasses import replace

import pytest
from unit.report.sample_plans import ORDERS, group

from zlayout.planner.model import ChangePartitioning, Decay, Measure, Payback, QueryCost, WorkloadForecast
from zlayout.report.words import decay_text, partition_count, reasons_text, storage_text, workload_lines

GIB = 2**30


@pytest.mark.parametrize(
    ("measure", "value", "tolerance", "text"),
    [
        (Measure.DELETED_ROWS, 0.25, 0.1, "deleted_rows 25%, tolerance 10%"),
        (Measure.DELETED_ROWS, 0.1004, 0.1, "deleted_rows 10.04%, tolerance 10.00%"),
        (Measure.UNCLUSTERED, 0.0996, 0.1, "unclustered 9.96%, tolerance 10.00% (within)"),
        (Measure.UNCLUSTERED, 0.1, 0.1, "unclustered 10%, tolerance 10% (within)"),
        (Measure.TOUCHED, 1.502, 1.5, "touched 1.502x, tolerance 1.500x"),
        (Measure.TOUCHED, 1.7, 1.5, "touched 1.70x, tolerance 1.50x"),
    ],
)
def test_the_text_shows_whether_a_measure_exceeds_its_tolerance(
    measure: Measure, value: float, tolerance: float, text: str
) -> None:
    assert decay_text(Decay(measure, value, tolerance)) == text


def test_partitions_of_groups_with_several_partitions_are_a_range() -> None:
    one, other = (replace(group(f"month={n}"), partition_number=n) for n in (1, 2))
    assert partition_count((one, replace(one, id="second"), other)) == "2"
    moved = [replace(g, partitions=3) for g in (one, other)]
    # By hand: both groups have three partitions, and their first ones differ. All others may be the same.
    assert partition_count(moved, 9) == "3..6"
    assert partition_count(moved, 5) == "3..5"
    assert partition_count(moved[:1], 9) == "3"
    assert partition_count(moved) == "3 or more"
    assert reasons_text((*moved, replace(one, reason=other.reason))) == reasons_text((one,))


def workload(low: float, predicted: float, high: float, pay: Payback) -> WorkloadForecast:
    """Return the forecast of queries that read 10 GiB each now. The other sizes are GiB after apply."""
    now, *after = (QueryCost(1, round(size * GIB)) for size in (10, predicted, low, high))
    return WorkloadForecast(("w.sql",), 1, 1.0, now, *after, payback=pay)


def last_line(forecast: WorkloadForecast) -> str:
    *_, line = workload_lines(replace(ORDERS, workload=forecast))
    return line


def test_a_pay_back_is_as_exact_as_its_forecast() -> None:
    # A query saves 2 GiB, and 200 GiB are read and written: 100 queries.
    pay = Payback(100 * GIB, 60.0, 100.0)
    read = "the rewrite reads and writes 100 GiB, about 60 s at the speed of the last run; paid back after "
    assert last_line(workload(7.8, 8, 8.2, pay)) == f"{read}100 queries"
    # If it saves from 1 to 4 GiB: 200 to 50 queries.
    assert last_line(workload(6, 8, 9, pay)) == f"{read}50..200 queries"
    # 50 queries a day save 50 to 200 GiB a day, and have saved 200 GiB after 4 days to 1 day.
    pay = Payback(100 * GIB, 60.0, 100.0, 100 * GIB, 2.0, 0.002, 0.5, 0.004)
    assert last_line(workload(6, 8, 9, pay)) == (
        "the rewrite reads and writes 100 GiB, about 60 s for <0.01 at the speed of the last run; "
        "50 GiB..200 GiB (0.25..1.00) less read a day, paid back after 1..4 days, in money after <0.1 days"
    )


def test_a_pay_back_that_the_error_range_excludes_is_not_stated() -> None:
    assert "not known whether it pays back" in last_line(workload(6, 8, 10, Payback(100 * GIB, None, 100.0)))


def test_a_rewrite_after_which_queries_read_no_less_does_not_pay_back() -> None:
    for low in (10, 11):
        line = last_line(workload(low, 12, 13, Payback(100 * GIB, None, None)))
        assert line.endswith("; queries then read no less")


def test_a_full_rewrite_needs_the_storage_of_two() -> None:
    assert storage_text(ORDERS, None) == "the replaced 1.17 TiB stay until VACUUM"
    change = ChangePartitioning((), ("region",), full_rewrite=True, location=None)
    twice = "the replaced 1.17 TiB and ~1.17 TiB that are written in between stay until VACUUM"
    assert storage_text(replace(ORDERS, actions=(change, *ORDERS.actions)), None) == twice
    alone = replace(ORDERS, settings=(), actions=(change, *ORDERS.actions))
    assert storage_text(alone, None) == "the replaced 1.17 TiB stay until VACUUM"
