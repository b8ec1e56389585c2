"""Convert literals of Spark SQL to Python values, and Python values to literals."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation

from zlayout.message_text import quote_value
from zlayout.predicate.model import Value

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
    """Parse a timestamp, or a date, which means its midnight; None for a string in another form."""
    try:
        return instant(text)
    except RejectedError:
        return None


def utc(value: datetime) -> datetime:
    """The same instant in UTC without a time zone, so that all timestamps can be compared."""
    return value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
