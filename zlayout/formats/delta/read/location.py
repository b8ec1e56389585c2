"""Determines the locations of the Delta tables of a catalog."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from urllib.parse import quote, unquote

from zlayout.errors import TableError
from zlayout.spec.model import CatalogConfig, TableName

_LOCAL = re.compile("file:(?://)?/(?!/)", re.IGNORECASE)  # a host may follow two slashes
_ESCAPE = re.compile("%[0-9A-Fa-f]{2}")


def is_misread(location: str) -> bool:
    """Return whether deltalake (1.6) reads the commits of a table from another folder.

    It decodes the names of folders a second time: `a%20b` is read from `a b`.
    """
    return _ESCAPE.search(location) is not None


def delta_location(catalog: CatalogConfig, table: TableName) -> str:
    """Return the table's location: its entry in `tables` or, if it has none, warehouse/namespace/name.

    A file URI with escapes is returned as the path that it stands for, because Spark would not decode it.

    Raises:
        TableError: ZL101, if the catalog has neither the entry nor a warehouse.
    """
    listed = catalog.options.get("tables", {}).get(".".join(table.identifier))
    if listed:
        return decoded(str(listed))
    warehouse = catalog.options.get("warehouse")
    if not warehouse:
        raise TableError.of(
            "ZL101",
            f"table {table} is not in catalogs.{catalog.name}.tables",
            hint=f"add the table's location there, or set catalogs.{catalog.name}.warehouse",
            location=catalog.location,
        )
    parts = [quote(part, safe=" ") if "/" in part else part for part in table.identifier]
    return decoded(str(warehouse)).rstrip("/") + "/" + str(PurePosixPath(*parts))


def decoded(location: str) -> str:
    """Return the path of a file URI with escapes, and any other location unchanged: Spark would not decode it."""
    return unquote(_LOCAL.sub("/", location, count=1)) if is_misread(location) and _LOCAL.match(location) else location
