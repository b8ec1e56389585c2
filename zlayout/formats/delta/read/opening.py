"""Opens Delta tables with deltalake, and samples their key columns, without a JVM.

If deltalake cannot read a log, `open_table` opens a copy in a temporary folder. There are two such cases:

- deltalake decodes the names of folders a second time, and would read another folder.
- The catalog of the table owns the commits. Every commit in the log is a commit of the table, but the catalog may have
  later commits that are not in the log. deltalake reads such a table only if it is given the catalog's newest version.
  The copy contains the log up to its newest version (the published version), and one more commit: the protocol without
  the table features by which the catalog owns the commits.

deltalake reads protocol, metadata and live files from the copy. File tags and the history are read from the log itself,
and data files at the location of the table.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from textwrap import shorten
from typing import Any, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.fs as pa_fs
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from zlayout.errors import TableError, first_line
from zlayout.formats.access import cause_of
from zlayout.formats.delta.read.features import CATALOG_OWNED
from zlayout.formats.delta.read.log import (
    LOG,
    SIDECARS,
    LogFiles,
    LogSegment,
    checkpoint_sidecars,
    is_misread,
    log_files,
    table_files,
)
from zlayout.formats.delta.read.schema import leaves
from zlayout.formats.row_groups import KeyFiles, by_name, sample_row_groups
from zlayout.table.key_sample import KeySample
from zlayout.table.state import Int64, TableState


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
    """Copy a log segment to the new folder of a table without data files, which is removed when the stack is closed."""
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

    wanted = [column for column in state.columns if column.name in columns]
    source = KeyFiles(open_file, by_name(physical), constant, state.required)
    return sample_row_groups(source, files, chosen, wanted, max_bytes, seed)
