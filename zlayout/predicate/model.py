"""Define the nodes of a predicate, a tree of conditions. `zlayout.predicate.parse` builds it from SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from typing import Literal

Value = str | int | float | bool | Decimal | date | datetime
Operator = Literal["=", "!=", "<", "<=", ">", ">="]
# The operator after both sides are exchanged: `5 < a` is `a > 5`.
MIRRORED: dict[Operator, Operator] = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
# The operator of the negated comparison: `NOT a < 5` is `a >= 5`.
OPPOSITE: dict[Operator, Operator] = {"=": "!=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}


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


Leaf = Compare | In | IsNull
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


def rejects_null(predicate: Predicate) -> bool:
    """Whether the predicate is certainly not true for a row whose columns are all null, as an outer join adds."""
    match predicate:
        case Compare() | In() | Not(Compare() | In() | IsNull()):
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
    low = Compare(column, ">=", TextOnly(prefix))
    stem = prefix.rstrip(chr(_LAST_CHARACTER))
    if not stem:
        return low
    following = ord(stem[-1]) + 1
    if following in _SURROGATES:
        following = _SURROGATES.stop
    return And((low, Compare(column, "<", TextOnly(stem[:-1] + chr(following)))))


_SURROGATES = range(0xD800, 0xE000)
_LAST_CHARACTER = 0x10FFFF
