"""SQL's three values as sets of those that are possible, and how AND, OR and NOT combine them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

Outcome = bool | None
Outcomes = frozenset[Outcome]

ANY: Outcomes = frozenset((True, False, None))
EITHER: Outcomes = frozenset((True, False))
TRUE: Outcomes = frozenset((True,))
FALSE: Outcomes = frozenset((False,))
NULL: Outcomes = frozenset((None,))


def all_of(operands: Iterable[Outcomes]) -> Outcomes:
    """AND. What comes behind one that is surely false is not asked for."""
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


def any_of(operands: Iterable[Outcomes]) -> Outcomes:
    """OR. What comes behind one that is surely true is not asked for."""
    return negated(all_of(map(negated, operands)))


def negated(outcomes: Outcomes) -> Outcomes:
    return frozenset(None if o is None else not o for o in outcomes)


def meet(outcomes: Iterable[Outcomes]) -> Outcomes:
    """What several things that are known of one condition all leave possible."""
    return reduce(frozenset.intersection, outcomes, ANY)
