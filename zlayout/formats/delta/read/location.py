"""Determines the locations of the Delta tables of a catalog, and opens the file systems in which their files are.

The file system of deltalake blocks all other threads while it waits for the storage. Therefore S3 is read through
Arrow, as pyiceberg reads it, unless an option is set that Arrow does not support. The log of a local table is read
through Arrow as well, which takes a tenth of the time for small files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import PurePosixPath
from urllib.parse import quote, unquote, urlsplit

import pyarrow.fs as pa_fs
from deltalake.fs import DeltaStorageHandler

from zlayout.errors import TableError
from zlayout.spec.client_options import DELTALAKE_OPTIONS, S3_READ_ATTEMPTS
from zlayout.spec.model import CatalogConfig, TableName
from zlayout.table.location import S3_SCHEMES

_LOCAL = re.compile("file:(?://)?/(?!/)", re.IGNORECASE)  # no match if a host follows two slashes
_ESCAPE = re.compile("%[0-9A-Fa-f]{2}")
_TIMEOUT_SECONDS = 10.0


def is_misread(location: str) -> bool:
    """Return whether deltalake (1.6) reads the commits of a table at this location from another folder.

    deltalake decodes the names of folders a second time: for the folder `a%20b`, it reads `a b`.
    """
    return _ESCAPE.search(location) is not None


def delta_location(catalog: CatalogConfig, table: TableName) -> str:
    """Return the table's location: its entry in `tables` or, if it has none, warehouse/namespace/name.

    A file URI with escapes is decoded to a path: see `decoded`.

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
    """Convert a file URI with escapes to a path, because Spark does not decode escapes. Keep any other location."""
    return unquote(_LOCAL.sub("/", location, count=1)) if is_misread(location) and _LOCAL.match(location) else location


def table_files(location: str, options: Mapping[str, str]) -> pa_fs.FileSystem:
    """Return the file system of a table, rooted at the table.

    Args:
        location: The location of the table, a URL or a path.
    """
    url = urlsplit(location)
    if url.scheme.lower() not in S3_SCHEMES or not _arrow_supports(options):
        return pa_fs.PyFileSystem(DeltaStorageHandler(location, dict(options)))
    store = _s3(
        options["aws_region"], options.get("aws_endpoint_url", ""), options.get("aws_virtual_hosted_style_request", "")
    )
    return pa_fs.SubTreeFileSystem(url.netloc + unquote(url.path).rstrip("/"), store)


def log_files(location: str, storage: pa_fs.FileSystem) -> pa_fs.FileSystem:
    """Return the file system from which the log of a table is read, rooted at the table.

    Data files are not read from it, but from `table_files`: Arrow resolves `..` in the path of a local file, deltalake
    does not.

    Args:
        location: The location of the table, a URL or a path.
        storage: The result of `table_files` for the location.
    """
    path = local_path(location)
    return storage if path is None else pa_fs.SubTreeFileSystem(os.path.abspath(path), pa_fs.LocalFileSystem())


def local_path(location: str) -> str | None:
    """Return the path of a location on this machine, None for any other location."""
    url = urlsplit(location)
    if url.scheme == "file" and not url.netloc:  # `file:/a` as well as `file:///a`
        return unquote(url.path)
    return location if "://" not in location else None


def is_local(storage: pa_fs.FileSystem) -> bool:
    """Return whether the files are read from this machine, so that reading several at once saves no time."""
    base = storage.base_fs if isinstance(storage, pa_fs.SubTreeFileSystem) else storage
    return isinstance(base, pa_fs.LocalFileSystem)


def _arrow_supports(options: Mapping[str, str]) -> bool:
    """Return whether Arrow supports all of these options, so that it reaches the same storage as deltalake."""
    return "aws_region" in options and options.keys() <= DELTALAKE_OPTIONS and "AWS_SKIP_SIGNATURE" not in os.environ


@lru_cache(maxsize=16)  # tables of one catalog share the connections
def _s3(region: str, endpoint: str, virtual_hosts: str) -> pa_fs.S3FileSystem:
    url = urlsplit(endpoint)
    return pa_fs.S3FileSystem(
        region=region,
        scheme=url.scheme or None,
        endpoint_override=url.netloc + url.path.rstrip("/") or None,
        force_virtual_addressing=virtual_hosts.lower() == "true",
        connect_timeout=_TIMEOUT_SECONDS,
        request_timeout=_TIMEOUT_SECONDS,
        retry_strategy=pa_fs.AwsStandardS3RetryStrategy(max_attempts=S3_READ_ATTEMPTS),
    )
