"""Loads Iceberg tables through pyiceberg, and translates the errors of pyiceberg to those of zlayout.

`load_table` loads one table, and `list_tables` lists those of a catalog. No catalog gets other properties than those
that `zlayout.formats.iceberg.read.server` accepts.
"""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from pyarrow.fs import AwsStandardS3RetryStrategy, FileSelector
from pyiceberg.catalog import AVAILABLE_CATALOGS, Catalog, CatalogType
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError, ValidationError
from pyiceberg.io import FileIO, load_file_io
from pyiceberg.table import Table

from zlayout.errors import Location, TableError, ZlayoutError, first_line
from zlayout.formats.access import (
    Cause,
    cause_of,
    each_listed,
    explained,
    limit_responses,
    store_of,
    unaddressable,
    unanswered,
)
from zlayout.formats.base import Listed
from zlayout.formats.iceberg.read.maintainers import GLUE_OWNER, ask_once
from zlayout.formats.iceberg.read.outside import keep_to_locations
from zlayout.formats.iceberg.read.server import Declared, require_location
from zlayout.formats.iceberg.read.unread_types import CATALOG, restore
from zlayout.spec.client_options import S3_READ_ATTEMPTS, pyiceberg_properties, sqlite_file
from zlayout.spec.model import CatalogConfig, TableName
from zlayout.sqlite_files import require_tables
from zlayout.table.location import S3_SCHEMES
from zlayout.text import first_of, plural

# An error of these packages is an error of the catalog. pyiceberg reads files through another package, pyarrow.
_CATALOG_CLIENTS = (
    *("requests", "urllib3", "botocore", "sqlalchemy", "thrift", "hive_metastore", "pyiceberg"),
    *("kerberos", "puresasl"),
)


# How long a loaded catalog is used. Its connections and tokens do not expire within this time.
MAX_SECONDS_OF_USE = 60.0
_SQL_TABLES = ("iceberg_tables", "iceberg_namespace_properties")  # of a catalog in a database
MAX_NAMED = 5  # catalogs or tables that a message names
# Loaded catalogs that are not in use, by name and properties. Each has the time after which it is not used again.
_idle: dict[tuple[str, tuple[tuple[str, str], ...]], SimpleQueue[tuple[float, Catalog]]] = {}

# The only classes that pyiceberg is allowed to import by their names.
_S3_RETRIES = {"s3.retry-strategy-impl": "zlayout.formats.iceberg.read.catalog.S3Retries"}
_METADATA_IO = {"py-io-impl": "zlayout.formats.iceberg.read.unread_types.MetadataIO"}


class S3Retries(AwsStandardS3RetryStrategy):  # type: ignore[misc]
    """The S3 retries of pyiceberg. Their number is the same as for Delta tables.

    Arrow's default of 3 attempts would end within 3 seconds.
    """

    def __init__(self) -> None:
        super().__init__(max_attempts=S3_READ_ATTEMPTS)


def load_table(catalog: CatalogConfig, name: TableName) -> Table:
    """Load a table, with a FileIO that opens only files that the table may have.

    Raises:
        Refused: ZL242.
        TableError: ZL121 to ZL123, ZL127; ZL137 and ZL138 for a table of a REST catalog.
    """
    with loading(catalog, name), loaded_catalog(catalog) as loaded:
        table = restore(loaded.load_table(name.identifier))
        for location in (table.metadata.location, table.metadata_location):
            require_location(
                _declared(catalog, table.catalog.properties), location or "", f"the location of {name} has"
            )
        return keep_to_locations(table, name, catalog)


@contextmanager
def loading(catalog: CatalogConfig, name: TableName) -> Iterator[None]:
    """Translate the errors of pyiceberg in the block, which loads a table. Raises TableError as `load_table`."""
    try:
        yield
    except ZlayoutError:
        raise
    except (NoSuchTableError, NoSuchNamespaceError) as error:
        message = f"table {name} does not exist in catalog {catalog.name}"
        hint = _same_name(catalog, name) or "check catalog, namespace and table name, including letter case"
        raise TableError.of("ZL122", message, hint=hint) from error
    except FileNotFoundError as error:
        message = f"the metadata file of {name} is missing: {error}"
        hint = "restore the file, or register the table again with its last metadata file"
        raise TableError.of("ZL123", message, hint=hint) from error
    except (ValueError, KeyError, ValidationError) as error:
        if (cause := unaddressable(error)) is not None:
            raise _unaddressable(name, cause) from error
        reason, hint = _unparsable(error)
        raise TableError.of("ZL123", f"the metadata of {name} cannot be read: {reason}", hint=hint) from error
    except Exception as error:
        is_of_catalog = type(error).__module__.partition(".")[0] in _CATALOG_CLIENTS
        if is_of_catalog:
            raise _unreachable(catalog, error) from error
        raise _no_storage(name, error, store_of(catalog), catalog.location) from error


