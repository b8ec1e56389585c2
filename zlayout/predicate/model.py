"""The nodes of a predicate, which is a tree of conditions on columns, and the values that the conditions contain.

`zlayout.predicate.parse` builds predicates from SQL.
"""

from __future__ import annotations

import calendar
import math
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from types import UnionType
from typing import Any, Literal

from zlayout.text import quote_value

Value = str | int | float | bool | Decimal | date | datetime
Operator = Literal["=", "!=", "<", "<=", ">", ">="]
# The operator after both sides are exchanged: `5 < a` is `a > 5`.
MIRRORED: dict[Operator, Operator] = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
# The operator of the negated comparison: `NOT a < 5` is `a >= 5`.
OPPOSITE: dict[Operator, Operator] = {"=": "!=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
# The comparison of two Python values, or of two numpy arrays.
COMPARED: dict[Operator, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class TextOnly(str):
    """A string that is compared with string columns only, as in LIKE. Other strings are cast to the column's type."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Compare:
    """A comparison of a column with a literal; null if the column is null."""

    column: str
    operator: Operator
    value: Value


@dataclass(frozen=True, slots=True)
class In:
    """`column IN (values)`; null if the column is null, unless there are no values."""

    column: str
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class IsNull:
    """`column IS NULL`."""

    column: str


@dataclass(frozen=True, slots=True)
class Keys:
    """The values of a column in those rows of another table for which a predicate is true.

    Attributes:
        table: The name of the table as written in the query.
        column: The column of the table.
        predicate: The predicate; None for all rows. It may contain `InKeys`, as in a snowflake schema.
    """

    table: str
    column: str
    predicate: Predicate | None = None


@dataclass(frozen=True, slots=True)
class InKeys:
    """The value of a column is a key of another table; null if the column is null.

    It follows from an equality of columns in a join, or from `IN (SELECT ...)`. It can be evaluated only with the rows
    of the other table.

    Attributes:
        sets: The sets of keys, of which one contains the value.
        text: The condition of the query as SQL.
        is_scalar: Whether the condition is `=` with a subquery, which is no join.
    """

    column: str
    sets: tuple[Keys, ...]
    text: str = ""
    is_scalar: bool = False


@dataclass(frozen=True, slots=True)
class Like:
    """A column matches a pattern of LIKE, or does not match it; null if the column is null.

    It stands for patterns that min and max cannot decide, and can be evaluated only with rows.

    Attributes:
        column: The column.
        pattern: The pattern, in which `!` precedes each `%`, `_` and `!` that stands for itself.
        negated: Whether the values do not match it.
    """

    column: str
    pattern: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Not:
    """The negation of a predicate."""

    operand: Predicate


@dataclass(frozen=True, slots=True)
class And:
    """The conjunction of predicates; true if there are none."""

    operands: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """The disjunction of predicates; false if there are none."""

    operands: tuple[Predicate, ...]


NeedsRows = InKeys | Like  # Bounds alone decide neither.
Leaf = Compare | In | IsNull | NeedsRows
Predicate = Leaf | Not | And | Or


def leaves(predicate: Predicate) -> Iterator[Leaf]:
    """The leaves of the predicate, which are conditions on single columns, in order."""
    match predicate:
        case And(operands) | Or(operands):
            for part in operands:
                yield from leaves(part)
        case Not(operand):
            yield from leaves(operand)
        case _:
            yield predicate


def columns(predicate: Predicate) -> frozenset[str]:
    """The names of all columns in the predicate."""
    return frozenset(leaf.column for leaf in leaves(predicate))


def conjunction(parts: Iterable[Predicate]) -> Predicate | None:
    """The AND of the parts, in which an AND is replaced by its operands. None if there are no parts.

    A single part is returned as it is.
    """
    flat = tuple(p for part in parts for p in (part.operands if isinstance(part, And) else (part,)))
    return flat[0] if len(flat) == 1 else And(flat) if flat else None


def with_leaves(predicate: Predicate, change: Callable[[Leaf], Predicate]) -> Predicate:
    """The predicate with each leaf replaced by what `change` returns for it."""
    match predicate:
        case And(operands):
            return And(tuple(with_leaves(p, change) for p in operands))
        case Or(operands):
            return Or(tuple(with_leaves(p, change) for p in operands))
        case Not(operand):
            return Not(with_leaves(operand, change))
        case _:
            return change(predicate)


def renamed(predicate: Predicate, names: Mapping[str, str]) -> Predicate:
    """The predicate with new names of its columns. names: by old name. Raises KeyError if one is missing."""
    return with_leaves(predicate, lambda leaf: replace(leaf, column=names[leaf.column]))


def without(kind: type[InKeys | Like] | UnionType, predicate: Predicate) -> Predicate | None:
    """The predicate itself if it has no leaf of a kind, else one without that it implies, or None if there is none.

    kind: `NeedsRows` or one of its types. NOT contains none of them.
    """
    if not any(isinstance(leaf, kind) for leaf in leaves(predicate)):
        return predicate
    match predicate:
        case And(operands):
            return conjunction(p for o in operands if (p := without(kind, o)) is not None)
        case Or(operands):
            parts = [p for o in operands if (p := without(kind, o)) is not None]
            return Or(tuple(parts)) if len(parts) == len(operands) else None
        case _:
            return None


def rejects_null(predicate: Predicate) -> bool:
    """Whether the predicate is certainly not true for a row whose columns are all null, as an outer join adds."""
    match predicate:
        case Compare() | In() | InKeys() | Like() | Not(Compare() | In() | IsNull()):
            return True
        case And(operands):
            return any(map(rejects_null, operands))
        case Or(operands):
            return all(map(rejects_null, operands))
        case _:
            return False


def starts_with(column: str, prefix: str) -> Predicate:
    """The predicate that a string column begins with `prefix`.

    Such strings are at least the prefix, and less than the next string of its length. The order is that of code points,
    which is also the order of UTF-8 bytes. For a column of another type, the truth value of the predicate is unknown.
    """
    low, end = Compare(column, ">=", TextOnly(prefix)), after_prefix(prefix)
    return low if end is None else And((low, Compare(column, "<", TextOnly(end))))


def after_prefix(prefix: str) -> str | None:
    """The lowest string that is above all strings that begin with `prefix`; None if there is none."""
    stem = prefix.rstrip(chr(_LAST_CHARACTER))
    following = ord(stem[-1]) + 1 if stem else 0
    return stem[:-1] + chr(_SURROGATES.stop if following in _SURROGATES else following) if stem else None


_SURROGATES = range(0xD800, 0xE000)
_LAST_CHARACTER = 0x10FFFF


# Calendar periods, such as the month that contains an instant, and dates plus intervals.


MONTHS_PER_UNIT = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
DAYS_PER_UNIT = {"DAY": 1, "WEEK": 7}
SECONDS_PER_UNIT = {"HOUR": 3600, "MINUTE": 60, "SECOND": 1}
_NAMES = {
    "YYYY": "YEAR",
    "YY": "YEAR",
    "MON": "MONTH",
    "MM": "MONTH",
    "DD": "DAY",
}


def unit_named(text: str) -> str | None:
    """The unit that Spark's trunc, date_trunc and intervals mean by a name: "MONTH" for "mon"; None if unknown."""
    name = text.strip().upper()
    name = _NAMES.get(name, name.removesuffix("S"))
    return name if name in MONTHS_PER_UNIT or name in DAYS_PER_UNIT or name in SECONDS_PER_UNIT else None


def as_datetime(value: date) -> datetime:
    """The timestamp itself, or the midnight of a date."""
    return value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)


def start_of(value: date, unit: str) -> date:
    """The start of the period of this unit that contains the value. A week starts on Monday, as in Spark."""
    if unit in SECONDS_PER_UNIT and isinstance(value, datetime):
        minute = 0 if unit == "HOUR" else value.minute
        return value.replace(minute=minute, second=value.second if unit == "SECOND" else 0, microsecond=0)
    if isinstance(value, datetime):
        value = value.replace(hour=0, minute=0, second=0, microsecond=0)
    if unit == "WEEK":
        return value - timedelta(days=value.weekday())
    if unit in MONTHS_PER_UNIT:
        months = MONTHS_PER_UNIT[unit]
        return value.replace(day=1, month=(value.month - 1) // months * months + 1)
    return value


def end_of(value: date, unit: str) -> date:
    """The end of the period of this unit that contains the value, exclusive: the start of the next period."""
    return shift(start_of(value, unit), 1, unit)


def shift(value: date, amount: int, unit: str) -> date:
    """The value plus a number of units. As in Spark, a day that the month does not have becomes its last day.

    Raises:
        ValueError, OverflowError: if the result is outside the years 1 to 9999, or the unit is unknown.
    """
    if unit in MONTHS_PER_UNIT:
        months = value.year * 12 + value.month - 1 + amount * MONTHS_PER_UNIT[unit]
        year, month = divmod(months, 12)
        last = calendar.monthrange(year, month + 1)[1]
        return value.replace(year=year, month=month + 1, day=min(value.day, last))
    if unit in DAYS_PER_UNIT:
        return value + timedelta(days=amount * DAYS_PER_UNIT[unit])
    if unit not in SECONDS_PER_UNIT:
        raise ValueError(unit)
    return as_datetime(value) + timedelta(seconds=amount * SECONDS_PER_UNIT[unit])


# Literals of Spark SQL, parsed to Python values and written from them.


MAX_DECIMAL_DIGITS = 38

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_TIMESTAMP = re.compile(r"\d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?(Z|[+-]\d{2}:\d{2})?")


@dataclass
class RejectedError(Exception):
    """A condition contains something that is not allowed. The attributes are those of a `Diagnostic`."""

    code: str
    message: str
    hint: str = ""


def literal(value: Value) -> str:
    """The Spark SQL literal of a value, of the same type."""
    match value:
        case bool():
            return "TRUE" if value else "FALSE"
        case int():
            return str(value)
        case float():
            return f"{value!r}D"
        case Decimal():
            digits = format(value, "f")
            return digits if "." in digits else f"{digits}BD"
        case datetime():
            return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
        case date():
            return f"DATE '{value.isoformat()}'"
        case str():
            return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def number(text: str, type_: Callable[[str], Value] | None = None) -> Value:
    """Parse a number.

    Args:
        text: the digits, without a sign and a suffix.
        type_: the Python type; None for the type that Spark chooses: int for 1, Decimal for 1.5, float for 1e3. In both
            cases, an int of 2**63 or more becomes a Decimal.

    Raises:
        RejectedError: ZL032 for an invalid or too large number.
    """
    if type_ is None:
        type_ = float if "e" in text.lower() else Decimal if "." in text else int
    try:
        value = type_(text)
    except (ValueError, InvalidOperation):
        raise RejectedError("ZL032", f"expected a number, found {quote_value(text)}") from None
    if isinstance(value, float) and not math.isfinite(value):
        raise RejectedError("ZL032", f"the number {quote_value(text)} is too large")
    if isinstance(value, int) and value >= 2**63:
        value = Decimal(value)
    if isinstance(value, Decimal) and (_is_long(value) or len(format(value, "f")) > MAX_DECIMAL_DIGITS + 2):
        found = f"found the number {quote_value(text)}"
        raise RejectedError("ZL032", f"expected at most {MAX_DECIMAL_DIGITS} digits, {found}")
    return value


def _is_long(value: Decimal) -> bool:
    """Whether the exponent alone requires too many digits: 1e999999999BD is short, but its digits need a gigabyte."""
    return not value.is_finite() or abs(int(value.as_tuple().exponent)) > MAX_DECIMAL_DIGITS + 1


def day(text: str) -> date:
    """Parse the text of a literal DATE '2026-01-31'. Any other form, even one of Spark, raises RejectedError ZL032."""
    try:
        if _DATE.fullmatch(text):
            return date.fromisoformat(text)
    except ValueError:
        pass
    raise RejectedError("ZL032", f"expected a date like '2026-01-31', found {quote_value(text)}")


def instant(text: str) -> datetime:
    """Parse the text of a literal TIMESTAMP '...'. If it has no time zone, the result is naive, and means UTC.

    Raises:
        RejectedError: ZL032.
    """
    try:
        if _TIMESTAMP.fullmatch(text):
            found = datetime.fromisoformat(text)
            utc(found)  # raises OverflowError if the instant in UTC is outside of the years 1 to 9999
            return found
        if _DATE.fullmatch(text):
            return datetime.fromisoformat(text + " 00:00:00")
    except (ValueError, OverflowError):
        pass
    raise RejectedError("ZL032", f"expected a timestamp like '2026-01-31 23:59:59', found {quote_value(text)}")


def instant_or_none(text: str) -> datetime | None:
    """Parse a timestamp, or a date, which means its midnight; None for a string in another form.

    The time zone may be `UTC` after a space, as Trino writes it. No other name is known.
    """
    try:
        return instant(text[:-4] + "Z" if text.endswith(" UTC") else text)
    except RejectedError:
        return None


def utc(value: datetime) -> datetime:
    """The same instant in UTC without a time zone, so that all timestamps can be compared."""
    return value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)


class Reason(StrEnum):
    """Why a condition cannot be used for skipping files."""

    SUBQUERY = "a subquery"
    TWO_COLUMNS = "compares columns (a join)"
    EXPRESSION = "a function or arithmetic on a column"
    NOT_CONSTANT = "a comparison with an expression that is not constant"
    LEFT_OUT = "a value that the workload leaves out (`?`)"
    NO_PREFIX = "a pattern that begins with a wildcard"
    NEGATED = "a negation that min and max cannot decide"
    NOT_SUPPORTED = "a condition that min and max cannot decide"
    NO_OWNER = "a column whose table is unknown (qualify the column)"
    SEVERAL_TABLES = "an OR over several tables"
    OUTER_JOIN = "a condition that does not limit the table, because of an outer join"
    AFTER_GROUPING = "a condition on groups or windows"
    COMPUTED = "a condition on a computed column"
    JOIN_FILTER = "a filter through a join, which limits the table only at run time"
    LIMIT = "a LIMIT, after which engines stop reading"
    TABLE_FUNCTION = "a condition on the rows of a table function"
    NO_BOUNDS = "a column without min and max"
    NOT_COMPARABLE = "a value that cannot be compared with the type of the column"
    UNKNOWN_COLUMN = "a column that the table does not have"
