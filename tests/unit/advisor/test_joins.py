"""Keys of other tables as ranges: what is evaluated, what is left out, and what is listed with its reason."""

from datetime import date, datetime

import numpy as np
import pyarrow as pa
import pytest
from unit.advisor.tables import table_state

from zlayout.advisor.joins import Evaluation, NotEvaluatedError, Rows, ranges_of, with_joins
from zlayout.predicate.model import And, Compare, In, InKeys, Keys, Like, Not, Or, Predicate
from zlayout.spec.model import TableName
from zlayout.table.state import Column
from zlayout.workload.model import Query, Scan, Unused, Workload

INTEGER = Column("k", pa.int64(), True)


def evaluation(**columns: pa.Array) -> Evaluation:
    """Of one dimension d with these columns."""
    known = {name: Column(name, values.type, True) for name, values in columns.items()}
    return Evaluation(lambda _table, names: Rows(known, {n: v for n, v in columns.items() if n in names}))


def found(predicate: Predicate, key: str = "sk", column: Column = INTEGER, **columns: pa.Array) -> Predicate:
    return evaluation(**columns).ranges(InKeys("k", (Keys("d", key, predicate),)), column)


KEYS = pa.array([5, 6, 7, 9, None, 12], pa.int32())


@pytest.mark.parametrize(
    ("selected", "max_ranges", "expected"),
    [
        ([0, 1, 2, 3], 64, And((Compare("k", ">=", 10), Compare("k", "<=", 13)))),
        ([0], 64, Compare("k", "=", 10)),
        ([0, 2, 5], 64, In("k", (10, 12, 15))),
        ([0, 2, 3], 64, Or((Compare("k", "=", 10), And((Compare("k", ">=", 12), Compare("k", "<=", 13)))))),
        ([0, 2, 5], 2, Or((Compare("k", "=", 15), And((Compare("k", ">=", 10), Compare("k", "<=", 12)))))),
        ([0, 2, 5], 1, And((Compare("k", ">=", 10), Compare("k", "<=", 15)))),
        ([], 1, In("k", ())),
    ],
)
def test_ranges_contain_every_selected_key(selected: list[int], max_ranges: int, expected: Predicate) -> None:
    of = np.isin(np.arange(6), selected)
    assert ranges_of("k", pa.array(range(10, 16), pa.int64()), of, max_ranges) == expected


@pytest.mark.parametrize(
    ("leaf", "expected"),
    [
        (Like("t", "%gre!%n%"), Compare("k", "=", 2)),
        (Like("t", "%n"), And((Compare("k", ">=", 1), Compare("k", "<=", 2)))),
        (Like("t", "%n", negated=True), None),  # false for "green" alone, and true if it is filled up with spaces
        (Like("t", "%n%", negated=True), Compare("k", "=", 3)),
        (Like("padded", "%n%"), None),
        (Like("sk", "1%"), None),
        (Like("missing", "1%"), None),
        (Like("t", "_" * 1_000_000 + "n"), None),
    ],
)
def test_patterns_are_evaluated_on_strings_without_spaces_at_the_end(leaf: Like, expected: Predicate | None) -> None:
    of = {
        "sk": pa.array([1, 2, 3, 4], pa.int64()),
        "t": pa.array(["green", "a gre%nx", "blue", None]),
        "padded": pa.array(["n", "n ", "b", None]),
    }
    if expected is None:
        with pytest.raises(NotEvaluatedError, match="no condition on d can be evaluated"):
            found(leaf, **of)
    else:
        assert found(leaf, **of) == expected


def test_strings_are_followed_by_any_spaces() -> None:
    every = pa.array(["a", "b", "c"])
    found = ranges_of("k", every, np.array([False, True, False]), 1)
    assert found == And((Compare("k", ">=", "b"), Compare("k", "<", "b!")))


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        (Compare("y", "=", 1), And((Compare("k", ">=", 5), Compare("k", "<=", 6)))),
        (Not(Compare("y", "=", 1)), And((Compare("k", ">=", 7), Compare("k", "<=", 9)))),
        # The condition on an unknown column, or with a value of another type, leaves all keys of the other condition.
        (And((Compare("y", "=", 1), Compare("z", "=", 1))), And((Compare("k", ">=", 5), Compare("k", "<=", 6)))),
        (
            And((Compare("y", "=", 1), Compare("y", "=", date(2026, 1, 1)))),
            And((Compare("k", ">=", 5), Compare("k", "<=", 6))),
        ),
    ],
)
def test_rows_count_unless_the_condition_is_certainly_not_true(predicate: Predicate, expected: Predicate) -> None:
    assert found(predicate, sk=KEYS, y=pa.array([1, 1, 2, 2, 1, None])) == expected


