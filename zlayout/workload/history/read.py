"""Read query histories: JSON (a document, or one object per line), CSV and SQL files, and Spark event logs.

JSON and CSV files and event logs may be compressed (`.gz`).
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from zlayout.errors import Location, SpecError
from zlayout.message_text import quote_value
from zlayout.predicate.parse import to_sql
from zlayout.reading import MAX_METADATA_BYTES, MAX_METADATA_VALUES, parse_json
from zlayout.sql_text import quote_path
from zlayout.workload.event_log import is_event_log, open_unpacked, read_event_log
from zlayout.workload.files import read_queries, read_text
from zlayout.workload.history.records import KNOWN_HISTORIES, Executed, History, Problem, add, flattened, known_history
from zlayout.workload.history.scan_reports import is_scan_report, query_of, select
from zlayout.workload.model import Query

MAX_BYTES = 1024 * 1024 * 1024  # of a file
MAX_UNPACKED_BYTES = 256 * 1024 * 1024  # of a compressed file, after decompression
MAX_LINE_LENGTH = 16 * 1024 * 1024  # characters of a line of JSON
MAX_BROKEN = 100_000  # records of one file that cannot be read; the rest of the file is then left out
MAX_FIELD = 4 * 1024 * 1024  # characters of a field of a CSV file
# The keys of the lists of records in documents that command line tools print.
_START = re.compile(r"\s*[{[]")
_LISTS = ("QueryExecutions", "QueryExecution", "jobs", "res", "rows", "eventPayload")


def read_history(paths: Iterable[Path]) -> History:
    """Read the records of all files. Records that cannot be read become problems of the history.

    Raises:
        SpecError: A file cannot be read, is too large or not UTF-8, or is not a known query history.
    """
    history = History()
    for path in paths:
        if is_event_log(path):
            _event_log(path, history)
        elif path.suffix.lower() == ".sql":
            history.executed += [_executed(query, query.text) for query in read_queries(path)]
        else:
            text = read_text(path, MAX_UNPACKED_BYTES if path.suffix == ".gz" else MAX_BYTES, open_unpacked)
            (_json if _is_json(text) else _csv)(text, str(path), history)
    return history


def _executed(query: Query, text: str) -> Executed:
    path, _, line = query.location.rpartition(":")
    return Executed(text, "spark", Location(path, int(line), 1), query.weight)


def _event_log(path: Path, history: History) -> None:
    """Add each scan as a query on one table, because an event log contains the filters of scans only."""
    broken: list[int] = []
    scans, _, _ = read_event_log(path, broken.append)
    reason = "expected a JSON object on a line of at most 16 MiB"
    history.problems += [Problem(Location(str(path), line, 1), reason) for line in broken]
    for scan in scans:
        table = f"delta.{quote_path([scan.table])}" if "/" in scan.table else quote_path(scan.table.split("."))
        condition = "" if scan.predicate is None else to_sql(scan.predicate)
        history.executed.append(_executed(scan.query, select(table, condition)))


def _is_json(text: str) -> bool:
    """Return whether a text is JSON, or the log of an application whose first line contains a scan report."""
    return _START.match(text) is not None or _report(first := text[:10_000].partition("\n")[0]) != first


def _report(line: str) -> str:
    """Return the JSON behind the class name of a scan report in a line of a log; any other line as it is."""
    before, brace, after = line.partition("{")
    return brace + after if brace and before.strip() and "Report" in before and '"' not in before else line


def _json(text: str, path: str, history: History) -> None:
    try:
        is_document = len(text) <= MAX_METADATA_BYTES and text.count(",") <= MAX_METADATA_VALUES and _START.match(text)
        document = json.loads(text) if is_document else None
    except (ValueError, RecursionError):
        document = None
    if document is not None:
        _records(document, Location(path, 1, 1), history)
        return
    already = len(history.problems)
    for number, (begin, end) in enumerate(_lines(text), 1):
        if len(history.problems) - already > MAX_BROKEN:
            return
        location = Location(path, number, 1)
        if end - begin > MAX_LINE_LENGTH:
            reason = f"expected at most {MAX_LINE_LENGTH:,} characters on a line, found {end - begin:,}"
            history.problems.append(Problem(location, reason))
            continue
        if not (line := text[begin:end]).strip():
            continue
        try:
            _records(parse_json(_report(line)), location, history)
        except ValueError as error:
            history.problems.append(Problem(location, f"not JSON: {str(error)[:80]}"))


def _lines(text: str) -> Iterator[tuple[int, int]]:
    """Yield begin and end of each line. A list of all lines may take much more memory."""
    begin = 0
    while (end := text.find("\n", begin)) >= 0:
        yield begin, end
        begin = end + 1
    yield begin, len(text)


def _records(value: Any, location: Location, history: History) -> None:
    if isinstance(value, list):
        for item in value:
            _records(item, location, history)
        return
    if isinstance(value, Mapping) and (key := next((k for k in _LISTS if isinstance(value.get(k), list | dict)), None)):
        _records(value[key], location, history)
        return
    try:
        if not isinstance(value, Mapping):
            raise ValueError("expected a JSON object")
        if is_scan_report(value):
            query = query_of(value)
            if query is None:
                history.left_out["reports of commits and other operations"] += 1
            else:
                history.executed.append(Executed(query, "spark", location))
            return
        record = flattened(value)
        known = known_history(record)
        if known is None:
            raise ValueError("expected a record of a known query history, found other fields")
        add(record, known, location, history)
    except ValueError as error:
        history.problems.append(Problem(location, str(error)))


def _csv(text: str, path: str, history: History) -> None:
    before = csv.field_size_limit(MAX_FIELD)
    try:
        for location, record in _rows(text, path, history):
            known = known_history(record)
            assert known is not None
            try:
                add(record, known, location, history)
            except ValueError as error:
                history.problems.append(Problem(location, str(error)))
    finally:
        csv.field_size_limit(before)


def _rows(text: str, path: str, history: History) -> Iterator[tuple[Location, dict[str, object]]]:
    rows = csv.reader(io.StringIO(text, newline=""))
    try:
        header = [name.strip().lower() for name in next(rows, [])]
    except csv.Error:  # for example a field that is longer than MAX_FIELD
        header = []
    if known_history(dict.fromkeys(header)) is None:
        titles = ", ".join(known.title for known in KNOWN_HISTORIES)
        hint = f"known histories: {titles}, scan reports of Iceberg and Delta, Spark event logs"
        message = f"expected a header with the fields of a query history, found {quote_value(', '.join(header))}"
        raise SpecError.of("ZL078", message, hint=hint, location=Location(path, 1, 1))
    while True:
        location = Location(path, rows.line_num + 1, 1)
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            history.problems.append(Problem(location, f"not CSV: {error}"))
            return
        if row and len(row) != len(header):
            history.problems.append(Problem(location, f"expected {len(header)} fields, found {len(row)}"))
        elif row:
            yield location, dict(zip(header, row, strict=True))
