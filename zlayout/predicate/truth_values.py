"""SQL's three-valued logic over sets of possible outcomes: AND, OR and NOT."""

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
    """AND. Operands after one that is certainly false are not evaluated."""
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
    """OR. Operands after one that is certainly true are not evaluated."""
    return negated(all_of(map(negated, operands)))


def negated(outcomes: TruthValues) -> TruthValues:
    """NOT."""
    return frozenset(None if o is None else not o for o in outcomes)


def meet(outcomes: Iterable[TruthValues]) -> TruthValues:
    """The outcomes of one condition that all of several facts leave possible."""
    return reduce(frozenset.intersection, outcomes, ANY)
