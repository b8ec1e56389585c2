"""Read history files: JSON objects (one per line, or a document), CSV files and Spark event logs, also compressed."""

from __future__ import annotations

import csv
import gzip
import io
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from zlayout.errors import Location, SpecError
from zlayout.predicate.parse import to_sql
from zlayout.reading import open_file, parse_json
from zlayout.sql_text import quote_path
from zlayout.workload.event_log import is_event_log, read_event_log
from zlayout.workload.files import read_queries
from zlayout.workload.history.model import Executed, History, Problem
from zlayout.workload.history.scan_reports import is_scan_report, query_of
from zlayout.workload.history.sources import SOURCES, add, flattened, source_of

MAX_BYTES = 1024 * 1024 * 1024
MAX_FIELD = 4 * 1024 * 1024
# Lists of records in the documents of command line tools.
_LISTS = ("QueryExecutions", "QueryExecution", "jobs", "res", "rows", "eventPayload")


def read_history(paths: Iterable[Path]) -> History:
    """Read the records of all files.

    Raises:
        SpecError: ZL002 (a file cannot be read), ZL003 (no UTF-8 text), ZL070 (too large), ZL078 (an unknown history).
    """
    history = History()
    for path in paths:
        if is_event_log(path):
            _event_log(path, history)
        elif path.suffix.lower() == ".sql":
            for query in read_queries(path):
                name, _, line = query.location.rpartition(":")
                history.executed.append(Executed(query.text, "spark", Location(name, int(line), 1), query.weight))
        else:
            text = _text(path)
            (_json if _is_json(text) else _csv)(text, str(path), history)
    return history


def _event_log(path: Path, history: History) -> None:
    """Add the scans of an event log. Each is a query on one table, because the log has the filters of scans."""
    broken: list[int] = []
    scans, _, _ = read_event_log(path, broken.append)
    history.problems += [Problem(Location(str(path), line, 1), "not a JSON object") for line in broken]
    for scan in scans:
        name, _, line = scan.query.location.rpartition(":")
        named = "/" not in scan.table
        table = quote_path(scan.table.split(".")) if named else f"delta.{quote_path([scan.table])}"
        where = f" WHERE {to_sql(scan.predicate)}" if scan.predicate is not None else ""
        history.executed.append(
            Executed(f"SELECT * FROM {table}{where}", "spark", Location(name, int(line), 1), scan.query.weight)
        )


def _text(path: Path) -> str:
    location = Location(str(path))
    try:
        with open_file(path) as file:
            packed = gzip.GzipFile(fileobj=file) if path.suffix == ".gz" else file
            data = packed.read(MAX_BYTES + 1)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise SpecError.of("ZL002", f"cannot read the file: {reason}", location=location) from None
    if len(data) > MAX_BYTES:
        raise SpecError.of("ZL070", f"expected at most {MAX_BYTES:,} bytes", hint="split the file", location=location)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise SpecError.of("ZL003", "expected UTF-8 text", location=location) from None


def _is_json(text: str) -> bool:
    return text.lstrip()[:1] in ("{", "[") or _report(first := text[:10_000].partition("\n")[0]) != first


def _report(line: str) -> str:
    """Return the JSON of a line; of a log line, that of the report behind the name of its class."""
    before, brace, after = line.partition("{")
    return brace + after if brace and before.strip() and "Report" in before and '"' not in before else line


def _json(text: str, path: str, history: History) -> None:
    try:
        document = json.loads(text) if text.lstrip()[:1] in ("{", "[") else None
    except (ValueError, RecursionError):
        document = None
    if document is not None:
        _records(document, Location(path, 1, 1), history)
        return
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        location = Location(path, number, 1)
        try:
            _records(parse_json(_report(line)), location, history)
        except ValueError as error:
            history.problems.append(Problem(location, f"not JSON: {str(error)[:80]}"))


def _records(value: Any, location: Location, history: History) -> None:
    """Add a record, or all records of a list or of a document with a list."""
    if isinstance(value, list):
        for item in value:
            _records(item, location, history)
        return None
    if isinstance(value, Mapping) and (key := next((k for k in _LISTS if isinstance(value.get(k), list | dict)), None)):
        return _records(value[key], location, history)
    try:
        if not isinstance(value, Mapping):
            raise ValueError("expected a JSON object")
        if is_scan_report(value):
            query = query_of(value)
            if query is None:
                return history.leave_out("reports of commits and other operations")
            history.executed.append(Executed(query, "spark", location))
            return None
        record = flattened(value)
        source = source_of(record)
        if source is None:
            raise ValueError("expected a record of a known query history, found other fields")
        add(record, source, location, history)
    except ValueError as error:
        history.problems.append(Problem(location, str(error)))


def _csv(text: str, path: str, history: History) -> None:
    before = csv.field_size_limit(MAX_FIELD)
    try:
        for location, record in _rows(text, path, history):
            source = source_of(record)
            assert source is not None
            try:
                add(record, source, location, history)
            except ValueError as error:
                history.problems.append(Problem(location, str(error)))
    finally:
        csv.field_size_limit(before)


def _rows(text: str, path: str, history: History) -> Iterator[tuple[Location, dict[str, object]]]:
    rows = csv.reader(io.StringIO(text, newline=""))
    header = [name.strip().lower() for name in next(rows, [])]
    if source_of(dict.fromkeys(header)) is None:
        known = ", ".join(source.title for source in SOURCES)
        hint = f"known are {known}, scan reports of Iceberg and Delta, and Spark event logs"
        message = f"not a known query history: its first line has no field of one ({', '.join(header)[:80]!r})"
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
