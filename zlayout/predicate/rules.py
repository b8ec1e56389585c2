"""The rules by which conditions in SQL become predicates: lenient ones for workloads, and strict ones for `where`.

`condition` converts a condition of a query, or states why it cannot be used. `strict_predicate` converts a `where`, and
rejects everything that is not allowed. Both are based on `zlayout.predicate.sql_tree`.

`inverse_of` inverts comparisons of a function of a column: `date(ts) = '2026-01-31'` becomes a range of ts. Only
monotonic functions are inverted (truncation to calendar periods, dates plus days, differences of dates, casts,
prefixes), and of casts to strings only comparisons by `=`. The resulting predicate is true for each row for which the
comparison is true. It is *exact* if it is also false, and null, for the same rows as the comparison, so that it may be
negated.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal, InvalidOperation, localcontext

from sqlglot import exp

from zlayout.predicate.coercion import depends_on_type
from zlayout.predicate.model import (
    COMPARED,
    DAYS_PER_UNIT,
    MIRRORED,
    MONTHS_PER_UNIT,
    And,
    Compare,
    IsNull,
    Like,
    Not,
    Operator,
    Or,
    Predicate,
    Reason,
    RejectedError,
    TextOnly,
    Value,
    as_datetime,
    conjunction,
    day,
    end_of,
    instant,
    number,
    shift,
    start_of,
    starts_with,
    unit_named,
)
from zlayout.predicate.sql_tree import (
    COMPARISONS,
    INTEGER_TYPES,
    MAX_DIGITS,
    STRING_TYPES,
    TIMESTAMP_TYPES,
    Comparisons,
    as_day,
    as_instant,
    column_parts,
    compared,
    constant,
    convert,
    further_arguments,
    interval_of,
    is_column,
    literal_value,
    operands,
    root,
    shifted,
    truncation_unit,
)
from zlayout.text import dotted, quote_value

# The lenient rules of workloads: a condition that cannot be used is left out, with the reason.


MAX_IN_VALUES = 10_000  # An IN with more values is an unused condition.
_COMPARISONS: Comparisons = {**COMPARISONS, exp.NullSafeEQ: "="}

# Conditions that are equivalent to their predicates, so that the negations are equivalent, too.
NEGATABLE = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between, exp.In, exp.Is)


@dataclass
class UnusableError(Exception):
    """The condition cannot be used, for this reason."""

    reason: Reason


@dataclass(frozen=True, slots=True)
class Converted:
    """The predicate of a condition.

    Attributes:
        predicate: A predicate that is true for every row for which the condition is true.
        exact: Whether it is equivalent to the condition, so that it may be negated.
        inverted: Whether the condition is an inverted condition.
    """

    predicate: Predicate
    exact: bool = True
    inverted: bool = False


def condition(node: exp.Expr, name: Callable[[exp.Expr], str]) -> Converted:
    """Convert one condition to a predicate.

    Args:
        node: the condition. It is not an AND, OR or NOT.
        name: returns the name that a column gets in the predicate. It may raise UnusableError.

    Raises:
        UnusableError: with the reason why the condition cannot be used.
    """
    if node.find(exp.Query):
        raise UnusableError(Reason.SUBQUERY)
    # NOT LIKE, as sqlglot represents it, and as it did before version 30.8
    like = node.this if isinstance(node, exp.Escape | exp.Not) else node
    if like.args.get("negate") or (isinstance(node, exp.Not) and isinstance(like, exp.Like | exp.Escape)):
        raise UnusableError(Reason.NEGATED)
    rules = _WorkloadRules(node, name)
    exact = isinstance(node, NEGATABLE)
    if isinstance(node, exp.In) and len(node.expressions) > MAX_IN_VALUES:
        raise rules.rejection(node)
    if found := _inverted(node, rules):
        predicate, equivalent = found
        return Converted(predicate, exact and equivalent, inverted=True)
    return Converted(_plain(node, rules), exact)


def like(node: exp.Expr, name: Callable[[exp.Expr], str], *, negated: bool = False) -> Like | None:
    """Convert LIKE, NOT LIKE and their negations to a condition that needs rows; None if engines may differ.

    They differ in a backslash without ESCAPE, and in an escape character before another character.

    Args:
        node, name: as in `condition`. Raises what `name` raises.
        negated: whether the negation of the condition is converted.
    """
    escape = ""
    while type(node) in (exp.Not, exp.Escape):
        if type(node) is exp.Not:
            negated = not negated
        else:
            escape = node.expression.name if isinstance(node.expression, exp.Literal) else ""
            if len(escape) != 1:
                return None
        node = node.this.unnest()
    if type(node) is not exp.Like or not is_column(node.this.unnest()):
        return None
    pattern = constant(node.expression)
    if not isinstance(pattern, str) or ("\\" in pattern and not escape):
        return None
    sign = re.escape(escape)
    signs = re.findall(rf"{sign}[%_{sign}]|[^{sign}]" if escape else ".", pattern, re.DOTALL)
    if "".join(signs) != pattern:
        return None
    canonical = [one if one in ("%", "_") else re.sub("([%_!])", r"!\1", one[-1]) for one in signs]
    return Like(name(node.this.unnest()), "".join(canonical), negated != bool(node.args.get("negate")))


def _plain(node: exp.Expr, rules: _WorkloadRules) -> Predicate:
    match node:
        case exp.Escape() if isinstance(node.this, exp.Like) and isinstance(node.expression, exp.Literal):
            return _workload_like(node.this, node.expression.name, rules)
        case exp.Like():
            return _workload_like(node, None, rules)
        case exp.StartsWith() if isinstance(prefix := constant(node.expression), str) and prefix:
            return starts_with(rules.column(node.this), prefix)
        case exp.Column() | exp.Dot():
            return Compare(rules.column(node), "=", True)
    return convert(node, rules, _COMPARISONS)


def _inverted(node: exp.Expr, rules: _WorkloadRules) -> tuple[Predicate, bool] | None:
    try:
        subject, sides = compared(node, lambda side: inverse_of(side) is not None)
        inverse = inverse_of(subject) if sides else None
        values = [(operator, constant(side)) for operator, side in sides]
        if inverse is None or any(value is None for _, value in values):
            return None
        name = rules.column(inverse.column)
        found = [inverse.solve(name, operator, value) for operator, value in values if value is not None]
    except (ValueError, OverflowError, InvalidOperation):
        return None
    parts = [part for part in found if part is not None]
    if not parts or len(parts) < len(found):
        return None
    whole = Or(tuple(parts)) if type(node) is exp.In and len(parts) > 1 else conjunction(parts)
    return None if whole is None else (whole, inverse.exact)


@dataclass(frozen=True)
class _WorkloadRules:
    """`Rules` that reject with UnusableError. Its reason is why `condition` as a whole cannot be used."""

    condition: exp.Expr
    name: Callable[[exp.Expr], str]

    def column(self, node: exp.Expr) -> str:
        node = node.unnest()
        if not is_column(node):
            raise self.rejection(node)
        return self.name(node)

    def value(self, node: exp.Expr) -> Value:
        if (found := constant(node)) is None:
            raise self.rejection(node)
        return found

    def rejection(self, node: exp.Expr) -> UnusableError:
        del node
        whole = self.condition
        if type(whole) not in _COMPARISONS and not isinstance(whole, exp.Between | exp.In | exp.Is | exp.Like):
            return UnusableError(Reason.NOT_SUPPORTED)
        sides = [side for side in (whole.args.get("this"), whole.args.get("expression")) if isinstance(side, exp.Expr)]
        has_column = [side.find(exp.Column) is not None for side in sides]
        if len(sides) == 2 and all(has_column):
            return UnusableError(Reason.TWO_COLUMNS)
        if sides and has_column[0] and not isinstance(sides[0].unnest(), exp.Column):
            return UnusableError(Reason.EXPRESSION)
        return UnusableError(Reason.LEFT_OUT if whole.find(exp.Placeholder) else Reason.NOT_CONSTANT)


def _workload_like(node: exp.Expr, escape: str | None, rules: _WorkloadRules) -> Predicate:
    """Convert LIKE: with a wildcard it is the range of strings with the prefix before it, without one it is `=`."""
    # Without ESCAPE, the prefix ends at a backslash, which escapes the next character in some engines only.
    pattern = rules.value(node.expression)
    if not isinstance(pattern, str):
        raise rules.rejection(node)
    if escape is not None and len(escape) != 1:
        raise UnusableError(Reason.NO_PREFIX)
    sign = re.escape(escape or "\\")
    itself = rf"[^%_{sign}]" if escape is None else rf"(?:{sign}.|[^%_{sign}])"
    prefix = re.match(itself + "*", pattern, re.DOTALL)
    if prefix is None or not prefix[0]:
        raise UnusableError(Reason.NO_PREFIX)
    text = re.sub(sign + "(.)", r"\1", prefix[0], flags=re.DOTALL)
    column = rules.column(node.this)
    return Compare(column, "=", TextOnly(text)) if prefix.end() == len(pattern) else starts_with(column, text)


# The strict rules of `where`: columns, literals and a few operators are allowed. Everything else is rejected.


ALLOWED = "allowed: AND OR NOT, = != < <= > >= <=>, IN, BETWEEN, LIKE 'prefix%', IS NULL, columns, days(c) and literals"
_SUFFIXED = {"TINYINT": int, "SMALLINT": int, "INT": int, "BIGINT": int, "DOUBLE": float, "DECIMAL": Decimal}
_NAMES = {
    **dict.fromkeys(("Add", "Sub", "Mul", "Div", "IntDiv", "Mod", "Neg"), "arithmetic"),
    "Between": "BETWEEN SYMMETRIC",
    "NullSafeNEQ": "IS DISTINCT FROM",
    "Is": "IS other than IS [NOT] NULL",
    "RegexpLike": "RLIKE",
    "Literal": "a literal by itself",
}
ALWAYS, NEVER = And(()), Or(())
_PERIODS = {
    "years": ("YEAR", r"(\d{4})", "2026"),
    "months": ("MONTH", r"(\d{4})-(\d{2})", "2026-01"),
    "days": ("DAY", r"(\d{4})-(\d{2})-(\d{2})", "2026-01-31"),
    "hours": ("HOUR", r"(\d{4})-(\d{2})-(\d{2})-(\d{2})", "2026-01-31-23"),
}
_PATTERN = "use LIKE with a prefix followed by %, for example c LIKE 'eu-%'"


def strict_predicate(node: exp.Expr) -> Predicate:
    """Convert a parsed `where` to an equivalent predicate.

    Raises:
        RejectedError: ZL030, ZL031 or ZL032.
    """
    node = node.unnest()
    if type(node) is exp.And:
        return conjunction(map(strict_predicate, operands(node, exp.And))) or And(())
    if type(node) is exp.Or:
        return Or(tuple(map(strict_predicate, operands(node, exp.Or))))
    if type(node) is exp.Not:
        return Not(strict_predicate(node.this))
    if type(node) is exp.Boolean:
        return ALWAYS if node.this else NEVER
    rules = _WhereRules()
    if type(node) is exp.Like:
        return Not(_like(node, rules)) if node.args.get("negate") else _like(node, rules)
    if type(node) is exp.NullSafeEQ:
        return _null_safe(node, rules)
    if type(node) in COMPARISONS and (found := _constant(node)) is not None:
        return ALWAYS if found else NEVER
    return _transformed(node, rules) or convert(node, rules)


def _like(node: exp.Expr, rules: _WhereRules) -> Predicate:
    """Convert LIKE: with a prefix and `%` it is a range of strings, and without a wildcard it is `=`."""
    column, pattern = rules.column(node.this), node.expression.unnest()
    if type(pattern) is not exp.Literal or not pattern.is_string:
        raise _not_allowed("LIKE without a string literal", _PATTERN)
    text = str(pattern.this)
    prefix = text.rstrip("%")
    if any(sign in prefix for sign in "%_\\"):
        raise _not_allowed(f"LIKE {quote_value(text)}", _PATTERN)
    if not prefix:
        return Not(IsNull(column)) if text else Compare(column, "=", TextOnly())
    if prefix == text:
        return Compare(column, "=", TextOnly(text))
    return starts_with(column, prefix)


def _null_safe(node: exp.Expr, rules: _WhereRules) -> Predicate:
    """Convert `c <=> v` to `c = v AND c IS NOT NULL`, which is never null, and `c <=> NULL` to `c IS NULL`."""
    left, right = node.this.unnest(), node.expression.unnest()
    if is_column(left) and is_column(right):
        raise _not_allowed("a comparison of two columns", "compare a column with a literal")
    if is_column(right):
        left, right = right, left
    column = rules.column(left)
    if type(right) is exp.Null:
        return IsNull(column)
    return And((Compare(column, "=", rules.value(right)), Not(IsNull(column))))


def _constant(node: exp.Expr) -> bool | None:
    left, right = (literal_value(side.unnest()) for side in (node.this, node.expression))
    for types in ((bool,), (str,), (int, Decimal)):
        if type(left) in types and type(right) in types:
            return bool(COMPARED[COMPARISONS[type(node)]](left, right))
    return None


class _WhereRules:
    def column(self, node: exp.Expr) -> str:
        node = node.unnest()
        if type(node) in (exp.Literal, exp.Boolean, exp.Null, exp.Neg, exp.Cast, exp.TryCast):
            raise _not_allowed("a comparison without a column", "compare a column with a literal")
        if not is_column(node):
            raise self.rejection(root(node))
        parts = column_parts(node)
        for part in parts:
            if type(part) is not exp.Identifier:
                raise self.rejection(part)
            if not part.name or not part.name.isprintable():
                raise _not_allowed(f"the column name {quote_value(part.name)}", "write a nested column as a.b")
        return dotted(part.name for part in parts)

    def value(self, node: exp.Expr) -> Value:
        node = node.unnest()
        if (found := literal_value(node)) is not None:
            return found
        if type(node) is exp.Neg:
            value = self.value(node.this)
            if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
                raise RejectedError("ZL032", "expected a number after '-'")
            # unary minus would round a decimal to the 28 digits of Python's context
            return value.copy_negate() if isinstance(value, Decimal) else -value
        if type(node) is exp.Null:
            raise _not_allowed("a comparison with NULL", "write IS NULL")
        if type(node) in (exp.Cast, exp.TryCast) and type(node.this) is exp.Literal:
            return _typed(node)
        if type(node) is exp.Column:
            hint = "compare a column with a literal, and put strings in '...'"
            raise _not_allowed(f"the column {quote_value(node.name)} as a value", hint)
        raise self.rejection(node)

    def rejection(self, node: exp.Expr) -> RejectedError:
        if type(node) is exp.Column:
            return RejectedError(
                "ZL030", f"expected a condition, found the column {quote_value(node.name)}", "write c = true"
            )
        if type(node) in COMPARISONS:
            return _not_allowed("a comparison of two columns", "compare a column with a literal")
        if type(node) is exp.In:
            if not (others := further_arguments(node)):
                return RejectedError("ZL030", "IN needs at least one value")
            return _not_allowed("a subquery" if others[0] == "query" else f"IN {others[0].upper()}")
        if isinstance(node, exp.Anonymous):
            return _not_allowed(f"the function {quote_value(str(node.this))[1:-1]}()")
        if isinstance(node, exp.Subquery | exp.Query | exp.Exists):
            return _not_allowed("a subquery")
        if isinstance(node, exp.Func) and not isinstance(node, exp.Connector | exp.Binary):
            return _not_allowed(f"the function {node.sql_name().lower()}()")
        return _not_allowed(_NAMES.get(type(node).__name__, type(node).__name__.upper()))


def _not_allowed(name: str, hint: str = ALLOWED) -> RejectedError:
    return RejectedError("ZL031", f"{name} is not allowed", hint)


def _typed(node: exp.Expr) -> Value:
    text, target = str(node.this.this), node.args["to"].this.name
    if target == "DATE":
        return day(text)
    if target in TIMESTAMP_TYPES:
        return instant(text)
    if target in _SUFFIXED and (not node.this.is_string or target == "DECIMAL"):
        return number(text, _SUFFIXED[target])
    raise _not_allowed(f"a literal of type {target}")


def _transformed(node: exp.Expr, rules: _WhereRules) -> Predicate | None:
    """Convert a comparison with a transform such as `days(c)`, whose literals are as in Iceberg's partition paths."""
    call, sides = compared(node, lambda side: _transform_of(side) != "")
    name = _transform_of(call)
    if not (name and sides):
        return None
    column, (unit, _, example) = rules.column(call.expressions[0]), _PERIODS[name]
    parts = []  # a transform returns the period that contains the value: each comparison is a range of the column
    for operator_, side in sides:
        value = rules.value(side)
        try:
            low = _start(name, value)
            parts.append(compared_period(column, operator_, low, end_of(low, unit), is_start=True))
        except (ValueError, OverflowError):
            message = f"expected a period like '{example}' for {name}(), found {quote_value(str(value))}"
            raise RejectedError("ZL032", message) from None
    return Or(tuple(parts)) if type(node) is exp.In else conjunction(parts)


def _transform_of(node: exp.Expr) -> str:
    name = str(node.this).lower() if isinstance(node, exp.Anonymous) and len(node.expressions) == 1 else ""
    return name if name in _PERIODS else ""


def _start(name: str, value: Value) -> date:
    if name == "days" and isinstance(value, date) and not isinstance(value, datetime):
        return value
    found = re.fullmatch(_PERIODS[name][1], value, re.ASCII) if isinstance(value, str) else None
    if found is None:
        raise ValueError(value)
    parts = [int(part) for part in found.groups()]
    year, month, day = (*parts[:3], 1, 1)[:3]
    return datetime(year, month, day, parts[3]) if len(parts) == 4 else date(year, month, day)


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
