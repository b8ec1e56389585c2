"""Finds out, after deltalake failed to read a log, whether the catalog of the table owns its commits.

The log then lacks the commits that the catalog has not published yet. deltalake states this in some cases; in others it
reports a damaged log, for example if the checksum of such a commit exists already.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow.fs as pa_fs
import pyarrow.parquet as pq

from zlayout.errors import TableError
from zlayout.formats.delta.read.features import CATALOG_OWNED
from zlayout.formats.delta.read.files import log_files, table_files
from zlayout.formats.delta.read.log_segment import commits_in, log_segment
from zlayout.formats.delta.read.tags import LOG, log_sizes, read_log_file


def owning_features(location: str, options: Mapping[str, str]) -> frozenset[str]:
    """Return the table features by which a catalog owns the commits; empty if there are none or nothing can be read."""
    try:
        storage = log_files(location, table_files(location, options))
        newest = next(_protocols(storage), {})
        features = {*(newest.get("readerFeatures") or ()), *(newest.get("writerFeatures") or ())}
    except (OSError, ValueError, TypeError, AttributeError, RecursionError, TableError):
        return frozenset()
    return frozenset(CATALOG_OWNED & features)


def _protocols(storage: pa_fs.FileSystem) -> Iterator[dict[str, Any]]:
    """Yield the protocol actions in the log, the newest first."""
    names = log_sizes(storage)
    segment = log_segment(names, max(commits_in(names)))
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