def list_tables(catalog: CatalogConfig, pattern: TableName) -> Iterator[Listed]:
    """Yield the Iceberg tables of the catalog whose namespace and name match globs.

    A namespace to which access is denied is yielded with an error; the rest of the name is that of the pattern.

    Raises:
        TableError: ZL121, if the catalog cannot be reached.
    """
    globs, failed = pattern.identifier, dict[tuple[str, ...], Exception]()
    try:
        with loaded_catalog(catalog) as loaded:
            namespaces: list[tuple[str, ...]] = [()]
            for depth, glob in enumerate(pattern.namespace):
                below, denied = each_listed(namespaces, loaded.list_namespaces)
                failed |= {(*above, *globs[depth:]): error for above, error in denied.items()}
                every = {found for inside in below.values() for found in inside}
                namespaces = sorted(found for found in every if fnmatchcase(found[-1], glob))
            tables, denied = each_listed(namespaces, loaded.list_tables)
            failed |= {(*namespace, globs[-1]): error for namespace, error in denied.items()}
    except ZlayoutError:
        raise
    except Exception as error:
        raise _unreachable(catalog, error) from error
    names = {name for inside in tables.values() for name in inside if fnmatchcase(name[-1], globs[-1])}
    for name in sorted({*names, *failed}):
        problem = _unreachable(catalog, failed[name], name[:-1]) if name in failed else None
        yield Listed(TableName(catalog.name, name[:-1], name[-1]), problem)


def list_warehouse(catalog: CatalogConfig) -> str | None:
    """List the warehouse as pyiceberg reads it, and return it; None if it is not a URL but a name that a server knows.

    Raises:
        TableError: ZL127, if there is nothing at the location.
        Exception: If it cannot be listed; the error is that of pyarrow.
    """
    from pyiceberg.io.pyarrow import PyArrowFileIO

    warehouse = str(catalog.options.get("warehouse", ""))
    if "://" not in warehouse:
        return None
    scheme, netloc, path = PyArrowFileIO.parse_location(warehouse)
    try:
        PyArrowFileIO(_without_classes(pyiceberg_properties(catalog))).fs_by_scheme(scheme, netloc).get_file_info(
            FileSelector(path)
        )
    except FileNotFoundError as error:
        if cause_of(error) is not None:
            raise
        hint = f"correct catalogs.{catalog.name}.warehouse"
        raise TableError.of("ZL127", f"there is nothing at {warehouse}", hint=hint) from error
    return warehouse


@contextmanager
def loaded_catalog(catalog: CatalogConfig) -> Iterator[Catalog]:
    """Yield a catalog, which no other thread uses at the same time. Raises TableError ZL121.

    To load a catalog takes several requests to its service, and as much time as to read a small table. Therefore a
    loaded catalog is used again for MAX_SECONDS_OF_USE, unless the block raised an error.
    """
    # Without this, pyiceberg would create the tables of a catalog that does not exist.
    properties = pyiceberg_properties(catalog) | {"init_catalog_tables": "false"}
    idle = _idle.setdefault((catalog.name, tuple(sorted(properties.items()))), SimpleQueue())
    until, loaded = 0.0, None
    with suppress(Empty):
        while until < time.monotonic():
            until, loaded = idle.get_nowait()
    if loaded is None or until < time.monotonic():
        _require_sqlite_file(catalog)
        until, loaded = time.monotonic() + MAX_SECONDS_OF_USE, _load(catalog, properties)
    yield loaded
    idle.put((until, loaded))


def _load(catalog: CatalogConfig, properties: Mapping[str, str]) -> Catalog:
    try:
        return open_catalog(catalog, properties)
    except ZlayoutError:
        raise
    except Exception as error:
        raise _unreachable(catalog, error) from error


