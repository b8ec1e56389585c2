"""Reads the log of a Delta table without a JVM: its files and actions, and the table as deltalake opens it.

`LogFiles` has the files in `_delta_log`, `open_table` opens a table with deltalake, and `read_annotations` reads what
deltalake does not return.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory, gettempdir
from textwrap import shorten
from typing import Any, NamedTuple
from urllib.parse import quote, unquote, urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pa_fs
import pyarrow.json as pa_json
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.fs import DeltaStorageHandler

from zlayout.errors import TableError, first_line
from zlayout.formats.access import cause_of
from zlayout.formats.delta.read.features import CATALOG_OWNED
from zlayout.formats.delta.read.schema import leaves
from zlayout.formats.row_groups import KeyFiles, by_name, read_stored_rows, sample_row_groups
from zlayout.reading import TooLargeError, parse_json
from zlayout.spec.client_options import DELTALAKE_OPTIONS, S3_KEYS, S3_READ_ATTEMPTS
from zlayout.spec.model import COLUMN_IDS, CatalogConfig, TableName
from zlayout.table.location import S3_SCHEMES
from zlayout.table.order import distinct_rows
from zlayout.table.samples import KeySample, StoredRows
from zlayout.table.state import Baseline, Int32, Int64, LayoutRecord, TableState, are_settings, parse_baseline

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
        complete = _checkpoints(self.sizes)
        newest = max((at for at in complete if version is None or at <= version), default=-1)
        for name in sorted(name for files in complete.get(newest, ()) for name in files):
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
    commits, checkpoints = commits_in(names), _checkpoints(names)
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


def _checkpoints(names: Iterable[str]) -> dict[int, list[tuple[str, ...]]]:
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
    return checkpoints


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


# Opens tables with deltalake, and samples their key columns.
#
# If deltalake cannot read a log, `open_table` opens a copy in a temporary folder. There are two such cases:
#
# - deltalake decodes the names of folders a second time, and would read another folder.
# - The catalog of the table owns the commits. Every commit in the log is a commit of the table, but the catalog may
#   have later commits that are not in the log. deltalake reads such a table only if it is given the catalog's newest
#   version. The copy contains the log up to its newest version (the published version), and one more commit: the
#   protocol without the table features by which the catalog owns the commits.
#
# deltalake reads protocol, metadata and live files from the copy. File tags and the history are read from the log
# itself, and data files at the location of the table.


class Opened(NamedTuple):
    """A table that deltalake has opened.

    Attributes:
        delta: The table, or a copy of its log.
        version: The version of the table. A copy may have another version.
        location: The location of the table. It is a URI if `delta` is not a copy.
        owned_by: The table features by which the catalog owns the commits, which were removed from the copy.
        log: The files of the log before the table was opened; None if they were not listed.
    """

    delta: DeltaTable
    version: int
    location: str
    owned_by: frozenset[str] = frozenset()
    log: LogFiles | None = None


def open_table(
    table: object, location: str, version: int | None, options: Mapping[str, str], stack: ExitStack
) -> Opened:
    """Open a table, or a copy of its log if deltalake cannot read the log itself.

    Args:
        table: The name of the table, for messages.
        version: The version, None for the newest one.
        options: The storage options of deltalake.
        stack: The copy is removed when this stack is closed.

    Raises:
        TableError: ZL110 to ZL114.
    """
    if is_misread(location) and "://" in location:
        raise TableError.of(
            "ZL111",
            f"the location {location} of {table} has a backslash, or '%' and two hexadecimal digits, which deltalake "
            "decodes and Spark does not, so that they would read different folders",
            hint="rename the folder, or move the table",
        )
    try:
        if is_misread(location):
            return _open_copy(table, location, version, stack)
        log = checked_log(location, options, version)
        delta = DeltaTable(location, version=version, storage_options=dict(options) or None)
        return Opened(delta, delta.version(), delta.table_uri, log=log)
    except TableNotFoundError as error:
        raise _not_found(table, location, f" ({first_line(error)})") from error
    except DeltaError as error:
        try:
            if (published := _open_published(location, options, version, stack)) is not None:
                return published
        except (DeltaError, OSError) as unread:
            raise unreadable(table, location, unread) from unread
        if version is not None and "not the same as the specified end version" in str(error):
            raise _no_version(table, version, first_line(error)) from error
        raise unreadable(table, location, error) from error
    except (OSError, ValueError) as error:
        raise unreadable(table, location, error) from error


def checked_log(location: str, options: Mapping[str, str], version: int | None) -> LogFiles | None:
    """Return the files of a log whose checkpoint deltalake can read without exhausting the memory.

    Args:
        version: The version to read, None for the newest one.

    Returns:
        None if the files cannot be listed. deltalake reports the reason.

    Raises:
        The errors of `LogFiles.require_small_checkpoint`.
    """
    try:
        log = LogFiles(log_files(location, table_files(location, options)))
    except (DeltaError, OSError, ValueError):
        return None
    log.require_small_checkpoint(version)
    return log


def unreadable(table: object, location: str, error: Exception) -> TableError:
    """Return the error for a log that cannot be read: ZL114 if the storage cannot be reached, else ZL111."""
    cause = cause_of(error) if "://" in location else None
    if cause is not None:
        message = f"the storage of {table} at {location} cannot be reached: {cause.reason}"
        return TableError.of("ZL114", message, hint=cause.hint)
    return TableError.of(
        "ZL111",
        f"the log of {table} at {location} cannot be read: {shorten(first_line(error), 400, placeholder=' ...')}",
        hint="check access to _delta_log, and whether a commit or checkpoint is damaged or has a table feature that "
        "deltalake does not support",
    )


def _not_found(table: object, location: str, reason: str = "") -> TableError:
    return TableError.of(
        "ZL110",
        f"expected a Delta table for {table} at {location}, found none{reason}",
        hint="check warehouse and tables of the catalog; a Delta table has a folder _delta_log, which Spark's "
        "`CONVERT TO DELTA` adds to a folder of Parquet files",
    )


def _no_version(table: object, version: int, reason: str) -> TableError:
    message = f"table {table} has no version {version} ({reason})"
    return TableError.of("ZL112", message, hint="use a version that DESCRIBE HISTORY lists")


def _open_copy(table: object, location: str, version: int | None, stack: ExitStack) -> Opened:
    log = LogFiles(log_files(location, table_files(location, {})))
    newest = max(log.commits, default=-1)
    if newest < 0:
        raise _not_found(table, location)
    at = newest if version is None else version
    if not 0 <= at <= newest:
        raise _no_version(table, at, f"the newest is {newest}")
    return Opened(DeltaTable(str(_copy_log(log, log.segment(at), stack))), at, location)


def _open_published(location: str, options: Mapping[str, str], version: int | None, stack: ExitStack) -> Opened | None:
    """Open a copy of a catalog-managed table. None for other tables, or if the log cannot be read or lacks a commit."""
    try:
        log = LogFiles(log_files(location, table_files(location, options)))
        at = max(log.commits) if version is None else version
        segment = log.segment(at)
        names = (*reversed(segment.commits), *segment.checkpoint)
        protocol = next((action for name in names for action in log.actions(name, "protocol")), {})
        owned_by = CATALOG_OWNED & {*(protocol.get("readerFeatures") or ()), *(protocol.get("writerFeatures") or ())}
    except (OSError, ValueError, TypeError, AttributeError, RecursionError, TableError):
        return None
    if not owned_by:
        return None
    folder = _copy_log(log, segment, stack)
    plain = {
        name: [feature for feature in value if feature not in owned_by] if isinstance(value, list) else value
        for name, value in protocol.items()
    }
    (folder / LOG / f"{at + 1:020}.json").write_text(json.dumps({"protocol": plain}))
    return Opened(DeltaTable(str(folder)), at, location, frozenset(owned_by))


def _copy_log(log: LogFiles, segment: LogSegment, stack: ExitStack) -> Path:
    if is_misread(gettempdir()):
        raise TableError.of(
            "ZL111",
            f"the log must be copied to the temporary folder {gettempdir()}, whose path has '%' and two hexadecimal "
            "digits, which deltalake decodes",
            hint="set TMPDIR to another folder",
        )
    folder = Path(stack.enter_context(TemporaryDirectory(prefix="zlayout-log-")))
    (folder / LOG / SIDECARS).mkdir(parents=True)
    parts = [part for name in segment.checkpoint for part in checkpoint_sidecars(log, name)]
    for name in (*segment.checkpoint, *parts, *segment.commits):
        path = f"{LOG}/{name}"
        with log.storage.open_input_stream(path, compression=None) as source, (folder / path).open("wb") as copy:
            shutil.copyfileobj(source, copy)
    return folder


# The sample of key columns.


def sample_delta(
    state: TableState,
    chosen: Int64,
    columns: Sequence[str],
    max_bytes: int,
    seed: int,
    storage_options: Mapping[str, str],
) -> KeySample:
    """Sample key columns of the chosen files. The arguments are those of `zlayout.formats.base.Backend.sample_keys`."""
    wanted = [column for column in state.columns if column.name in columns]
    return sample_row_groups(_key_files(state, storage_options), state.files, chosen, wanted, max_bytes, seed)


def stored_rows_of_delta(
    state: TableState, chosen: Int64, columns: Sequence[str], max_bytes: int, storage_options: Mapping[str, str]
) -> StoredRows | None:
    """Read rows of some files. The arguments are those of `zlayout.formats.base.Backend.stored_rows`."""
    wanted = [column for column in state.columns if column.name in columns]
    return read_stored_rows(_key_files(state, storage_options), state.files, chosen, wanted, max_bytes)


def _key_files(state: TableState, storage_options: Mapping[str, str]) -> KeyFiles:
    options = dict(storage_options)
    with ExitStack() as stack:
        opened = open_table(state.table, state.location, state.version, options, stack)
        physical = {leaf.name: leaf.physical for leaf in leaves(json.loads(opened.delta.schema().to_json()))}
    storage = table_files(opened.location, options)
    files = state.files

    def open_file(path: str) -> pa.NativeFile:
        if "://" in path or path.startswith("/"):  # the table is a shallow clone, and the file belongs to its source
            found, inside = pa_fs.FileSystem.from_uri(path)
            return found.open_input_file(inside)
        return storage.open_input_file(unquote(path))

    def constant(column: str, file: int) -> Any:
        partition = files.partitions[files.partition[file]]
        values = {field.source: value for field, value in zip(partition.fields, partition.values, strict=True)}
        return values.get(column)

    return KeyFiles(open_file, by_name(physical), constant, state.required)


# What deltalake does not return: file tags, clustering providers and deletion vectors.
#
# File tags contain the layout records, the groups and the baselines of live files. deltalake determines which files are
# live. A live file whose add action is not found here counts as not laid out, which leads to an unnecessary rewrite at
# worst. The Delta protocol describes the formats under "Action Reconciliation" (the last add action of a path is valid)
# and "Checkpoints" (classic, multi-part, v2 with sidecars).


# Commits on this machine with fewer bytes in total are read without threads, because starting threads takes longer.
MIN_BYTES_FOR_THREADS = 1 << 20
LAYOUT_ID = "zlayout.layout_id"
GROUP = "zlayout.group"
LAYOUT = "zlayout.layout"
BASELINE = "zlayout.baseline"
# A table property, and its value if commits of OPTIMIZE store layout records in their userMetadata.
RECORDS, BY_COMMITS = "zlayout.records", "commits"
# Delta's OPTIMIZE writes these two tags on clustered tables.
ZCUBE_ID = "ZCUBE_ID"
ZCUBE_COLUMNS = "ZCUBE_ZORDER_BY"
TAGS = (LAYOUT_ID, GROUP, LAYOUT, BASELINE, ZCUBE_ID, ZCUBE_COLUMNS)
PROVIDER = "clusteringProvider"
PARTITION_VALUES = "partitionValues"
VALUE = f"{PARTITION_VALUES}."  # in ANNOTATION, before the name of a partition column

_DELETION_VECTOR = pa.struct(
    {"storageType": pa.string(), "pathOrInlineDv": pa.string(), "offset": pa.int32(), "cardinality": pa.int64()}
)
_ADD = pa.struct(
    {
        "path": pa.string(),
        "tags": pa.struct(dict.fromkeys(TAGS, pa.string())),
        "deletionVector": _DELETION_VECTOR,
        PROVIDER: pa.string(),
        "size": pa.int64(),
        "modificationTime": pa.int64(),
    }
)
# deltalake rounds fractions in size, modificationTime and the versions of the protocol. They are in this schema so that
# `read_actions` refuses fractions.
_PROTOCOL = pa.struct({"minReaderVersion": pa.int32(), "minWriterVersion": pa.int32()})
_ACTIONS = pa.schema({"add": _ADD, "protocol": _PROTOCOL})
ANNOTATION = pa.schema(
    dict.fromkeys(("path", *TAGS, "version_key", "vector"), pa.string())
    | {"deleted": pa.int64(), PROVIDER: pa.string()}
)
_UUID_LENGTH = 20  # characters of the UUID in the name of a deletion vector, at the end of a path of storage type u


def read_annotations(log: LogFiles, version: int, live: pa.Array, values: Sequence[str] = ()) -> pa.Table:
    """Read the file tags and deletion vectors of the live files of a version. Also store the commits' heads in `log`.

    Args:
        live: string[files], the paths of its live files.
        values: The physical names of the partition columns whose values are read as the log stores them.

    Returns:
        A table with the schema ANNOTATION, then a column of strings for each of `values`, and one row per path of
        `live`, in the same order. A file tag or the clustering provider is null if the file does not have it.
        version_key is the unique id of the deletion vector (storage type, path, @offset), empty if the file has none.
        vector is the path of its file, with another name, if this file is not directly in the location of the table,
        else null. deleted is the number of rows that the deletion vector marks as deleted.

    Raises:
        TableError: ZL113, if a commit is missing.
        OSError: If a file of the log cannot be read.
        pa.ArrowException: If an action does not have the types of the protocol.
    """
    segment = log.segment(version)

    def read_commit(name: str) -> bytes:
        content = log.read(name)
        log.heads[name] = content[:HEAD_BYTES]
        return content

    if is_local(log.storage) and sum(log.sizes[name] for name in segment.commits) < MIN_BYTES_FOR_THREADS:
        pieces = [table for name in segment.checkpoint for table in _checkpoint(log, name, values)]
        pieces.append(_json_adds(b"\n".join([*map(read_commit, segment.commits)][::-1]), values))
    else:
        with ThreadPoolExecutor(MAX_CONCURRENT_READS) as pool:
            checkpoint = pool.map(lambda name: list(_checkpoint(log, name, values)), segment.checkpoint)
            commits = pool.map(lambda name: _json_adds(read_commit(name), values), segment.commits)
            pieces = [*(table for tables in checkpoint for table in tables), *commits]
    newest_first = pa.concat_tables([_schema(values).empty_table(), *reversed(pieces)])
    paths = live.cast(pa.string())
    rows = pc.index_in(paths, value_set=newest_first["path"].combine_chunks())
    chosen = newest_first.take(rows).set_column(0, "path", paths)
    for name, without_vector in (("version_key", ""), ("deleted", 0)):
        at = chosen.schema.get_field_index(name)
        chosen = chosen.set_column(at, name, pc.fill_null(chosen[name], without_vector))
    return chosen


def _schema(values: Sequence[str]) -> pa.Schema:
    return pa.schema([*ANNOTATION, *(pa.field(VALUE + name, pa.string()) for name in values)])


def _checkpoint(log: LogFiles, name: str, values: Sequence[str]) -> Iterator[pa.Table]:
    if name.endswith(".json"):
        content = log.read(name)
        yield _json_adds(content, values)
        parts = json_sidecars(content)
    else:
        with log.parquet(name) as file:
            yield _parquet_adds(file, values)
            parts = parquet_sidecars(file)
    log.sidecars += parts
    for part in parts:
        with log.parquet(sidecar_name(part)) as file:
            yield _parquet_adds(file, values)


def _parquet_adds(file: pq.ParquetFile, values: Sequence[str]) -> pa.Table:
    if "add" not in file.schema_arrow.names:
        return _schema(values).empty_table()
    vector_fields = (f"add.deletionVector.{field.name}" for field in _DELETION_VECTOR)
    wanted = ["add.path", "add.tags", f"add.{PROVIDER}", *vector_fields]
    wanted += [f"add.{PARTITION_VALUES}"] if values else []
    adds = file.read(columns=wanted)["add"].combine_chunks()
    adds = adds.filter(pc.is_valid(pc.struct_field(adds, "path")))
    fields = {field.name for field in adds.type}
    tags = _looked_up(adds, "tags", TAGS) if "tags" in fields else [pa.nulls(len(adds), pa.string()) for _ in TAGS]
    no_vectors = pa.nulls(len(adds), _DELETION_VECTOR)
    vector = pc.struct_field(adds, "deletionVector") if "deletionVector" in fields else no_vectors
    parts = [pc.struct_field(vector, field.name) for field in _DELETION_VECTOR]
    provider = pc.struct_field(adds, PROVIDER) if PROVIDER in fields else pa.nulls(len(adds), pa.string())
    raw = _looked_up(adds, PARTITION_VALUES, values) if values else []
    return _annotation(pc.struct_field(adds, "path"), tags, parts, provider, values, raw)


def _looked_up(adds: pa.Array, field: str, names: Sequence[str]) -> list[pa.Array]:
    found = pc.struct_field(adds, field)
    return [pc.map_lookup(found, pa.scalar(name, found.type.key_type), "first") for name in names]


def _json_adds(content: bytes, values: Sequence[str]) -> pa.Table:
    actions = _ACTIONS
    if values:
        stored = pa.field(PARTITION_VALUES, pa.struct(dict.fromkeys(values, pa.string())))
        actions = pa.schema([pa.field("add", pa.struct([*_ADD, stored])), pa.field("protocol", _PROTOCOL)])
    path, tags, vector, provider, *_, last = read_actions(content, actions)["add"].combine_chunks().flatten()
    raw = last.flatten() if values else []
    return _annotation(path, tags.flatten(), vector.flatten(), provider, values, raw).filter(path.is_valid())


def _annotation(
    path: pa.Array,
    tags: list[pa.Array],
    vector: list[pa.Array],
    provider: pa.Array,
    values: Sequence[str],
    raw: list[pa.Array],
) -> pa.Table:
    """Return what `read_annotations` returns. vector: the fields of _DELETION_VECTOR, in order. raw: of `values`."""
    *identifying, cardinality = vector
    strings = [column.cast(pa.string()) for column in (path, *tags)]
    strings += [vector_key(*identifying), _vector_path(*identifying[:2])]
    columns = [*strings, cardinality.cast(pa.int64()), provider.cast(pa.string())]
    columns += [column.cast(pa.string()) for column in raw]
    return pa.Table.from_arrays(columns, schema=_schema(values))


def vector_key(storage: pa.Array, where: pa.Array, offset: pa.Array) -> pa.Array:
    """Return the unique ids of deletion vectors, null without a vector.

    Args:
        storage: The fields storageType of the vectors.
        where: The fields pathOrInlineDv.
        offset: The fields offset; null if a vector has none.
    """
    if storage.null_count == len(storage):
        return pa.nulls(len(storage), pa.string())
    at = pc.fill_null(pc.binary_join_element_wise("@", offset.cast(pa.string()), ""), "")
    return pc.binary_join_element_wise(storage.cast(pa.string()), where.cast(pa.string()), at, "")


def _vector_path(storage: pa.Array, where: pa.Array) -> pa.Array:
    """Return `vector` of ANNOTATION, given the fields storageType and pathOrInlineDv of the vectors."""
    if storage.null_count == len(storage):
        return pa.nulls(len(storage), pa.string())
    storage, where = storage.cast(pa.string()), where.cast(pa.string())
    prefix = pc.utf8_slice_codeunits(where, 0, -_UUID_LENGTH)
    below = pc.and_(pc.equal(storage, "u"), pc.not_equal(prefix, ""))
    missing = pa.scalar(None, pa.string())
    named = pc.if_else(below, pc.binary_join_element_wise(prefix, "vector.bin", "/"), missing)
    return pc.if_else(pc.equal(storage, "p"), where, named)


def codes_of(column: pa.ChunkedArray) -> tuple[Int32, pa.Array]:
    """Number the distinct values of a column in order of first appearance.

    Returns:
        int32[rows], the number of each row's value (-1 for null), and the value of each number.
    """
    encoded = column.combine_chunks().dictionary_encode()
    codes = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False).astype(np.int32)
    return codes, encoded.dictionary


def layout_records(annotations: pa.Table) -> tuple[Int32, tuple[LayoutRecord, ...], Int32]:
    """Return the index of each file's layout record, the layout records, and the number of each file's group.

    A file without a record has index and group -1. Files with the same layout id and column ids have one record. Its
    settings are the first valid ones in the tags of these files.
    """
    layout, ids = codes_of(annotations[LAYOUT_ID])
    written, texts = codes_of(annotations[LAYOUT])
    known = layout >= 0
    pairs, of_pair = distinct_rows([layout[known], written[known]])
    parsed = [_settings(text.as_py()) for text in texts]
    records: dict[tuple[int, str], LayoutRecord] = {}
    number = np.empty(len(pairs), np.int32)
    for at, (name, text) in enumerate(pairs.tolist()):
        settings = parsed[text] if text >= 0 else {}
        key = (name, str(settings.get(COLUMN_IDS)))
        records.setdefault(key, LayoutRecord(ids[name].as_py()))
        if settings and not records[key].settings:
            records[key] = LayoutRecord(ids[name].as_py(), settings)
        number[at] = list(records).index(key)
    index = np.full(len(layout), -1, np.int32)
    index[known] = number[of_pair]
    return index, tuple(records.values()), np.where(index < 0, np.int32(-1), codes_of(annotations[GROUP])[0])


def baselines(group: Int32, annotations: pa.Table) -> dict[int, Baseline]:
    """Return the baseline of each group, by the number of the group: the first valid one in the tags of its files."""
    written, texts = codes_of(annotations[BASELINE])
    known = (group >= 0) & (written >= 0)
    pairs, _ = distinct_rows([group[known], written[known]])
    parsed = [parse_baseline(text) for text in texts.to_pylist()]
    found: dict[int, Baseline] = {}
    for number, text in pairs.tolist():
        if (baseline := parsed[text]) is not None:
            found.setdefault(number, baseline)
    return found


def _settings(text: str) -> dict[str, Any]:
    try:
        parsed = parse_json(text)
    except ValueError:
        return {}
    return parsed if are_settings(parsed) else {}
