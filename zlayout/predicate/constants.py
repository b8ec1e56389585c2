"""Evaluate constant expressions: literals, casts of literals, dates plus intervals, arithmetic on numbers."""

from __future__ import annotations

import calendar
import math
from datetime import date, datetime, timedelta
from decimal import Decimal, InvalidOperation, localcontext

from sqlglot import exp

from zlayout.predicate.literals import RejectedError, instant_or_none
from zlayout.predicate.model import Value
from zlayout.predicate.sql_tree import literal_value

INTEGER_TYPES = ("TINYINT", "SMALLINT", "INT", "BIGINT")
FLOAT_TYPES = ("FLOAT", "DOUBLE")
STRING_TYPES = ("TEXT", "VARCHAR", "CHAR")
TIMESTAMP_TYPES = ("TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPLTZ", "TIMESTAMPNTZ")
MONTHS_PER_UNIT = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
DAYS_PER_UNIT = {"DAY": 1, "WEEK": 7}
SECONDS_PER_UNIT = {"HOUR": 3600, "MINUTE": 60, "SECOND": 1}
MAX_DIGITS = 40  # decimal digits of operands and results


def constant(node: exp.Expr) -> Value | None:
    """The value of a constant expression; None for NULL, and for an expression that is not supported."""
    try:
        with localcontext(prec=MAX_DIGITS):
            return _constant(node)
    except (RejectedError, ValueError, OverflowError, InvalidOperation, TypeError):
        return None


def _constant(node: exp.Expr) -> Value | None:
    node = node.unnest()
    match node:
        case exp.Neg():
            return _times(_constant(node.this), -1)
        case exp.Cast():
            return _cast(_constant(node.this), node.args["to"])
        case exp.TsOrDsToDate():
            return None if node.args.get("format") else _day(_constant(node.this))
        case exp.TsOrDsAdd():
            unit = str(node.args.get("unit") or "DAY").upper()
            return _shift(_day(_constant(node.this)), _constant(node.expression), unit)
        case exp.AddMonths():
            return _shift(_day(_constant(node.this)), _constant(node.expression), "MONTH")
        case exp.Mul():
            return _times(_constant(node.this), _constant(node.expression))
        case exp.Add():
            if isinstance(node.this, exp.Interval):
                return _add_interval(_constant(node.expression), node.this, 1)
            return _sum(node, 1)
        case exp.Sub():
            return _sum(node, -1)
    return literal_value(node)


def _sum(node: exp.Expr, sign: int) -> Value | None:
    left = _constant(node.this)
    if isinstance(node.expression, exp.Interval):
        return _add_interval(left, node.expression, sign)
    right = _times(_constant(node.expression), sign)
    if _is_number(left) and _is_number(right):
        # int + Decimal is exact. float + Decimal raises TypeError, so that it counts as not supported.
        return left + right  # type: ignore[operator]
    if isinstance(left, date) and not isinstance(left, datetime):
        return _shift(left, right, "DAY")
    return None


def _times(left: Value | None, right: Value | int | None) -> Value | None:
    if not (_is_number(left) and _is_number(right)):
        return None
    return left * right  # type: ignore[operator]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _cast(value: Value | None, to: exp.Expr) -> Value | None:
    type_ = to.this.name if isinstance(to, exp.DataType) else ""
    if value is None:
        return None
    if type_ == "DATE":
        return _day(value)
    if type_ in TIMESTAMP_TYPES:
        return instant_or_none(value) if isinstance(value, str) else value if isinstance(value, datetime) else None
    if type_ in STRING_TYPES:
        # CHAR(3) and VARCHAR(3) may shorten the string
        return value if isinstance(value, str) and not to.expressions else None
    if isinstance(value, bool | date) or len(str(value)) > MAX_DIGITS:
        return None
    if type_ in INTEGER_TYPES:
        return int(value) if Decimal(value) == int(Decimal(value)) else None
    if type_ in FLOAT_TYPES:
        return number if math.isfinite(number := float(value)) else None
    # DECIMAL(10, 2) may round the value
    return Decimal(str(value)) if type_ == "DECIMAL" and not to.expressions else None


def _day(value: Value | None) -> date | None:
    if isinstance(value, datetime):
        return value.date()
    if isinstance(value, str):
        found = instant_or_none(value.strip())
        return found.date() if found else None
    return value if isinstance(value, date) else None


def _add_interval(value: Value | None, interval: exp.Interval, sign: int) -> date | None:
    amount = interval.this.name if isinstance(interval.this, exp.Literal) else ""
    if not isinstance(value, date) or not amount.lstrip("+-").isdigit() or len(amount) > MAX_DIGITS:
        return None
    return _shift(value, sign * int(amount), str(interval.args.get("unit") or "").upper().removesuffix("S"))


def _shift(value: date | None, amount: object, unit: str) -> date | None:
    if value is None or not isinstance(amount, int):
        return None
    if unit in MONTHS_PER_UNIT:
        months = value.year * 12 + value.month - 1 + amount * MONTHS_PER_UNIT[unit]
        year, month = divmod(months, 12)
        # as in Spark, the last day of a shorter month
        last = calendar.monthrange(year, month + 1)[1]
        return value.replace(year=year, month=month + 1, day=min(value.day, last))
    if unit in DAYS_PER_UNIT:
        return value + timedelta(days=amount * DAYS_PER_UNIT[unit])
    if unit in SECONDS_PER_UNIT and isinstance(value, datetime):
        return value + timedelta(seconds=amount * SECONDS_PER_UNIT[unit])
    return None
