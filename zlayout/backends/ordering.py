"""How a table's history says that its files are ordered, where zlayout has not laid them out. No JVM."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from zlayout.backends.catalogs import delta_location, storage_options
from zlayout.errors import TableError
from zlayout.spec.model import CatalogConfig, TableName


@dataclass(frozen=True, slots=True)
class Ordering:
    """columns: in their order. curve: '' for the default. source: where this was found, in plain words."""

    columns: tuple[str, ...]
    curve: str
    source: str


def recorded_ordering(catalog: CatalogConfig, table: TableName) -> Ordering | None:
    """The last OPTIMIZE ZORDER BY of a Delta table, the sort order of an Iceberg table; None where there is none.

    Raises TableError ZL111 for a log that cannot be read, and those of loading an Iceberg table.
    """
    if catalog.format == "delta":
        from deltalake import DeltaTable

        try:
            delta = DeltaTable(delta_location(catalog, table), storage_options=storage_options(catalog))
            return last_zorder(delta.history())
        except Exception as error:
            raise TableError.of(
                "ZL111",
                f"the history of {table} cannot be read: {error}",
                hint="name the columns with --columns",
                location=catalog.location,
            ) from error
    from zlayout.backends.iceberg.catalog import load_table

    loaded = load_table(catalog, table)
    schema = loaded.schema()
    names = [
        name
        for f in loaded.sort_order().fields
        if str(f.transform) == "identity"
        if (name := schema.find_column_name(f.source_id)) is not None
    ]
    return Ordering(tuple(names), "linear", "the table's sort order") if names else None


def last_zorder(history: Iterable[Mapping[str, Any]]) -> Ordering | None:
    """The z-order of the newest OPTIMIZE that has one; `history` newest first, as deltalake gives it."""
    for commit in history:
        columns = (commit.get("operationParameters") or {}).get("zOrderBy")
        if commit.get("operation") != "OPTIMIZE" or not columns:
            continue
        names = json.loads(columns) if isinstance(columns, str) else columns
        if isinstance(names, list) and names:
            return Ordering(tuple(map(str, names)), "", f"OPTIMIZE ZORDER BY at version {commit.get('version')}")
    return None
