"""Find tables that a project declares twice, under two table names that lead to one table.

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
    """Return the error ZL022 of each spec whose table is also that of another spec, by the index in `observed`."""
    errors: dict[int, SpecError] = {}
    for first, second in _pairs(observed):
        for one, other in ((first, second), (second, first)):
            if one not in errors:
                errors[one] = _error(observed[one], observed[other])
    return errors


def _pairs(observed: Sequence[Observed]) -> Iterator[tuple[int, int]]:
    by_key: dict[object, list[int]] = {}
    for index, (_, state) in enumerate(observed):
        if state is not None:
            by_key.setdefault(_location_key(state.location), []).append(index)
            by_key.setdefault(("table id", state.table_id), []).append(index)
    found = {pair for members in by_key.values() for pair in combinations(members, 2)}
    return (pair for pair in sorted(found) if not _are_copies(*(observed[i][1] for i in pair)))


def _location_key(location: str) -> object:
    """Return a key that is equal for all names of one location, also through links."""
    plain = canonical(location)
    if container(location) == "/":
        try:
            found = os.stat(plain)
        except (OSError, ValueError):
            return os.path.abspath(plain)
        return found.st_dev, found.st_ino
    return plain


def _are_copies(one: TableState | None, other: TableState | None) -> bool:
    """A copy has another location in the same container. Different containers can be two addresses of one table."""
    if one is None or other is None or _location_key(one.location) == _location_key(other.location):
        return False
    return container(one.location) == container(other.location) != ""


def _error(observed: Observed, other: Observed) -> SpecError:
    (spec, state), (second, elsewhere) = observed, other
    location = "" if state is None else state.location
    also = "" if elsewhere is None or elsewhere.location == location else f" and {elsewhere.location}"
    return SpecError.of(
        "ZL022",
        f"{spec.table} and {second.table} are two names of one table, at {location}{also}; the other layout is "
        f"declared in {second.location}",
        hint="keep one of the two layouts",
        location=spec.location,
    )
