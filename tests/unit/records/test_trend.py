"""The slope of decay measures, and in which cases it is stated when they pass their tolerance."""

from collections.abc import Sequence
from datetime import datetime, timedelta

import numpy as np
import pytest
from support.records import START, make_record

from zlayout.history_records import ColumnRecord, Command, DecayRecord, Record, growths, since_rewrite, touched_trend


def at(day: float) -> datetime:
    return START + timedelta(days=day)


def growing(days: Sequence[float], values: Sequence[float]) -> list[Record]:
    return [make_record(day, value) for day, value in zip(days, values, strict=True)]


def test_a_straight_line_passes_the_tolerance_where_it_meets_it() -> None:
    """From 1% by 1% per day: 5% on day 4, and 10% after 5 more days."""
    (growth,) = growths(growing(range(5), [0.01, 0.02, 0.03, 0.04, 0.05]), at(4))
    assert growth.days == pytest.approx((5.0, 5.0))
    assert (growth.measure, growth.value, growth.tolerance, growth.records) == ("unclustered", 0.05, 0.1, 5)
    assert growth.per_day == pytest.approx(0.01)


def test_days_count_from_now_and_not_from_the_newest_record() -> None:
    records = growing(range(5), [0.01, 0.02, 0.03, 0.04, 0.05])
    assert growths(records, at(6))[0].days == pytest.approx((3.0, 3.0))
    assert growths(records, at(9.5)) == []  # it would have passed; newer records must show it


def test_noise_gives_a_range_that_contains_the_truth_in_most_cases() -> None:
    """A line of 0.5% per day with noise of 0.2%, 200 times: an interval of 90% misses in about 20 cases."""
    random, missed = np.random.default_rng(3), 0
    for _ in range(200):
        values = 0.005 * np.arange(12) + random.normal(0, 0.002, 12)
        records = [*growing(range(11), values[:11]), make_record(11, values[11])]
        (growth,) = growths(records, at(11))
        low, high = (growth.tolerance - growth.value) / np.array(growth.days[::-1])
        missed += not low <= 0.005 <= high
    assert 5 <= missed <= 40


def test_the_interval_ends_at_the_slopes_that_kendalls_statistic_gives() -> None:
    """Six records have 15 slopes, and 1.6449 * sqrt(6 * 5 * 17 / 18) is 8.8: the ends are the slopes 3 and 13.

    Sorted, in % per day: -1, -1, 1/3, 0.5, 0.5, 0.75, 0.75, 1, 1, 1, 4/3, 4/3, 2, 2, 3.
    """
    (growth,) = growths(growing(range(6), [0.01, 0.03, 0.02, 0.05, 0.04, 0.06]), at(5))
    assert growth.per_day == pytest.approx(0.01)
    assert growth.days == pytest.approx((0.04 / 0.02, 0.04 / (0.01 / 3)))


def test_one_outlier_changes_little() -> None:
    values = [0.01, 0.02, 0.03, 0.04, 0.09, 0.06, 0.07, 0.08]
    (growth,) = growths(growing(range(8), values), at(7))
    assert growth.per_day == pytest.approx(0.01)


@pytest.mark.parametrize(
    ("days", "values"),
    [
        (range(3), [0.01, 0.02, 0.03]),  # too few
        ([0, 0.3, 0.6, 0.9], [0.01, 0.02, 0.03, 0.04]),  # in less than a day
        (range(5), [0.05] * 5),  # no slope
        (range(5), [0.05, 0.04, 0.03, 0.02, 0.01]),  # it falls
        (range(5), [0.05, 0.02, 0.07, 0.01, 0.06]),  # no clear slope
        (range(5), [0.08, 0.09, 0.10, 0.11, 0.12]),  # past the tolerance already
        (range(5), [0.0100, 0.0101, 0.0102, 0.0103, 0.0104]),  # in 896 days
        ([0, 0, 0, 2], [0.01, 0.02, 0.03, 0.02]),  # the slope between equal times is unknown
    ],
)
def test_nothing_is_stated_that_the_records_do_not_support(days: Sequence[float], values: Sequence[float]) -> None:
    assert growths(growing(days, values), at(max(days))) == []


def test_only_records_after_the_last_rewrite_of_the_present_layout_count() -> None:
    before = growing(range(6), [0.01, 0.02, 0.03, 0.04, 0.05, 0.06])
    rewrite = make_record(6, 0.07, command=Command.APPLY, rewrite_bytes=1)
    after = growing([7, 8, 9], [0.01, 0.02, 0.03])
    assert since_rewrite([*before, rewrite, *after]) == after
    assert growths([*before, rewrite, *after], at(9)) == []
    nothing = make_record(6, 0.07, command=Command.APPLY)
    assert since_rewrite([*before, nothing]) == [*before, nothing]
    other = [make_record(day, 0.01, layout_id="other") for day in range(3)]
    assert since_rewrite([*other, *after]) == after
    unread = make_record(8.5, decay=(), columns=())
    assert since_rewrite([*after[:2], unread, *after[2:]]) == after


def test_no_records_have_no_growth() -> None:
    assert growths([], at(0)) == []
    assert touched_trend([]).columns == {}


def test_each_measure_has_its_own_slope() -> None:
    def record(day: int) -> Record:
        measures = (DecayRecord("unclustered", 0.05, 0.1), DecayRecord("touched", 1.0 + day / 20, 1.5))
        return make_record(day, decay=measures)

    (growth,) = growths([record(day) for day in range(5)], at(4))
    assert (growth.measure, growth.days[0]) == ("touched", pytest.approx(6.0))


def test_a_trend_has_touched_at_the_end_of_each_record() -> None:
    rewritten = make_record(1, columns=(ColumnRecord("a", 9.0, measured=3.0), ColumnRecord("b", 5.0)))
    trend = touched_trend([make_record(0, touched=8.0), make_record(0.5, columns=()), rewritten])
    assert trend.times == (at(0).timestamp(), at(1).timestamp())
    assert trend.columns == {"a": (8.0, 3.0), "b": (None, 5.0)}
