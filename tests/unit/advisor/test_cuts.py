"""Cuts are chosen for a part of the queries, and recommended if the others read less."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta
from functools import partial

import numpy as np
import pyarrow as pa
import pytest
from support.builders import make_layout
from unit.advisor.tables import drawn_of, sample_of, table_state

from zlayout.advisor import cuts
from zlayout.advisor import study as studied
from zlayout.advisor.compare import zorder_block
from zlayout.advisor.costs import measure
from zlayout.advisor.cuts import (
    MAX_TEXT_OF_CUT,
    MIN_SAVING_OF_CUTS,
    Checked,
    candidates,
    note_on_cuts,
    propose,
    search_cuts,
    split,
    with_cuts,
)
from zlayout.advisor.model import Choice, Costs, TableQuery
from zlayout.advisor.study import Question, study
from zlayout.planner.simulation import Drawn, whole_rewrite
from zlayout.predicate.model import And, Compare, In, IsNull, Not, Predicate
from zlayout.spec.model import Layout, ZorderColumn
from zlayout.table.state import TableState
from zlayout.workload.model import Query

ROWS, FILES = 20_000, 24
RANDOM = np.random.default_rng(2)
DAYS = np.datetime64("2026-01-01") + RANDOM.integers(0, 360, ROWS)
STATUS = RANDOM.choice(["done", "failed", "open"], ROWS, p=[0.8, 0.1, 0.1])
DATA = {"day": pa.array(DAYS), "status": pa.array(STATUS)}
DRAWN = drawn_of(DATA, [FILES])
KD = make_layout("day", "status")


def asked(predicate: Predicate, weight: float = 1.0, place: str = "q.sql:1") -> TableQuery:
    return TableQuery(Query("", place, weight), (predicate,), (np.ones(1, bool),))


def in_month(number: int, weight: float = 1.0) -> TableQuery:
    first = date(2026, 1, 1) + timedelta(days=30 * number)
    return asked(And((Compare("day", ">=", first), Compare("day", "<", first + timedelta(days=30)))), weight)


MONTHS = [in_month(number % 11) for number in range(44)]


def checked(queries: list[TableQuery], seconds: float = 60.0) -> Checked | None:
    return search_cuts(KD, queries, DRAWN, partial(measure, [DRAWN]), time.monotonic() + seconds)


def test_every_constant_is_a_candidate_on_the_side_of_its_operator() -> None:
    queries = [
        asked(And((Compare("n", ">=", 1), Compare("n", "<=", 5), Compare("n", "!=", 3))), 2),
        asked(In("s", ("a",))),
        asked(Not(IsNull("n"))),
    ]
    assert candidates(queries) == [
        Compare("n", "<", 1),
        Compare("n", "<=", 5),
        Compare("s", "<", "a"),
        Compare("s", "<=", "a"),
    ]


def test_queries_with_other_constants_are_divided_and_repeated_ones_are_in_both() -> None:
    alone = asked(Compare("status", "=", "open"))
    often = in_month(3, weight=10)
    second = in_month(1)
    chosen_from, held_out = split([in_month(0), second, in_month(2), often, alone])
    assert [q.weight for q in chosen_from] == [1, 1, 5, 1]
    assert [q.weight for q in held_out] == [1, 5]
    assert held_out[0] is second
    assert chosen_from[-1] is alone


def test_the_cut_that_saves_most_is_the_first_and_rare_sides_are_no_cuts() -> None:
    month = And((Compare("day", ">=", date(2026, 7, 1)), Compare("day", "<", date(2027, 1, 1))))
    tiny = Compare("day", "<", date(2026, 1, 2))
    cuts = propose([asked(month, 5), asked(tiny)], DRAWN)
    assert cuts == (Compare("day", "<", date(2026, 7, 1)),)


def test_partitions_that_a_query_does_not_read_have_no_gain() -> None:
    drawn = drawn_of(DATA, [FILES // 2, 1], partition=np.arange(ROWS) % 2)
    half = Compare("day", "<", date(2026, 7, 1))
    query = TableQuery(Query("", "q.sql:1", 1.0), (half,), (np.array([False, True]),))
    assert propose([query], drawn) == ()
    other = replace(query, partitions=(np.array([True, False]),))
    assert propose([other], drawn) == (half,)


def test_cuts_at_the_months_that_are_asked_for_are_better_than_quantiles_for_other_queries_too() -> None:
    found = checked(MONTHS)
    assert found.share < 0.8
    assert found.saves(MIN_SAVING_OF_CUTS)
    assert {cut.column for cut in found.layout.cuts} == {"day"}


def test_constants_that_do_not_come_again_are_not_recommended() -> None:
    rng = np.random.default_rng(6)
    starts = [date(2026, 1, 1) + timedelta(days=int(n)) for n in rng.integers(0, 350, 60)]
    queries = [asked(And((Compare("day", ">=", s), Compare("day", "<", s + timedelta(days=9))))) for s in starts]
    found = checked(queries)
    assert found is None or not found.saves(MIN_SAVING_OF_CUTS)


@pytest.mark.parametrize("queries", [[in_month(1)], [in_month(1), asked(Compare("status", "=", "open"))]])
def test_without_queries_to_check_them_there_are_no_cuts(queries: list[TableQuery]) -> None:
    assert checked(queries) is None


def test_no_time_is_no_cuts() -> None:
    assert checked(MONTHS, seconds=-1) is None


def test_cuts_that_are_left_out_only_in_part_are_kept_at_the_end_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Layout] = []

    def counted(draws: list[Drawn], layout: Layout, queries: list[TableQuery], **options: bool) -> Choice:
        calls.append(layout)
        return measure(draws, layout, queries, **options)

    monkeypatch.setattr(cuts, "measure", counted)
    monkeypatch.setattr(cuts.time, "monotonic", lambda: len(calls))
    whole = search_cuts(KD, MONTHS, DRAWN, partial(measure, [DRAWN]), float("inf"))
    needed = len(calls)
    calls.clear()
    found = search_cuts(KD, MONTHS, DRAWN, partial(measure, [DRAWN]), needed // 2)
    assert len(found.layout.cuts) > len(whole.layout.cuts)
    assert len(calls) <= needed // 2 + 3


def test_columns_of_cuts_become_z_order_columns() -> None:
    cuts = (Compare("status", "<=", "done"), Compare("day", "<", date(2026, 7, 1)))
    found = with_cuts(make_layout(ZorderColumn("day", 3)), cuts)
    assert [(c.name, c.weight) for c in found.columns] == [("day", 3), ("status", 1)]
    assert (found.curve, found.cuts) == ("workload", cuts)


def test_the_study_recommends_cuts_and_says_how_they_were_checked() -> None:
    shuffled = np.random.default_rng(1).integers(0, FILES, ROWS)
    state: TableState = table_state(DATA, shuffled)
    question = Question((), None, make_layout(), search=True, cuts=True)
    rewrite = whole_rewrite(make_layout(), state, state.columns, sample_of(DATA, shuffled), FILES)
    found = study(state, tuple(MONTHS), rewrite, question)
    assert found.best.layout.curve == "workload"
    (note,) = found.notes
    assert note.endswith("the cuts for each half of them were chosen by the other half.")
    without = study(state, tuple(MONTHS), rewrite, replace(question, cuts=False))
    assert found.best.costs.mean_bytes < 0.9 * without.best.costs.mean_bytes


def test_cuts_that_make_files_larger_than_they_save_are_not_recommended(monkeypatch: pytest.MonkeyPatch) -> None:
    grows = {"workload": 1.5}
    monkeypatch.setattr(studied, "size_ratios", lambda *_: lambda layout: grows.get(layout.curve, 1.0))
    shuffled = np.random.default_rng(1).integers(0, FILES, ROWS)
    state: TableState = table_state(DATA, shuffled)
    rewrite = whole_rewrite(make_layout(), state, state.columns, sample_of(DATA, shuffled), FILES)
    found = study(state, tuple(MONTHS), rewrite, Question((), None, make_layout(), search=True, cuts=True))
    assert found.best is not None
    assert (found.best.layout.cuts, found.notes) == ((), ())


@pytest.mark.parametrize(("growth", "columns"), [(1.0, {"day", "status"}), (2.5, {"day"})])
def test_other_columns_are_not_cut_if_files_grow_by_more_than_it_saves(growth: float, columns: set[str]) -> None:
    def in_plan(layout: Layout, queries: Sequence[TableQuery]) -> Choice:
        choice = measure([DRAWN], layout, queries)
        ratio = growth if "status" in layout.weights else 1.0
        return replace(choice, costs=choice.costs.with_size_ratio(ratio))

    queries = [*MONTHS, *(asked(Compare("status", "=", "open")) for _ in range(12))]
    found = search_cuts(make_layout("day"), queries, DRAWN, in_plan, float("inf"))
    assert {column.name for column in found.layout.columns} == {cut.column for cut in found.layout.cuts} == columns


def test_the_note_counts_in_the_singular() -> None:
    note = note_on_cuts(Checked(with_cuts(KD, [Compare("day", "<", date(2026, 7, 1))]), 2, 0.9))
    assert note == (
        "1 cut at constants of the workload. In a check, 2 queries read 90% of the bytes that they read without cuts; "
        "the cuts for each half of them were chosen by the other half."
    )


def test_cuts_without_which_the_queries_read_no_more_are_left_out() -> None:
    found = checked(MONTHS)
    before = measure([DRAWN], found.layout, MONTHS).costs.mean_bytes
    for cut in found.layout.cuts:
        rest = [other for other in found.layout.cuts if other != cut]
        assert measure([DRAWN], with_cuts(KD, rest), MONTHS).costs.mean_bytes > before
    assert len(found.layout.cuts) < len(propose(MONTHS, DRAWN))


def test_cuts_are_printed_one_in_a_line() -> None:
    found = checked(MONTHS)
    block = zorder_block(Choice(found.layout, FILES, Costs(np.zeros(1), np.zeros(1), np.ones(1)), {}))
    lines = block.splitlines()
    assert lines[:4] == ["zorder:", "  columns:", "  - day", "  - status"]
    assert lines[4:6] == ["  curve: workload", "  cuts:"]
    assert all(line.startswith("  - day < DATE '2026-") for line in lines[6:-1])
    assert lines[-1] == "engine: zlayout"


def test_constants_that_are_too_long_for_a_layout_are_no_cuts() -> None:
    long = asked(Compare("status", "<", "o" * (MAX_TEXT_OF_CUT + 1)))
    assert propose([long], DRAWN) == ()
    assert propose([asked(Compare("status", "<", "o" * MAX_TEXT_OF_CUT))], DRAWN) != ()
