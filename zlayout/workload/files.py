"""Read workload files: SQL files, CSV files with the columns `query` and `count`, and Spark event logs."""

from __future__ import annotations

import csv
import io
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from zlayout.errors import Location, SpecError
from zlayout.reading import TooLargeError, open_file
from zlayout.workload.event_log import TOO_LARGE_HINT, event_logs, is_event_log, read_event_log
from zlayout.workload.model import Query, Workload
from zlayout.workload.statements import MAX_STATEMENT, Read, checked_weight, read_query, split

MAX_BYTES = 16 * 1024 * 1024  # of one SQL or CSV file
MAX_QUERIES = 10_000  # of all SQL and CSV files
Opened = AbstractContextManager[BinaryIO | io.BufferedReader]


def read_workload(
    paths: Iterable[Path], columns: Mapping[str, Sequence[str]] | None = None, now: datetime | None = None
) -> Workload:
    """Read the queries of workload files.

    Args:
        paths: SQL files, CSV files (`.csv`), and Spark event logs, also folders of them.
        columns: The column names of tables, by the table name that the queries use or by its last part. They are
            needed to find the table of an unqualified column in a query of several tables. `*` (FURTHER) stands for
            columns whose names are unknown.
        now: The time (UTC, naive) to which `current_timestamp()` is set in SQL and CSV files; None for the present
            time. In an event log, each query has a time of its own.

    Raises:
        SpecError: A file cannot be read, is too large or not UTF-8, or contains an invalid number or CSV.
    """
    known = {name.lower(): names for name, names in (columns or {}).items()}
    now = now or datetime.now(UTC).replace(tzinfo=None, microsecond=0)
    found: list[Read] = []
    in_files = in_logs = 0  # Only the number of queries in SQL and CSV files is limited.
    for path in (one for given in paths for one in event_logs(given)):
        if is_event_log(path):
            log = read_event_log(path)
            found.append(Read(log.scans, log.unused))
            in_logs += log.queries
            continue
        for query in read_queries(path):
            in_files += 1
            if in_files > MAX_QUERIES:
                raise SpecError.of("ZL070", f"expected at most {MAX_QUERIES} queries", location=Location(str(path)))
            found.append(read_query(query, known, now))
    return Workload(
        scans=tuple(scan for read in found for scan in read.scans),
        unused=tuple(unused for read in found for unused in read.unused),
        queries=in_files + in_logs,
        inverted=tuple(inverted for read in found for inverted in read.inverted),
        unread=tuple(unused.query for read in found if not read.readable for unused in read.unused),
        assumed_time=now if any(read.uses_time for read in found) else None,
    )


def read_queries(path: Path, *, escapes: bool = True) -> Iterator[Query]:
    """Return the statements of one SQL or CSV file, with locations and weights. Raises as `read_workload`.

    escapes: Whether a backslash in a string of SQL escapes the next character, as in Spark.
    """
    text = read_text(path, MAX_BYTES, open_file)
    return _rows(text, str(path)) if path.suffix.lower() == ".csv" else split(text, str(path), escapes=escapes)


def read_text(path: Path, max_bytes: int, opened: Callable[[Path], Opened]) -> str:
    """Return the text of a file of at most `max_bytes` bytes. Raises SpecError ZL002, ZL003 and ZL070.

    opened: Opens the file, and decompresses it if necessary.
    """
    location = Location(str(path))
    try:
        with opened(path) as file:
            data = file.read(max_bytes + 1)
    except TooLargeError as error:
        raise SpecError.of("ZL070", str(error), hint=TOO_LARGE_HINT, location=location) from None
    except (OSError, EOFError, ValueError, zlib.error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise SpecError.of("ZL002", f"cannot read the file: {reason}", location=location) from None
    if len(data) > max_bytes:
        raise SpecError.of("ZL070", f"expected at most {max_bytes:,} bytes", hint="split the file", location=location)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise SpecError.of("ZL003", "expected UTF-8 text", location=location) from None


def _rows(text: str, path: str) -> Iterator[Query]:
    rows = csv.reader(io.StringIO(text, newline=""))
    try:
        header = [field.strip().lower() for field in next(rows, [])]
        if not {"query", "count"} <= set(header):
            raise SpecError.of("ZL072", "expected a header with query and count", location=Location(path, 1, 1))
        query, count = header.index("query"), header.index("count")
        line = rows.line_num + 1
        for row in rows:
            location = Location(path, line, 1)
            if row and len(row) <= max(query, count):
                raise SpecError.of("ZL072", f"expected {len(header)} fields, found {len(row)}", location=location)
            if row:
                weight = checked_weight(row[count], location, "count")
                yield Query(row[query].strip().rstrip(";"), f"{path}:{line}", weight)
            line = rows.line_num + 1
    except csv.Error as error:
        message = f"not CSV, or a field of more than {MAX_STATEMENT:,} characters: {error}"
        raise SpecError.of("ZL072", message, location=Location(path, rows.line_num, 1)) from None
