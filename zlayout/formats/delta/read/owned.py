"""Reads tables whose catalog owns the commits, up to the newest version that the catalog has published in the log.

A commit in the log is a commit of the table, but the catalog may have later ones that are not in the log. deltalake
does not read such a table without the newest version that the catalog knows. Therefore it is given a copy of the log
segment in a temporary folder, with one more commit: the protocol without the features by which the catalog owns the
commits.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import pyarrow.fs as pa_fs
import pyarrow.parquet as pq
from deltalake import DeltaTable

from zlayout.errors import Diagnostic, Refused, TableError
from zlayout.formats.delta.read.features import CATALOG_OWNED, catalog_owned
from zlayout.formats.delta.read.files import log_files, table_files
from zlayout.formats.delta.read.log_copy import Opened, copy_log
from zlayout.formats.delta.read.log_segment import LogSegment, commits_in, log_segment
from zlayout.formats.delta.read.tags import LOG, log_sizes, read_log_file
from zlayout.table.state import TableState


def open_published(location: str, options: Mapping[str, str], version: int | None, stack: ExitStack) -> Opened | None:
    """Open the newest published version, or an older one; None if no catalog owns the commits or nothing can be read.

    Args:
        location: The location of the table.
        options: The storage options of deltalake.
        version: The version, None for the newest published one.
        stack: See `copy_log`.

    Raises:
        OSError, DeltaError: If the copy cannot be made or read.
    """
    try:
        storage = log_files(location, table_files(location, options))
        names = log_sizes(storage)
        at = max(commits_in(names)) if version is None else version
        segment = log_segment(names, at)
        protocol = next(_protocols(storage, segment), {})
        owned_by = CATALOG_OWNED & {*(protocol.get("readerFeatures") or ()), *(protocol.get("writerFeatures") or ())}
    except (OSError, ValueError, TypeError, AttributeError, RecursionError, TableError):
        return None
    if not owned_by:
        return None
    folder = copy_log(storage, segment, stack)
    plain = {name: _without(value, owned_by) for name, value in protocol.items()}
    (folder / LOG / f"{at + 1:020}.json").write_text(json.dumps({"protocol": plain}))
    return Opened(DeltaTable(str(folder)), at, location, frozenset(owned_by))


def require_own_commits(state: TableState, why: str) -> None:
    """Check that the log has all commits of the table. why: the reason why it must, as the end of a sentence.

    Raises:
        Refused: ZL212, if the catalog of the table owns its commits.
    """
    if owned_by := catalog_owned(state.features, state.properties):
        message = f"{state.table}: the table's catalog owns its commits ({', '.join(sorted(owned_by))}), {why}"
        raise Refused.of("ZL212", message, hint="use the catalog's own tools for this table")


def behind_catalog(version: int) -> Diagnostic:
    """Make ZL418. version: the newest one in the log of a table whose catalog owns the commits."""
    return Diagnostic(
        "ZL418",
        f"measured at version {version}, the newest one in the log; the table's catalog may have later commits",
        "warning",
        "compare the version with the history in the catalog; what later commits changed is not in the numbers",
    )


def _without(value: Any, names: frozenset[str] | set[str]) -> Any:
    return [feature for feature in value if feature not in names] if isinstance(value, list) else value


def _protocols(storage: pa_fs.FileSystem, segment: LogSegment) -> Iterator[dict[str, Any]]:
    """Yield the protocol actions in a log segment, the newest first."""
    for name in reversed(segment.commits):
        yield from _in_lines(read_log_file(storage, name))
    for name in segment.checkpoint:
        if name.endswith(".json"):
            yield from _in_lines(read_log_file(storage, name))
        else:
            with storage.open_input_file(f"{LOG}/{name}") as source:
                column = pq.ParquetFile(source).read(columns=["protocol"])["protocol"]
            yield from column.drop_null().to_pylist()


def _in_lines(content: bytes) -> Iterator[dict[str, Any]]:
    actions = (json.loads(line) for line in content.splitlines() if b'"protocol"' in line)
    yield from (action["protocol"] for action in actions if "protocol" in action)
