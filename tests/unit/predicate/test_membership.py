"""IN by look-up: the same as an OR of equalities, for values of every kind beside literals of every kind."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zlayout.predicate.coercion import coerce
from zlayout.predicate.evaluate import Fact, TruthValues, _compared, answers, known
from zlayout.predicate.model import And, Compare, In, IsNull, Not, Operator, Or, Predicate, Value
from zlayout.table.partition import Partition, PartitionField

NAN = float("nan")
BIG = 2**53 + 1
PAIRS: list[tuple[str, Any]] = [
    *(("identity", v) for v in (3, BIG, 3.0, 0.1, NAN, Decimal("3.0"), Decimal(BIG), True, "3", "ab", b"ab", None)),
    *(("identity", v) for v in (date(2026, 1, 31), datetime(2026, 1, 31), datetime(2026, 1, 31, 10, tzinfo=UTC))),
    *(("truncate[10]", v) for v in (0, Decimal("0.0"), "ab", None)),
    ("truncate[2]", "ab"),
    *(("month", v) for v in (56 * 12, 10**9)),
    ("day", 20484),
    ("bucket[4]", 1),
    ("void", None),
]
LITERALS: list[Value] = [
    *(3, 4, 9, 10, BIG, BIG - 1, 3.0, 3.5, float(BIG - 1), 0.1, NAN, Decimal(3), Decimal("0.9"), Decimal("0.1")),
    *(True, False, "3", "4", "ab", "abc", "b", "", "2026-01-31", "2026-01-31 10:00:00", "2026-02-01"),
    *("2026-02-01 10:00:00", date(2026, 1, 31), date(2026, 2, 1), datetime(2026, 1, 31), datetime(2026, 1, 31, 10)),
    datetime(2026, 1, 31, 12, tzinfo=UTC),
]


def check(values: list[Value]) -> None:
    """One IN asked of all the partitions, one after the other."""
    every = [Partition(0, (PartitionField("c", transform),), (value,)) for transform, value in PAIRS]
    listed, spelled = In("c", tuple(values)), Or(tuple(Compare("c", "=", v) for v in values))
    for dates in ((), ("c",)):
        partitions = known(every, dates)
        assert answers(listed, partitions) == answers(spelled, partitions)
        assert answers(Not(listed), partitions) == answers(Not(spelled), partitions)
        assert answers(spelled, partitions) == answers(_one_by_one(spelled), partitions)
        # a further condition on each value: one on the same column, one of which nothing is known
        for other in (Compare("c", "<", 4), Compare("c", "<", "b"), Compare("d", "=", 1), Not(IsNull("c"))):
            both = Or((*(And((c, other)) for c in spelled.operands), IsNull("d"), other))
            assert answers(both, partitions) == answers(_one_by_one(both), partitions)
            assert answers(Not(both), partitions) == answers(Not(_one_by_one(both)), partitions)


def _one_by_one(either: Or) -> Predicate:
    """The same condition without an OR, so that each alternative is evaluated."""
    return Not(And(tuple(Not(operand) for operand in either.operands)))


@pytest.mark.parametrize("value", LITERALS)
def test_of_one_value(value: Value) -> None:
    check([value])


@given(st.lists(st.sampled_from(LITERALS), min_size=2, max_size=6))
def test_as_an_or_of_equalities(values: list[Value]) -> None:
    check(values)


@pytest.mark.parametrize("transform", ["identity", "truncate[10]"])
def test_a_long_list_is_converted_once_for_all_partitions(transform: str, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[Value] = []

    def coerced(literal: Value, like: object) -> object:
        taken.append(literal)
        return coerce(literal, like)

    monkeypatch.setattr("zlayout.predicate.evaluate.coerce", coerced)
    partitions = known([Partition(0, (PartitionField("c", transform),), (10 * n,)) for n in range(2_000)])
    found = answers(In("c", tuple(range(0, 10_000, 10))), partitions)
    assert taken == list(range(0, 10_000, 10))
    assert found == [True if transform == "identity" else None] * 1_000 + [False] * 1_000


def test_a_condition_on_another_column_is_not_asked_of_each_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zlayout.predicate.evaluate._compared", None)
    partitions = known([Partition(0, (PartitionField("c"),), (n,)) for n in range(10)])
    assert answers(Or((Compare("d", "=", 1), Compare("d", "=", 2))), partitions) == [None] * 10


@pytest.mark.parametrize("transform", ["identity", "truncate[10]", "bucket[4000]"])
def test_thousands_of_alternatives_are_not_evaluated_for_each_partition(
    transform: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    def compared(fact: Fact, operator: Operator, literal: Value) -> TruthValues:
        asked.append(literal)
        return _compared(fact, operator, literal)

    monkeypatch.setattr("zlayout.predicate.evaluate._compared", compared)
    partitions = known([Partition(0, (PartitionField("c", transform),), (10 * n,)) for n in range(2_000)])
    either = Or(tuple(And((Compare("d", "=", n % 7), Compare("c", "=", 10 * n))) for n in range(1_000)))
    found = answers(either, partitions)
    assert found == ([None] * 2_000 if transform == "bucket[4000]" else [None] * 1_000 + [False] * 1_000)
    assert len(asked) <= 3 * 1_000
