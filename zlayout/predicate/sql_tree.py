"""Convert the conditions of a sqlglot tree to predicates, under given `Rules`, and evaluate constant expressions.

`zlayout.predicate.rules` has the rules of `where` and of workloads. Only those of workloads evaluate constant
expressions. Importing this module imports sqlglot, which is slow.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import Decimal, InvalidOperation, localcontext
from functools import cache
from typing import Protocol, cast

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.dialects.spark import Spark
from sqlglot.tokens import Tokenizer

from zlayout.predicate.model import (
    MIRRORED,
    And,
    Compare,
    In,
    IsNull,
    Operator,
    Predicate,
    RejectedError,
    Value,
    as_datetime,
    instant_or_none,
    number,
    shift,
    start_of,
    unit_named,
    utc,
)

Comparisons = Mapping[type[exp.Expr], Operator]
COMPARISONS: Comparisons = {
    exp.EQ: "=",
    exp.NEQ: "!=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
# Errors that sqlglot raises for unexpected input, besides those that it documents.
PARSER_DEFECTS = (ValueError, TypeError, AttributeError, KeyError, IndexError, NotImplementedError)


@cache
def dialect_named(name: str) -> Dialect:
    """Return a dialect of sqlglot, in which Spark and Databricks read a doubled quote in a string as one quote.

    Spark does so since version 4 (SPARK-52545). sqlglot reads 'a''b' as two adjacent strings.
    """
    dialect = Dialect.get_or_raise(name)
    if isinstance(dialect, Spark):
        tokenizer = type(dialect).tokenizer_class
        escapes = [*tokenizer.STRING_ESCAPES, *tokenizer.QUOTES]
        doubled = type("Tokenizer", (tokenizer,), {"STRING_ESCAPES": escapes})
        dialect.tokenizer_class = cast(type[Tokenizer], doubled)
    return dialect


class Rules(Protocol):
    """The rules of a conversion. Each method raises an exception for a node that is not allowed."""

    def column(self, node: exp.Expr) -> str:
        """The dotted name of a column."""
        ...

    def value(self, node: exp.Expr) -> Value:
        """The value of a constant."""
        ...

    def rejection(self, node: exp.Expr) -> Exception:
        """The exception for a condition that `convert` does not support."""
        ...


def convert(node: exp.Expr, rules: Rules, comparisons: Comparisons = COMPARISONS) -> Predicate:
    """Convert a condition on one column: a comparison, IN, BETWEEN or IS NULL.

    Args:
        node: the condition.
        rules: the rules.
        comparisons: the operators of the comparisons that are supported, by type of node.

    Raises:
        Exception: as the methods of `rules`.
    """
    if type(node) is exp.Is and type(node.expression) is exp.Null and not node.args.get("negate"):
        return IsNull(rules.column(node.this))
    subject, sides = compared(node, is_column, comparisons)
    if not sides or (type(node) in comparisons and is_column(subject) and is_column(sides[0][1])):
        raise rules.rejection(node)
    values = [(operator, rules.value(side)) for operator, side in sides]
    column = rules.column(subject)
    if type(node) is exp.In:
        return In(column, tuple(value for _, value in values))
    parts = tuple(Compare(column, operator, value) for operator, value in values)
    return parts[0] if len(parts) == 1 else And(parts)


def compared(
    node: exp.Expr, is_subject: Callable[[exp.Expr], bool], comparisons: Comparisons = COMPARISONS
) -> tuple[exp.Expr, list[tuple[Operator, exp.Expr]]]:
    """Split a comparison, BETWEEN or IN into its subject and what this is compared with.

    The subject is on the left, unless `is_subject` is true for the right side alone.

    Returns:
        The subject, and the operators and nodes that it is compared with. There are none for another condition.
    """
    if type(node) in comparisons:
        left, right, operator = node.this.unnest(), node.expression.unnest(), comparisons[type(node)]
        if not is_subject(left) and is_subject(right):
            return right, [(MIRRORED[operator], left)]
        return left, [(operator, right)]
    subject = node.this.unnest() if isinstance(node.this, exp.Expr) else node
    if type(node) is exp.Between and not node.args.get("symmetric"):
        return subject, [(">=", node.args["low"]), ("<=", node.args["high"])]
    if type(node) is exp.In and not further_arguments(node):
        return subject, [("=", value) for value in node.expressions]
    return subject, []


def further_arguments(node: exp.Expr) -> list[str]:
    """The names of the arguments of IN besides a column and a list of values, such as a subquery."""
    return [name for name, value in node.args.items() if value and name not in ("this", "expressions")]


def root(node: exp.Expr) -> exp.Expr:
    """The innermost node of a chain of accesses to nested fields; the node itself if it is no such access."""
    while type(node) is exp.Dot and type(node.expression) is exp.Identifier:
        node = node.this
    return node


def is_column(node: exp.Expr) -> bool:
    """Whether the node is a column or a nested field of one, such as `t.a.b.c.d.e`."""
    return type(root(node)) is exp.Column


def column_parts(node: exp.Expr) -> list[exp.Expr]:
    """The parts of the dotted name of a node for which `is_column` is true."""
    tail: list[exp.Expr] = []
    while isinstance(node, exp.Dot):
        tail.insert(0, node.expression)
        node = node.this
    return [*node.parts, *tail] if isinstance(node, exp.Column) else tail


def operands(node: exp.Expr, node_type: type[exp.Expr]) -> list[exp.Expr]:
    """The operands of a chain of ANDs or ORs (`node_type`), in order. A chain may be too long for recursion."""
    found, stack = [], [node]
    while stack:
        top = stack.pop().unnest()
        if type(top) is node_type:
            stack += [top.args["expression"], top.args["this"]]
        else:
            found.append(top)
    return found


def literal_value(node: exp.Expr) -> Value | None:
    """The value of TRUE, FALSE, a string or a number; None for another node. Raises RejectedError ZL032."""
    if type(node) is exp.Boolean:
        return bool(node.this)
    if type(node) is exp.Literal:
        return str(node.this) if node.is_string else number(node.this)
    return None


# Constant expressions: literals, casts of literals, dates plus intervals, and arithmetic on numbers.
#
# The current date and time are constants, too: `fix_current_time` replaces them in a tree by a given time.


INTEGER_TYPES = ("TINYINT", "SMALLINT", "INT", "BIGINT")
STRING_TYPES = ("TEXT", "VARCHAR", "CHAR")
TIMESTAMP_TYPES = ("TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPLTZ", "TIMESTAMPNTZ")
NOW_FUNCTIONS = ("now", "getdate")
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
            return None if node.args.get("format") else as_day(_constant(node.this))
        case exp.TsOrDsAdd():
            unit = str(node.args.get("unit") or "DAY").upper()
            return shifted(as_day(_constant(node.this)), _constant(node.expression), unit)
        case exp.TimestampAdd() if named := unit_named(str(node.args.get("unit") or "")):
            return shifted(as_instant(_constant(node.this)), _constant(node.expression), named)
        case exp.DateTrunc():
            return _truncated(as_day(_constant(node.this)), truncation_unit(node))
        case exp.TimestampTrunc():
            value = as_instant(_constant(node.this))
            return None if value is None else _truncated(as_datetime(value), truncation_unit(node))
        case exp.LastDay():
            return shifted(shifted(_truncated(as_day(_constant(node.this)), "MONTH"), 1, "MONTH"), -1, "DAY")
        case exp.Anonymous() if str(node.this).lower() == "make_date" and len(node.expressions) == 3:
            return date(*map(_constant, node.expressions))  # type: ignore[arg-type]
        case exp.AddMonths():
            return shifted(as_day(_constant(node.this)), _constant(node.expression), "MONTH")
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
    return None if isinstance(left, datetime) else shifted(left, right, "DAY")


def _times(left: Value | None, right: Value | None) -> Value | None:
    return left * right if _is_number(left) and _is_number(right) else None  # type: ignore[operator]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _cast(value: Value | None, to: exp.Expr) -> Value | None:
    type_ = to.this.name if isinstance(to, exp.DataType) else ""
    if value is None:
        return None
    if type_ == "DATE":
        return as_day(value)
    if type_ in TIMESTAMP_TYPES:
        return instant_or_none(value) if isinstance(value, str) else value if isinstance(value, datetime) else None
    if type_ in STRING_TYPES:
        # CHAR(3) and VARCHAR(3) may shorten the string
        return value if isinstance(value, str) and not to.expressions else None
    if isinstance(value, bool | date) or len(str(value)) > MAX_DIGITS:
        return None
    if type_ in INTEGER_TYPES:
        return int(value) if Decimal(value) == int(Decimal(value)) else None
    if type_ in ("FLOAT", "DOUBLE"):
        form = "f" if type_ == "FLOAT" else "d"
        (number,) = struct.unpack(form, struct.pack(form, float(value)))  # rounded to the type
        return number if math.isfinite(number) else None
    if type_ != "DECIMAL" or to.expressions:  # DECIMAL(10, 2) may round the value
        return None
    decimal = Decimal(str(value))
    # DECIMAL is DECIMAL(10, 0)
    return decimal if decimal == decimal.to_integral_value() and abs(decimal) < 10**10 else None


def as_instant(value: Value | None) -> date | None:
    """A date as it is, a timestamp or a string as a timestamp in UTC; None for another value."""
    found = instant_or_none(value.strip()) if isinstance(value, str) else value
    return utc(found) if isinstance(found, datetime) else found if isinstance(found, date) else None


def as_day(value: Value | None) -> date | None:
    """The day of a date, a timestamp or a string; None for another value."""
    if isinstance(value, datetime):
        return value.date()
    if isinstance(value, str):
        found = instant_or_none(value.strip())
        return found.date() if found else None
    return value if isinstance(value, date) else None


def _add_interval(value: Value | None, interval: exp.Interval, sign: int) -> date | None:
    found = interval_of(interval)
    return None if found is None else shifted(value, sign * found[0], found[1])


def interval_of(node: exp.Interval) -> tuple[int, str] | None:
    """The amount and the unit of an interval with a constant amount and one known unit; None for another interval."""
    amount = node.this.name if isinstance(node.this, exp.Literal) else ""
    unit = unit_named(str(node.args.get("unit") or ""))
    if unit is None or not amount.lstrip("+-").isdigit() or len(amount) > MAX_DIGITS:
        return None
    return int(amount), unit


def shifted(value: Value | None, amount: object, unit: str) -> date | None:
    """The result of `shift`, with its errors; None if `value` is not a date or timestamp or `amount` is not an int."""
    return shift(value, amount, unit) if isinstance(value, date) and isinstance(amount, int) else None


def truncation_unit(node: exp.Expr) -> str | None:
    """The unit of `trunc(x, unit)` or `date_trunc(unit, x)`; None if it is not constant or is unknown."""
    unit = node.args.get("unit")
    return unit_named(unit.name) if isinstance(unit, exp.Literal | exp.Var) else None


def _truncated(value: Value | None, unit: str | None) -> date | None:
    return start_of(value, unit) if isinstance(value, date) and unit else None


def fix_current_time(tree: exp.Expr, now: datetime) -> bool:
    """Replace the current date and time in a tree, in place, by those of `now` (UTC, naive).

    Returns:
        Whether an expression was replaced.
    """
    found = False
    for node in list(tree.find_all(exp.CurrentDate, exp.CurrentTimestamp, exp.Localtimestamp, exp.Anonymous)):
        if isinstance(node, exp.Anonymous) and (str(node.this).lower() not in NOW_FUNCTIONS or node.expressions):
            continue
        day = isinstance(node, exp.CurrentDate)
        text = now.date().isoformat() if day else now.isoformat(sep=" ")
        node.replace(exp.Cast(this=exp.Literal.string(text), to=exp.DataType.build("DATE" if day else "TIMESTAMP")))
        found = True
    return found
