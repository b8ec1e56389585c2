"""Read the query histories of engines, and merge their statements to a workload.

`read_history` reads JSON, CSV and SQL files and Spark event logs. `merge` merges statements of one query shape, and
`to_file` writes the result as a SQL workload file.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from sqlglot import exp

from zlayout.errors import Location, SpecError
from zlayout.predicate.model import conjunction
from zlayout.predicate.parse import quote_column, to_sql
from zlayout.predicate.sql_tree import dialect_named
from zlayout.reading import MAX_METADATA_BYTES, MAX_METADATA_VALUES, parse_json
from zlayout.text import quote_path, quote_value, string_literal
from zlayout.workload.event_log import event_logs, is_event_log, open_unpacked, read_event_log
from zlayout.workload.files import read_queries, read_text
from zlayout.workload.model import Dialect, Query, UnreadableError
from zlayout.workload.statements import MAX_STATEMENT, parse, parse_weight, parsing

# The query histories of engines: the fields of a record in which they store text, state and session of a query.
#
# A record is a row of a CSV file or a JSON object. Its fields are named in lower case, those of nested objects by their
# keys joined by dots. KNOWN_HISTORIES lists the known histories, of which "Athena" is the output of
# batch-get-query-execution, and "BigQuery jobs" the job resource of the REST API.


@dataclass(frozen=True, slots=True)
class Executed:
    """One statement that an engine executed, or one scan that it reported.

    Attributes:
        text: The SQL text.
        dialect: The dialect of the text.
        location: The file and the line of the record.
        count: The number of executions.
        catalog, schema: The catalog and the schema of table names without them, from the session; may be empty.
    """

    text: str
    dialect: Dialect
    location: Location
    count: float = 1.0
    catalog: str = ""
    schema: str = ""


@dataclass(frozen=True, slots=True)
class Problem:
    """A record that cannot be read, and the reason."""

    location: Location
    reason: str


@dataclass(slots=True)
class History:
    """The records of history files.

    Attributes:
        executed: The statements and scans.
        problems: The records that cannot be read.
        left_out: The number of ignored records by type, such as failed queries.
        dialect: The dialect of workload files.
        days: The numbers of days that SQL files state; None for each source that states none.
    """

    executed: list[Executed] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    dialect: Dialect = Dialect.SPARK
    days: set[float | None] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class KnownHistory:
    """The fields of one query history. The name of a field that it does not have is empty.

    Attributes:
        title: The name of the history in messages.
        dialect: The dialect of the texts; None for that of workload files.
        text: The field with the SQL text.
        requires: Another field that every record has, by which histories with the same text field are distinguished.
        state: The field with the state of the query.
        done: The states of a query that ended without an error, in lower case.
        failed: A field that only failed queries have.
        catalog, schema: The fields with the catalog and the schema of the session.
        count: The field with the number of executions.
    """

    title: str
    dialect: Dialect | None
    text: str
    requires: str = ""
    state: str = ""
    done: tuple[str, ...] = ("finished",)
    failed: str = ""
    catalog: str = ""
    schema: str = ""
    count: str = ""


KNOWN_HISTORIES = (
    KnownHistory(
        "Trino event listener",
        Dialect.TRINO,
        "metadata.query",
        state="metadata.querystate",
        catalog="context.catalog",
        schema="context.schema",
    ),
    KnownHistory(
        "Athena",
        Dialect.ATHENA,
        "query",
        requires="queryexecutionid",
        state="status.state",
        done=("succeeded",),
        catalog="queryexecutioncontext.catalog",
        schema="queryexecutioncontext.database",
    ),
    KnownHistory(
        "BigQuery jobs",
        Dialect.BIGQUERY,
        "configuration.query.query",
        state="status.state",
        done=("done",),
        failed="status.errorresult.reason",
        catalog="configuration.query.defaultdataset.projectid",
        schema="configuration.query.defaultdataset.datasetid",
    ),
    KnownHistory(
        "BigQuery INFORMATION_SCHEMA.JOBS",
        Dialect.BIGQUERY,
        "query",
        requires="job_id",
        state="state",
        done=("done",),
        failed="error_result.reason",
    ),
    KnownHistory("Databricks system.query.history", Dialect.DATABRICKS, "statement_text", state="execution_status"),
    KnownHistory(
        "Snowflake QUERY_HISTORY",
        Dialect.SNOWFLAKE,
        "query_text",
        state="execution_status",
        done=("success",),
        catalog="database_name",
        schema="schema_name",
    ),
    KnownHistory("Trino system.runtime.queries", Dialect.TRINO, "query", requires="query_id", state="state"),
    KnownHistory(
        "Trino MySQL event listener",
        Dialect.TRINO,
        "query",
        requires="query_state",
        state="query_state",
        catalog="catalog",
        schema="schema",
    ),
    KnownHistory("CSV with query and count", None, "query", requires="count", count="count"),
)

_NOT_ENDED = ("queued", "planning", "starting", "running", "finishing", "pending", "resuming_warehouse")


def known_history(fields: Mapping[str, object]) -> KnownHistory | None:
    """Return the first history whose records have these fields; None if there is none."""
    return next((h for h in KNOWN_HISTORIES if h.text in fields and (not h.requires or h.requires in fields)), None)


def add(record: Mapping[str, object], known: KnownHistory, location: Location, history: History) -> None:
    """Add one record to a history.

    Args:
        record: The values by field.
        known: The history that the record belongs to.
        location: The location of the record.
        history: The history that the record is added to.

    Raises:
        ValueError: The record cannot be read, for the reason in the message.
    """

    def text_of(key: str) -> str:
        return str(record.get(key) or "") if key else ""

    state = text_of(known.state).lower()
    if state in _NOT_ENDED and not text_of(known.failed):
        history.left_out["queries that had not ended"] += 1
    elif text_of(known.failed) or (state and state not in known.done):
        history.left_out["failed or cancelled queries"] += 1
    elif known.state and not state:
        raise ValueError(f"expected a state in {known.state} ({known.title}), found none")
    else:
        text = record.get(known.text)
        if not isinstance(text, str) or not text.strip():
            raise ValueError(f"expected a SQL text in {known.text} ({known.title}), found none")
        count = parse_weight(text_of(known.count) or "1", "count")
        session = text_of(known.catalog), text_of(known.schema)
        dialect = known.dialect or history.dialect
        history.executed.append(Executed(text.strip().rstrip(";"), dialect, location, count, *session))


def flattened(value: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    """Return the values of nested objects by their keys in lower case, joined by dots."""
    found: dict[str, object] = {}
    for key, part in value.items():
        name = f"{prefix}{key}".lower()
        found |= flattened(part, f"{name}.") if isinstance(part, Mapping) else {name: part}
    return found


# Scan reports of Iceberg (metrics reporter) and of Delta Kernel, which become queries on one table.
#
# Iceberg replaces the values of a filter before it reports the filter (`ExpressionUtil.sanitize`), so that only columns
# and operators are known. The values become parameters (`?`).


_ICEBERG = {"eq": "=", "not-eq": "<>", "lt": "<", "lt-eq": "<=", "gt": ">", "gt-eq": ">="}
_SANITIZED = re.compile(r"\((?:hash-[0-9a-f]{1,16}|\d+-digit-\w+|time|(?:date|timestamp)(?:-[\w-]+)?)\)")
_DELTA = re.compile(r"column\((`(?:[^`]|``)+`(?:\.`(?:[^`]|``)+`)*)\)")
_COMPARED = re.compile(r"\((`[^()]*`) (=|<=|>=|<|>) ((?:[^()`]|'[^']*')*)\)")
MAX_DEPTH = 60
MAX_COLUMNS = 3600  # in one filter of Delta Kernel


def is_scan_report(record: Mapping[str, Any]) -> bool:
    """Return whether a JSON object is a metrics report of Iceberg or Delta Kernel, of a scan or another operation."""
    return "report-type" in record or ("table-name" in record and "snapshot-id" in record) or "reportUUID" in record


def query_of(record: Mapping[str, Any]) -> str | None:
    """Return the scan of a report as SQL; None for a report of another operation.

    Raises:
        ValueError: The report cannot be read, for the reason in the message.
    """
    if record.get("report-type", "scan-report") != "scan-report" or record.get("operationType", "Scan") != "Scan":
        return None
    if "table-name" in record and "filter" not in record:
        return None  # a report of a commit
    if "tablePath" in record:
        location, found = record["tablePath"], record.get("filter")
        if not isinstance(location, str) or not (found is None or isinstance(found, str)):
            raise ValueError("expected tablePath and filter as strings in a scan report of Delta")
        return select(f"delta.{quote_path([location])}", _kernel(found) if found else "")
    name = record.get("table-name")
    if not isinstance(name, str) or not name:
        raise ValueError("expected a table-name in a scan report of Iceberg")
    condition = _iceberg(record["filter"], 0)
    return select(quote_path(name.split(".")), "" if condition == "TRUE" else condition)


def select(table: str, condition: str) -> str:
    """Return the SQL of a query on one table. condition: SQL; may be empty."""
    return f"SELECT * FROM {table}" + (f" WHERE {condition}" if condition else "")


def _iceberg(node: Any, depth: int) -> str:
    if depth > MAX_DEPTH:
        raise ValueError(f"expected a filter of at most {MAX_DEPTH} levels")
    if isinstance(node, bool):
        return "TRUE" if node else "FALSE"
    if not isinstance(node, dict):
        raise ValueError("expected an expression of Iceberg in the filter")
    kind = node.get("type")
    if kind in ("and", "or"):
        left, right = _iceberg(node.get("left"), depth + 1), _iceberg(node.get("right"), depth + 1)
        return f"({left} {kind.upper()} {right})"
    if kind == "not":
        return f"NOT ({_iceberg(node.get('child'), depth + 1)})"
    if kind == "literal":
        return "TRUE" if node.get("value") else "FALSE"
    term = _term(node.get("term"))
    if kind in ("is-null", "not-null"):
        return f"{term} IS {'NOT ' if kind == 'not-null' else ''}NULL"
    if kind in ("is-nan", "not-nan"):
        return f"{'NOT ' if kind == 'not-nan' else ''}isnan({term})"
    if kind in ("in", "not-in") and isinstance(node.get("values"), list) and node["values"]:
        return f"{term} {'NOT ' if kind == 'not-in' else ''}IN ({', '.join(map(_value, node['values']))})"
    if kind in _ICEBERG and "value" in node:
        return f"{term} {_ICEBERG[kind]} {_value(node['value'])}"
    if kind in ("starts-with", "not-starts-with") and isinstance(node.get("value"), str):
        return f"{'NOT ' if kind[0] == 'n' else ''}startswith({term}, {_value(node['value'])})"
    raise ValueError(f"unknown expression {str(kind)[:40]!r} in the filter")


def _term(node: Any) -> str:
    if isinstance(node, str) and node:
        return quote_column(node)
    if isinstance(node, dict) and node.get("type") == "reference":
        return _term(node.get("term"))
    if isinstance(node, dict) and node.get("type") == "transform" and isinstance(node.get("transform"), str):
        return f"{re.sub(r'[^a-z_]', '_', node['transform'])}({_term(node.get('term'))})"
    raise ValueError("expected a column in the filter")


def _value(value: Any) -> str:
    if isinstance(value, dict) and value.get("type") == "literal":
        value = value.get("value")
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return "?" if _SANITIZED.fullmatch(value) else string_literal(value)
    raise ValueError("expected a value in the filter")


def _kernel(text: str) -> str:
    """Convert a filter as Delta Kernel prints it to SQL, with each value as a string."""
    columns: Sequence[str] = _DELTA.findall(text)
    if "?" in text or len(columns) > MAX_COLUMNS:
        raise ValueError("the filter cannot be read")
    replaced = _DELTA.sub(lambda found: found[1], text)
    return _COMPARED.sub(lambda found: f"({found[1]} {found[2]} {_plain(found[3])})", replaced)


def _plain(value: str) -> str:
    """Return a printed column as it is, and a printed value as a string, which is later converted to its type."""
    return value if value.startswith("`") else string_literal(value)


# Files of query histories: JSON (a document, or one object per line), CSV and SQL files, and Spark event logs. JSON and
# CSV files and event logs may be compressed (`.gz`).


MAX_BYTES = 1024 * 1024 * 1024  # of a file
MAX_UNPACKED_BYTES = 256 * 1024 * 1024  # of a compressed file, after decompression
MAX_LINE_LENGTH = 16 * 1024 * 1024  # characters of a line of JSON
MAX_BROKEN = 100_000  # records of one file that cannot be read; the rest of the file is then left out
MAX_FIELD = 4 * 1024 * 1024  # characters of a field of a CSV file
_START = re.compile(r"\s*[{[]")
# The keys of the lists of records in documents that command line tools print.
_LISTS = ("QueryExecutions", "QueryExecution", "jobs", "res", "rows", "eventPayload")


def read_history(paths: Iterable[Path], dialect: Dialect = Dialect.SPARK) -> History:
    """Read the records of all files. Records that cannot be read become problems of the history.

    dialect: The dialect of workload files.

    Raises:
        SpecError: A file cannot be read, is too large or not UTF-8, or is not a known query history.
    """
    history = History(dialect=dialect)
    for path, folder in ((one, given) for given in paths for one in event_logs(given)):
        days: set[float | None] = {None}
        if path != folder:
            _log_of_folder(path, history)
        elif is_event_log(path):
            _event_log(path, history)
        elif path.suffix.lower() == ".sql":
            queries = list(read_queries(path, escapes="\\" in dialect_named(dialect).tokenizer_class.STRING_ESCAPES))
            history.executed += [_executed(query, query.text, dialect) for query in queries]
            days = {query.days for query in queries}
        else:
            text = read_text(path, MAX_UNPACKED_BYTES if path.suffix == ".gz" else MAX_BYTES, open_unpacked)
            (_json if _is_json(text) else _csv)(text, str(path), history)
        history.days |= days
    return history


def _executed(query: Query, text: str, dialect: Dialect = Dialect.SPARK) -> Executed:
    path, _, line = query.location.rpartition(":")
    return Executed(text, dialect, Location(path, int(line), 1), query.weight)


def _event_log(path: Path, history: History) -> None:
    """Add each scan as a query on one table, because an event log contains plans and no statements."""
    broken: list[int] = []
    log = read_event_log(path, broken.append)
    history.left_out.update({kind.value: number for kind, number in log.left_out.items()})
    history.left_out.update(f"conditions of scans: {unused.reason}" for unused in log.unused)
    reason = "expected a JSON object on a line of at most 16 MiB"
    history.problems += [Problem(Location(str(path), line, 1), reason) for line in broken]
    for scan in log.scans:
        table = f"delta.{quote_path([scan.table])}" if "/" in scan.table else quote_path(scan.table.split("."))
        whole = conjunction([*([] if scan.predicate is None else [scan.predicate]), *scan.through])
        condition = "" if whole is None else to_sql(whole)
        history.executed.append(_executed(scan.query, select(table, condition)))


def _log_of_folder(path: Path, history: History) -> None:
    """Add an event log of a folder. If it cannot be read, the others are."""
    try:
        _event_log(path, history)
    except SpecError as error:
        (found,) = error.diagnostics
        history.problems.append(Problem(found.location or Location(str(path)), found.message))


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
                history.executed.append(Executed(query, Dialect.SPARK, location))
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
    rows = csv.reader(io.StringIO(text, newline=""))
    try:
        header = [name.strip().lower() for name in next(rows, [])]
    except csv.Error:  # for example a field that is longer than MAX_FIELD
        header = []
    try:
        known = known_history(dict.fromkeys(header))
        if known is None:
            titles = ", ".join(known.title for known in KNOWN_HISTORIES)
            hint = f"known histories: {titles}, scan reports of Iceberg and Delta, Spark event logs"
            message = f"expected a header with the fields of a query history, found {quote_value(', '.join(header))}"
            raise SpecError.of("ZL078", message, hint=hint, location=Location(path, 1, 1))
        while True:
            location = Location(path, rows.line_num + 1, 1)
            try:
                row = next(rows)
                if row and len(row) != len(header):
                    raise ValueError(f"expected {len(header)} fields, found {len(row)}")
                if row:
                    add(dict(zip(header, row, strict=True)), known, location, history)
            except StopIteration:
                return
            except csv.Error as error:
                history.problems.append(Problem(location, f"not CSV: {error}"))
                return
            except ValueError as error:
                history.problems.append(Problem(location, str(error)))
    finally:
        csv.field_size_limit(before)


# Statements merged by query shape. Statements of one shape differ only in their constants.
#
# Constants are kept, binned or omitted. If they are binned, a few statements of each shape are kept: those at quantiles
# of the constants, each of which represents an equal share of the executions. If they are omitted, each constant
# becomes a parameter (`?`).


BINS = 10
# The constants of a statement in their order, in a form that can be sorted: a number with an empty string, or 0 with
# another constant as a string.
Constants = tuple[tuple[float, str], ...]


class Values(StrEnum):
    """What is done with the constants of statements."""

    KEEP = "keep"
    BIN = "bin"
    OMIT = "omit"


Merged = tuple[str, float]  # a statement of a workload in Spark SQL, and the number of its executions


@dataclass(frozen=True, slots=True)
class Shaped:
    """A statement in Spark SQL, its query shape, and its constants in the order of the shape."""

    shape: str
    constants: Constants
    text: str


# Constants that mean the same in every dialect and are written the same in Spark SQL: strings of printable ASCII
# without quotes and backslashes, and plain numbers. Quoted names are matched first, so that what they contain is none.
_CONSTANT = re.compile(r"`[^`]*`|\"[^\"]*\"|'([ !#-&(-\[\]-~]*)'|(?<![\w.$@:])(\d+(?:\.\d+)?)(?![\w.])")
_NO_TEMPLATE = re.compile(r"--|/\*|#|\\|''|\$\$")  # comments, escapes and other ways to write strings
_STAND_IN = re.compile(r"zq(\d{5})zq|77(\d{5})77(?:\.5)?")
MAX_CONSTANTS = 10_000
CHECKED = 2  # statements of each template that are parsed, too
PROGRESS_STEP = 1000


@dataclass(slots=True)
class _Template:
    """What the parser says of a statement whose constants were replaced by stand-ins."""

    shape: str = ""  # the query shape; empty if the statement is no query on a table
    pieces: tuple[str, ...] = ()  # the text in Spark SQL: every other piece is the number of a constant
    order: tuple[int, ...] = ()  # the numbers of the constants in the order of the shape
    error: str = ""  # why the statement cannot be parsed; empty if it can
    checked: int = 0  # the number of statements that were parsed, too

    def filled(self, constants: Sequence[tuple[str, str]]) -> Shaped | None:
        """Return the statement with these constants, of which one of string and number is empty."""
        if self.error:
            raise UnreadableError(self.error)
        if not self.shape:
            return None
        texts = [string or number for string, number in constants]
        parts = [texts[int(piece)] if at % 2 else piece for at, piece in enumerate(self.pieces)]
        values = (constants[n] for n in self.order)
        ordered = tuple((float(number), "") if number else (0.0, string) for string, number in values)
        return Shaped(self.shape, ordered, "".join(parts))


class Templates:
    """Parses statements. Those that differ only in constants from earlier ones are not parsed again.

    sqlglot takes milliseconds for a statement, and a history has hundreds of thousands, most of them from a few
    templates of an application.
    """

    def __init__(self, catalogs: frozenset[str]) -> None:
        self._catalogs = catalogs
        self._templates: dict[tuple[str, ...], _Template | None] = {}

    def shaped(self, one: Executed) -> Shaped | None:
        """Return the statement with its shape; None if it is no query on a table. Raises UnreadableError."""
        found = self._split(one.text)
        if found is None:
            return self._parsed(one)
        rest, constants = found
        key = (one.dialect, one.catalog, one.schema, rest)
        if key not in self._templates:
            self._templates[key] = self._template(one, rest)
        template = self._templates[key]
        if template is None:
            return self._parsed(one)
        if template.checked < CHECKED:
            return self._checked(one, key, template, constants)
        return template.filled(constants)

    def _checked(
        self, one: Executed, key: tuple[str, ...], template: _Template, constants: Sequence[tuple[str, str]]
    ) -> Shaped | None:
        """Parse the statement, and give up its template if that would give something else."""
        template.checked += 1
        try:
            parsed = self._parsed(one)
        except UnreadableError:
            if not template.error:
                self._templates[key] = None
            raise
        if template.error or template.filled(constants) != parsed:
            self._templates[key] = None  # the meaning of a constant depends on its value, as in a format of dates
        return parsed

    @staticmethod
    def _split(text: str) -> tuple[str, list[tuple[str, str]]] | None:
        """Return the text with a mark for each constant, and the constants; None if it must be parsed."""
        if len(text) > MAX_STATEMENT or _NO_TEMPLATE.search(text) or "\0" in text:
            return None
        rest, constants, begin = [], [], 0
        for found in _CONSTANT.finditer(text):
            string, number = found.groups("")
            if found[0][0] in '`"':
                continue
            start = found.start()
            has_prefix = bool(string) and start > 0 and (text[start - 1].isalnum() or text[start - 1] in "_&")
            if has_prefix or not (string or number):  # as in x'1F', or an empty string
                return None
            rest += [text[begin:start], "\0s" if string else "\0d" if "." in number else "\0i"]
            constants.append((string, number))
            begin = found.end()
        return ("".join((*rest, text[begin:])), constants) if len(constants) < MAX_CONSTANTS else None

    def _template(self, one: Executed, rest: str) -> _Template | None:
        text, *pieces = rest.split("\0")
        for at, piece in enumerate(pieces):
            text += (
                f"'zq{at:05}zq'" if piece[0] == "s" else f"77{at:05}77" + piece[0].replace("i", "").replace("d", ".5")
            )
            text += piece[1:]
        try:
            parsed = self._parsed(replace(one, text=text))
        except UnreadableError as error:
            return _Template(error=str(error))
        if parsed is None:
            return _Template()
        order = [_STAND_IN.fullmatch(string or f"{value:.1f}".removesuffix(".0")) for value, string in parsed.constants]
        if not all(order) or len(order) != len(pieces):
            return None
        numbers = tuple(int(each[1] or each[2]) for each in order if each)
        split = _STAND_IN.split(parsed.text)
        kept = tuple(split[at] if at % 3 == 0 else split[at] or split[at + 1] for at in range(len(split)) if at % 3 < 2)
        return _Template(parsed.shape, kept, numbers)

    def _parsed(self, one: Executed) -> Shaped | None:
        with parsing(f"a statement that cannot be parsed as {one.dialect} SQL"):
            tree = parse(one.text, one.dialect)
            if not isinstance(tree, exp.Query) or tree.find(exp.Table) is None:
                return None
            _qualify(tree, one, self._catalogs)
            text = _sql(tree)
            constants = _omit_constants(tree)
            return Shaped(_sql(tree), constants, text)


def merge(
    history: History,
    catalogs: frozenset[str],
    values: Values,
    bins: int = BINS,
    on_progress: Callable[[int, int], None] | None = None,
) -> tuple[Merged, ...]:
    """Merge the statements of a history by query shape. Statements that cannot be parsed become its problems.

    Args:
        history: The history.
        catalogs: The names of the catalogs of the project. Other names of catalogs are removed, because other engines
            name catalogs differently. A table is then found by schema and name.
        values: What is done with constants.
        bins: With `Values.BIN`, the maximum number of statements of one shape.
        on_progress: Called with the number of statements that were read, and the number of all.

    Returns:
        The statements, the most frequent first.
    """
    shapes: dict[str, dict[tuple[Constants, str], float]] = defaultdict(lambda: defaultdict(float))
    templates = Templates(catalogs)
    for number, one in enumerate(history.executed):
        if on_progress is not None and number % PROGRESS_STEP == 0:
            on_progress(number, len(history.executed))
        try:
            found = templates.shaped(one)
        except UnreadableError as error:
            history.problems.append(Problem(one.location, str(error)))
            continue
        if found is None:
            history.left_out["statements that read no table by a query"] += 1
        else:
            shapes[found.shape][found.constants, found.text] += one.count
    merged = (m for shape, found in shapes.items() for m in _statements(shape, found, values, bins))
    return tuple(sorted(merged, key=lambda one: (-one[1], one[0])))


def _statements(
    shape: str, found: Mapping[tuple[Constants, str], float], values: Values, bins: int
) -> Iterator[Merged]:
    """found: the number of executions, by the constants and the text of a statement."""
    if values is Values.OMIT:
        yield shape, sum(found.values())
    elif values is Values.KEEP or len(found) <= bins:
        yield from ((text, count) for (_, text), count in found.items())
    else:
        yield from _binned(sorted((constants, text, count) for (constants, text), count in found.items()), bins)


def _binned(found: Sequence[tuple[Constants, str, float]], bins: int) -> Iterator[Merged]:
    """Yield the statement in the middle of each of `bins` equal shares of the executions. found: in sorted order."""
    total = sum(count for _, _, count in found)
    chosen: dict[str, float] = defaultdict(float)
    end, at = 0.0, 0
    for _, text, count in found:
        end += count
        while at < bins and (at + 0.5) * total / bins <= end:
            chosen[text] += total / bins
            at += 1
    yield from chosen.items()


def _qualify(tree: exp.Query, one: Executed, catalogs: frozenset[str]) -> None:
    ctes = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    for table in tree.find_all(exp.Table):
        if not isinstance(table.this, exp.Identifier) or (not table.db and table.name.lower() in ctes):
            continue
        if not table.db and one.schema:
            table.set("db", exp.to_identifier(one.schema))
            if one.catalog in catalogs:
                table.set("catalog", exp.to_identifier(one.catalog))
        elif table.catalog and table.catalog not in catalogs:
            table.set("catalog", None)


def _omit_constants(tree: exp.Query) -> Constants:
    found: list[tuple[float, str]] = []
    for node in list(tree.find_all(exp.Literal, exp.Boolean)):
        is_number = isinstance(node, exp.Literal) and not node.is_string
        try:
            found.append((float(node.this), "") if is_number else (0.0, str(node.this)))
        except ValueError:
            found.append((0.0, str(node.this)))
        node.replace(exp.Placeholder())
    for values in list(tree.find_all(exp.In)):
        parameters = values.expressions
        if len(parameters) > 1 and all(isinstance(p, exp.Placeholder) for p in parameters):
            values.set("expressions", parameters[:1])  # Lists of any length have the same shape.
    return tuple(found)


def _sql(tree: exp.Query) -> str:
    text = tree.sql(dialect="spark", comments=False)
    return " ".join(text.split("\n"))


def to_file(merged: Iterable[Merged], days: float | None = None) -> str:
    """Return the text of a SQL workload file: one statement per line, each after a comment with its weight.

    days: The number of days of the history, which becomes the first comment; None if it is unknown.
    """
    first = "" if days is None else f"-- days: {days:g}\n"
    return first + "".join(f"-- weight: {count:.12g}\n{text};\n" for text, count in merged)
