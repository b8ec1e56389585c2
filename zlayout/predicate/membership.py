"""Evaluate `column IN (...)` for many partitions: the values are sorted once for each type, for binary search."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from zlayout.predicate.coercion import coerce, depends_on_type, instant_of
from zlayout.predicate.facts import Fact, NotNull, Null, Prefix, Range
from zlayout.predicate.model import Value
from zlayout.predicate.truth_values import ANY, EITHER, FALSE, NULL, TRUE, TruthValues


@dataclass(frozen=True, slots=True)
class _Ordered:
    """The values of IN as Spark compares them, ascending. unknown: whether there are more, with unknown results."""

    exact: tuple[Any, ...]
    doubles: tuple[float, ...]
    unknown: bool


def membership(values: Sequence[Value]) -> Callable[[Fact], TruthValues]:
    """Return a function that returns the possible truth values of `column IN (values)`, given a fact on the column."""
    ordered: dict[tuple[type, bool], _Ordered] = {}

    def truth_values(fact: Fact) -> TruthValues:
        if not values:
            return FALSE
        match fact:
            case None:
                return ANY
            case Null():
                return NULL
            case NotNull():
                return EITHER
            case Range(low, high, is_open):
                pass
            case Prefix(text):
                low, high, is_open = text, text, False
        if low != low:  # NaN
            return EITHER
        key = (type(low), is_open)
        if key not in ordered:
            ordered[key] = _in_order(values, low, is_open)
        if isinstance(fact, Prefix):
            return _among_prefixed(ordered[key], fact.text)
        return _among(ordered[key], low, high, is_open)

    return truth_values


def _in_order(values: Sequence[Value], like: Any, is_open: bool) -> _Ordered:
    """like: any value of the column. is_open: as in `Range`."""
    exact: list[Any] = []
    doubles: list[float] = []
    unknown = False
    for literal in values:
        value = coerce(literal, like)
        if value is None or (is_open and depends_on_type(literal)):
            unknown = True
        elif isinstance(like, float) or isinstance(value, float):
            doubles.append(float(value))
        else:
            exact.append(_comparable(value))
    return _Ordered(tuple(sorted(exact)), tuple(sorted(doubles)), unknown)


def _among(ordered: _Ordered, low: Any, high: Any, is_open: bool) -> TruthValues:
    found = []
    if ordered.exact:
        found.append(_search(ordered.exact, _comparable(low), _comparable(high), is_open))
    if ordered.doubles:
        found.append(_search(ordered.doubles, float(low), float(high), is_open))
    return TRUE if TRUE in found else EITHER if ordered.unknown or EITHER in found else FALSE


def _search(ascending: Sequence[Any], low: Any, high: Any, is_open: bool) -> TruthValues:
    at = bisect_left(ascending, low)
    inside = at < len(ascending) and (ascending[at] < high if is_open else ascending[at] <= high)
    return FALSE if not inside else TRUE if low == high else EITHER


def _among_prefixed(ordered: _Ordered, prefix: str) -> TruthValues:
    at = bisect_left(ordered.exact, prefix)
    inside = at < len(ordered.exact) and ordered.exact[at].startswith(prefix)
    return EITHER if inside or ordered.unknown else FALSE


def _comparable(value: Any) -> Any:
    return instant_of(value) if isinstance(value, date) else value
