"""Facts about a source column that follow from the values of a partition."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal, localcontext
from typing import Any

from zlayout.predicate.literals import MAX_DECIMAL_DIGITS
from zlayout.table.partition import FarTime

_EPOCH = datetime(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class Null:
    """The column is null in every row."""


@dataclass(frozen=True, slots=True)
class NotNull:
    """The column is not null in any row; its values are unknown."""


@dataclass(frozen=True, slots=True)
class Range:
    """low <= value <= high in every row, or low <= value < high if `open` is true."""

    low: Any
    high: Any
    open: bool = False


@dataclass(frozen=True, slots=True)
class Prefix:
    """Every value begins with `text`."""

    text: str


Fact = Null | NotNull | Range | Prefix | None


def fact(transform: str, value: Any, is_date: bool) -> Fact:
    """Return the fact about a source column that follows from one partition value.

    Args:
        transform: Iceberg's name of the transform, as in `PartitionField`.
        value: the partition value, as in `Partition`.
        is_date: whether the source column is known to hold dates.

    Returns:
        The fact; None if nothing follows, not even whether the column is null.
    """
    name, _, argument = transform.partition("[")
    if name == "void":
        return None
    if value is None:
        return Null()
    if isinstance(value, FarTime):
        return NotNull()
    if name == "identity":
        return Range(value, value)
    if name in _STEPS and isinstance(value, int):
        return _time_range(name, value, is_date)
    if name == "truncate" and not isinstance(value, bool):
        return _truncated(value, int(argument.rstrip("]")))
    return NotNull()


_STEPS: dict[str, Callable[[int], datetime]] = {
    "year": lambda ordinal: datetime(1970 + ordinal, 1, 1),
    "month": lambda ordinal: datetime(1970 + ordinal // 12, ordinal % 12 + 1, 1),
    "day": lambda ordinal: _EPOCH + timedelta(days=ordinal),
    "hour": lambda ordinal: _EPOCH + timedelta(hours=ordinal),
}


def _time_range(name: str, ordinal: int, is_date: bool) -> Fact:
    try:
        low, high = _STEPS[name](ordinal), _STEPS[name](ordinal + 1)
    except (ValueError, OverflowError):
        return NotNull()
    if is_date:
        return Range(low.date(), high.date() - timedelta(days=1)) if name != "hour" else NotNull()
    return Range(low, high, open=True)


def _truncated(value: Any, width: int) -> Fact:
    match value:
        case int():
            return Range(value, value + width - 1)
        case Decimal():
            # The width counts units of the last digit. If the value has lost trailing zeros, its last digit has a
            # larger unit, and the range is too wide but never too narrow.
            unit = Decimal(1).scaleb(min(int(value.as_tuple().exponent), 0))
            with localcontext(prec=2 * MAX_DECIMAL_DIGITS):
                return Range(value, value + unit * (width - 1))
        case str():
            return Range(value, value) if len(value) < width else Prefix(value)
        case _:
            return NotNull()
