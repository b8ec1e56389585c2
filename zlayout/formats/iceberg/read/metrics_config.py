"""For which columns a writer collects bounds, and where it cuts them, as Iceberg's `MetricsConfig` decides.

`write.metadata.metrics.default` rules all columns; without it a schema of more than
`write.metadata.metrics.max-inferred-column-defaults` (100) leaf columns has metrics for the first 100 only. The
columns of the table's sort order always have bounds; `write.metadata.metrics.column.<c>` rules one column.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zlayout.table.state import LONG_BOUND

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table.sorting import SortOrder
    from pyiceberg.types import IcebergType, StructType

PREFIX = "write.metadata.metrics."
DEFAULT_CUT = 16
DEFAULT_LIMIT = 100
_TRUNCATE = re.compile(r"truncate\((\d+)\)")


@dataclass(frozen=True, slots=True)
class MetricsMode:
    """bounds: whether min and max are kept. cut: the length at which string bounds are cut, None for never."""

    bounds: bool
    cut: int | None = None


DEFAULT = MetricsMode(True, DEFAULT_CUT)
NO_BOUNDS = MetricsMode(False)


def parse_mode(text: str, default: MetricsMode) -> MetricsMode:
    """Parse none, counts, full or truncate(n). Any other text is the default, as in Iceberg, which only warns."""
    word = text.strip().lower()
    match = _TRUNCATE.fullmatch(word)
    if match and int(match[1]) > 0:
        return MetricsMode(True, int(match[1]))
    return {"none": NO_BOUNDS, "counts": NO_BOUNDS, "full": MetricsMode(True)}.get(word, default)


class MetricsConfig:
    """The mode of each column, by dotted name and field id."""

    def __init__(self, properties: Mapping[str, str], schema: Schema, order: SortOrder) -> None:
        self._by_name = {
            key.removeprefix(PREFIX + "column."): value
            for key, value in properties.items()
            if key.startswith(PREFIX + "column.")
        }
        self._declared = PREFIX + "default" in properties
        self._default = parse_mode(properties.get(PREFIX + "default", ""), DEFAULT)
        limit = _limit(properties.get(PREFIX + "max-inferred-column-defaults", ""))
        self._inferred = None if self._declared else frozenset(_first_columns(schema, limit))
        self._sorted = {
            f.source_id for f in order.fields if str(f.transform) == "identity" or "truncate" in str(f.transform)
        }

    def mode(self, name: str, field_id: int) -> MetricsMode:
        default = self._default
        if self._inferred is not None and field_id not in self._inferred:
            default = NO_BOUNDS
        if field_id in self._sorted and not default.bounds:
            default = DEFAULT
        return parse_mode(self._by_name[name], default) if name in self._by_name else default

    def enable(self, name: str, *, text: bool = False) -> tuple[tuple[str, str], ...]:
        """Return the table properties by which writers keep bounds for the column, long ones for text or bytes."""
        return ((f"{PREFIX}column.{name}", f"truncate({LONG_BOUND if text else DEFAULT_CUT})"),)

    def lengthen(self, name: str, field_id: int) -> tuple[tuple[str, str], ...]:
        """Return the table properties by which the bounds of a text column are long; empty if they are."""
        cut = self.mode(name, field_id).cut
        return () if cut is None or cut >= LONG_BOUND else self.enable(name, text=True)


def cut_lengths(mode: MetricsMode) -> frozenset[int]:
    """Return the lengths that a cut bound may have. Files from before the table kept longer bounds were cut at 16."""
    if mode.cut is None or mode.cut > DEFAULT_CUT:
        return frozenset({DEFAULT_CUT} | ({mode.cut} if mode.cut else set()))
    return frozenset({mode.cut})


def _limit(text: str) -> int:
    return int(text) if text.strip().isdecimal() else DEFAULT_LIMIT


def _first_columns(schema: Schema, limit: int) -> list[int]:
    """Ids of the first `limit` columns, those of a struct before those nested below it."""
    ids: list[int] = []
    for field_id in _level_order(schema.as_struct()):
        if len(ids) >= limit:
            break
        ids.append(field_id)
    return ids


def _level_order(struct: StructType) -> Iterator[int]:
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

    # A list's element or a map's key and value count like the fields of a struct.
    yield from _level_order(StructType(*(NestedField(i, f"f{i}", kind, required=False) for i, kind in members)))