@pytest.mark.parametrize(
    ("predicate", "columns", "reason"),
    [
        (Compare("z", "=", 1), {}, "no condition on d can be evaluated"),
        (Or((Compare("y", "=", 1), Compare("z", "=", 1))), {}, "no condition on d can be evaluated"),
        (Compare("y", "=", "x"), {"y": pa.array(["x ", "y", "z", "x", "x", "x"])}, "no condition on d"),
        (Compare("y", "=", "x "), {"y": pa.array(["x", "y", "z", "x", "x", "x"])}, "no condition on d"),
        (Compare("y", ">", datetime(2026, 1, 1)), {"y": pa.array([datetime(2026, 1, 1)] * 6)}, "no condition on d"),
        (Compare("y", "=", 0.1), {"y": pa.array([0.1] * 6, pa.float32())}, "no condition on d"),
        (Compare("y", "=", 1), {"sk": pa.array([1.0] * 6)}, "keys of type double"),
        (Compare("y", "=", 1), {"sk": pa.array(["1"] * 6)}, "keys of different types: int64 and string"),
        (Compare("y", "=", 1), {"sk": pa.array(["1 "] * 6)}, "keys that end with spaces"),
        (Compare("y", "=", 1), {"sk": pa.array([date(2026, 1, 1)] * 6)}, "keys of different types"),
    ],
)
def test_what_is_not_certain_is_not_evaluated(predicate: Predicate, columns: dict[str, pa.Array], reason: str) -> None:
    with pytest.raises(NotEvaluatedError, match=reason):
        found(predicate, **({"sk": KEYS, "y": pa.array([1] * 6)} | columns))


def test_sets_of_keys_are_united_and_nested() -> None:
    at = evaluation(sk=KEYS, y=pa.array([1, 2, 3, 4, 5, 6]))
    one, other = (Keys("d", "sk", Compare("y", "=", n)) for n in (1, 4))
    assert at.ranges(InKeys("k", (one, other)), INTEGER) == In("k", (5, 9))
    inner = InKeys("sk", (Keys("d", "y", Compare("sk", "=", 12)),))
    assert at.ranges(InKeys("k", (Keys("d", "sk", inner),)), INTEGER) == Compare("k", "=", 6)


def test_conditions_replace_the_notes_on_the_filters_of_their_query() -> None:
    fact, query, other = TableName("lake", ("db",), "f"), Query("", "q.sql:1"), Query("", "q.sql:2")
    state = table_state({"k": pa.array([1])}, np.zeros(1, np.int64))
    leaf = InKeys("k", (Keys("d", "sk", Compare("y", "=", 1)),), "k IN (SELECT ...)")
    of_f = frozenset(("f",))
    notes = (
        Unused(query, "k = sk, with y = 1", "a filter through a join, which limits the table only at run time", of_f),
        Unused(query, "k IN (SELECT ...)", "a subquery", of_f),
        Unused(query, "x > (SELECT ...)", "a subquery", of_f),
        Unused(other, "k = sk, with z = 1", "a filter through a join, which limits the table only at run time", of_f),
    )
    scans = (Scan(query, "f", Compare("k", ">", 1), (leaf,)), Scan(other, "f", None))
    at = evaluation(sk=KEYS, y=pa.array([1, 2, 3, 4, 5, 6]))
    made, used = with_joins(Workload(scans, notes, 2), fact, state, at.read)
    assert made.scans[0] == Scan(query, "f", And((Compare("k", ">", 1), Compare("k", "=", 5))))
    assert made.unused == notes[2:]
    assert [(one.column, one.table, one.kept) for one in used] == [("k", "d", 0.2)]

    def late(_table: str, _columns: frozenset[str]) -> Rows:
        raise NotEvaluatedError("d is late")

    made, used = with_joins(Workload(scans, notes, 2), fact, state, late)
    assert made.scans[0].predicate == Compare("k", ">", 1)
    assert [u.reason for u in made.unused if u.query is query] == ["a subquery", "d is late"]
    assert used == ()
    qualified = (Scan(query, "db.f", None, (leaf,)),)
    made, _ = with_joins(Workload(qualified, (), 1), fact, state, at.read)
    assert [u.reason for u in made.unused] == ["the namespace of d is unknown (write it as that of db.f)"]
