"""Parse `a,b=2`, the columns and weights of a layout to simulate, and check them against a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from zlayout.errors import Location, SpecError
from zlayout.spec.model import Layout, ZorderColumn
from zlayout.spec.validation import suggestion
from zlayout.table.state import TableState

PLACE = Location("--columns")


def parse_columns(text: str) -> tuple[ZorderColumn, ...]:
    """Parse columns with weights, `a,b=2`. Raises SpecError ZL016 (duplicate column), ZL074 (no column, bad weight)."""
    columns = []
    for part in text.split(","):
        name, sign, weight = (piece.strip() for piece in part.partition("="))
        if not name:
            raise SpecError.of(
                "ZL074", f"expected column names, found {text!r}", hint="for example a,b=2", location=PLACE
            )
        columns.append(ZorderColumn(name, _weight(weight, part) if sign else 1.0))
    names = [c.name for c in columns]
    if duplicate := next((n for n in names if names.count(n) > 1), None):
        raise SpecError.of("ZL016", f"duplicate column {duplicate!r}", hint="keep the first", location=PLACE)
    return tuple(columns)


def _weight(text: str, part: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        weight = 0.0
    if not 0 < weight <= 1000:  # as in a layout
        message = f"expected a weight above 0 and at most 1000, found {part.strip()!r}"
        raise SpecError.of("ZL074", message, hint="for example b=2", location=PLACE)
    return weight


def layouts_of(
    wanted: Sequence[tuple[ZorderColumn, ...]], curve: str | None, base: Layout, state: TableState
) -> tuple[Layout, ...]:
    """Make a layout of each list of columns. Raises SpecError ZL012, ZL034, ZL035 for columns that it cannot have."""
    known = {c.name: c for c in state.columns}
    partitioned = {f.source for f in state.partition_fields if f.transform == "identity"}
    for name in (c.name for columns in wanted for c in columns):
        if name in partitioned:
            hint = "all rows of a partition have the same value"
            raise SpecError.of("ZL035", f"the table is partitioned by {name!r}", hint=hint, location=PLACE)
        if name not in known:
            hint = suggestion(name, known) or f"known columns: {', '.join(known):.300}"
            raise SpecError.of("ZL012", f"unknown column {name!r}", hint=hint, location=PLACE)
        if not known[name].orderable:
            raise SpecError.of(
                "ZL034", f"column {name!r} has no order", hint="its type has no minimum and maximum", location=PLACE
            )
    return tuple(replace(base, columns=columns, curve=curve or base.curve) for columns in wanted)
