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
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import unquote

from zlayout.errors import Location, SpecError
from zlayout.predicate.model import (
    And,
    Compare,
    In,
    IsNull,
    Not,
    Operator,
    Or,
    Predicate,
    Reason,
    conjunction,
    starts_with,
)
from zlayout.reading import LimitedStream, TooLargeError, open_file
from zlayout.sql_text import column_name
from zlayout.table.external import instant_of_milliseconds
from zlayout.workload.model import MAX_TEXT, Query, Scan, UnreadableError, Unused

# The filters of scans, as Spark and Iceberg print them in query plans.
#
# Spark prints values without quotes (`EqualTo(l_shipmode,AIR)`). All literals are therefore strings, which are later
# converted to the type of the column. In a list of IN, a string with a comma is read as two values. A filter with
# unbalanced brackets is not used.


NOT_READ = "a pushed filter that cannot be parsed"
NO_BOUNDS = "a pushed filter that min and max cannot decide"
MAX_DEPTH = 60
_OPERATORS: dict[str, Operator] = {
    "EqualTo": "=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
}
_SYMBOLS: dict[str, Operator] = {"=": "=", "<=>": "=", "<=": "<=", ">=": ">=", "<": "<", ">": ">"}
_NAMES = (*_OPERATORS, "EqualNullSafe", "In", "And", "Or", "Not", "IsNull", "IsNotNull", "StringStartsWith")
_OTHERS = ("StringEndsWith", "StringContains", "AlwaysTrue", "AlwaysFalse")
_CALL = re.compile(rf"({'|'.join((*_NAMES, *_OTHERS))})\(")
_BEGIN = re.compile(rf"{_CALL.pattern}|\(|isnull\(|isnotnull\(|NOT |[^\s()#,]+#\d")
_COLUMN = re.compile(r"`((?:[^`]|``)+)`|([^,()`\s]+)")
_ATTRIBUTE = r"([^\s()#]+)#\d+L?"
_PARTITION_LEAF = re.compile(rf"\(?{_ATTRIBUTE} ({'|'.join(_SYMBOLS)}) ([^()]*)\)?")
_PARTITION_NULL = re.compile(rf"(isnull|isnotnull)\({_ATTRIBUTE}\)")
_PARTITION_IN = re.compile(rf"\(?{_ATTRIBUTE} IN \(((?:[^(),]|,(?! ))*)\)+")
_ID = re.compile(r"#\d+L?")
# A function of a column, or arithmetic on one. Null tests and SQL operators, which look like functions, are excluded.
_COMPUTED = re.compile(
    r"\b(?!(?:isnull|isnotnull|in|inset|and|or|not)\b)[A-Za-z_]\w*\([^()]*#\d|#\d+L? [-+*/%] ", re.IGNORECASE
)

Unread = tuple[tuple[str, str], ...]  # the text of each unused filter, and the reason


def pushed_filters(text: str) -> tuple[list[Predicate], Unread]:
    """Parse the pushed filters of a file scan, such as `[IsNotNull(a), EqualTo(a,5)]`.

    Returns:
        The predicates, and the unused filters.
    """
    found, left = [], []
    for item in _split(text.strip()[1:-1], ", ", _BEGIN):
        try:
            found.append(_pushed(item, 0))
        except UnreadableError as error:
            left.append((item, str(error)))
    return found, tuple(left)


def partition_filters(text: str) -> tuple[list[Predicate], Unread]:
    """Parse the partition filters of a file scan, such as `[isnotnull(region#12), (region#12 = east)]`.

    Only null tests, simple comparisons and IN are used.

    Returns:
        The predicates, and the unused filters.
    """
    found: list[Predicate] = []
    left: list[tuple[str, str]] = []
    for item in _split(text.strip()[1:-1], ", ", _BEGIN):
        if null := _PARTITION_NULL.fullmatch(item):
            test = IsNull(null[2])
            found.append(test if null[1] == "isnull" else Not(test))
        elif item.startswith("dynamicpruning"):
            left.append((_ID.sub("", item), Reason.JOIN_FILTER))
        elif len(_ID.findall(item)) > 1:  # another column, or a subquery whose result is not in the log
            left.append((item, NOT_READ))
        elif listed := _PARTITION_IN.fullmatch(item):
            found.append(In(listed[1], tuple(listed[2].split(","))))
        elif leaf := _PARTITION_LEAF.fullmatch(item):
            found.append(Compare(leaf[1], _SYMBOLS[leaf[2]], leaf[3]))
        else:
            left.append((item, NOT_READ))
    return found, tuple(left)


