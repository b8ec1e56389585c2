"""The search finds what is known to be best, keeps to its time, and recognises columns that follow others."""

from dataclasses import replace
from datetime import date

import numpy as np
import pyarrow as pa
import pytest
from support.builders import make_layout
from unit.advisor.tables import lineitem_like, sample_of, table_state

from zlayout.advisor.compare import changes, shown_choice, verdict, zorder_block
from zlayout.advisor.model import Study, TableQuery
from zlayout.advisor.study import Progress, Question, rank_correlation, study
from zlayout.planner.simulation import Drawn, new_files, targets_of, whole_rewrite
from zlayout.predicate.model import And, Compare, Predicate
from zlayout.spec.model import Layout, ZorderColumn
from zlayout.spec.yaml import parse
from zlayout.workload.model import Query

ROWS = 20_000
DATA = lineitem_like(ROWS, seed=3)
SHUFFLED = np.random.default_rng(1).integers(0, 40, ROWS)
BASE = make_layout(target_size=5_000)
EVERY = (np.ones(1, bool),)


def points(column: str, count: int, weight: float = 1.0) -> list[TableQuery]:
    values = DATA[column].take(pa.array(np.random.default_rng(5).integers(0, ROWS, count))).to_pylist()
    return [asked(f"{column}.sql:{n}", Compare(column, "=", v), weight) for n, v in enumerate(values)]


def asked(place: str, predicate: Predicate, weight: float = 1.0) -> TableQuery:
    return TableQuery(Query("", place, weight), (predicate,), EVERY)


def studied(queries: list[TableQuery], file: np.ndarray = SHUFFLED, **asked_for: object) -> Study:
    state = table_state(DATA, file)
    question = Question(**{"layouts": (), "declared": None, "base": BASE, "search": True, **asked_for})  # type: ignore[arg-type]
    rewrite = whole_rewrite(BASE, state, state.columns, sample_of(DATA, file, 7))
    return study(state, tuple(queries), rewrite, question)


def columns(found: Study) -> list[str]:
    shown = shown_choice(found)
    return [c.name for c in shown.layout.columns] if shown else []


def test_one_column_that_is_asked_for_is_the_layout() -> None:
    found = studied(points("part", 20))
    assert columns(found) == ["part"]
    assert found.now.mean_files == pytest.approx(40, abs=1)
    assert found.best.costs.mean_files < 1.5
    assert found.best.files == 40


def test_two_columns_asked_for_alike_share_the_files() -> None:
    found = studied(points("part", 20) + points("ship", 20))
    assert set(columns(found)) == {"part", "ship"}
    # 40 files in 6 by 7 slices
    assert found.best.costs.mean_files == pytest.approx(40**0.5, rel=0.15)
    assert len(found.steps) == 2
    assert found.steps[0].costs.mean_files > 2 * found.best.costs.mean_files


def test_the_search_adds_columns_until_one_has_no_gain() -> None:
    # Four columns have conditions. The second one to be added has no gain, so that no third one is tried.
    found = studied(points("part", 40) + points("ship", 1) + points("receipt", 1) + points("mode", 1))
    assert columns(found) == ["part"]
    assert [len(step.layout.columns) for step in found.steps] == [1, 2]


def test_a_column_asked_for_more_gets_more_slices() -> None:
    found = studied(points("part", 20, weight=50.0) + points("ship", 20))
    assert columns(found)[0] == "part"
    assert found.best.touched["part"] < 3


def test_of_two_columns_that_follow_each_other_one_is_enough() -> None:
    found = studied(points("ship", 20, weight=2.0) + points("receipt", 20))
    assert columns(found) == ["ship"]
    receipt = next(c for c in found.columns if c.name == "receipt")
    assert receipt.follows[0] == "ship"
    assert receipt.follows[1] > 0.99
    # and the layout serves it, within a month of days
    assert found.best.costs.mean_files < 3


def test_a_column_of_few_values_that_is_asked_for_by_equality_could_be_a_partition() -> None:
    found = studied(points("mode", 5) + points("part", 5))
    keys = {c.name: c.partition_key for c in found.columns}
    assert keys == {"mode": True, "part": False}


def test_the_verdict_says_when_the_present_layout_is_as_good_as_any() -> None:
    order = np.argsort(DATA["part"].to_numpy(), kind="stable")
    file = np.empty(ROWS, np.int64)
    file[order] = np.arange(ROWS) * 40 // ROWS
    found = studied(points("part", 20), file)
    assert found.best is None
    assert verdict(found).startswith("No layout is much better than the present one")


@pytest.mark.parametrize("search", [True, False])
def test_where_no_file_is_read_now_no_layout_is_better(search: bool) -> None:
    outside = [asked("q.sql:1", Compare("part", "=", 10**9))]
    layout = make_layout("part", target_size=5_000)
    found = studied(outside, layouts=(layout,), declared=layout, search=search)
    assert (found.now.mean_bytes, found.best) == (0.0, None)
    assert verdict(found) == "No layout is better than the present one: the queries read no file now."


def test_the_declared_layout_is_named_when_it_is_as_good() -> None:
    declared = make_layout("part", target_size=5_000)
    assert verdict(studied(points("part", 20), declared=declared)).startswith(
        "No layout is better than the declared one"
    )


def test_a_query_that_gets_slower_is_reported_with_its_factor() -> None:
    order = np.argsort(DATA["ship"].to_numpy(zero_copy_only=False), kind="stable")
    file = np.empty(ROWS, np.int64)
    file[order] = np.arange(ROWS) * 40 // ROWS
    found = studied(points("part", 10, weight=10.0) + points("ship", 1), file)
    assert found.best is not None
    reported = {c.location: c for c in changes(found, found.best.costs)}
    slow = reported["ship.sql:0"]
    assert slow.verdict == "slower"
    assert slow.files[0] <= 2 < slow.files[1]
    assert slow.factor == pytest.approx(slow.bytes[0] / slow.bytes[1])
    assert reported["part.sql:0"].verdict == "faster"


