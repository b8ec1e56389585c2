"""Find tables that a project declares twice: two table names that lead to one table.

Two layouts of one table would undo each other's work in each run, so neither may be planned.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import combinations

from zlayout.errors import SpecError
from zlayout.spec.model import LayoutSpec
from zlayout.table.location import canonical, container
from zlayout.table.state import TableState

Observed = tuple[LayoutSpec, TableState | None]


def shared_tables(observed: Sequence[Observed]) -> dict[int, SpecError]:
    """The error ZL022 of each spec whose table is the table of another spec, by its index in `observed`."""
    errors: dict[int, SpecError] = {}
    for first, second in _pairs(observed):
        for one, other in ((first, second), (second, first)):
            if one not in errors:
                errors[one] = _error(observed[one], observed[other])
    return errors


def _pairs(observed: Sequence[Observed]) -> Iterator[tuple[int, int]]:
    """The pairs of indices of one table, in order."""
    by_key: dict[object, list[int]] = {}
    for index, (_, state) in enumerate(observed):
        if state is not None:
            by_key.setdefault(_place(state.location), []).append(index)
            by_key.setdefault(("table id", state.table_id), []).append(index)
    found = {pair for members in by_key.values() for pair in combinations(members, 2)}
    return (pair for pair in sorted(found) if not _apart(*(observed[i][1] for i in pair)))


def _place(location: str) -> object:
    """A key that is equal for all names of one location, also through links."""
    plain = canonical(location)
    if container(location) == "/":
        try:
            found = os.stat(plain)
        except (OSError, ValueError):
            return os.path.abspath(plain)
        return found.st_dev, found.st_ino
    return plain


def _apart(one: TableState | None, other: TableState | None) -> bool:
    """Whether two states with one table id are of two tables: the one is a copy of the other's files elsewhere."""
    if one is None or other is None or _place(one.location) == _place(other.location):
        return False
    return container(one.location) == container(other.location) != ""


def _error(observed: Observed, other: Observed) -> SpecError:
    (spec, state), (second, elsewhere) = observed, other
    place = "" if state is None else state.location
    also = "" if elsewhere is None or elsewhere.location == place else f" and {elsewhere.location}"
    return SpecError.of(
        "ZL022",
        f"{spec.table} and {second.table} are two names of one table, at {place}{also}; the other layout is declared "
        f"in {second.location}",
        hint="keep one of the two layouts",
        location=spec.location,
    )
