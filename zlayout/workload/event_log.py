"""Read Spark event logs as a workload: the filters of the scans of each executed query.

Each `SparkListenerSQLExecutionStart` event has the physical plan as a tree of nodes (`sparkPlanInfo`). The metadata of
a Delta scan states its filters (PushedFilters, PartitionFilters) and the storage location of its table. The one-line
description of an Iceberg scan states its filters and the name of its table. Executions with equal scans are one query,
whose weight is their number.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import unquote

from zlayout.errors import Location, SpecError
from zlayout.predicate.model import And, IsNull, Not, Predicate, conjunction
from zlayout.reading import LimitedStream, TooLargeError, open_file
from zlayout.table.external import MAX_MILLISECONDS
from zlayout.workload.event_log_filters import Unread, not_pushed, partition_filters, pushed_filters, sql_filters
from zlayout.workload.model import MAX_TEXT, Query, Scan, Unused

# The limit for a compressed log, after decompression: these bytes, and so many times the size of the file. Logs are
# compressed to between a tenth and a fiftieth of their size.
MIN_UNPACKED_BYTES, MAX_RATIO = 64 * 1024 * 1024, 200
MAX_LINE_BYTES = 16 * 1024 * 1024  # longer lines are not read; a plan with its description usually has some kilobytes
MAX_NODES = 10_000  # of one plan; further nodes are ignored
TOO_LARGE_HINT = "split the file, or decompress it"
START = "SparkListenerSQLExecutionStart"
_FIRST = re.compile(rb'\{"Event":"(?:SparkListener|org\.apache\.spark)')
_LOCATION = re.compile(r"(?:PreparedDelta|Tahoe|CdcAdd|DeltaParquet)\w{0,40}FileIndex\(\d+ paths\)\[([^,\]]+)")
# Parts of the description of an Iceberg scan. Each is searched after the previous one.
_TABLE = re.compile(r"IcebergScan\(table=([^\s,]+),|^BatchScan ([^\s\[]+)\[")
_FILTERS = re.compile(r"\bfilters=")
_END = re.compile(r", (?:runtimeFilters|RuntimeFilters|groupedBy)")

_SQL = re.compile(r"\s*(?:--[^\n]*\n\s*)*(?:SELECT|WITH|INSERT|CREATE|MERGE|UPDATE|DELETE|TABLE|FROM)\b", re.IGNORECASE)
_TRANSPARENT = ("WholeStageCodegen", "InputAdapter", "ColumnarToRow", "Project", "AdaptiveSparkPlan", "Photon")

# A scan: its table, its predicate, and the text and the reason of each unused filter.
Found = tuple[str, Predicate | None, Unread]


@dataclass(slots=True)
class _Run:
    """Executions with equal scans: the location, the statement and the time of the first one, and their number."""

    location: str
    statement: str
    time: datetime | None
    executions: int = 0


def is_event_log(path: Path) -> bool:
    """Return whether a path is an event log of Spark: a file, or the folder of a rolling log."""
    try:
        parts = _parts(path)
        with open_unpacked(parts[0]) as stream:
            return _FIRST.match(stream.read(64)) is not None
    except (OSError, ValueError, EOFError, IndexError, zlib.error):
        return False


@contextmanager
def open_unpacked(path: Path) -> Iterator[BinaryIO | io.BufferedReader]:
    """Open a file for reading, and decompress it if its name ends in `.gz`.

    Raises as `open_file`. Reading raises TooLargeError if there are many more bytes after decompression than before.
    """
    with open_file(path) as file:
        if path.suffix != ".gz":
            yield file
            return
        limit = MIN_UNPACKED_BYTES + MAX_RATIO * os.fstat(file.fileno()).st_size
        with gzip.GzipFile(fileobj=file) as unpacked:
            yield io.BufferedReader(LimitedStream(unpacked, limit, "the decompressed file"), 1 << 20)


def read_event_log(
    path: Path, on_broken: Callable[[int], None] = lambda _line: None
) -> tuple[list[Scan], list[Unused], int]:
    """Read an event log, also an incomplete one.

    Args:
        path: A file, or the folder of a rolling log.
        on_broken: Called with the number of each line that contains an execution but cannot be read: it is not a
            JSON object, incomplete, or longer than MAX_LINE_BYTES.

    Returns:
        The scans, the unused conditions, and the number of distinct queries.

    Raises:
        SpecError: ZL002 if the log cannot be read, ZL070 if it is too large after decompression.
    """
    runs: dict[tuple[Found, ...], _Run] = {}
    for number, event in _events(path, on_broken):
        nodes = _nodes(event.get("sparkPlanInfo"))
        scans = [found for node, above in nodes if (found := _scan(node, above)) is not None]
        if scans:
            run = runs.setdefault(tuple(scans), _Run(f"{path}:{number}", _statement(event), _time(event)))
            run.executions += 1
    used: list[Scan] = []
    unused: list[Unused] = []
    for found_scans, run in runs.items():
        query = Query(run.statement, run.location, float(run.executions), run.time)
        for table, predicate, left in found_scans:
            used.append(Scan(query, table, predicate))
            unused += [Unused(query, text[:MAX_TEXT], reason, frozenset((table,))) for text, reason in left]
    return used, unused, len(runs)


def _statement(event: dict[str, Any]) -> str:
    """Return the SQL of an execution, if the application set it as the description."""
    text = event.get("description")
    return text if isinstance(text, str) and _SQL.match(text) else ""


def _time(event: dict[str, Any]) -> datetime | None:
    """Return the time in UTC, without a time zone."""
    milliseconds = event.get("time")
    if type(milliseconds) is not int or not 0 <= milliseconds <= MAX_MILLISECONDS:
        return None
    return datetime(1970, 1, 1) + timedelta(milliseconds=milliseconds)


def _parts(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = [p for p in path.iterdir() if p.name.startswith("events_")]  # a rolling log
    return sorted(files, key=lambda p: [int(n) for n in re.findall(r"\d+", p.name)[:1]])


def _events(path: Path, on_broken: Callable[[int], None]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number, event) for the start of each execution. A rolling log is numbered across its files."""
    number = 1
    try:
        for part in _parts(path):
            with open_unpacked(part) as stream:
                while line := stream.readline(MAX_LINE_BYTES):
                    is_complete = line.endswith(b"\n")  # not the beginning of a line above MAX_LINE_BYTES
                    if START.encode() in line[:200]:
                        event = _object(line) if is_complete else None
                        if event is None:
                            on_broken(number)
                        else:
                            yield number, event
                    number += is_complete
    except EOFError:
        return
    except TooLargeError as error:
        raise SpecError.of("ZL070", str(error), hint=TOO_LARGE_HINT, location=Location(str(path))) from None
    except (OSError, ValueError, zlib.error) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise SpecError.of("ZL002", f"cannot read the event log: {reason}", location=Location(str(path))) from None


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _nodes(root: Any) -> Iterator[tuple[dict[str, Any], tuple[str, ...]]]:
    """Yield each node of a plan with the descriptions of the Filter nodes above it that filter only its rows."""
    stack: list[tuple[Any, tuple[str, ...]]] = [(root, ())]
    for _ in range(MAX_NODES):
        if not stack:
            return
        node, above = stack.pop()
        if isinstance(node, dict):
            yield node, above
            if node.get("nodeName") == "Filter":
                above = (*above, str(node.get("simpleString") or ""))
            elif not str(node.get("nodeName")).startswith(_TRANSPARENT):
                above = ()
            children = node.get("children")
            stack += [(child, above) for child in reversed(children)] if isinstance(children, list) else []


