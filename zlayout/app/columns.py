"""Parse columns that an option names, and check whether they can be z-order columns of a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from zlayout.errors import Location, SpecError
from zlayout.spec.layout import Layout, ZorderColumn
from zlayout.spec.validation import column_hint
from zlayout.table.state import TableState

LOCATION = Location("--columns")


def split_columns(text: str) -> tuple[str, ...]:
    """Split a comma-separated list of column names; empty names are ignored."""
    return tuple(name for part in text.split(",") if (name := part.strip()))


def parse_columns(text: str) -> tuple[ZorderColumn, ...]:
    """Parse columns with weights, `a,b=2`.

    Raises:
        SpecError: ZL016, a duplicate column; ZL074, a missing name or an invalid weight.
    """
    columns = []
    for part in text.split(","):
        name, sign, weight = (piece.strip() for piece in part.partition("="))
        if not name:
            raise SpecError.of(
                "ZL074", f"expected column names, found {text!r}", hint="use for example a,b=2", location=LOCATION
            )
        columns.append(ZorderColumn(name, _weight(weight, part) if sign else 1.0))
    names = [c.name for c in columns]
    if duplicate := next((n for n in names if names.count(n) > 1), None):
        raise SpecError.of("ZL016", f"duplicate column {duplicate!r}", hint="keep the first", location=LOCATION)
    return tuple(columns)


def _weight(text: str, part: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        weight = 0.0
    if not 0 < weight <= 1000:  # the limits of the layout schema
        message = f"expected a weight above 0 and at most 1000, found {part.strip()!r}"
        raise SpecError.of("ZL074", message, hint="use for example b=2", location=LOCATION)
    return weight


def layouts_of(
    wanted: Sequence[tuple[ZorderColumn, ...]], curve: str | None, base: Layout, state: TableState
) -> tuple[Layout, ...]:
    """Make a layout from each list of columns and `base`. Raises the errors of `require_usable`."""
    require_usable([column.name for columns in wanted for column in columns], state, LOCATION)
    return tuple(replace(base, columns=columns, curve=curve or base.curve) for columns in wanted)


def require_usable(names: Iterable[str], state: TableState, location: Location | None) -> None:
    """Raise SpecError ZL012, ZL034 or ZL035 for a column that cannot be a z-order column of the table."""
    known = {column.name: column for column in state.columns}
    partitioned = {field.source for field in state.partition_fields if field.transform == "identity"}
    for name in names:
        if name in partitioned:
            code, message = "ZL035", f"the table is already partitioned by {name!r}"
            hint = "use other columns: all rows of a partition have the same value"
        elif name not in known:
            code, message = "ZL012", f"unknown column {name!r}"
            hint = column_hint(name, known)
        elif not known[name].orderable:
            code, message = "ZL034", f"column {name!r} has no order"
            hint = "use other columns: its type has no minimum and maximum"
        else:
            continue
        raise SpecError.of(code, message, hint=hint, location=location)
