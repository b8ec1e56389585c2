"""Lets deltalake read a copy of a log, where it does not read the original.

Everything but the live files is read from the log itself, and data files are read at the location of the table.
"""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pyarrow.fs as pa_fs
from deltalake import DeltaTable

from zlayout.errors import TableError
from zlayout.formats.delta.read.files import log_files, table_files
from zlayout.formats.delta.read.log_segment import LogSegment, commits_in, log_segment
from zlayout.formats.delta.read.tags import LOG, SIDECARS, log_sizes, sidecars


class Opened(NamedTuple):
    """A table in deltalake.

    Attributes:
        delta: The table.
        version: Its version, which `delta` does not state for the copy of a log.
        location: The location of the table, where `delta` is not a copy as a URI.
        owned_by: The table features by which the catalog of the table owns its commits, if `delta` does not have them.
    """

    delta: DeltaTable
    version: int
    location: str
    owned_by: frozenset[str] = frozenset()


def open_copy(table: object, location: str, version: int | None, stack: ExitStack) -> Opened:
    """Open a copy of the log of a local table. The arguments are those of `open_table`.

    Raises:
        TableError: ZL110 if there is no Delta table, ZL112 if the version does not exist, ZL113.
        OSError, DeltaError: If the log cannot be copied or read.
    """
    storage = log_files(location, table_files(location, {}))
    names = log_sizes(storage)
    newest = max(commits_in(names), default=-1)
    if newest < 0:
        raise TableError.of(
            "ZL110",
            f"expected a Delta table for {table} at {location}, found none",
            hint="check warehouse and tables of the catalog; a Delta table has a folder _delta_log",
        )
    at = newest if version is None else version
    if not 0 <= at <= newest:
        message = f"table {table} has no version {version} (the newest is {newest})"
        raise TableError.of("ZL112", message, hint="use a version that DESCRIBE HISTORY lists")
    folder = copy_log(storage, log_segment(names, at), stack)
    return Opened(DeltaTable(str(folder)), at, location)


def copy_log(storage: pa_fs.FileSystem, segment: LogSegment, stack: ExitStack) -> Path:
    """Copy the files of a log segment to a new folder, which is removed when the stack is closed.

    Args:
        storage: The file system, rooted at the table.
        segment: The log segment.
        stack: Removes the folder.

    Returns:
        The folder of a table with this log and no data files.
    """
    folder = Path(stack.enter_context(TemporaryDirectory(prefix="zlayout-log-")))
    log = folder / LOG
    (log / SIDECARS).mkdir(parents=True)
    parts = [f"{SIDECARS}/{part}" for name in segment.checkpoint for part in sidecars(storage, name)]
    for name in (*segment.checkpoint, *parts, *segment.commits):
        with storage.open_input_stream(f"{LOG}/{name}", compression=None) as source, (log / name).open("wb") as copy:
            shutil.copyfileobj(source, copy)
    return folder
