"""Workload files: `.sql` with statements, `.csv` with the columns query and count, and Spark event logs."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from zlayout.errors import Location, SpecError
from zlayout.reading import read_at_most
from zlayout.workload.event_log import is_event_log, read_event_log
from zlayout.workload.model import Query, Scan, Unused, Workload
from zlayout.workload.statements import MAX_STATEMENT, read_query, split, weight_of

MAX_BYTES = 16 * 1024 * 1024
MAX_QUERIES = 10_000


def read_workload(paths: Iterable[Path], columns: Mapping[str, Sequence[str]] | None = None) -> Workload:
    """The scans of all queries in the files.

    columns: the column names of tables, by name as written in the queries or by its last part; needed where a query
    of several tables does not say whose a column is. Raises SpecError: ZL002 a file that cannot be read, ZL003 not
    UTF-8, ZL070 too large or too many queries (those of logs do not count), ZL071 a bad weight, ZL072 a CSV without
    query and count.
    """
    known = {name.lower(): names for name, names in (columns or {}).items()}
    scans: list[Scan] = []
    unused: list[Unused] = []
    written = ran = 0  # queries in files that somebody wrote, and different ones in logs, which may be any number
    for path in paths:
        if is_event_log(path):
            logged, unread, different = read_event_log(path)
            scans, unused, ran = [*scans, *logged], [*unused, *unread], ran + different
            continue
        for query in read_queries(path):
            written += 1
            if written > MAX_QUERIES:
                raise SpecError.of("ZL070", f"expected at most {MAX_QUERIES} queries", location=Location(str(path)))
            found, left = read_query(query, known)
            scans += found
            unused += left
    return Workload(tuple(scans), tuple(unused), written + ran)


def read_queries(path: Path) -> Iterator[Query]:
    """The statements of one file, with places and weights. Raises as `read_workload`."""
    text = _text(path)
    return _rows(text, str(path)) if path.suffix.lower() == ".csv" else split(text, str(path))


def _text(path: Path) -> str:
    place = Location(str(path))
    try:
        data = read_at_most(path, MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise SpecError.of("ZL002", f"cannot read the file: {reason}", location=place) from None
    if len(data) > MAX_BYTES:
        raise SpecError.of("ZL070", f"expected at most {MAX_BYTES} bytes", hint="split the file", location=place)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise SpecError.of("ZL003", "expected UTF-8 text", location=place) from None


def _rows(text: str, path: str) -> Iterator[Query]:
    rows = csv.reader(io.StringIO(text, newline=""))
    try:
        header = [cell.strip().lower() for cell in next(rows, [])]
        if not {"query", "count"} <= set(header):
            raise SpecError.of("ZL072", "expected a header with query and count", location=Location(path, 1, 1))
        query, count = header.index("query"), header.index("count")
        line = rows.line_num + 1
        for row in rows:
            place = Location(path, line, 1)
            if row and len(row) <= max(query, count):
                raise SpecError.of("ZL072", f"expected {len(header)} cells, found {len(row)}", location=place)
            if row:
                yield Query(row[query].strip().rstrip(";"), f"{path}:{line}", weight_of(row[count], place))
            line = rows.line_num + 1
    except csv.Error as error:
        message = f"not CSV, or a cell of more than {MAX_STATEMENT:,} characters: {error}"
        raise SpecError.of("ZL072", message, location=Location(path, rows.line_num, 1)) from None
