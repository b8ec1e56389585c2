"""Determines the locations of the Delta tables of a catalog."""

from __future__ import annotations

from pathlib import PurePosixPath
from urllib.parse import quote

from zlayout.errors import TableError
from zlayout.spec.model import CatalogConfig, TableName


def delta_location(catalog: CatalogConfig, table: TableName) -> str:
    """Return the table's location: its entry in `tables` or, if it has none, warehouse/namespace/name.

    Raises:
        TableError: ZL101, if the catalog has neither the entry nor a warehouse.
    """
    listed = catalog.options.get("tables", {}).get(".".join(table.identifier))
    if listed:
        return str(listed)
    warehouse = catalog.options.get("warehouse")
    if not warehouse:
        raise TableError.of(
            "ZL101",
            f"table {table} is not in catalogs.{catalog.name}.tables",
            hint=f"add the table's location there, or set catalogs.{catalog.name}.warehouse",
            location=catalog.location,
        )
    parts = [quote(part, safe=" ") if "/" in part else part for part in table.identifier]
    return str(warehouse).rstrip("/") + "/" + str(PurePosixPath(*parts))
