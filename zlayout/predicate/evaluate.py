"""Evaluate a predicate for partitions, given their partition values alone.

For each row of a partition, a predicate is true, false or null. The facts about the partition leave a set of these
truth values possible, and the sets are combined by SQL's three-valued logic. A set may be too large, but never too
small, so that a partition counts as wholly inside or outside of `where` only if it certainly is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from zlayout.predicate.coercion import aligned, coerce, depends_on_type
from zlayout.predicate.facts import Fact, NotNull, Null, Prefix, Range, fact
from zlayout.predicate.membership import membership
from zlayout.predicate.model import OPPOSITE, And, Compare, In, IsNull, Not, Operator, Or, Predicate, Value, columns
from zlayout.predicate.truth_values import ANY, EITHER, FALSE, NULL, TRUE, TruthValues, all_of, any_of, meet, negated
from zlayout.table.partition import Partition, PartitionField

Facts = Mapping[str, Sequence[Fact]]  # the facts about one partition, by source column


@dataclass(frozen=True, slots=True)
class Known:
    """What is known about partitions.

    Attributes:
        partitions: The facts about each partition, in order.
        columns: All columns that facts are about.
    """

    partitions: tuple[Facts, ...]
    columns: frozenset[str]


def known(partitions: Iterable[Partition], dates: Collection[str] = ()) -> Known:
    """Return the facts that follow from partition values.

    Args:
        partitions: the partitions.
        dates: the source columns that are known to be dates. Any other column may be a timestamp, whose values in a
            `day` partition reach up to the next midnight.
    """
    found = tuple(_facts(p.fields, p.values, dates) for p in partitions)
    return Known(found, frozenset().union(*found))


def answers(predicate: Predicate, partitions: Known) -> list[bool | None]:
    """Evaluate the predicate for each partition.

    Returns:
        For each partition True if every row satisfies the predicate, False if no row can, else None.
    """
    used, test = columns(predicate), _test(predicate)
    without_facts = _answer(test({}))
    if used.isdisjoint(partitions.columns):
        return [without_facts] * len(partitions.partitions)
    return [without_facts if used.isdisjoint(facts) else _answer(test(facts)) for facts in partitions.partitions]


def _facts(fields: Sequence[PartitionField], values: Sequence[Any], dates: Collection[str]) -> Facts:
    found: dict[str, list[Fact]] = {}
    for field, value in zip(fields, values, strict=True):
        found.setdefault(field.source, []).append(fact(field.transform, value, field.source in dates))
    return found


def _answer(possible: TruthValues) -> bool | None:
    if True not in possible:
        return False
    return True if possible == TRUE else None


def _test(predicate: Predicate) -> Callable[[Facts], TruthValues]:
    match predicate:
        case And(operands):
            tests = [_test(p) for p in operands]
            return lambda facts: all_of(test(facts) for test in tests)
        case Or(operands):
            tests = [_test(p) for p in operands]
            return lambda facts: any_of(test(facts) for test in tests)
        case Not(operand):
            test = _test(operand)
            return lambda facts: negated(test(facts))
        case In(column, values):
            is_in = membership(values)
            # A column without facts gets the fact None, because an IN without values is false even if nothing is known.
            return lambda facts: meet(map(is_in, facts.get(column, (None,))))
        case IsNull(column):
            return lambda facts: meet(map(_null_values, facts.get(column, ()))) & EITHER
        case Compare(column, operator, value):
            return lambda facts: meet(_compared(f, operator, value) for f in facts.get(column, ()))


def _null_values(fact: Fact) -> TruthValues:
    if fact is None:
        return EITHER
    return TRUE if isinstance(fact, Null) else FALSE


def _compared(fact: Fact, operator: Operator, literal: Value) -> TruthValues:
    if operator in ("!=", ">", ">="):
        return negated(_compared(fact, OPPOSITE[operator], literal))
    match fact:
        case None:
            return ANY
        case Null():
            return NULL
        case NotNull():
            return EITHER
        case Prefix(text):
            return _compared_prefix(text, operator, literal)
        case Range(low, high, is_open):
            value = coerce(literal, low)
            if value is None or (is_open and depends_on_type(literal)):
                return EITHER
            return _compared_range(*aligned(low, high, value), is_open, operator)


def _compared_range(low: Any, high: Any, value: Any, is_open: bool, operator: Operator) -> TruthValues:
    """The possible truth values of =, < or <= for values from `low` to `high`; `is_open` excludes `high`."""
    below = high <= value if is_open else high < value
    match operator:
        case "=":
            return TRUE if low == high == value else FALSE if below or value < low else EITHER
        case "<":
            return TRUE if below else FALSE if low >= value else EITHER
        case _:
            return TRUE if high <= value else FALSE if low > value else EITHER


def _compared_prefix(text: str, operator: Operator, literal: Value) -> TruthValues:
    if not isinstance(literal, str):
        return EITHER
    if literal.startswith(text):
        return FALSE if operator == "<" and literal == text else EITHER
    return TRUE if operator != "=" and text < literal else FALSE
