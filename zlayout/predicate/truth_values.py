"""Compute AND, OR and NOT of SQL's three-valued logic over sets of possible truth values."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

TruthValue = bool | None
TruthValues = frozenset[TruthValue]

ANY: TruthValues = frozenset((True, False, None))
EITHER: TruthValues = frozenset((True, False))
TRUE: TruthValues = frozenset((True,))
FALSE: TruthValues = frozenset((False,))
NULL: TruthValues = frozenset((None,))


def all_of(operands: Iterable[TruthValues]) -> TruthValues:
    """The possible truth values of an AND. Operands after one that is certainly false are not evaluated."""
    found = TRUE
    for operand in operands:
        found = frozenset(
            False if a is False or b is False else None if a is None or b is None else True
            for a in found
            for b in operand
        )
        if found == FALSE:
            break
    return found


def any_of(operands: Iterable[TruthValues]) -> TruthValues:
    """The possible truth values of an OR. Operands after one that is certainly true are not evaluated."""
    return negated(all_of(map(negated, operands)))


def negated(possible: TruthValues) -> TruthValues:
    """The possible truth values of a NOT."""
    return frozenset(None if value is None else not value for value in possible)


def meet(possible: Iterable[TruthValues]) -> TruthValues:
    """The truth values of a condition that all of several facts leave possible. possible: the set that each leaves."""
    return reduce(frozenset.intersection, possible, ANY)
