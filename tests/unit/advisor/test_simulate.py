"""Simulated files and what queries touch in them, against counts by brute force."""

from __future__ import annotations

from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.boxes import touched_of
from support.builders import make_layout
from unit.advisor.tables import drawn_of, lineitem_like, matching_rows, sample_of, table_state

from zlayout.advisor.costs import costs, lowest, measure
from zlayout.advisor.model import TableQuery
from zlayout.advisor.study import Question, study
from zlayout.curve.layout import build
from zlayout.planner.simulation import new_files, whole_rewrite
from zlayout.predicate.model import And, Compare, In, IsNull, Or, Predicate
from zlayout.spec.model import Layout, ZorderColumn
from zlayout.table.metrics import layout_metrics
from zlayout.workload.model import Query

DATA = lineitem_like(4_000)
ALL = (np.ones(1, bool),)
QUERIES: list[Predicate] = [
    And((Compare("ship", ">=", date(1972, 1, 1)), Compare("ship", "<", date(1972, 2, 1)))),
    Compare("receipt", "=", date(1973, 5, 1)),
    In("mode", ("MAIL", "SHIP")),
    Or((Compare("part", "<", 500), And((Compare("mode", "=", "AIR"), Compare("part", ">", 19_000))))),
    Compare("few", "=", 1),
    IsNull("few"),
]


def layout(*names: str, curve: str = "kd", **weights: float) -> Layout:
    return make_layout(*(ZorderColumn(n, weights.get(n, 1.0)) for n in names), curve=curve, target_size=1000)


def query(predicate: Predicate, partitions: np.ndarray = ALL[0], weight: float = 1.0) -> TableQuery:
    return TableQuery(Query("", "q.sql:1", weight), (predicate,), (partitions,))


def opened_by_hand(predicate: Predicate, file: np.ndarray) -> int:
    """Files whose min and max, taken in Python, leave room for a value that the predicate wants."""
    columns = {name: values.to_pylist() for name, values in DATA.items()}
    return sum(_possible(predicate, _ranges(columns, np.flatnonzero(file == f))) for f in np.unique(file))


def _ranges(columns: dict[str, list[Any]], rows: np.ndarray) -> dict[str, tuple[Any, Any, bool]]:
    found = {}
    for name, values in columns.items():
        mine = [values[i] for i in rows if values[i] is not None]
        found[name] = (min(mine, default=None), max(mine, default=None), len(mine) < len(rows))
    return found


def _possible(predicate: Predicate, ranges: dict[str, tuple[Any, Any, bool]]) -> bool:
    match predicate:
        case And(operands):
            return all(_possible(p, ranges) for p in operands)
        case Or(operands):
            return any(_possible(p, ranges) for p in operands)
        case In(column, values):
            return any(_possible(Compare(column, "=", v), ranges) for v in values)
        case IsNull(column):
            return ranges[column][2]
        case Compare(column, operator, value):
            low, high, _ = ranges[column]
            if low is None:
                return False
            checks = {"=": low <= value <= high, "<": low < value, ">": high > value, ">=": high >= value}
            return checks[operator]
        case _:
            raise AssertionError(predicate)


@pytest.mark.parametrize("curve", ["kd", "zorder", "hilbert", "linear"])
@pytest.mark.parametrize("names", [("ship",), ("ship", "mode"), ("part", "few", "ship")])
def test_simulated_touched_is_the_brute_force_count(names: tuple[str, ...], curve: str) -> None:
    drawn, wanted = drawn_of(DATA, [20]), layout(*names, curve=curve)
    files = new_files(drawn, wanted)
    keys = {n: DATA[n] for n in names}
    built = build(keys, {}, curve, 1000, 20, noise=False)
    place = built.locate(keys)
    expected = [opened_by_hand(p, place) for p in QUERIES]
    found = costs([query(p) for p in QUERIES], files)
    assert found.files.tolist() == expected
    # not all alike, or the comparison would say nothing
    assert len(set(expected)) > 1
    touched = measure([drawn], wanted, [query(QUERIES[0])]).touched
    assert touched == {m.column: m.touched for m in layout_metrics(files, names)}
    # How often each value occurs is estimated from bounds, as it is measured after a rewrite.
    assert touched == pytest.approx(touched_of(built, keys), rel=0.2)
    assert files.bytes.sum() == pytest.approx(40_000)
    assert files.rows.sum() == 4_000


def test_bytes_are_those_of_the_files_opened_and_weights_make_the_mean() -> None:
    files = new_files(drawn_of(DATA, [8], size=[8_000]), layout("part"))
    found = costs([query(Compare("part", "<", 100), weight=3.0), query(Compare("few", "=", 1))], files)
    assert found.files.tolist() == [1, 8]
    assert found.bytes[1] == pytest.approx(8_000)
    assert found.bytes[0] == pytest.approx(1_000, rel=0.02)
    assert found.mean_files == pytest.approx((3 * 1 + 8) / 4)


