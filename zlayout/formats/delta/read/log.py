"""Reads the files in `_delta_log`: which of them define a version, and the actions in them."""

from __future__ import annotations

import json
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pa_fs
import pyarrow.json as pa_json
import pyarrow.parquet as pq
from deltalake.fs import DeltaStorageHandler

from zlayout.errors import TableError
from zlayout.reading import TooLargeError
from zlayout.spec.client_options import DELTALAKE_OPTIONS, S3_KEYS, S3_READ_ATTEMPTS
from zlayout.spec.model import CatalogConfig, TableName
from zlayout.table.location import S3_SCHEMES

# Determines the locations of the Delta tables of a catalog, and opens the file systems in which their files are.
#
# The file system of deltalake blocks all other threads while it waits for the storage. Therefore S3 is read through
# Arrow, as pyiceberg reads it, unless an option is set that Arrow does not support. The log of a local table is read
# through Arrow as well, which takes a tenth of the time for small files.


_LOCAL = re.compile("file:(?://)?/(?!/)", re.IGNORECASE)  # no match if a host follows two slashes
_ESCAPE = re.compile("%[0-9A-Fa-f]{2}")
_TIMEOUT_SECONDS = 10.0


def is_misread(location: str) -> bool:
    """Return whether deltalake (1.6) reads the commits of a table at this location from another folder.

    deltalake decodes the names of folders a second time: for the folder `a%20b`, it reads `a b`. For the folder `a\\b`,
    it reads `a/b`.
    """
    return "\\" in location or _ESCAPE.search(location) is not None


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
        options["aws_region"],
        options.get("aws_endpoint_url", ""),
        options.get("aws_virtual_hosted_style_request", ""),
        *(options.get(key) for key in S3_KEYS),
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
def _s3(
    region: str, endpoint: str, virtual_hosts: str, key: str | None, secret: str | None, session: str | None
) -> pa_fs.S3FileSystem:
    url = urlsplit(endpoint)
    return pa_fs.S3FileSystem(
        access_key=key,
        secret_key=secret,
        session_token=session,
        region=region,
        scheme=url.scheme or None,
        endpoint_override=url.netloc + url.path.rstrip("/") or None,
        force_virtual_addressing=virtual_hosts.lower() == "true",
        connect_timeout=_TIMEOUT_SECONDS,
        request_timeout=_TIMEOUT_SECONDS,
        retry_strategy=pa_fs.AwsStandardS3RetryStrategy(max_attempts=S3_READ_ATTEMPTS),
    )


LOG = "_delta_log"
SIDECARS = "_sidecars"
HEAD_BYTES = 1 << 16  # the start of each commit, which is kept in memory: Spark writes the commitInfo first
MAX_CONCURRENT_READS = 16
MAX_LINES_IN_PYTHON = 64  # up to this number of lines, the json module is faster than Arrow, which starts threads
_JSON_BLOCK = 64 << 20
# The limits for a checkpoint: a number, and so many for each byte of the file. A row has the path of a file, which
# compresses to more than four bytes, and the metadata of Parquet states the rows and bytes that it would become.
MIN_ROWS, BYTES_PER_ROW = 250_000, 4
MIN_UNPACKED_BYTES, MAX_RATIO = 256 << 20, 200
_SIDECAR = pa.schema({"sidecar": pa.struct({"path": pa.string()})})
_COMMIT = re.compile(r"(\d{20})\.json")
_CLASSIC = re.compile(r"(\d{20})\.checkpoint\.parquet")
_PART = re.compile(r"(\d{20})\.checkpoint\.(\d{10})\.(\d{10})\.parquet")
_V2 = re.compile(r"(\d{20})\.checkpoint\.[0-9a-f-]{36}\.(?:json|parquet)")


@dataclass(frozen=True, slots=True)
class LogSegment:
    """The files in `_delta_log` that define a version.

    Attributes:
        checkpoint: The names of the files of the newest complete checkpoint: none, one, or several parts.
        commits: The names of the commits after the checkpoint, in order.
    """

    checkpoint: tuple[str, ...]
    commits: tuple[str, ...]


