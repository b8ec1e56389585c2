"""How a table says that its files are ordered, where zlayout has not laid them out. No JVM."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from zlayout.table.state import Ordering

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table.sorting import SortOrder


def last_zorder(history: Iterable[Mapping[str, Any]]) -> Ordering | None:
    """The z-order of the newest OPTIMIZE that has one. history: what each Delta commit says of itself, newest first."""
    for commit in history:
        parameters = commit.get("operationParameters")
        columns = parameters.get("zOrderBy") if isinstance(parameters, dict) else None
        if commit.get("operation") != "OPTIMIZE" or not columns:
            continue
        names = json.loads(columns) if isinstance(columns, str) else columns
        if isinstance(names, list) and names:
            return Ordering(tuple(map(str, names)), "zorder", f"OPTIMIZE ZORDER BY at version {commit.get('version')}")
    return None


def sort_ordering(order: SortOrder, schema: Schema) -> Ordering | None:
    """The columns of an Iceberg table's sort order, those that it does not transform; None where there are none."""
    names = [
        name
        for field in order.fields
        if str(field.transform) == "identity"
        if (name := schema.find_column_name(field.source_id)) is not None
    ]
    return Ordering(tuple(names), "linear", "the table's sort order") if names else None