def sql_filters(text: str) -> tuple[list[Predicate], Unread]:
    """Parse the filters of an Iceberg scan, such as `a IS NOT NULL, a >= 5`.

    They are SQL. A date is the number of days and a timestamp the number of microseconds since 1970.

    Returns:
        The predicates, and the unused filters.
    """
    from sqlglot import exp

    from zlayout.workload.statements import parse, parsing, read_query

    if not text.strip():
        return [], ()
    try:
        with parsing(NOT_READ):
            tree = parse(f"SELECT {text}")
    except UnreadableError:
        tree = None
    if not isinstance(tree, exp.Select):
        return [], ((text, NOT_READ),)
    where = " AND ".join(f"({part.sql('spark')})" for part in tree.selects)
    # The filters of a plan do not refer to the current time, because Spark has replaced it by a constant.
    read = read_query(Query(f"SELECT 1 FROM t WHERE {where}", ""), {})
    found = [s.predicate for s in read.scans if s.predicate is not None]
    return found, tuple((u.text, u.reason) for u in read.unused)


def not_pushed(text: str) -> Unread:
    """Return the conditions of a Filter node that Spark does not push to the scan.

    They contain a function of a column, or arithmetic on one.

    Args:
        text: The description of the node, such as `Filter (isnotnull(a#1) AND (length(a#1) = 3))`.
    """
    inner = text.removeprefix("Filter").strip()
    while inner.startswith("(") and next(_outside_brackets(inner), -1) == len(inner) - 1:
        inner = inner[1:-1]
    parts = _split(inner, " AND ")
    if 1 < len(parts) <= MAX_DEPTH:
        return tuple(found for part in parts for found in not_pushed(part))
    return tuple((_ID.sub("", part).strip("()"), Reason.EXPRESSION) for part in parts if _COMPUTED.search(part))


def _pushed(text: str, depth: int) -> Predicate:
    call = _CALL.match(text)
    if call is None or not text.endswith(")") or depth > MAX_DEPTH:
        raise UnreadableError(NOT_READ)
    name, inner = call[1], text[call.end() : -1]
    if name in _OTHERS:
        raise UnreadableError(NO_BOUNDS)
    if name in ("And", "Or"):
        parts = tuple(_pushed(part, depth + 1) for part in _split(inner, ",", _BEGIN))
        if len(parts) != 2:
            raise UnreadableError(NOT_READ)
        return And(parts) if name == "And" else Or(parts)
    if name == "Not":
        return Not(_pushed(inner, depth + 1))
    return _leaf(name, inner)


def _leaf(name: str, inner: str) -> Predicate:
    column = _COLUMN.match(inner)
    at = "" if column is None else column_name(column[0])
    rest = inner[column.end() :] if column else ""
    if at and not rest and name in ("IsNull", "IsNotNull"):
        return IsNull(at) if name == "IsNull" else Not(IsNull(at))
    if not rest.startswith(",") or name in ("IsNull", "IsNotNull"):
        raise UnreadableError(NOT_READ)
    value = rest[1:]
    if name == "In":
        listed = re.fullmatch(r"\s*\[(.*)\]\s*", value, re.DOTALL)
        values = tuple(v for v in listed[1].split(",") if v != "null") if listed else ()
        if not values:
            raise UnreadableError(NOT_READ)
        return In(at, values)
    if name == "StringStartsWith":
        return starts_with(at, value)
    if value == "null":
        return IsNull(at)
    if name == "EqualNullSafe":
        # For a null value, `<=>` is false while `=` is null, so that the negation of `<=>` is true.
        return And((Compare(at, "=", value), Not(IsNull(at))))
    return Compare(at, _OPERATORS[name], value)


def _split(text: str, separator: str, item: re.Pattern[str] = re.compile("")) -> list[str]:
    """Split a text at the separators that are outside of brackets and followed by a match of `item`."""
    if not text:
        return []
    parts, begin = [], 0
    for at in _outside_brackets(text):
        if text.startswith(separator, at) and item.match(text, at + len(separator)):
            parts.append(text[begin:at])
            begin = at + len(separator)
    return [*parts, text[begin:]]


def _outside_brackets(text: str) -> Iterator[int]:
    """Yield the positions of the characters outside of brackets, and of the closing brackets of outermost pairs."""
    depth = 0
    for at, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            yield at


# The events of a log, and the scans of their plans.

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
    executions: Counter[tuple[Found, ...]] = Counter()  # with equal scans
    first: dict[tuple[Found, ...], Query] = {}
    for number, event in _events(path, on_broken):
        nodes = _nodes(event.get("sparkPlanInfo"))
        scans = tuple(found for node, above in nodes if (found := _scan(node, above)) is not None)
        if scans:
            time = instant_of_milliseconds(event.get("time"))
            first.setdefault(scans, Query(_statement(event), f"{path}:{number}", time=time))
            executions[scans] += 1
    used: list[Scan] = []
    unused: list[Unused] = []
    for scans, number in executions.items():
        query = replace(first[scans], weight=float(number))
        for table, predicate, left in scans:
            used.append(Scan(query, table, predicate))
            unused += [Unused(query, text[:MAX_TEXT], reason, frozenset((table,))) for text, reason in left]
    return used, unused, len(executions)


def _statement(event: dict[str, Any]) -> str:
    """Return the SQL of an execution, if the application set it as the description."""
    text = event.get("description")
    return text if isinstance(text, str) and _SQL.match(text) else ""


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