def test_a_time_limit_ends_the_search_with_a_result() -> None:
    found = studied(points("part", 5) + points("ship", 5), seconds=0.0)
    assert found.interrupted
    assert found.tried == 1
    assert found.choices


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, Layout]]:
    """(rows of the sample, layout) of each simulation."""
    calls: list[tuple[int, Layout]] = []

    def simulate(drawn: Drawn, layout: Layout) -> object:
        calls.append((len(drawn), layout))
        return new_files(drawn, layout)

    monkeypatch.setattr("zlayout.advisor.costs.new_files", simulate)
    return calls


@pytest.mark.parametrize("rows", [2_000, ROWS])
def test_no_layout_is_simulated_twice_on_the_same_rows(
    rows: int, simulated: list[tuple[int, Layout]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zlayout.advisor.study.SEARCH_ROWS", rows)
    monkeypatch.setattr("zlayout.advisor.study.MIN_ROWS_PER_FILE", 1)
    found = studied(points("part", 3) + points("ship", 3))
    assert len(simulated) == len(set(simulated))
    assert {n for n, _ in simulated} == {rows, ROWS}
    assert {step.layout for step in found.steps} <= {layout for n, layout in simulated if n == ROWS}


def test_a_time_limit_ends_the_last_measuring_too(
    simulated: list[tuple[int, Layout]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zlayout.advisor.study.SEARCH_ROWS", 2_000)
    monkeypatch.setattr("zlayout.advisor.study.MIN_ROWS_PER_FILE", 1)
    clock = iter(range(10_000))
    monkeypatch.setattr("time.monotonic", lambda: float(next(clock)))
    found = studied(points("part", 3) + points("ship", 3), seconds=10.0)
    # 8 of 10 ticks are for the search
    assert [n for n, _ in simulated].count(ROWS) in (1, 2)
    assert found.interrupted
    assert len(found.steps) >= 1
    assert all(step.touched.keys() == step.layout.weights.keys() for step in found.steps)
    assert found.choices


def test_progress_of_the_search_is_reported() -> None:
    reported: list[Progress] = []
    state = table_state(DATA, SHUFFLED)
    question = Question((), None, BASE, True)
    rewrite = whole_rewrite(BASE, state, state.columns, sample_of(DATA, SHUFFLED))
    study(state, tuple(points("part", 3)), rewrite, question, reported.append)
    assert reported[0].stage == "one column"
    assert reported[-1].best is not None


def test_the_block_is_a_layout_that_the_spec_reads() -> None:
    found = studied(points("part", 20, weight=9.0) + points("ship", 20))
    data = parse(zorder_block(found.best).encode(), "pasted").data
    names = [c if isinstance(c, str) else c["name"] for c in data["zorder"]["columns"]]
    assert names == columns(found)
    assert data["zorder"]["curve"] == found.best.layout.curve


def test_rank_correlation() -> None:
    up = np.arange(10)
    assert rank_correlation(up, up * 1) == pytest.approx(1)
    assert rank_correlation(up, up[::-1].copy()) == pytest.approx(-1)
    assert rank_correlation(up, np.zeros(10, np.int64)) == 0
    # by hand: ranks 1..4 and 2, 1, 4, 3 have the squared differences 1, 1, 1, 1: 1 - 6 * 4 / (4 * 15) = 0.6
    assert rank_correlation(np.array([0, 1, 2, 3]), np.array([1, 0, 3, 2])) == pytest.approx(0.6)
    # a null drops the pair
    assert rank_correlation(np.array([0, 1, 2, -1]), np.array([0, 1, 2, 0])) == pytest.approx(1)


def test_files_by_the_target_size_or_as_asked() -> None:
    state = table_state(DATA, SHUFFLED)
    assert targets_of(state.files, 20_000).tolist() == [10]
    assert targets_of(state.files, 10**9).tolist() == [1]
    assert targets_of(state.files, 20_000, 64).tolist() == [64]


def test_ranges_are_served_too() -> None:
    month: Predicate = And((Compare("ship", ">=", date(1971, 1, 1)), Compare("ship", "<", date(1971, 2, 1))))
    found = studied([asked("r.sql:1", month)])
    assert columns(found) == ["ship"]
    assert found.best.costs.mean_files <= 2


def test_no_layout_of_two_columns_written_by_hand_is_better() -> None:
    year = And((Compare("ship", ">=", date(1972, 1, 1)), Compare("ship", "<", date(1973, 1, 1))))
    queries = [
        *points("mode", 3),
        *points("part", 3, weight=0.5),
        asked("year.sql:1", year, 2.0),
    ]
    singles = [(c,) for c in ("ship", "mode", "part")]
    pairs = [(a, b) for (a,) in singles for (b,) in singles if a != b]
    by_hand = tuple(
        replace(BASE, columns=tuple(ZorderColumn(c, w) for c, w in zip(names, (weight, 1.0), strict=False)))
        for names in (*singles, *pairs)
        for weight in (1.0, 4.0)
    )
    found = studied(queries, layouts=by_hand)
    *given, searched = found.choices
    assert len(given) == 18
    least = min(c.costs.mean_bytes for c in given)
    assert searched.costs.mean_bytes <= 1.005 * least
    # and they differ, or any would do
    assert least < 0.8 * max(c.costs.mean_bytes for c in given)
