"""Sets of SQL's three values, against all values in them one by one."""

from collections.abc import Iterator
from itertools import chain, combinations, product

import pytest

from zlayout.predicate.evaluate import ANY, EITHER, FALSE, NULL, TRUE, TruthValues, all_of, any_of, meet, negated

SETS = [frozenset(c) for c in chain.from_iterable(combinations((True, False, None), n) for n in (1, 2, 3))]


@pytest.mark.parametrize("left", SETS)
@pytest.mark.parametrize("right", SETS)
def test_each_pair_of_values(left: TruthValues, right: TruthValues) -> None:
    pairs = [{a, b} for a, b in product(left, right)]
    assert all_of([left, right]) == {False if False in p else None if None in p else True for p in pairs}
    assert any_of([left, right]) == {True if True in p else None if None in p else False for p in pairs}


def test_of_none() -> None:
    assert (all_of([]), any_of([]), meet([])) == (TRUE, FALSE, ANY)
    assert negated(ANY) == ANY
    assert meet([EITHER, TRUE]) == TRUE


def until(last: TruthValues) -> Iterator[TruthValues]:
    yield NULL
    yield last
    raise AssertionError


def test_what_is_decided_is_asked_no_further() -> None:
    assert all_of(until(FALSE)) == FALSE
    assert any_of(until(TRUE)) == TRUE
