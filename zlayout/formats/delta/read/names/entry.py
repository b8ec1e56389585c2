"""Converts what a catalog states for a name to an `Entry`, and an entry to the location of a Delta table."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlsplit

from zlayout.errors import TableError
from zlayout.spec.model import CatalogConfig, TableName
from zlayout.table.location import canonical

# For an external table of a data source, Spark stores a location with this ending, and the actual one as `path`.
_PLACEHOLDER = "-__PLACEHOLDER__"
_PROVIDER = "spark.sql.sources.provider"
_TABLE_TYPE = "table_type"
_VIEWS = frozenset({"VIEW", "VIRTUAL_VIEW", "MATERIALIZED_VIEW", "METRIC_VIEW"})
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/.*")
# Characters that have a meaning in a URL, but belong to the name of a folder in a path of Hadoop.
_AMBIGUOUS = "%?#\\"


@dataclass(frozen=True, slots=True)
class Entry:
    """One name of a catalog.

    Attributes:
        name: The name within its namespace.
        provider: The format of the table in lower case; empty if the catalog does not state it.
        locations: The locations that the catalog states, in its own notation.
    """

    name: str
    provider: str
    is_view: bool
    locations: tuple[str, ...]


def metastore_entry(
    name: str,
    type_: str | None,
    parameters: Mapping[str, str] | None,
    location: str | None,
    storage: Mapping[str, str] | None,
) -> Entry:
    """Make the entry of a table in a Hive metastore or in Glue, which have the same fields.

    Args:
        type_: The type, for example EXTERNAL_TABLE.
        parameters: The parameters of the table. Spark states the format in `spark.sql.sources.provider`, Athena and
            the crawlers of Glue in `table_type`.
        location: The location in the storage descriptor.
        storage: The parameters of the serde. Spark stores the location as `path` there.
    """
    parameters, paths = parameters or {}, [v for k, v in (storage or {}).items() if k.lower() == "path"]
    provider = parameters.get(_PROVIDER) or parameters.get(_TABLE_TYPE) or ""
    if location and not location.endswith(_PLACEHOLDER):
        paths.append(location)
    return Entry(name, provider.lower(), (type_ or "").upper() in _VIEWS, tuple(path for path in paths if path))


def unity_entry(fields: Mapping[str, object]) -> Entry:
    """Make the entry of a table of Unity Catalog from its fields in the REST API."""
    view = str(fields.get("table_type")).upper() in _VIEWS
    location = fields.get("storage_location")
    provider = str(fields.get("data_source_format") or "").lower()
    return Entry(str(fields.get("name")), provider, view, (str(location),) if location else ())


def delta_location_of(entry: Entry, catalog: CatalogConfig, table: TableName) -> str:
    """Return the location of a Delta table: a path for a local folder, else a URL.

    Raises:
        TableError: ZL135 if the entry is not a Delta table, ZL136 if its location cannot be used.
    """
    if entry.is_view or entry.provider != "delta":
        found = "a view" if entry.is_view else f"a table of format {entry.provider or 'unknown'}"
        raise TableError.of(
            "ZL135",
            f"expected a Delta table for {table} in catalog {catalog.name}, found {found}",
            hint="name a table for which the catalog states spark.sql.sources.provider=delta or table_type=delta",
            location=catalog.location,
        )
    by_canonical_form = {canonical(location): location for location in reversed(entry.locations)}
    if reason := _unusable(by_canonical_form.values()):
        message = f"the location of {table} in catalog {catalog.name} cannot be used: {reason}"
        hint = "correct the location in the catalog, or declare the table in a catalog of type path"
        raise TableError.of("ZL136", message, hint=hint, location=catalog.location)
    ((path, location),) = by_canonical_form.items()
    return path if location.lower().startswith("file:") else location


def _unusable(locations: Iterable[str]) -> str:
    """Return the reason why no location of an entry can be used; empty if there is one that can be used."""
    locations = tuple(locations)
    if not locations:
        return "the catalog states no location"
    if len(locations) > 1:
        return f"the catalog states several locations: {' and '.join(sorted(locations))}"
    (location,) = locations
    parts = urlsplit(location)
    if parts.password:
        return "it contains credentials"
    if not _URL.fullmatch(location) or not location.isprintable():
        return f"expected a URL, found {location!r}"
    if found := [character for character in _AMBIGUOUS if character in location]:
        return f"readers differ in how they treat {found[0]!r} in {location}"
    if {".", ".."} & set(parts.path.split("/")):
        return f"it contains relative parts: {location}"
    return ""


class NameService(Protocol):
    """A catalog that stores the locations of tables. Each method raises an error of the catalog's own library."""

    def entry(self, namespace: str, name: str) -> Entry | None:
        """Return the entry of a table, None if the catalog has none."""
        ...

    def namespaces(self) -> Iterable[str]:
        """Return the names of all namespaces."""
        ...

    def entries(self, namespace: str) -> Iterable[Entry]:
        """Return the entries of all tables in a namespace."""
        ...
