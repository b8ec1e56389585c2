"""Which partitions a `where` selects, from the partitions' values alone.

Every row of a partition gives a predicate true, false or null. What is known of the partition leaves a set of
these possible; the sets are combined by SQL's three-valued rules. A set is never too small, so that a partition
counts as wholly inside or wholly outside only when it surely is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from zlayout.predicate.coercion import aligned, coerce, of_unknown_day
from zlayout.predicate.facts import Exactly, Fact, NotNull, Null, Prefix, Range, fact
from zlayout.predicate.membership import membership
from zlayout.predicate.model import And, Compare, In, IsNull, Not, Operator, Or, Predicate, Value, columns
from zlayout.predicate.outcomes import ANY, EITHER, FALSE, NULL, TRUE, Outcomes, all_of, any_of, meet, negated
from zlayout.table.partition import Partition, PartitionField

# What is known of one partition: facts by source column.
Facts = Mapping[str, Sequence[Fact]]


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of partitions, in their order; columns: all those of which something is known in some of them."""

    partitions: tuple[Facts, ...]
    columns: frozenset[str]


def known(partitions: Iterable[Partition], dates: Collection[str] = ()) -> Known:
    """What the partitions' values say.

    dates: source columns known to be dates and not timestamps; without it the end of a day partition is as fine as a
    timestamp.
    """
    found = tuple(_facts(p.fields, p.values, dates) for p in partitions)
    return Known(found, frozenset().union(*found))


def answers(predicate: Predicate, partitions: Known) -> list[bool | None]:
    """For each partition True: every row satisfies the predicate. False: none can. None: some may, or unknown."""
    asked, test = columns(predicate), _test(predicate)
    silent = _answer(test({}))
    if asked.isdisjoint(partitions.columns):
        return [silent] * len(partitions.partitions)
    return [silent if asked.isdisjoint(facts) else _answer(test(facts)) for facts in partitions.partitions]


def _facts(fields: Sequence[PartitionField], values: Sequence[Any], dates: Collection[str]) -> Facts:
    found: dict[str, list[Fact]] = {}
    for field, value in zip(fields, values, strict=True):
        found.setdefault(field.source, []).append(fact(field.transform, value, field.source in dates))
    return found


def _answer(outcomes: Outcomes) -> bool | None:
    if True not in outcomes:
        return False
    return True if outcomes == TRUE else None


def _test(predicate: Predicate) -> Callable[[Facts], Outcomes]:
    """The predicate, ready to be asked of many partitions."""
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
            # asked also where nothing is known, as a list of no values holds none
            return lambda facts: meet(map(is_in, facts.get(column, (None,))))
        case IsNull(column):
            return lambda facts: meet(map(_null_outcomes, facts.get(column, ()))) & EITHER
        case Compare(column, operator, value):
            return lambda facts: meet(_compared(f, operator, value) for f in facts.get(column, ()))


def _null_outcomes(fact: Fact) -> Outcomes:
    if fact is None:
        return EITHER
    return TRUE if isinstance(fact, Null) else FALSE


def _compared(fact: Fact, operator: Operator, literal: Value) -> Outcomes:
    match fact:
        case None:
            return ANY
        case Null():
            return NULL
        case NotNull():
            return EITHER
        case Exactly(value):
            low, high, is_open = value, value, False
        case Range(low, high, is_open):
            pass
        case Prefix(text):
            return _compared_prefix(text, operator, literal)
    wanted = coerce(literal, low)
    if wanted is None or (is_open and of_unknown_day(literal, wanted)):
        return EITHER
    return _compared_range(*aligned(low, high, wanted), is_open, operator)


def _compared_range(low: Any, high: Any, wanted: Any, is_open: bool, operator: Operator) -> Outcomes:
    below = high <= wanted if is_open else high < wanted
    match operator:
        case "=":
            if low == high == wanted:
                return TRUE
            return FALSE if below or wanted < low else EITHER
        case "!=":
            return negated(_compared_range(low, high, wanted, is_open, "="))
        case "<":
            return TRUE if below else FALSE if low >= wanted else EITHER
        case "<=":
            return TRUE if high <= wanted else FALSE if low > wanted else EITHER
        case ">":
            return negated(_compared_range(low, high, wanted, is_open, "<="))
        case ">=":
            return negated(_compared_range(low, high, wanted, is_open, "<"))


def _compared_prefix(text: str, operator: Operator, literal: Value) -> Outcomes:
    """Every value starts with `text`. A literal that does too may be anywhere; any other lies on one side."""
    if not isinstance(literal, str):
        return EITHER
    match operator:
        case "=":
            return EITHER if literal.startswith(text) else FALSE
        case "<":
            if literal.startswith(text):
                return FALSE if literal == text else EITHER
            return TRUE if text < literal else FALSE
        case "<=":
            return EITHER if literal.startswith(text) else TRUE if text < literal else FALSE
        case "!=":
            return negated(_compared_prefix(text, "=", literal))
        case ">":
            return negated(_compared_prefix(text, "<=", literal))
        case ">=":
            return negated(_compared_prefix(text, "<", literal))
