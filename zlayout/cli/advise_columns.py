"""`--columns a,b=2`: layouts to simulate, as given on the command line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from zlayout.errors import Location, SpecError
from zlayout.spec.model import Layout, ZorderColumn
from zlayout.spec.validation import suggestion
from zlayout.table.state import TableState

PLACE = Location("--columns")


def parse_columns(text: str) -> tuple[ZorderColumn, ...]:
    """`a,b=2` as columns with weights. Raises SpecError ZL016 (a column twice), ZL074 (no column, or a bad weight)."""
    columns = []
    for part in text.split(","):
        name, sign, weight = (piece.strip() for piece in part.partition("="))
        if not name:
            raise SpecError.of("ZL074", f"expected column names, found {text!r}", hint="such as a,b=2", location=PLACE)
        columns.append(ZorderColumn(name, _weight(weight, part) if sign else 1.0))
    names = [c.name for c in columns]
    if twice := next((n for n in names if names.count(n) > 1), None):
        raise SpecError.of("ZL016", f"column {twice!r} is there twice", hint="keep the first", location=PLACE)
    return tuple(columns)


def _weight(text: str, part: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        weight = 0.0
    if not 0 < weight <= 1000:  # as in a layout
        message = f"expected a weight above 0, at most 1000, found {part.strip()!r}"
        raise SpecError.of("ZL074", message, hint="such as b=2", location=PLACE)
    return weight


def asked_layouts(
    wanted: Sequence[tuple[ZorderColumn, ...]], curve: str | None, base: Layout, state: TableState
) -> tuple[Layout, ...]:
    """One layout for each `--columns`. Raises SpecError ZL012, ZL034, ZL035 for columns that a layout cannot have."""
    known = {c.name: c for c in state.columns}
    partitioned = {f.source for f in state.partition_fields if f.transform == "identity"}
    for name in (c.name for columns in wanted for c in columns):
        if name in partitioned:
            hint = "all files of a partition have one value of it"
            raise SpecError.of("ZL035", f"the table is partitioned by {name!r}", hint=hint, location=PLACE)
        if name not in known:
            hint = suggestion(name, known) or f"there are: {', '.join(known):.300}"
            raise SpecError.of("ZL012", f"unknown column {name!r}", hint=hint, location=PLACE)
        if not known[name].orderable:
            raise SpecError.of(
                "ZL034", f"column {name!r} has no order", hint="its type has no min and max", location=PLACE
            )
    return tuple(replace(base, columns=columns, curve=curve or base.curve) for columns in wanted)