def test_partitions_are_laid_out_apart_and_pruned_by_their_values() -> None:
    files = new_files(drawn_of(DATA, [3, 9], partition=np.arange(4_000) % 2, size=[3_000, 9_000]), layout("part"))
    assert np.bincount(files.partition).tolist() == [3, 9]
    every = Compare("few", "=", 1)
    found = costs([query(every, np.array([True, True])), query(every, np.array([False, True]))], files)
    assert found.files.tolist() == [12, 9]
    assert found.bytes.tolist() == pytest.approx([12_000, 9_000], abs=9)


def test_rows_are_sorted_by_partition_once() -> None:
    drawn = drawn_of({"few": pa.array([1, 2, 3, 4])}, [1] * 4, partition=np.array([2, 0, 2, 0]), rows=[2, 1, 2, 1])
    of_part = {p: drawn.rows[slice(*drawn.starts[k : k + 2])].tolist() for k, p in enumerate(drawn.partition.tolist())}
    assert of_part == {0: [1, 3], 1: [], 2: [0, 2], 3: []}


def test_a_partition_that_the_sample_missed_is_opened_by_all() -> None:
    files = new_files(drawn_of(DATA, [4, 2], rows=[4_000, 10], size=[4_000, 100]), layout("part"))
    found = costs([query(Compare("part", "=", -5), np.ones(2, bool))], files)
    assert found.files.tolist() == [2]
    assert found.bytes.tolist() == pytest.approx([100])


def test_a_heavy_key_is_spread_only_with_noise() -> None:
    data = {"few": pa.array([1] * 800 + list(range(2, 202)))}
    drawn = drawn_of(data, [10])
    plain, noisy = (new_files(drawn, made) for made in (layout("few"), make_layout("few", noise=True)))
    asked = [query(Compare("few", "=", 1))]
    assert costs(asked, plain).files.tolist() == [1]
    assert costs(asked, noisy).files.tolist() == [8]


def test_text_bounds_are_cut_as_the_format_cuts_them() -> None:
    names = [f"a-long-common-prefix-{n:03}" for n in range(100)]
    asked = [query(Compare("s", "=", names[55]))]
    for length, opened in ((None, 1), (30, 1), (16, 10), (22, 10), (23, 2)):
        cut = {} if length is None else {"s": length}
        files = new_files(drawn_of({"s": pa.array(names)}, [10], lengths=cut), layout("s"))
        found = costs(asked, files).files[0]
        # 23 characters leave "...-05": the file before may end with that prefix too
        assert found in ((opened,) if length != 23 else (1, 2)), length
        assert files.bounds["s"].truncated.all() == (length in (16, 22, 23))


def test_the_floor_is_what_the_matching_rows_fill() -> None:
    data = {"a": pa.array(range(1_000))}
    asked = [query(p) for p in (Compare("a", "<", 250), Compare("a", "=", 3), Compare("a", "=", -1))]
    found = lowest(asked, drawn_of(data, [10], size=[5_000]))
    assert found.files.tolist() == pytest.approx([2.5, 1, 1])
    assert found.bytes.tolist() == pytest.approx([1_250, 500, 500])


def test_no_layout_goes_below_the_floor() -> None:
    drawn = drawn_of(DATA, [20])
    asked = [query(p) for p in QUERIES]
    least = lowest(asked, drawn).files
    for names in (("ship",), ("mode", "ship"), ("few", "part")):
        files = new_files(drawn, layout(*names))
        assert (costs(asked, files).files >= np.floor(least)).all()


def test_the_floor_is_at_most_what_a_query_opens_in_a_layout_with_few_large_files() -> None:
    file = np.arange(6_000) % 20
    data = {"few": pa.array(np.arange(6_000) % 3)}
    state, by_few = table_state(data, file), layout("few")
    rewrite = whole_rewrite(by_few, state, state.columns, sample_of(data, file), 20)
    found = study(state, (query(Compare("few", "=", 1)),), rewrite, Question((by_few,), None, by_few, search=False))
    assert found.choices[0].costs.files == [1]
    assert found.floor.files == [1]
    assert found.floor.bytes <= found.choices[0].costs.bytes


def test_without_a_column_to_order_by_the_floor_is_known() -> None:
    file = np.arange(100) % 2
    data = {"a": pa.array(np.arange(100))}
    state = table_state(data, file)
    rewrite = whole_rewrite(layout(), state, (), sample_of(data, file), 2)
    asked = TableQuery(Query("", "q.sql:1", 1.0), (And(()),), (np.ones(1, bool),))
    found = study(state, (asked,), rewrite, Question((), None, layout(), search=True))
    assert found.choices == ()
    assert found.floor.files.tolist() == [2]


def test_matching_rows_of_the_floor_are_those_of_sql() -> None:
    drawn = drawn_of(DATA, [4_000])
    for predicate in QUERIES:
        expected = matching_rows(predicate, DATA).sum()
        assert lowest([query(predicate)], drawn).files[0] == pytest.approx(expected)
