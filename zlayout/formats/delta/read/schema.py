"""Converts a Delta schema to leaf columns, with logical and physical names, Arrow types and collected statistics."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from zlayout.table.state import LONG_BOUND, Column
from zlayout.text import dotted, quote_path

STATS_COLUMNS = "delta.dataSkippingStatsColumns"
INDEXED_COLUMNS = "delta.dataSkippingNumIndexedCols"
INDEXED_COLUMNS_DEFAULT = 32
STRING_PREFIX = "delta.dataSkippingStringPrefixLength"
STRING_PREFIX_DEFAULT = 32
PHYSICAL_NAME = "delta.columnMapping.physicalName"

# The types whose values have an order. Decimals have one too: see `_type`.
_ORDERED = {
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
}
_DECIMAL = re.compile(r"decimal\((\d+),\s*(-?\d+)\)")
_NAME_PART = re.compile(r"\s*(?:`((?:[^`]|``)*)`|([^`.,]+?))\s*(\.|,|$)")


@dataclass(frozen=True, slots=True)
class Leaf:
    """A column that is not a struct.

    Attributes:
        path: The logical names from the top-level column to this one.
        physical: The names in data files and statistics, in the same order.
        type: The Arrow type, null for arrays, maps and variants.
    """

    path: tuple[str, ...]
    physical: tuple[str, ...]
    type: pa.DataType

    @property
    def name(self) -> str:
        return dotted(self.path)

    @property
    def orderable(self) -> bool:
        """Whether the values have an order."""
        return not pa.types.is_null(self.type)

    @property
    def skippable(self) -> bool:
        """Whether Delta can collect bounds for the type: SkippingEligibleDataType in the Delta source."""
        return self.orderable and self.type not in (pa.bool_(), pa.binary())


def parse_names(text: str) -> list[tuple[str, ...]]:
    """Parse a list of names as Delta does: "a, b.c, `d.e`" is [("a",), ("b", "c"), ("d.e",)].

    Invalid text ends the list: the names before it are returned.
    """
    names: list[tuple[str, ...]] = []
    parts: list[str] = []
    position = 0
    while position < len(text):
        found = _NAME_PART.match(text, position)
        if not found:
            return names
        in_ticks, plain, end = found.groups()
        parts.append(in_ticks.replace("``", "`") if in_ticks is not None else plain)
        if end != ".":
            names.append(tuple(parts))
            parts = []
        position = found.end()
    return names


def leaves(schema: Mapping[str, Any]) -> tuple[Leaf, ...]:
    """Return the leaf columns of a Delta schema. Arrays, maps and variants are leaves. schema: the parsed JSON."""
    return tuple(_walk(schema["fields"], (), ()))


def schema_digest(schema: Mapping[str, Any]) -> str:
    """Return the SHA-256 (hexadecimal) of the schema's canonical JSON."""
    return hashlib.sha256(json.dumps(schema, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def columns_of(
    all_leaves: Sequence[Leaf],
    partition_columns: Collection[str],
    properties: Mapping[str, str],
    wanted: Sequence[str],
    recorded: Callable[[], Collection[str] | None],
) -> tuple[Column, ...]:
    """Return the columns of a table state, with the statistics that Delta collects for them.

    Args:
        wanted: The names of the columns that need statistics. Every one of them without statistics has the same
            properties in `enable_stats`, which enable the statistics of all of them. In any other column,
            `enable_stats` is empty.
        recorded: Returns the names of the columns of which some live file has a minimum; None if there are no files.
    """
    data = [leaf for leaf in all_leaves if leaf.path[0] not in partition_columns]
    collected = _collected(data, properties)
    missing = [leaf for leaf in data if leaf.name in wanted and leaf.skippable and leaf.name not in collected]
    present = recorded() if missing else None
    kept = [d for d in data if d.skippable and d.name in collected and (present is None or d.name in present)]
    enabling = _enabling(kept, missing, properties)
    prefix = string_prefix(properties)
    longer = () if prefix >= LONG_BOUND else ((STRING_PREFIX, str(LONG_BOUND)),)
    return tuple(
        Column(
            name=leaf.name,
            type=leaf.type,
            orderable=leaf.orderable,
            stats=leaf.skippable and leaf.name in collected,
            enable_stats=enabling if leaf in missing else (),
            longer_bounds=longer if pa.types.is_string(leaf.type) and leaf.name in collected else (),
            bound_length=prefix if pa.types.is_string(leaf.type) else None,
            id=dotted(leaf.physical),
        )
        for leaf in all_leaves
    )


def stats_columns_without(listed: str, columns: Collection[str]) -> str:
    """Return a value of STATS_COLUMNS without these top-level columns, in any letter case; empty if none is left."""
    removed = {name.lower() for name in columns}
    return ",".join(quote_path(path) for path in parse_names(listed) if path[0].lower() not in removed)


def string_prefix(properties: Mapping[str, str]) -> int:
    """Return the length in UTF-16 units to which the table's writers truncate string bounds."""
    return _integer(properties, STRING_PREFIX, STRING_PREFIX_DEFAULT, lowest=0)


def _integer(properties: Mapping[str, str], name: str, default: int, lowest: int) -> int:
    try:
        value = int(properties.get(name, default))
    except ValueError:
        return default
    return value if value >= lowest else default


def _walk(fields: Sequence[Any], path: tuple[str, ...], physical: tuple[str, ...]) -> Iterator[Leaf]:
    for field in fields:
        here = (*path, field["name"])
        there = (*physical, field.get("metadata", {}).get(PHYSICAL_NAME, field["name"]))
        type_ = field["type"]
        if isinstance(type_, dict) and type_["type"] == "struct":
            yield from _walk(type_["fields"], here, there)
        else:
            yield Leaf(here, there, _type(type_) if isinstance(type_, str) else pa.null())


def _type(name: str) -> pa.DataType:
    if decimal := _DECIMAL.fullmatch(name):
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    return _ORDERED.get(name, pa.null())


def _collected(data: Sequence[Leaf], properties: Mapping[str, str]) -> frozenset[str]:
    listed = properties.get(STATS_COLUMNS)
    if listed is None:
        first = _integer(properties, INDEXED_COLUMNS, INDEXED_COLUMNS_DEFAULT, lowest=-1)
        return frozenset(leaf.name for leaf in (data if first < 0 else data[:first]))
    names = [tuple(part.lower() for part in name) for name in parse_names(listed)]
    return frozenset(
        leaf.name for leaf in data if any(tuple(p.lower() for p in leaf.path[: len(n)]) == n for n in names)
    )


def _enabling(
    kept: Sequence[Leaf], missing: Sequence[Leaf], properties: Mapping[str, str]
) -> tuple[tuple[str, str], ...]:
    if not missing:
        return ()
    # delta.dataSkippingNumIndexedCols would enable all columns before a missing one, which may be hundreds.
    listed = properties.get(STATS_COLUMNS)
    text = any(pa.types.is_string(leaf.type) for leaf in missing) and string_prefix(properties) < LONG_BOUND
    longer = ((STRING_PREFIX, str(LONG_BOUND)),) if text else ()
    before = [quote_path(leaf.path) for leaf in kept] if listed is None else [listed] if listed.strip() else []
    added = [quote_path(leaf.path) for leaf in missing]
    return ((STATS_COLUMNS, ",".join([*before, *added])), *longer)