def _scan(node: dict[str, Any], above: tuple[str, ...]) -> Found | None:
    rest = tuple(part for text in above for part in not_pushed(text))
    metadata, description = node.get("metadata"), str(node.get("simpleString") or "")
    location = _LOCATION.search(str(metadata.get("Location", ""))) if isinstance(metadata, dict) else None
    if location and isinstance(metadata, dict):
        pushed, left = pushed_filters(str(metadata.get("PushedFilters", "[]")))
        partition, more = partition_filters(str(metadata.get("PartitionFilters", "[]")))
        return unquote(location[1]), _all_of([*pushed, *partition]), (*left, *more, *rest)
    if "BatchScan" not in str(node.get("nodeName")):
        return None
    table = _TABLE.search(description)
    begin = _FILTERS.search(description, table.end()) if table else None
    end = _END.search(description, begin.end()) if begin else None
    if table is None or begin is None or end is None:
        return None
    predicates, left = sql_filters(description[begin.end() : end.start()])
    return (table[1] or table[2]).lower(), _all_of(predicates), (*left, *rest)


def _all_of(predicates: list[Predicate]) -> Predicate | None:
    """Return the conjunction without IS NOT NULL, which Spark adds for each column in a comparison or join."""
    whole = conjunction(predicates)
    kept = dict.fromkeys(whole.operands if isinstance(whole, And) else predicates)
    return conjunction(p for p in kept if not (isinstance(p, Not) and isinstance(p.operand, IsNull)))
