"""Opens the file system in which the files of a Delta table are.

The file system of deltalake waits for the store without letting other threads run. Therefore S3 is read through Arrow,
as pyiceberg reads it, unless an option is set that Arrow does not have. The log of a local table is read through Arrow
as well, which takes a tenth of the time for small files.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache
from urllib.parse import unquote, urlsplit

import pyarrow.fs as pa_fs
from deltalake.fs import DeltaStorageHandler

from zlayout.formats.storage import S3_READ_ATTEMPTS
from zlayout.table.location import S3_SCHEMES

_ARROW_OPTIONS = frozenset(
    {
        "aws_allow_http",
        "aws_endpoint_url",
        "aws_region",
        "aws_virtual_hosted_style_request",
        "connect_timeout",
        "backoff_config.init_backoff",
        "retry_timeout",
    }
)
_SECONDS = 10.0


def table_files(location: str, options: Mapping[str, str]) -> pa_fs.FileSystem:
    """Return the file system of a table, rooted at the table.

    Args:
        location: The location of the table, a URL or a path.
    """
    url = urlsplit(location)
    if url.scheme.lower() not in S3_SCHEMES or not _arrow_has(options):
        return pa_fs.PyFileSystem(DeltaStorageHandler(location, dict(options)))
    store = _s3(
        options["aws_region"], options.get("aws_endpoint_url", ""), options.get("aws_virtual_hosted_style_request", "")
    )
    return pa_fs.SubTreeFileSystem(url.netloc + unquote(url.path).rstrip("/"), store)


def log_files(location: str, storage: pa_fs.FileSystem) -> pa_fs.FileSystem:
    """Return the file system from which the log of a table is read, rooted at the table.

    It is no substitute for `table_files`: Arrow resolves `..` in the path of a local file, deltalake does not.

    Args:
        location: The location of the table, a URL or a path.
        storage: The result of `table_files` for the location.
    """
    url = urlsplit(location)
    if url.scheme == "file" and not url.netloc:  # file:/a too
        path = unquote(url.path)
    elif "://" not in location:
        path = location
    else:
        return storage
    return pa_fs.SubTreeFileSystem(os.path.abspath(path), pa_fs.LocalFileSystem())


def is_local(storage: pa_fs.FileSystem) -> bool:
    """Return whether the files are read from this machine, so that reading several at once saves no time."""
    base = storage.base_fs if isinstance(storage, pa_fs.SubTreeFileSystem) else storage
    return isinstance(base, pa_fs.LocalFileSystem)


def _arrow_has(options: Mapping[str, str]) -> bool:
    """Return whether Arrow reaches the store as deltalake does with these options."""
    return "aws_region" in options and options.keys() <= _ARROW_OPTIONS and "AWS_SKIP_SIGNATURE" not in os.environ


@lru_cache(maxsize=16)  # tables of one catalog share the connections
def _s3(region: str, endpoint: str, virtual_hosts: str) -> pa_fs.S3FileSystem:
    url = urlsplit(endpoint)
    return pa_fs.S3FileSystem(
        region=region,
        scheme=url.scheme or None,
        endpoint_override=url.netloc + url.path.rstrip("/") or None,
        force_virtual_addressing=virtual_hosts.lower() == "true",
        connect_timeout=_SECONDS,
        request_timeout=_SECONDS,
        retry_strategy=pa_fs.AwsStandardS3RetryStrategy(max_attempts=S3_READ_ATTEMPTS),
    )
