"""What groups save the queries of a workload, by hand: 4 files of 1000 bytes that all span 0 to 999 in each region.

A rewrite writes 4 files with ranges of a, so that one value is in a quarter of them.
"""

from dataclasses import replace
from datetime import date

import numpy as np
import pyarrow as pa
import pytest
from support.builders import make_bounds
from unit.planner.plans import SPEC, TARGET, File, state

from zlayout.advisor.costs import in_partitions, queries_on
from zlayout.advisor.worth import worth
from zlayout.errors import Location
from zlayout.planner.forecast import measure
from zlayout.planner.model import Reason
from zlayout.planner.proposal import Worth
from zlayout.planner.selection import Group
from zlayout.predicate.parse import parse_where
from zlayout.table.state import Column, TableState
from zlayout.workload.model import Query, Scan, Workload

EAST, WEST = [File(0, 999, "east")] * 4, [File(0, 999, "west")] * 4
BOTH = state(*EAST, *WEST)


def saved(
    *conditions: str, observed: TableState = BOTH, weight: float = 1.0, groups: list[range] | None = None
) -> Worth:
    """What groups of files save queries with these conditions; the groups are the files of each region."""
    scans = []
    for number, condition in enumerate(conditions):
        query = Query(condition, f"w.sql:{number}", weight)
        scans.append(Scan(query, "t", parse_where(condition, Location("w.sql"))))
    found = queries_on(Workload(tuple(scans), (), len(scans)), SPEC.table, observed)
    queries = in_partitions(found.queries, observed)
    chosen = [Group(np.array(g), Reason.DECAYED) for g in groups or [range(4), range(4, 8)]]
    return worth(SPEC, observed.files, measure(observed.files, SPEC), chosen, queries)


@pytest.mark.parametrize(
    ("condition", "opened"),
    [
        ("a = 500", 1),
        ("a >= 500", 3),
        ("a > 499 AND a < 750", 2),
        ("NOT (a >= 250)", 2),
        ("NOT (a < 250 OR a >= 500)", 2),
        ("NOT (a >= 250 AND b = 1)", 4),
        ("a IN (5, 700)", 2),
        ("NOT (a NOT IN (5, 700))", 2),
        ("a < 250 OR a >= 750", 4),
        ("a != 500", 4),
        ("a >= 0", 4),
        ("a < 500 OR b = 1", 4),
        ("a IS NOT NULL", 4),
        ("b = 1", 4),
    ],
)
def test_a_query_opens_its_share_of_the_rows_and_one_slice_for_each_range(condition: str, opened: float) -> None:
    east, west = saved(condition).saves
    assert east == pytest.approx((4 - opened) * TARGET, abs=0.1 * TARGET)
    assert west == east


def test_what_no_query_opens_saves_nothing() -> None:
    assert saved("a = 5000").saves.tolist() == [0.0, 0.0]
    east, west = saved("region = 'east' AND a = 500").saves
    assert (east > 2 * TARGET, west) == (True, 0.0)


def test_a_group_that_no_query_opens_saves_nothing_beside_one_that_is_opened() -> None:
    bounds = {**BOTH.files.bounds, "b": make_bounds([0] * 4 + [100] * 4, [9] * 4 + [109] * 4)}
    one = state(*EAST, *EAST)
    observed = replace(one, files=replace(one.files, bounds=bounds))
    first, second = saved("b = 105 AND a >= 500", observed=observed).saves
    assert (first, second) == (0.0, pytest.approx(TARGET, abs=0.1 * TARGET))


def test_queries_count_as_often_as_they_run() -> None:
    once, often = saved("a = 500"), saved("a = 500", weight=5)
    assert often.saves == pytest.approx(5 * once.saves)
    assert (once.executions, often.executions) == (1, 5)
    assert saved("a = 500", "a >= 500").saves == pytest.approx(once.saves + saved("a >= 500").saves)


def test_a_rewrite_of_one_file_alone_saves_nothing() -> None:
    # One file opens as often as before, whatever the slices of the whole partition are.
    assert saved("a = 500", groups=[range(1), range(4, 8)]).saves[0] == pytest.approx(0.0, abs=1e-6)


def test_new_files_beside_laid_out_ones_are_cut_by_the_rows_of_their_own_range() -> None:
    laid_out = [File(100 * n, 100 * n + 99, layout=0, group=0) for n in range(9)]
    observed = state(*laid_out, *[File(900, 999)] * 4)
    (group,) = saved("a >= 950", observed=observed, groups=[range(9, 13)]).saves
    assert group == pytest.approx((0.5 - 0.25) * 4 * TARGET, abs=0.05 * TARGET)


def test_a_group_across_partitions_saves_nothing_that_is_known() -> None:
    assert saved("a = 500", groups=[range(8)]).saves.tolist() == [0.0]


def test_deleted_rows_are_not_written_again() -> None:
    half = state(*[File(0, 999, deleted=50)] * 4)
    (group,) = saved("a >= 0", observed=half, groups=[range(4)]).saves
    assert group == pytest.approx(2 * TARGET)


@pytest.mark.parametrize(
    ("kind", "low", "high", "condition"),
    [
        (pa.string(), "aa", "zz", "a = 'mm'"),
        (pa.date32(), date(2026, 1, 1), date(2026, 12, 31), "a = '2026-07-01'"),
        (pa.float64(), 0.0, 1.0, "a = 0.5"),
    ],
)
def test_columns_of_any_type_are_cut(kind: pa.DataType, low: object, high: object, condition: str) -> None:
    bounds = make_bounds([low] * 8, [high] * 8, kind)
    observed = replace(
        BOTH, files=replace(BOTH.files, bounds={"a": bounds}), columns=(Column("a", kind, True), *BOTH.columns[1:])
    )
    east, _ = saved(condition, observed=observed).saves
    assert east == pytest.approx(3 * TARGET, abs=0.1 * TARGET)


def test_a_value_that_the_type_does_not_have_excludes_nothing() -> None:
    assert saved("a = 500.5").saves.tolist() == [0.0, 0.0]
