"""The predicate of `where:` as a small whitelisted tree. `zlayout.predicate.parse` parses SQL text into it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Literal

Value = str | int | float | bool | Decimal | date | datetime
Operator = Literal["=", "!=", "<", "<=", ">", ">="]
# `5 < a` is `a > 5`.
MIRRORED: dict[Operator, Operator] = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True, slots=True)
class Compare:
    column: str
    operator: Operator
    value: Value


@dataclass(frozen=True, slots=True)
class In:
    column: str
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class IsNull:
    column: str


@dataclass(frozen=True, slots=True)
class Not:
    operand: Predicate


@dataclass(frozen=True, slots=True)
class And:
    operands: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or:
    operands: tuple[Predicate, ...]


Predicate = Compare | In | IsNull | Not | And | Or


def columns(predicate: Predicate) -> frozenset[str]:
    """The names of all columns in the predicate."""
    match predicate:
        case And(operands) | Or(operands):
            return frozenset().union(*(columns(p) for p in operands))
        case Not(operand):
            return columns(operand)
        case _:
            return frozenset((predicate.column,))