class LogFiles:
    """The files in the `_delta_log` of a table, which is listed once.

    Attributes:
        storage: The file system, rooted at the table.
        sizes: The sizes in bytes by file name, empty if there is no log. Empty checkpoints, which a killed writer can
            leave, are omitted.
        times: When the files were written according to the storage, in milliseconds since 1970, by file name.
        commits: The names of the commits by version.
        footers: The metadata of the Parquet files that were opened before, by name. It is not read again.
        heads: The first HEAD_BYTES of the commits that were read before, by name. They are not read again.
        sidecars: The paths of sidecars in the checkpoints that were read, as the checkpoints store them.
    """

    def __init__(self, storage: pa_fs.FileSystem) -> None:
        self.storage = storage
        found = [
            info
            for info in storage.get_file_info(pa_fs.FileSelector(LOG, allow_not_found=True))
            if info.size != 0 or ".checkpoint." not in info.base_name
        ]
        self.sizes: dict[str, int] = {info.base_name: info.size or 0 for info in found}  # a folder has no size
        self.times: dict[str, int] = {info.base_name: info.mtime_ns // 1_000_000 for info in found if info.mtime_ns}
        self.commits = commits_in(self.sizes)
        self.footers: dict[str, pq.FileMetaData] = {}
        self.heads: dict[str, bytes] = {}
        self.sidecars: list[str] = []

    def segment(self, version: int) -> LogSegment:
        """See `log_segment`. Raises TableError ZL113."""
        return log_segment(self.sizes, version)

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        return read_log_file(self.storage, name)

    def head(self, name: str) -> bytes:
        """Return the first HEAD_BYTES of a commit. A shorter one is returned whole."""
        if name in self.heads:
            return self.heads[name]
        with self.storage.open_input_file(f"{LOG}/{name}") as file:
            content: bytes = file.read_at(HEAD_BYTES, 0)
        return content

    @contextmanager
    def parquet(self, name: str) -> Iterator[pq.ParquetFile]:
        """Open a Parquet file, which is closed at the end of the block. Raises as `require_small_checkpoint`."""
        with self.storage.open_input_file(f"{LOG}/{name}") as source:
            file = pq.ParquetFile(source, metadata=self.footers.get(name))
            if name not in self.footers:
                _require_small(file.metadata, source.size(), name)
                self.footers[name] = file.metadata
            yield file

    def require_small_checkpoint(self, version: int | None) -> None:
        """Check the size of the checkpoint of a version after decompression, without reading more than its metadata.

        version: None for the newest one.

        Raises:
            TooLargeError: A part of the checkpoint has too many rows or bytes.
            OSError, ValueError, pa.ArrowException: A part cannot be read.
        """
        for name in _newest_checkpoint(self.sizes, version):
            for part in checkpoint_sidecars(self, name):
                with self.parquet(part):
                    pass

    def actions(self, name: str, action: str) -> Iterator[dict[str, Any]]:
        """Yield the actions with one name, such as `protocol`, in a commit or checkpoint.

        Only the lines of a JSON file that contain the name are parsed, one at a time.

        Raises:
            OSError: If the file cannot be read.
            ValueError, RecursionError: If a line is not JSON, or the file is not Parquet.
        """
        if name.endswith(".parquet"):
            with self.parquet(name) as file:
                column = file.read(columns=[action])[action] if action in file.schema_arrow.names else pa.array([])
            yield from column.drop_null().to_pylist()
            return
        head = self.heads.get(name)
        content = self.read(name) if head is None or len(head) == HEAD_BYTES else head
        for line in content.split(b"\n"):
            if f'"{action}"'.encode() not in line:
                continue
            parsed = json.loads(line)
            if isinstance(parsed, dict) and isinstance(found := parsed.get(action), dict):
                yield found


def read_log_file(storage: pa_fs.FileSystem, name: str) -> bytes:
    """Return the content of a file in `_delta_log`. storage: the file system that is rooted at the table."""
    with storage.open_input_stream(f"{LOG}/{name}", compression=None) as stream:
        content: bytes = stream.read()
    return content


def commits_in(names: Iterable[str]) -> dict[int, str]:
    """Return the names of commits among the file names in `_delta_log`, by version."""
    return {int(found[1]): name for name in names if (found := _COMMIT.fullmatch(name))}


def log_segment(names: Iterable[str], version: int) -> LogSegment:
    """Return the log segment of a version, given the names of the files in `_delta_log`.

    Raises:
        TableError: ZL113, if a commit is missing.
    """
    commits = commits_in(names)
    checkpoints: dict[int, list[tuple[str, ...]]] = defaultdict(list)
    parts: dict[tuple[int, int], list[str]] = defaultdict(list)
    for name in names:
        if found := _CLASSIC.fullmatch(name) or _V2.fullmatch(name):
            checkpoints[int(found[1])].append((name,))
        elif found := _PART.fullmatch(name):
            parts[int(found[1]), int(found[3])].append(name)
    for (at, total), found_parts in parts.items():
        if len(found_parts) == total:
            checkpoints[at].append(tuple(sorted(found_parts)))
    base = max((at for at in checkpoints if at <= version), default=-1)
    wanted = range(base + 1, version + 1)
    if missing := [at for at in wanted if at not in commits]:
        raise TableError.of(
            "ZL113",
            f"version {version} requires commit {missing[0]}, which is not in _delta_log",
            hint="run again, because the log may have been cleaned up during the read; if it fails again, restore the "
            "commit",
        )
    chosen = min(checkpoints[base]) if base >= 0 else ()
    return LogSegment(chosen, tuple(commits[at] for at in wanted))


def read_actions(content: bytes, schema: pa.Schema) -> pa.Table:
    """Parse the actions in a commit or JSON checkpoint that the schema names. Other fields and actions are ignored.

    Args:
        content: Lines of JSON. Lines that contain no name of the schema are not parsed.
        schema: Structs by the names of actions. No field has a floating-point type.

    Raises:
        pa.ArrowInvalid: If a line is not JSON, or a value does not have the type of its field. A number with a fraction
            or an exponent is not an integer, even if its value is whole.
    """
    names = [f'"{name}"'.encode() for name in schema.names]
    lines = [line for line in content.split(b"\n") if any(name in line for name in names)]
    if len(lines) <= MAX_LINES_IN_PYTHON:
        # Lines that the json module does not accept are parsed by Arrow, which reads them or raises an error.
        with suppress(ValueError, TypeError, AttributeError, RecursionError, OverflowError):
            parse = partial(json.loads, object_pairs_hook=_without_duplicates, parse_float=_refuse_fraction)
            return pa.Table.from_pylist([parse(line) for line in lines], schema)
    text = b"\n".join(lines)
    block = max(_JSON_BLOCK, len(text)) if len(text) < 1 << 30 else 1 << 30
    return pa_json.read_json(
        pa.BufferReader(text),
        read_options=pa_json.ReadOptions(use_threads=len(text) > block, block_size=block),
        parse_options=pa_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
    )


def _newest_checkpoint(names: Iterable[str], version: int | None) -> list[str]:
    found: dict[int, list[str]] = defaultdict(list)
    for name in names:
        if match := _CLASSIC.fullmatch(name) or _V2.fullmatch(name) or _PART.fullmatch(name):
            found[int(match[1])].append(name)
    complete = (
        at
        for at, files in found.items()
        if (version is None or at <= version)
        and any(not (part := _PART.fullmatch(name)) or len(files) >= int(part[3]) for name in files)
    )
    return sorted(found.get(max(complete, default=-1), ()))


def _require_small(footer: pq.FileMetaData, size: int, name: str) -> None:
    rows, unpacked = MIN_ROWS + size // BYTES_PER_ROW, MIN_UNPACKED_BYTES + MAX_RATIO * size
    if footer.num_rows > rows:
        raise TooLargeError(f"{name}, which has {size:,} bytes,", rows, "rows")
    if sum(footer.row_group(at).total_byte_size for at in range(footer.num_row_groups)) > unpacked:
        raise TooLargeError(f"{name}, which has {size:,} bytes, after decompression", unpacked)


def checkpoint_sidecars(log: LogFiles, name: str) -> list[str]:
    """Return the paths of the sidecars of a checkpoint file, relative to the folder of the log."""
    if name.endswith(".json"):
        return [*map(sidecar_name, json_sidecars(log.read(name)))]
    with log.parquet(name) as file:
        return [*map(sidecar_name, parquet_sidecars(file))]


def json_sidecars(content: bytes) -> list[str]:
    """Return the paths of the sidecars of a JSON checkpoint, as it stores them."""
    return _paths(read_actions(content, _SIDECAR)["sidecar"])


def parquet_sidecars(file: pq.ParquetFile) -> list[str]:
    """Return the paths of the sidecars of a Parquet checkpoint, as it stores them."""
    return _paths(file.read(columns=["sidecar.path"])["sidecar"]) if "sidecar" in file.schema_arrow.names else []


def sidecar_name(path: str) -> str:
    """Return the name of a sidecar below the folder of the log. path: Some writers store absolute paths."""
    return f"{SIDECARS}/{path.rpartition('/')[2]}"


def _paths(sidecars: pa.ChunkedArray) -> list[str]:
    found: list[str] = pc.struct_field(sidecars.combine_chunks(), "path").drop_null().to_pylist()
    return found


def _refuse_fraction(text: str) -> None:
    """Raise ValueError, because pyarrow would round the number to an integer."""
    raise ValueError(f"expected an integer, found {text}")


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("duplicate key")
    return found
