"""Finds Delta tables by name in the catalogs that store their locations: Hive metastore, Glue and Unity Catalog."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cached_property

from zlayout import reading
from zlayout.errors import TableError, ZlayoutError
from zlayout.formats.access import explained
from zlayout.formats.base import Listed
from zlayout.formats.delta.read.names.entry import Entry, NameService, delta_location_of
from zlayout.formats.delta.read.names.folders import list_folders
from zlayout.formats.storage import stores
from zlayout.spec.model import CatalogConfig, TableName

_OBJECT_BYTES = 500  # what an entry takes apart from its texts


def at_location(catalog: CatalogConfig, table: TableName, location: str) -> CatalogConfig:
    """Return a catalog of type `path` that has only this table, and the storage options of `catalog`."""
    kept = {key: catalog.options[key] for key in ("storage", "properties") if key in catalog.options}
    options = {**kept, "tables": {".".join(table.identifier): location}}
    return replace(catalog, type="path", options=options)


class Names:
    """Looks up the tables of one catalog by name. A catalog of type `path` has their locations itself."""

    def __init__(self, catalog: CatalogConfig) -> None:
        self._catalog = catalog

    def located(self, table: TableName) -> CatalogConfig:
        """Return a catalog of type `path` that has the table, with the location that the catalog's service states.

        A catalog that is of this type already is returned unchanged.

        Raises:
            TableError: ZL133, ZL134 if there is no such table, ZL135 if it is not a Delta table, ZL136.
        """
        if self._catalog.type == "path":
            return self._catalog
        self._require_namespace(table)
        with _service_errors(self._catalog):
            entry = self._service.entry(table.namespace[0], table.name)
        if entry is None:
            raise _missing(self._catalog, table, "check catalog, namespace and table name")
        return _at_entry(self._catalog, table, entry)

    def listed(self, pattern: TableName) -> Iterator[Listed]:
        """Yield the tables whose namespace and name match globs, each with the error if it cannot be used.

        Raises:
            TableError: ZL114 or ZL133, if the storage or the service cannot be reached.
        """
        if self._catalog.type == "path":
            yield from list_folders(self._catalog, pattern)
            return
        self._require_namespace(pattern)
        with _service_errors(self._catalog):
            limit = _ListLimit()
            found = [
                (TableName(self._catalog.name, (namespace,), entry.name), entry)
                for namespace in sorted(limit.names(self._service.namespaces()))
                if fnmatchcase(namespace, pattern.namespace[0])
                for entry in sorted(limit.entries(self._service.entries(namespace)), key=lambda entry: entry.name)
                if fnmatchcase(entry.name, pattern.name)
            ]
        for table, entry in found:
            try:
                _at_entry(self._catalog, table, entry)
            except TableError as error:
                yield Listed(table, error)
            else:
                yield Listed(table)

    def _require_namespace(self, table: TableName) -> None:
        if len(table.namespace) != 1:
            raise _missing(self._catalog, table, "write catalog.namespace.table, with one namespace")

    @cached_property
    def _service(self) -> NameService:
        """All threads share the client."""
        if self._catalog.type == "glue":
            from zlayout.formats.delta.read.names.glue import Glue

            return Glue(self._catalog)
        if self._catalog.type == "hive":
            from zlayout.formats.delta.read.names.hive import Hive

            return Hive(self._catalog)
        from zlayout.formats.delta.read.names.unity import Unity

        return Unity(self._catalog)


class _ListLimit:
    """Limits the memory of what a service lists, in any number of pages."""

    def __init__(self) -> None:
        self._left = reading.MAX_LISTED_BYTES

    def names(self, names: Iterable[str]) -> Iterator[str]:
        """Yield the names. Raises TooLargeError."""
        for name in names:
            self._take(name)
            yield name

    def entries(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        """Yield the entries. Raises TooLargeError."""
        for entry in entries:
            self._take(entry.name, entry.provider, *entry.locations)
            yield entry

    def _take(self, *texts: str) -> None:
        self._left -= _OBJECT_BYTES + sum(map(len, texts))
        if self._left < 0:
            raise reading.TooLargeError("the list of tables of the service", reading.MAX_LISTED_BYTES)


def _at_entry(catalog: CatalogConfig, table: TableName, entry: Entry) -> CatalogConfig:
    found = at_location(catalog, table, location := delta_location_of(entry, catalog, table))
    if missing := stores(found) - stores(catalog):
        raise TableError.of(
            "ZL136",
            f"{table} is at {location}, but catalogs.{catalog.name} does not state that its tables are on "
            f"{', '.join(sorted(missing))}",
            hint=f"add catalogs.{catalog.name}.storage, so that Spark gets the jars of this store",
            location=catalog.location,
        )
    return found


@contextmanager
def _service_errors(catalog: CatalogConfig) -> Iterator[None]:
    try:
        yield
    except ZlayoutError:
        raise
    except Exception as error:
        cause = explained(error, f"check uri and credentials of catalogs.{catalog.name}")
        raise TableError.of(
            "ZL133",
            f"catalog {catalog.name} (type {catalog.type}) cannot be reached: {cause.reason}",
            hint=cause.hint,
            location=catalog.location,
        ) from error


def _missing(catalog: CatalogConfig, table: TableName, hint: str) -> TableError:
    message = f"table {table} does not exist in catalog {catalog.name}"
    return TableError.of("ZL134", message, hint=hint, location=catalog.location)