def open_catalog(catalog: CatalogConfig, properties: Mapping[str, str]) -> Catalog:
    """Return a catalog of pyiceberg with these properties alone. Raises TableError ZL137; also errors of pyiceberg.

    pyiceberg's `load_catalog` would merge its own configuration below the properties, and its catalogs would merge
    properties of tables and servers. Some of these name classes, which pyiceberg imports. Here it imports only two
    classes of zlayout: S3Retries, and MetadataIO to read the metadata of a table.
    """
    own = _without_classes(properties) | {CATALOG: catalog.name}
    for_metadata = own | _METADATA_IO
    if catalog.type == "rest":
        from zlayout.formats.iceberg.read.rest import ClosedRestCatalog

        return ClosedRestCatalog(_declared(catalog, for_metadata))
    loaded = AVAILABLE_CATALOGS[CatalogType(catalog.type)](catalog.name, dict(for_metadata))
    if (client := getattr(loaded, "glue", None)) is not None:
        limit_responses(client)
        ask_once(client)

        def remember_owner(parsed: Mapping[str, Any], **_: Any) -> None:
            # pyiceberg drops it; it is the same for all tables of the catalog
            if re.fullmatch("[0-9]{12}", owner := str(parsed.get("Table", {}).get("CatalogId"))):
                setattr(loaded, GLUE_OWNER, owner)

        client.meta.events.register("after-call.glue.GetTable", remember_owner)

    def without_table_properties(properties: object = None, location: str | None = None) -> FileIO:
        # pyiceberg passes the properties of a table once it has read its metadata
        return load_file_io(for_metadata if properties is None else own, location)

    loaded._load_file_io = without_table_properties  # type: ignore[method-assign]
    return loaded


def _without_classes(properties: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in properties.items() if not key.endswith("impl")} | _S3_RETRIES


def _declared(catalog: CatalogConfig, properties: Mapping[str, str]) -> Declared:
    return Declared(catalog.name, properties, location=catalog.location)


def _unparsable(error: Exception) -> tuple[str, str]:
    import pydantic

    hint = "check that the table has Iceberg format version 1, 2 or 3, and restore its metadata if it is damaged"
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, pydantic.ValidationError):
        cause = cause.__cause__ or cause.__context__
    if cause is None:
        return first_line(error), hint
    found = cause.errors(include_url=False)
    first = found[0]
    # pyiceberg parses each format version as a class of its own, whose number is the first part of the location
    path = [part for at, part in enumerate(first["loc"]) if at or not isinstance(part, int)]
    of_field, given = ".".join(map(str, path)), first["input"]
    reason = first["msg"].removeprefix("Value error, ")
    text = f"{of_field}: {reason}" if of_field else reason
    text += f" (and {plural(len(found) - 1, 'other error')})" if len(found) > 1 else ""
    if "snapshots" in path and path[-1] == "manifest-list" and isinstance(given, dict) and "manifests" in given:
        return (
            f"{text}: the snapshot lists its manifests itself, as format version 1 allows, which pyiceberg cannot read",
            "expire the snapshots without a manifest list; if the current one is such a snapshot, write to the table "
            "or run rewrite_manifests in Spark first",
        )
    if isinstance(given, dict) and len(given.get("source-ids", ())) > 1:
        return (
            f"{text}: a transform of several columns, which pyiceberg cannot read",
            "the table cannot be planned as long as its metadata has this partition spec or sort order; Iceberg's "
            "expire_snapshots with clean_expired_metadata removes one that is no longer used",
        )
    return text, hint


@contextmanager
def readable_metadata(table: Table, name: TableName) -> Iterator[None]:
    """Translate the errors that the block raises while it reads manifests to TableError ZL125, ZL127 to ZL129."""
    try:
        yield
    except ZlayoutError:
        raise
    except Exception as error:
        if (cause := unaddressable(error)) is not None:
            raise _unaddressable(name, cause) from error
        if cause_of(error) is not None:
            if _is_signed(table):
                raise _only_signed(name, error) from error
            raise _no_storage(name, error, _store_of_table(table)) from error
        message = f"a manifest of {name} cannot be read: {first_line(error)}"
        hint = "run again, because the snapshot may have expired during the read; check access to the metadata"
        raise TableError.of("ZL125", message, hint=hint) from error


def _unaddressable(name: TableName, cause: Cause) -> ZlayoutError:
    return TableError.of("ZL129", f"metadata of {name} cannot be read: {cause.reason}", hint=cause.hint)


