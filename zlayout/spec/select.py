"""Which partitions a `where` selects, from the partitions' values alone.

Every row of a partition gives a predicate true, false or null. What is known of the partition leaves a set of
these possible; the sets are combined by SQL's three-valued rules. A set is never too small, so that a partition
counts as wholly inside or wholly outside only when it surely is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation, localcontext
from functools import reduce
from typing import Any

from zlayout.spec.literals import MAX_DECIMAL_DIGITS, instant_or_none, utc
from zlayout.spec.predicate import And, Compare, In, IsNull, Not, Operator, Or, Predicate, Value
from zlayout.table.partition import PartitionField

Outcome = bool | None
Outcomes = frozenset[Outcome]

ANY: Outcomes = frozenset((True, False, None))
EITHER: Outcomes = frozenset((True, False))
TRUE: Outcomes = frozenset((True,))
_EPOCH = datetime(1970, 1, 1)


def matches(
    predicate: Predicate,
    partition_fields: Sequence[PartitionField],
    values: Sequence[Any],
    dates: Collection[str] = (),
) -> bool | None:
    """True: every row of the partition satisfies the predicate. False: none can. None: some may, or unknown.

    values: one for each field, as in `Partition.values`. dates: source columns known to be dates and not
    timestamps; without it the end of a day partition is as fine as a timestamp.
    """
    known = [
        (f.source, _fact(f.transform, v, f.source in dates)) for f, v in zip(partition_fields, values, strict=True)
    ]
    outcomes = _outcomes(predicate, known)
    if True not in outcomes:
        return False
    return True if outcomes == {True} else None


@dataclass(frozen=True, slots=True)
class _Null:
    """The source column is null in every row."""


@dataclass(frozen=True, slots=True)
class _NotNull:
    """The source column is some value."""


@dataclass(frozen=True, slots=True)
class _Exactly:
    value: Any


@dataclass(frozen=True, slots=True)
class _Range:
    """low <= value <= high; `open` leaves high itself out."""

    low: Any
    high: Any
    open: bool = False


@dataclass(frozen=True, slots=True)
class _Prefix:
    text: str


_Fact = _Null | _NotNull | _Exactly | _Range | _Prefix | None


def _fact(transform: str, value: Any, is_date: bool) -> _Fact:
    """What a partition value says about its source column; None for nothing at all."""
    name, _, argument = transform.partition("[")
    if name == "void":
        return None
    if value is None:
        return _Null()
    if name == "identity":
        return _Exactly(value)
    if name in _STEPS and isinstance(value, int):
        return _time_range(name, value, is_date)
    if name == "truncate" and not isinstance(value, bool):
        return _truncated(value, int(argument.rstrip("]")))
    return _NotNull()


def _year(ordinal: int) -> datetime:
    return datetime(1970 + ordinal, 1, 1)


def _month(ordinal: int) -> datetime:
    return datetime(1970 + ordinal // 12, ordinal % 12 + 1, 1)


_STEPS: dict[str, Callable[[int], datetime]] = {
    "year": _year,
    "month": _month,
    "day": lambda ordinal: _EPOCH + timedelta(days=ordinal),
    "hour": lambda ordinal: _EPOCH + timedelta(hours=ordinal),
}


def _time_range(name: str, ordinal: int, is_date: bool) -> _Fact:
    try:
        low, high = _STEPS[name](ordinal), _STEPS[name](ordinal + 1)
    except (ValueError, OverflowError):
        return _NotNull()
    if is_date:
        return _Range(low.date(), high.date() - timedelta(days=1)) if name != "hour" else _NotNull()
    return _Range(low, high, open=True)


def _truncated(value: Any, width: int) -> _Fact:
    match value:
        case int():
            return _Range(value, value + width - 1)
        case Decimal():
            # The width counts units of the last digit. A value that lost trailing zeros gives a range too wide, never
            # too narrow.
            unit = Decimal(1).scaleb(min(int(value.as_tuple().exponent), 0))
            with localcontext(prec=2 * MAX_DECIMAL_DIGITS):
                return _Range(value, value + unit * (width - 1))
        case str():
            return _Exactly(value) if len(value) < width else _Prefix(value)
        case _:
            return _NotNull()


def _outcomes(predicate: Predicate, known: Sequence[tuple[str, _Fact]]) -> Outcomes:
    match predicate:
        case And(operands):
            return reduce(_all_of, (_outcomes(p, known) for p in operands), TRUE)
        case Or(operands):
            return _negated(reduce(_all_of, (_negated(_outcomes(p, known)) for p in operands), TRUE))
        case Not(operand):
            return _negated(_outcomes(operand, known))
        case In(column, values):
            return _outcomes(Or(tuple(Compare(column, "=", v) for v in values)), known)
        case IsNull(column):
            return _meet(_null_outcomes(fact) for source, fact in known if source == column) & EITHER
        case Compare(column, operator, value):
            return _meet(_compared(fact, operator, value) for source, fact in known if source == column)


def _meet(outcomes: Any) -> Outcomes:
    """Several partition keys of one column: what all of them leave possible."""
    return reduce(frozenset.intersection, outcomes, ANY)


def _all_of(left: Outcomes, right: Outcomes) -> Outcomes:
    return frozenset(
        False if a is False or b is False else None if a is None or b is None else True for a in left for b in right
    )


def _negated(outcomes: Outcomes) -> Outcomes:
    return frozenset(None if o is None else not o for o in outcomes)


def _null_outcomes(fact: _Fact) -> Outcomes:
    if fact is None:
        return EITHER
    return frozenset((isinstance(fact, _Null),))


def _compared(fact: _Fact, operator: Operator, literal: Value) -> Outcomes:
    match fact:
        case None:
            return ANY
        case _Null():
            return frozenset((None,))
        case _NotNull():
            return EITHER
        case _Exactly(value):
            low, high, is_open = value, value, False
        case _Range(low, high, is_open):
            pass
        case _Prefix(text):
            return _compared_prefix(text, operator, literal)
    wanted = coerce(literal, low)
    if is_open and isinstance(literal, str) and wanted is not None and utc(wanted).time() != time():
        # Text with a time of day is cut to the day if the column turns out to be a date.
        return EITHER
    return EITHER if wanted is None else _compared_range(*_aligned(low, high, wanted), is_open, operator)


def _aligned(low: Any, high: Any, wanted: Any) -> tuple[Any, Any, Any]:
    """Bounds and literal in types that compare as Spark does: a date is its midnight, a float beats a decimal."""
    parts = (low, high, wanted)
    if any(isinstance(p, datetime) for p in parts):
        low, high, wanted = (utc(p) if isinstance(p, datetime) else datetime(p.year, p.month, p.day) for p in parts)
    elif any(isinstance(p, float) for p in parts):
        low, high, wanted = (float(p) for p in parts)
    return low, high, wanted


def _compared_range(low: Any, high: Any, wanted: Any, is_open: bool, operator: Operator) -> Outcomes:
    below = high <= wanted if is_open else high < wanted
    match operator:
        case "=":
            if low == high == wanted:
                return frozenset((True,))
            return frozenset((False,)) if below or wanted < low else EITHER
        case "!=":
            return _negated(_compared_range(low, high, wanted, is_open, "="))
        case "<":
            return frozenset((True,)) if below else frozenset((False,)) if low >= wanted else EITHER
        case "<=":
            return frozenset((True,)) if high <= wanted else frozenset((False,)) if low > wanted else EITHER
        case ">":
            return _negated(_compared_range(low, high, wanted, is_open, "<="))
        case ">=":
            return _negated(_compared_range(low, high, wanted, is_open, "<"))


def _compared_prefix(text: str, operator: Operator, literal: Value) -> Outcomes:
    """Every value starts with `text`. A literal that does too may be anywhere; any other lies on one side."""
    if not isinstance(literal, str):
        return EITHER
    match operator:
        case "=":
            return EITHER if literal.startswith(text) else frozenset((False,))
        case "<":
            if literal.startswith(text):
                return frozenset((False,)) if literal == text else EITHER
            return frozenset((text < literal,))
        case "<=":
            return EITHER if literal.startswith(text) else frozenset((text < literal,))
        case "!=":
            return _negated(_compared_prefix(text, "=", literal))
        case ">":
            return _negated(_compared_prefix(text, "<=", literal))
        case ">=":
            return _negated(_compared_prefix(text, "<", literal))


def coerce(literal: Value, like: Any) -> Any:
    """The literal as Spark would compare it with a column whose values are like `like`; None when that is unknown."""
    match like:
        case bool():
            return literal if isinstance(literal, bool) else None
        case int() | float() | Decimal():
            return _as_number(literal, like)
        case str():
            return literal if isinstance(literal, str) else None
        case datetime():
            return literal if isinstance(literal, date) else _as_instant(literal)
        case date():
            if isinstance(literal, date):
                return literal
            found = _as_instant(literal)
            return found and found.date()
        case _:
            return None


def _as_number(literal: Value, like: Any) -> int | float | Decimal | None:
    if isinstance(like, float) and math.isnan(like):
        return None
    if isinstance(literal, bool):
        return None
    if isinstance(literal, int | float | Decimal):
        return literal
    if not isinstance(literal, str) or isinstance(like, float):
        return None
    try:
        found = int(literal) if isinstance(like, int) else Decimal(literal)
    except (ValueError, InvalidOperation):
        return None
    return found if isinstance(found, int) or found.is_finite() else None


def _as_instant(literal: Value) -> datetime | None:
    return instant_or_none(literal) if isinstance(literal, str) else None
