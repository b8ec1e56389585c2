"""Determines for which columns Iceberg's writers store bounds, and how they truncate them (`MetricsConfig`).

`write.metadata.metrics.default` applies to all columns. If it is not set, only the first 100 leaf columns of a schema
have metrics (`write.metadata.metrics.max-inferred-column-defaults`). Columns of the table's sort order whose transform
preserves the order have bounds in both cases. `write.metadata.metrics.column.<name>` overrides all this for one column.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from zlayout.table.state import LONG_BOUND

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table.sorting import SortOrder
    from pyiceberg.types import IcebergType, StructType

PREFIX = "write.metadata.metrics."
DEFAULT_LENGTH = 16  # characters
DEFAULT_MAX_COLUMNS = 100
_TRUNCATE = re.compile(r"truncate\((\d+)\)")


@dataclass(frozen=True, slots=True)
class MetricsMode:
    """Whether writers store the bounds of a column, and the length to which they truncate them, None for no limit."""

    bounds: bool
    length: int | None = None


DEFAULT = MetricsMode(True, DEFAULT_LENGTH)
NO_BOUNDS = MetricsMode(False)


def parse_mode(text: str, default: MetricsMode) -> MetricsMode:
    """Parse `none`, `counts`, `full` or `truncate(n)`. Returns the default for an invalid mode, as Iceberg does."""
    word = text.strip().lower()
    match = _TRUNCATE.fullmatch(word)
    if match and int(match[1]) > 0:
        return MetricsMode(True, int(match[1]))
    return {"none": NO_BOUNDS, "counts": NO_BOUNDS, "full": MetricsMode(True)}.get(word, default)


class MetricsConfig:
    """Determines the metrics mode of each column from the table properties."""

    def __init__(self, properties: Mapping[str, str], schema: Schema, order: SortOrder) -> None:
        self._properties = properties
        self._default = parse_mode(properties.get(PREFIX + "default", ""), DEFAULT)
        declared = properties.get(PREFIX + "max-inferred-column-defaults", "")
        limit = int(declared) if declared.strip().isdecimal() else DEFAULT_MAX_COLUMNS
        first = frozenset(islice(_level_order(schema.as_struct()), limit))
        self._inferred = None if PREFIX + "default" in properties else first
        self._sorted = {field.source_id for field in order.fields if field.transform.preserves_order}

    def mode(self, name: str, field_id: int) -> MetricsMode:
        """Return the metrics mode of a leaf column, given its dotted name and field id."""
        default = self._default
        if self._inferred is not None and field_id not in self._inferred:
            default = NO_BOUNDS
        if field_id in self._sorted and not default.bounds:
            default = DEFAULT
        return parse_mode(self._properties.get(f"{PREFIX}column.{name}", ""), default)

    def enable(self, name: str, *, long: bool = False) -> tuple[tuple[str, str], ...]:
        """Return the properties with which writers store bounds of a column, of LONG_BOUND characters if `long`."""
        return ((f"{PREFIX}column.{name}", f"truncate({LONG_BOUND if long else DEFAULT_LENGTH})"),)

    def lengthen(self, name: str, field_id: int) -> tuple[tuple[str, str], ...]:
        """Return the properties for bounds of LONG_BOUND characters, empty if bounds are at least as long."""
        length = self.mode(name, field_id).length
        return () if length is None or length >= LONG_BOUND else self.enable(name, long=True)


def truncated_lengths(mode: MetricsMode) -> frozenset[int]:
    """Return the lengths that truncated bounds may have.

    If the declared length is greater than the default, files that were written earlier may have the default length.
    """
    if mode.length is None or mode.length > DEFAULT_LENGTH:
        return frozenset({DEFAULT_LENGTH} | ({mode.length} if mode.length else set()))
    return frozenset({mode.length})


def _level_order(struct: StructType) -> Iterator[int]:
    """Yield the ids of leaf columns. The columns of a struct come before those of nested structs."""
    from pyiceberg.types import ListType, MapType, StructType

    for field in struct.fields:
        if field.field_type.is_primitive:
            yield field.field_id
    for field in struct.fields:
        match field.field_type:
            case StructType() as inner:
                yield from _level_order(inner)
            case ListType() as inner:
                yield from _members((inner.element_id, inner.element_type))
            case MapType() as inner:
                yield from _members((inner.key_id, inner.key_type), (inner.value_id, inner.value_type))


def _members(*members: tuple[int, IcebergType]) -> Iterator[int]:
    from pyiceberg.types import NestedField, StructType

    # The element of a list, and key and value of a map, count like the fields of a struct.
    yield from _level_order(StructType(*(NestedField(i, f"f{i}", type_, required=False) for i, type_ in members)))
