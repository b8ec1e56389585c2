"""Estimate how much the metadata of a table grows by the statistics that a plan enables or makes longer."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from zlayout.errors import Diagnostic
from zlayout.planner.actions import PropertyChange, PropertyReason
from zlayout.spec.model import LayoutSpec
from zlayout.table.state import Column, TableState, is_text

# Characters of a minimum or maximum in the metadata, at most: a number, and a timestamp.
NUMBER_CHARACTERS, TIMESTAMP_CHARACTERS = 20, 30
# Per column and file: its name or id with separators in the minimum, the maximum and the null count, and the count.
COUNT_CHARACTERS, SEPARATORS = 10, 12
_LENGTH = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class LogGrowth:
    """The growth of the metadata by one kind of change.

    Attributes:
        changes: The changed properties.
        columns: The number of columns whose statistics grow.
        per_file: The number of further characters per file, at most.
    """

    changes: tuple[PropertyChange, ...]
    columns: int
    per_file: int


def log_growth(spec: LayoutSpec, state: TableState, properties: Sequence[PropertyChange]) -> LogGrowth | None:
    """Return the growth by the changed properties; None if none of them changes statistics."""
    longer = {p.name: length_in(p.after) for p in properties if p.reason is PropertyReason.BOUNDS_TRUNCATED}
    enabled = {p.name: length_in(p.after) for p in properties if p.reason is PropertyReason.NO_STATISTICS}
    grown: dict[str, int] = {}
    for column in state.columns:
        names = {name for name, _ in column.longer_bounds} & (longer.keys() | enabled.keys())
        if column.stats and names:
            length = max((longer | enabled)[name] for name in names)
            grown[column.name] = _longer(column, state, length)
        elif column.name in spec.column_names and enabled.keys() & {name for name, _ in column.enable_stats}:
            grown[column.name] = _new(column, max(enabled.values(), default=0))
    if not grown:
        return None
    return LogGrowth(tuple(properties), len(grown), sum(grown.values()))


def growth_notes(spec: LayoutSpec, state: TableState, properties: Sequence[PropertyChange]) -> Iterator[Diagnostic]:
    """Yield ZL432 with the growth of the metadata by the changed properties."""
    growth = log_growth(spec, state, properties)
    if growth is None or not growth.per_file:
        return
    files = len(state.files)
    columns, over = (
        ("1 column" if growth.columns == 1 else f"{growth.columns:,} columns"),
        "file" if files == 1 else "files",
    )
    message = (
        f"statistics of {columns} grow by at most {growth.per_file:,} characters per file, "
        f"{growth.per_file * files:,} bytes of metadata for {files:,} {over} if the text is ASCII"
    )
    yield Diagnostic("ZL432", message, "note", location=spec.location_of("zorder.columns"))


def length_in(value: str) -> int:
    """Return the length that a property value sets: 256 in `256` and in `truncate(256)`; 0 for a list of columns."""
    numbers = _LENGTH.findall(value) if value.isdecimal() or value.startswith("truncate(") else []
    return int(numbers[0]) if numbers else 0


def _longer(column: Column, state: TableState, length: int) -> int:
    """Return by how much the two bounds of a column grow. Bounds that are not truncated now do not grow."""
    bounds = state.files.bounds.get(column.name)
    if bounds is not None and len(state.files) and not np.any(bounds.truncated):
        return 0
    return 2 * max(length - (column.bound_length or length), 0)


def _new(column: Column, length: int) -> int:
    """Return the characters of the statistics of a column that has none."""
    if is_text(column.type):
        width = max(length, column.bound_length or 0)
    else:
        width = TIMESTAMP_CHARACTERS if pa.types.is_temporal(column.type) else NUMBER_CHARACTERS
        width = max(width, column.type.precision + 2) if pa.types.is_decimal(column.type) else width
    return 3 * len(column.name) + 2 * width + COUNT_CHARACTERS + SEPARATORS