def _unreachable(catalog: CatalogConfig, error: Exception, namespace: tuple[str, ...] = ()) -> ZlayoutError:
    cause = explained(error, f"check uri, warehouse and credentials of catalogs.{catalog.name}")
    message = f"{unanswered(catalog, '.'.join(namespace))}: {cause.reason}"
    return TableError.of("ZL121", message, hint=cause.hint, location=catalog.location)


def _same_name(catalog: CatalogConfig, name: TableName) -> str:
    if catalog.type != "sql":
        return ""
    from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
    from sqlalchemy import select

    # pyiceberg and Spark read only the rows with their own name for the catalog, which is its key in `zlayout.yaml`
    columns = (IcebergTables.catalog_name, IcebergTables.table_namespace)
    found: list[tuple[str, str]] = []
    with suppress(Exception), loaded_catalog(catalog) as loaded:
        if isinstance(loaded, SqlCatalog):
            with loaded.engine.connect() as connection:
                rows = connection.execute(select(*columns).where(IcebergTables.table_name == name.name))
                found = sorted((str(of_catalog), str(namespace)) for of_catalog, namespace in rows)
    others = [other for other, namespace in found if namespace == ".".join(name.namespace)]
    if others:
        return (
            f"the database has this table for a catalog with another name, {first_of(others, MAX_NAMED)}: use this "
            "name in zlayout.yaml and in the layouts"
        )
    own = [f"{catalog.name}.{namespace}.{name.name}" for other, namespace in found if other == catalog.name]
    return f"did you mean {first_of(own, MAX_NAMED)}?" if own else ""


def _no_storage(name: TableName, error: Exception, place: str, location: Location | None = None) -> ZlayoutError:
    """Return the error if the catalog responds, but its storage does not. place: the store, as part of a sentence."""
    cause = explained(error, f"check storage and credentials of catalogs.{name.catalog}")
    message = f"the storage of {name}{place} cannot be reached: {cause.reason}"
    return TableError.of("ZL127", message, hint=cause.hint, location=location)


def _store_of_table(table: Table) -> str:
    on_s3 = table.location().partition("://")[0] in S3_SCHEMES
    return f" at {table.io.properties.get('s3.endpoint') or 'AWS'}" if on_s3 else ""


def _is_signed(table: Table) -> bool:
    """Return whether a REST catalog gave no credentials for a table, because it signs each request to the storage."""
    given = table.io.properties
    return given.get("s3.remote-signing-enabled", "").lower() == "true" and "s3.access-key-id" not in given


def _only_signed(name: TableName, error: Exception) -> ZlayoutError:
    cause = explained(error, "")
    return TableError.of(
        "ZL128",
        f"the storage of {name} cannot be read: {cause.reason}; catalog {name.catalog} signs each request itself "
        "(remote signing), which the reader of pyiceberg does not support",
        hint="let the catalog vend credentials, or give this machine credentials for the storage",
    )


def _require_sqlite_file(catalog: CatalogConfig) -> None:
    """Check that the file exists, because SQLite would create it, and that reading it runs nothing that it contains."""
    path = sqlite_file(catalog)
    if not path or path == ":memory:":
        return
    if not Path(path).exists():
        message = f"catalog {catalog.name} has no database at {path}"
        hint = f"check catalogs.{catalog.name}.uri, or create the catalog first"
        raise TableError.of("ZL121", message, hint=hint, location=catalog.location)
    try:
        import sqlalchemy
        from sqlalchemy import make_url
    except ImportError as error:  # also version 1.4, as beside Airflow 2 and 3.0
        raise _unreachable(catalog, error) from error
    if (found := make_url(str(catalog.options["uri"])).database) != path:  # before version 2.1
        message = f"SQLAlchemy {sqlalchemy.__version__} cannot open {path}: it would open {found}"
        hint = "use SQLAlchemy 2.1 or newer, or a path without % and ?"
        raise TableError.of("ZL121", message, hint=hint, location=catalog.location)
    try:
        require_tables(Path(path), _SQL_TABLES)
    except ValueError as error:
        message = f"the database of catalog {catalog.name} is not used: {error}"
        hint = "check who wrote the file; its tables must be those that Iceberg creates"
        raise TableError.of("ZL121", message, hint=hint, location=catalog.location) from error
    except (OSError, sqlite3.Error) as error:
        raise _unreachable(catalog, error) from error
