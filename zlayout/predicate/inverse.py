"""Invert comparisons of a function of a column: `date(ts) = '2026-01-31'` becomes a range of ts.

Only monotonic functions are inverted (truncation to calendar periods, dates plus days, differences of dates, casts,
prefixes), and of casts to strings only comparisons by `=`. The resulting predicate is true for each row for which the
comparison is true. It is *exact* if it is also false, and null, for the same rows as the comparison, so that it may be
negated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal, localcontext

from sqlglot import exp

from zlayout.predicate.coercion import depends_on_type
from zlayout.predicate.model import (
    DAYS_PER_UNIT,
    MIRRORED,
    MONTHS_PER_UNIT,
    And,
    Compare,
    Not,
    Operator,
    Predicate,
    Value,
    as_datetime,
    end_of,
    shift,
    start_of,
    starts_with,
    unit_named,
)
from zlayout.predicate.sql_tree import (
    INTEGER_TYPES,
    MAX_DIGITS,
    STRING_TYPES,
    TIMESTAMP_TYPES,
    as_day,
    as_instant,
    constant,
    interval_of,
    is_column,
    shifted,
    truncation_unit,
)

# Formats of date_format, as sqlglot writes them, whose results have the order of their dates; and the period of each.
_SORTED_FORMATS = {"%Y-%m-%d": "DAY", "%Y%m%d": "DAY", "%Y-%m": "MONTH", "%Y%m": "MONTH", "%Y": "YEAR"}
Solve = Callable[[str, Operator, Value], Predicate | None]


@dataclass(frozen=True, slots=True)
class Inverse:
    """How comparisons of one expression become comparisons of its column.

    Attributes:
        column: The column in the expression.
        solve: Returns the predicate on the column, given the name of the column, the operator and the constant; None if
            the comparison cannot be inverted. It may raise ValueError, OverflowError or InvalidOperation.
        exact: Whether the predicate is exact.
    """

    column: exp.Expr
    solve: Solve
    exact: bool = True


def inverse_of(node: exp.Expr) -> Inverse | None:
    """Return how comparisons of an expression are inverted; None if it is not a known function of one column."""
    node = node.unnest()
    column = node.args.get("this")
    argument = column.unnest() if isinstance(column, exp.Expr) else None
    match node:
        case exp.DateDiff():
            return _date_difference(node)
        case exp.Year(this=exp.TsOrDsToDate(this=inner)) if is_column(inner.unnest()):
            return Inverse(inner.unnest(), _year)
        case exp.TimeToStr(this=exp.TimeStrToTime(this=inner)) if is_column(inner.unnest()):
            return _formatted(inner.unnest(), node)
        case exp.Extract() if node.name.upper() == "YEAR" and is_column(node.expression.unnest()):
            return Inverse(node.expression.unnest(), _year)
        case exp.Anonymous() if str(node.this).lower() == "date_part" and len(node.expressions) == 2:
            part, inner = node.expressions
            known = part.name.upper() == "YEAR" and is_column(inner.unnest())
            return Inverse(inner.unnest(), _year) if known else None
    if argument is None or not is_column(argument):
        return None
    match node:
        case exp.Cast():
            return _cast(argument, node.args["to"])
        case exp.TsOrDsToDate() if not node.args.get("format"):
            return Inverse(argument, _period("DAY", as_day))
        case exp.DateTrunc() | exp.TimestampTrunc() if unit := truncation_unit(node):
            return Inverse(argument, _period(unit, as_day if isinstance(node, exp.DateTrunc) else as_instant))
        case exp.TsOrDsAdd() if type(days := constant(node.expression)) is int:
            return Inverse(argument, _period("DAY", as_day, days))
        case exp.TimestampAdd() if type(amount := constant(node.expression)) is int:
            return _later(argument, amount, unit_named(str(node.args.get("unit") or "")))
        case exp.Add() | exp.Sub() if isinstance(node.expression, exp.Interval):
            amount, unit = interval_of(node.expression) or (0, None)
            return _later(argument, amount if isinstance(node, exp.Add) else -amount, unit)
        case exp.Substring() | exp.Left():
            return _prefix(argument, node)
    return None


def _period(unit: str, read: Callable[[Value], date | None], days: int = 0) -> Solve:
    """Invert comparisons of the start of the period that contains the column, plus `days`. read: of the constant."""

    def solve(column: str, operator: Operator, value: Value) -> Predicate | None:
        at = as_instant(value) if isinstance(value, datetime) else read(value)  # `read` would round it to a day
        return _compared_to(column, operator, unit, shifted(at, -days, "DAY"))

    return solve


def _compared_to(column: str, operator: Operator, unit: str, at: date | None) -> Predicate | None:
    if at is None:
        return None
    low, high = start_of(at, unit), end_of(at, unit)
    return compared_period(column, operator, low, high, is_start=as_datetime(low) == as_datetime(at))


def compared_period(column: str, operator: Operator, low: Value, high: Value, *, is_start: bool) -> Predicate:
    """Invert the comparison of the start of the period that contains the column with a constant.

    low, high: the start and the end (exclusive) of the period that contains the constant. is_start: whether the
    constant is `low`.
    """
    match operator:
        case "=" if is_start:
            return And((Compare(column, ">=", low), Compare(column, "<", high)))
        case "=":  # no period starts at the constant: an empty range, which is null for a null
            return And((Compare(column, ">=", high), Compare(column, "<", low)))
        case "!=":
            return Not(compared_period(column, "=", low, high, is_start=is_start))
        case ">=" if is_start:
            return Compare(column, ">=", low)
        case "<" if is_start:
            return Compare(column, "<", low)
        case ">" | ">=":
            return Compare(column, ">=", high)
        case _:
            return Compare(column, "<", high)


def _year(column: str, operator: Operator, value: Value) -> Predicate | None:
    return _compared_to(column, operator, "YEAR", date(int(value), 1, 1)) if isinstance(value, int | str) else None


def _later(column: exp.Expr, amount: int, unit: str | None) -> Inverse | None:
    """The column plus an interval. Months are not inverted: two days can become the same day of the next month."""
    if unit is None or unit in MONTHS_PER_UNIT:
        return None

    def solve(name: str, operator: Operator, value: Value) -> Predicate | None:
        instant = shifted(as_instant(value), -amount, unit)
        # A date plus days is a date, with which Spark compares a string without its time of day. Because the type of
        # the column is unknown here, a comparison of the column plus days with such a string is not inverted.
        if instant is None or (unit in DAYS_PER_UNIT and depends_on_type(value)):
            return None
        return Compare(name, operator, instant)

    return Inverse(column, solve)


def _date_difference(node: exp.Expr) -> Inverse | None:
    ends = [side.this if isinstance(side, exp.TsOrDsToDate) else side for side in (node.this, node.expression)]
    last, first = (side.unnest() for side in ends)
    if str(node.args.get("unit") or "DAY").upper() != "DAY":
        return None
    for column, other, sign in ((first, last, -1), (last, first, 1)):
        if is_column(column) and (day := as_day(constant(other))):
            return Inverse(column, _days_from(day, sign))
    return None


def _days_from(day: date, sign: int) -> Solve:
    """Invert comparisons of the number of days from `day` to the column (sign 1), or from the column to `day` (-1)."""

    def solve(column: str, operator: Operator, value: Value) -> Predicate | None:
        compared = operator if sign > 0 else MIRRORED[operator]
        return _compared_to(column, compared, "DAY", shift(day, sign * value, "DAY")) if type(value) is int else None

    return solve


def _formatted(column: exp.Expr, node: exp.Expr) -> Inverse | None:
    form = node.args["format"].name.replace("strict", "")
    if (unit := _SORTED_FORMATS.get(form)) is None:
        return None

    def solve(name: str, operator: Operator, value: Value) -> Predicate | None:
        if not isinstance(value, str):
            return None
        day = datetime.strptime(value, form).date()
        # strptime accepts other forms too, whose order is not that of dates
        return _compared_to(name, operator, unit, day) if day.strftime(form) == value else None

    return Inverse(column, solve)


def _prefix(column: exp.Expr, node: exp.Expr) -> Inverse | None:
    left = isinstance(node, exp.Left)
    start = 1 if left else constant(node.args.get("start") or exp.Null())
    length = constant((node.expression if left else node.args.get("length")) or exp.Null())
    if start not in (0, 1) or type(length) is not int or length < 1:
        return None

    def solve(name: str, operator: Operator, value: Value) -> Predicate | None:
        if operator != "=" or not isinstance(value, str) or not value or len(value) > length:
            return None
        return starts_with(name, value) if len(value) == length else Compare(name, "=", value)

    return Inverse(column, solve)


def _cast(column: exp.Expr, to: exp.Expr) -> Inverse | None:
    """A cast. The type of the column is unknown here, so that the predicate must be correct for columns of any type."""
    type_ = to.this.name if isinstance(to, exp.DataType) else ""
    if type_ == "DATE":
        return Inverse(column, _period("DAY", as_day))
    if type_ in TIMESTAMP_TYPES:
        return Inverse(column, _as_timestamp)
    if type_ in STRING_TYPES and not to.expressions:
        return Inverse(column, _as_string, exact=False)
    if type_ in INTEGER_TYPES:
        return Inverse(column, _rounded(Decimal(1), exclusive=True), exact=False)
    if type_ == "DOUBLE":
        return Inverse(column, _as_double, exact=False)
    if type_ == "DECIMAL":
        scale = to.expressions[1].name if len(to.expressions) > 1 else "0"
        return Inverse(column, _rounded(Decimal(1).scaleb(-int(scale)), exclusive=False), exact=False)
    return None


def _as_timestamp(column: str, operator: Operator, value: Value) -> Predicate | None:
    instant = as_instant(value)
    return None if instant is None else Compare(column, operator, as_datetime(instant))


def _as_string(column: str, operator: Operator, value: Value) -> Predicate | None:
    # the order of numbers is not that of their strings
    return Compare(column, "=", value) if operator == "=" and isinstance(value, str) else None


def _as_double(column: str, operator: Operator, value: Value) -> Predicate | None:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal) or operator == "!=":
        return None
    return Compare(column, operator, float(value))


def _rounded(step: Decimal, *, exclusive: bool) -> Solve:
    def solve(column: str, operator: Operator, value: Value) -> Predicate | None:
        if isinstance(value, bool) or not isinstance(value, int | Decimal):
            return None
        with localcontext(prec=2 * MAX_DIGITS):
            low, high = value - step, value + step
        # A limit is excluded only if a double represents it exactly: in a comparison with a column of doubles, Spark
        # rounds it, perhaps to a value that matches.
        above = Compare(column, ">" if exclusive and float(low) == low else ">=", low)
        below = Compare(column, "<" if exclusive and float(high) == high else "<=", high)
        match operator:
            case "=":
                return And((above, below))
            case ">" | ">=":
                return above
            case "<" | "<=":
                return below
            case _:
                return None

    return solve
