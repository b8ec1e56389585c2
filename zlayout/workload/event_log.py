"""Read Spark event logs as a workload: the filters of the scans of each executed query.

Each `SparkListenerSQLExecutionStart` event has the physical plan as a tree of nodes (`sparkPlanInfo`). The metadata of
a Delta scan states its filters (PushedFilters, PartitionFilters) and the storage location of its table. The one-line
description of an Iceberg scan states its filters and the name of its table. Executions with equal scans are one query,
whose weight is their number. Executions of statements that write are left out, with the executions that they start.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import struct
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import unquote

from zlayout.errors import Location, SpecError
from zlayout.predicate.model import (
    And,
    Compare,
    In,
    InKeys,
    IsNull,
    Keys,
    Not,
    Operator,
    Or,
    Predicate,
    Reason,
    conjunction,
    starts_with,
)
from zlayout.predicate.parse import to_sql
from zlayout.reading import LimitedStream, SupportsRead, TooLargeError, open_file
from zlayout.table.external import instant_of_milliseconds
from zlayout.text import column_name
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
_SUBQUERY = re.compile(r"\b(?:Scalar)?[Ss]ubquery#\d")
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
    from zlayout.workload.statements import read_query

    if not text.strip():
        return [], ()
    conditions, left = _as_sql(text), list[tuple[str, str]]()
    if conditions is None:
        # Spark prints names and values as they are: `order status = 'open'` is no SQL. Others that do not begin within
        # quotes are used.
        conditions, quotes = [], 0
        for part in _split(text, ", "):
            found_in = None if quotes % 2 or part.count("'") % 2 else _as_sql(part)
            quotes += part.count("'")
            conditions += found_in or ()
            left += [(part, NOT_READ)] if found_in is None else []
    if not conditions:
        return [], tuple(left)
    where = " AND ".join(f"({condition})" for condition in conditions)
    # The filters of a plan do not refer to the current time, because Spark has replaced it by a constant.
    read = read_query(Query(f"SELECT 1 FROM t WHERE {where}", ""), {})
    found = [s.predicate for s in read.scans if s.predicate is not None]
    return found, (*left, *((u.text, u.reason) for u in read.unused))


def _as_sql(text: str) -> list[str] | None:
    """Return the conditions of a list as SQL; None if the list cannot be parsed."""
    from sqlglot import exp

    from zlayout.workload.statements import parse, parsing

    try:
        with parsing(NOT_READ):
            tree = parse(f"SELECT {text}")
    except UnreadableError:
        return None
    return [part.sql("spark") for part in tree.selects] if isinstance(tree, exp.Select) else None


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
    if _SUBQUERY.search(value):  # its result is not in the log
        raise UnreadableError(NOT_READ)
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
MAX_BLOCK_BYTES = 4 * 1024 * 1024  # of LZ4 and Snappy, after decompression; Spark writes blocks of 32 KiB
LZ4_MAGIC, SNAPPY_MAGIC = b"LZ4Block", b"\x82SNAPPY\0"
LZ4_HEADER = struct.Struct("<8sBiiI")  # magic, token, stored bytes, bytes after decompression, checksum
LZ4_FRAME = bytes.fromhex("04224d18 60 70 73")  # the header of a frame of independent blocks of at most 4 MiB
TOO_LARGE_HINT = "split the file, or decompress it"
START = "SparkListenerSQLExecutionStart"
_FIRST = re.compile(rb'\{"Event":"(?:SparkListener|org\.apache\.spark)')
_PART = re.compile(r"events_(\d{1,9})(?:_|$)")  # the name of a file of a rolling log
_LOCATION = re.compile(r"(?:PreparedDelta|Tahoe|CdcAdd|DeltaParquet)\w{0,40}FileIndex\(\d+ paths\)\[([^,\]]+)")
# Parts of the description of an Iceberg scan. Each is searched after the previous one.
_TABLE = re.compile(r"IcebergScan\(table=([^\s,]+),|^BatchScan ([^\s\[]+)\[")
_FILTERS = re.compile(r"\bfilters=")
_END = re.compile(r", (?:runtimeFilters|RuntimeFilters|groupedBy)")

_SQL = re.compile(r"\s*(?:--[^\n]*\n\s*)*(?:SELECT|WITH|INSERT|CREATE|MERGE|UPDATE|DELETE|TABLE|FROM)\b", re.IGNORECASE)
_TRANSPARENT = ("WholeStageCodegen", "InputAdapter", "ColumnarToRow", "Project", "AdaptiveSparkPlan", "Photon")


class LeftOut(StrEnum):
    """The kinds of statements whose scans are left out, because they are not those of a query."""

    CHANGE = "MERGE, UPDATE and DELETE statements"
    WRITE = "INSERT, CREATE TABLE AS SELECT and other statements that write tables or files"
    COMMAND = "OPTIMIZE and other commands"
    UNKNOWN = "statements of which the log contains only a part"


# The beginnings of the names of the root nodes of plans that write. Spark runs each other command as "Execute ...".
_WRITERS: dict[str, LeftOut] = {
    "Execute MergeInto": LeftOut.CHANGE,
    "Execute Update": LeftOut.CHANGE,
    "Execute Delete": LeftOut.CHANGE,
    "ReplaceData": LeftOut.CHANGE,
    "WriteDelta": LeftOut.CHANGE,
    "DeleteFrom": LeftOut.CHANGE,
    "Execute Insert": LeftOut.WRITE,
    "Execute Save": LeftOut.WRITE,
    "Execute Create": LeftOut.WRITE,
    "AppendData": LeftOut.WRITE,
    "Overwrite": LeftOut.WRITE,
    "CreateTableAsSelect": LeftOut.WRITE,
    "ReplaceTableAsSelect": LeftOut.WRITE,
    "AtomicCreateTableAsSelect": LeftOut.WRITE,
    "AtomicReplaceTableAsSelect": LeftOut.WRITE,
    "WriteToDataSourceV2": LeftOut.WRITE,
    "Execute ": LeftOut.COMMAND,
    "Call": LeftOut.COMMAND,
}

# The description of a write that only runs its query. Spark 3.5 names a function before it.
_DISCARDS = re.compile(r"\w+ (?:[^,\s]{1,300}, )?(?:[a-z.]{1,100}\.)?NoopWrite\b")

# A scan: its table, its predicate, the text and the reason of each unused filter, and the conditions through joins.
Found = tuple[str, Predicate | None, Unread, tuple[InKeys, ...]]
# The scans of an execution, the number of its statement, and what its own plan is.
_Key = tuple[tuple[Found, ...], int | None, LeftOut | None]


def is_event_log(path: Path) -> bool:
    """Return whether a path is an event log of Spark: a file, or the folder of a rolling log.

    Each file that is compressed by a codec of Spark counts as one, because zlayout reads no other files with them.
    """
    try:
        part = _parts(path)[0]
        with open_file(part) as file:
            begin = file.read(64)
        if part.suffix == ".gz":
            with open_unpacked(part) as stream:
                begin = stream.read(64)
        return _FIRST.match(begin) is not None or begin.startswith(tuple(_CODECS))
    except (OSError, ValueError, EOFError, IndexError, zlib.error):
        return False


def event_logs(path: Path) -> list[Path]:
    """Return the event logs of a folder, such as `spark.eventLog.dir`, in the order of their names.

    A path that is itself an event log, no folder, or a folder without any is returned as it is.
    """
    if "\0" in str(path) or not path.is_dir() or is_event_log(path):
        return [path]
    return sorted(child for child in path.iterdir() if is_event_log(child)) or [path]


@contextmanager
def open_unpacked(path: Path) -> Iterator[BinaryIO | io.BufferedReader]:
    """Open a file for reading, and decompress it if its name ends in `.gz`.

    Raises as `open_file`. Reading raises TooLargeError if there are many more bytes after decompression than before.
    """
    with open_file(path) as file:
        if path.suffix != ".gz":
            yield file
            return
        with gzip.GzipFile(fileobj=file) as unpacked:
            yield _limited(unpacked, file)


@contextmanager
def _open_log(path: Path) -> Iterator[BinaryIO | io.BufferedReader]:
    """Open a part of an event log, and decompress it by one of Spark's codecs. Raises as `open_unpacked`."""
    # Reading raises ValueError if the data is damaged, EOFError if it is cut off.
    if path.suffix == ".gz":
        with open_unpacked(path) as unpacked:
            yield unpacked
        return
    with open_file(path) as file:
        begin = file.read(max(map(len, _CODECS)))
        file.seek(0)
        codec = next((codec for magic, codec in _CODECS.items() if begin.startswith(magic)), None)
        yield file if codec is None else _limited(codec(file), file)


def _limited(unpacked: SupportsRead, file: BinaryIO) -> io.BufferedReader:
    limit = MIN_UNPACKED_BYTES + MAX_RATIO * os.fstat(file.fileno()).st_size
    return io.BufferedReader(LimitedStream(unpacked, limit, "the decompressed file"), 1 << 20)


class _Zstd:
    """Decompresses zstd. Data that is cut off is read as far as it goes."""

    def __init__(self, file: BinaryIO) -> None:
        from zstandard import ZstdDecompressor

        self._stream = ZstdDecompressor().stream_reader(file, read_across_frames=True)

    def read1(self, size: int, /) -> bytes:
        from zstandard import ZstdError

        try:
            return self._stream.read1(size)
        except ZstdError as error:
            raise ValueError(str(error)) from None


class _Blocks:
    """Decompresses data that is stored in blocks. `_block` returns the next one, which is empty only at the end."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._left = file, memoryview(b"")

    def read1(self, size: int, /) -> bytes:
        self._left = self._left or memoryview(self._block())
        part, self._left = self._left[:size], self._left[size:]
        return bytes(part)

    def _block(self) -> bytes:
        raise NotImplementedError

    def _exactly(self, size: int) -> bytes:
        if not 0 <= size <= MAX_BLOCK_BYTES * 2:
            raise ValueError(f"expected blocks of at most {MAX_BLOCK_BYTES:,} bytes")
        data = self._file.read(size)
        if len(data) < size:
            raise EOFError("the file is cut off")
        return data


class _LZ4(_Blocks):
    """Decompresses what LZ4BlockOutputStream of lz4-java writes. The checksums of blocks are not compared."""

    def _block(self) -> bytes:
        from pyarrow import BufferReader, CompressedInputStream

        while head := self._file.read(1):
            head += self._exactly(LZ4_HEADER.size - 1)
            magic, token, stored, size, _checksum = LZ4_HEADER.unpack(head)
            if magic != LZ4_MAGIC or token & 0xF0 not in (0x10, 0x20) or not 0 <= size <= MAX_BLOCK_BYTES:
                raise ValueError(f"expected blocks of LZ4 of at most {MAX_BLOCK_BYTES:,} bytes")
            data = self._exactly(stored)
            if token & 0xF0 == 0x20:
                # As a frame, because Arrow does not state the size of a bare block after decompression.
                frame = LZ4_FRAME + stored.to_bytes(4, "little") + data + bytes(4)
                data = CompressedInputStream(BufferReader(frame), "lz4").read(size + 1)
            if len(data) != size:
                raise ValueError(f"expected a block of {size:,} bytes, found {len(data):,}")
            if data:  # An empty block ends one stream, which another may follow.
                return data
        return b""


class _Snappy(_Blocks):
    """Decompresses what SnappyOutputStream of snappy-java writes."""

    def _block(self) -> bytes:
        from pyarrow import decompress

        while head := self._file.read(1):
            head += self._exactly(3)
            if SNAPPY_MAGIC.startswith(head):
                self._exactly(12)  # the rest of the magic, and two versions
                continue
            data = self._exactly(int.from_bytes(head, "big"))
            size = sum((byte & 0x7F) << 7 * at for at, byte in enumerate(_varint(data)))
            if size > MAX_BLOCK_BYTES:
                raise ValueError(f"expected blocks of Snappy of at most {MAX_BLOCK_BYTES:,} bytes")
            if size:
                # The codec raises OSError unless there are exactly so many bytes.
                return bytes(decompress(data, size, "snappy", asbytes=True))
        return b""


def _varint(data: bytes) -> bytes:
    end = next((at for at, byte in enumerate(data[:5], 1) if byte < 0x80), None)
    if end is None:
        raise ValueError("expected the size of a block of Snappy")
    return data[:end]


class _LZF:
    """Raises ValueError, because nothing that zlayout needs decompresses LZF."""

    def __init__(self, _file: BinaryIO) -> None:
        pass

    def read1(self, _size: int, /) -> bytes:
        raise ValueError("the codec lzf is not read; use zstd, lz4 or snappy as spark.eventLog.compression.codec")


_CODECS: dict[bytes, Callable[[BinaryIO], SupportsRead]] = {
    b"\x28\xb5\x2f\xfd": _Zstd,
    LZ4_MAGIC: _LZ4,
    SNAPPY_MAGIC: _Snappy,
    b"ZV\0": _LZF,
    b"ZV\1": _LZF,
}


@dataclass(frozen=True, slots=True)
class EventLog:
    """The queries of an event log.

    Attributes:
        scans: Their scans.
        unused: Their unused conditions.
        queries: The number of distinct queries.
        left_out: The number of statements that read tables but are not queries, by their kind.
    """

    scans: tuple[Scan, ...]
    unused: tuple[Unused, ...]
    queries: int
    left_out: Counter[LeftOut]


def read_event_log(path: Path, on_broken: Callable[[int], None] = lambda _line: None) -> EventLog:
    """Read an event log, also an incomplete one.

    Args:
        path: A file, or the folder of a rolling log.
        on_broken: Called with the number of each line that contains an execution but cannot be read: it is not a
            JSON object, incomplete, or longer than MAX_LINE_BYTES.

    Raises:
        SpecError: ZL002 if the log cannot be read, ZL070 if it is too large after decompression.
    """
    # A statement is an execution that may start others, as one that writes does, and what each statement is, is known
    # only at the end: the executions that it starts may precede it in the log.
    statements: dict[int, LeftOut | None] = {}
    executions: Counter[_Key] = Counter()
    first: dict[_Key, Query] = {}
    for number, event in _events(path, on_broken):
        plan, itself = event.get("sparkPlanInfo"), _id(event, "executionId")
        own = _left_out(plan)
        if itself is not None:
            statements[itself] = own
        scans = _scans(plan)
        if scans:
            time = instant_of_milliseconds(event.get("time"))
            statement = _id(event, "rootExecutionId")
            key = scans, itself if statement is None else statement, own
            first.setdefault(key, Query(_statement(event), f"{path}:{number}", time=time))
            executions[key] += 1
    left_out: dict[int | None, LeftOut] = {}
    weights: Counter[tuple[Found, ...]] = Counter()
    queries: dict[tuple[Found, ...], Query] = {}
    for key, number in executions.items():
        scans, statement, own = key
        kind = own if statement is None else statements.get(statement, LeftOut.UNKNOWN) or own
        if kind is not None:
            left_out[statement] = kind
        else:
            queries.setdefault(scans, first[key])
            weights[scans] += number
    used: list[Scan] = []
    unused: list[Unused] = []
    for scans, number in weights.items():
        query = replace(queries[scans], weight=float(number))
        for table, predicate, left, through in scans:
            used.append(Scan(query, table, predicate, through))
            unused += [Unused(query, text[:MAX_TEXT], reason, frozenset((table,))) for text, reason in left]
    return EventLog(tuple(used), tuple(unused), len(weights), Counter(left_out.values()))


def _left_out(plan: Any) -> LeftOut | None:
    if not isinstance(plan, dict) or _DISCARDS.match(str(plan.get("simpleString"))):
        return None
    name = str(plan.get("nodeName"))
    return next((kind for begin, kind in _WRITERS.items() if name.startswith(begin)), None)


def _id(event: dict[str, Any], key: str) -> int | None:
    found = event.get(key)
    return found if isinstance(found, int) else None


def _statement(event: dict[str, Any]) -> str:
    """Return the SQL of an execution, if the application set it as the description."""
    text = event.get("description")
    return text if isinstance(text, str) and _SQL.match(text) else ""


def _parts(path: Path) -> list[Path]:
    """Return the files of an event log. Of a rolling log, a compacted file replaces all files up to its number."""
    if not path.is_dir():
        return [path]
    found = [(int(number[1]), p) for p in path.iterdir() if (number := _PART.match(p.name))]
    compact = [number for number, p in found if p.suffix == ".compact"]
    begin = max(compact, default=-1)
    kept = [(number, p) for number, p in found if number > begin or (number == begin and p.suffix == ".compact")]
    return [p for _, p in sorted(kept)]


def _events(path: Path, on_broken: Callable[[int], None]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number, event) for the start of each execution. A rolling log is numbered across its files."""
    number = 1
    for part in _parts(path):
        try:
            with _open_log(part) as stream:
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
            continue
        except TooLargeError as error:
            raise SpecError.of("ZL070", str(error), hint=TOO_LARGE_HINT, location=Location(str(part))) from None
        except (OSError, ValueError, zlib.error) as error:
            reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
            raise SpecError.of("ZL002", f"cannot read the event log: {reason}", location=Location(str(part))) from None


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


@dataclass(frozen=True, eq=False)
class _Node:
    """A node of a plan. position: among the children of the parent."""

    name: str
    text: str
    metadata: Any
    parent: _Node | None = None
    position: int = 0

    def up(self) -> Iterator[tuple[_Node, int]]:
        """Yield at most MAX_PLAN_DEPTH nodes above, each with the position of the child from which it is reached."""
        at = self
        for _ in range(MAX_PLAN_DEPTH):
            if at.parent is None:
                return
            yield at.parent, at.position
            at = at.parent

    @cached_property
    def join(self) -> tuple[str, list[tuple[str, str]]] | None:
        """The type of an equi-join and the pairs of its keys; None for another node."""
        join = _JOIN.match(self.text)
        if join is None:
            return None
        left, right = (_split(keys, ", ") for keys in join.groups()[:2])
        return join[3], [*zip(left, right, strict=True)] if len(left) == len(right) else []

    @cached_property
    def kept(self) -> frozenset[str] | None:
        """The numbers of the attributes by which it groups rows; None if it does not group them."""
        grouping = _GROUPING.match(self.text)
        if grouping is None:
            return None
        found = [_ATTRIBUTE_ID.fullmatch(part) for part in _split(grouping[1], ", ")]
        return frozenset(one[2] for one in found if one) if all(found) else frozenset()

    @cached_property
    def assigned(self) -> frozenset[str]:
        """The numbers of the attributes that it computes."""
        return frozenset(re.findall(r" AS [^#]*#(\d+)", self.text))

    @cached_property
    def is_product(self) -> bool:
        return _PRODUCT.match(self.text) is not None

    def passes(self, position: int) -> bool:
        """Whether it returns the rows of a child one by one, or combined with those of another child without keys."""
        if self.is_product:
            return position < 2
        return position == 0 and (self.name in _ROW_BY_ROW or self.name.startswith("WholeStageCodegen ("))


def _nodes(root: Any) -> Iterator[tuple[_Node, tuple[str, ...]]]:
    """Yield each node of a plan with the descriptions of the Filter nodes above it that filter only its rows."""
    stack: list[tuple[Any, tuple[str, ...], _Node | None, int]] = [(root, (), None, 0)]
    for _ in range(MAX_NODES):
        if not stack:
            return
        found, above, parent, position = stack.pop()
        if isinstance(found, dict):
            name, text = str(found.get("nodeName")), str(found.get("simpleString") or "")
            node = _Node(name, text, found.get("metadata"), parent, position)
            yield node, above
            if name == "Filter":
                above = (*above, text)
            elif not name.startswith(_TRANSPARENT):
                above = ()
            if isinstance(children := found.get("children"), list):
                stack += [(child, above, node, n) for n, child in reversed([*enumerate(children)])]


def _scans(plan: Any) -> tuple[Found, ...]:
    """Return the scans of a plan."""
    found, is_whole = list[_Scan](), True
    for node, above in _nodes(plan):
        is_whole = is_whole and not node.name.startswith("Reused")
        if (scan := _scan(node, above)) is not None:
            found.append(_Scan(node, *scan))
    joins = _Joins(found, is_whole=is_whole)
    return tuple(map(joins.with_joins, found))


def _scan(node: _Node, above: tuple[str, ...]) -> tuple[str, Predicate | None, Unread] | None:
    rest = tuple(part for text in above for part in not_pushed(text))
    metadata, description = node.metadata, node.text
    location = _LOCATION.search(str(metadata.get("Location", ""))) if isinstance(metadata, dict) else None
    if location and isinstance(metadata, dict):
        pushed, left = pushed_filters(str(metadata.get("PushedFilters", "[]")))
        partition, more = partition_filters(str(metadata.get("PartitionFilters", "[]")))
        return unquote(location[1]), _all_of([*pushed, *partition]), (*left, *more, *rest)
    if "BatchScan" not in node.name:
        return None
    table = _TABLE.search(description)
    begin = _FILTERS.search(description, table.end()) if table else None
    end = _END.search(description, begin.end()) if begin else None
    if table is None or begin is None or end is None:
        return None
    predicate, left = _iceberg_filters(description[begin.end() : end.start()])
    return (table[1] or table[2]).lower(), predicate, (*left, *rest)


@lru_cache(maxsize=10_000)  # The parser of SQL takes milliseconds, and a log has the same filters again and again.
def _iceberg_filters(text: str) -> tuple[Predicate | None, Unread]:
    predicates, left = sql_filters(text)
    return _all_of(predicates), left


def _all_of(predicates: list[Predicate]) -> Predicate | None:
    """Return the conjunction without IS NOT NULL, which Spark adds for each column in a comparison or join."""
    whole = conjunction(predicates)
    kept = dict.fromkeys(whole.operands if isinstance(whole, And) else predicates)
    return conjunction(p for p in kept if not (isinstance(p, Not) and isinstance(p.operand, IsNull)))


# The joins of a plan.
#
# Spark gives each attribute of a plan a number that is unique in it (`day#152L`). An attribute of a scan that a join
# compares is therefore the column of the scan, as long as each node in between passes attributes on as they are. A
# condition is made only where all of this is certain.


NOT_TRACED = "a join whose keys cannot be traced to columns in the query plan"
MAX_HOPS = 4  # joins between a table and the one whose conditions limit it
MAX_JOINED, MAX_PLAN_DEPTH = 200, 500  # scans of a plan whose joins are followed, and nodes above each of them
_JOIN = re.compile(
    r"(?:BroadcastHashJoin|SortMergeJoin|ShuffledHashJoin)(?:\(skew=true\))? "
    r"\[([^\[\]]+)\], \[([^\[\]]+)\], (Inner|LeftSemi|LeftAnti|LeftOuter|RightOuter|FullOuter)\b"
)
_PRODUCT = re.compile(r"CartesianProduct\b|BroadcastNestedLoopJoin \w+, (?:Inner|Cross)\b")
_GROUPING = re.compile(r"(?:Hash|ObjectHash|Sort)Aggregate\(keys?=\[([^\[\]]*)\]")
_OUTPUT = re.compile(r"(?:BatchScan|FileScan) [^\[\]]*\[([^\[\]]*)\]")
_ATTRIBUTE_ID = re.compile(r"([^\s()#,\[\]`.]+)#(\d+)L?")
# A join key: an attribute, or one that Spark compares with an attribute of type bigint. The conversion does not change
# integers, and keys of other types are not compared with integers when they are evaluated.
_KEY = re.compile(rf"(cast\()?{_ATTRIBUTE_ID.pattern}(?(1) as bigint\))")
_ON_BRANCH = re.compile(r"\bbranch=(?!null\b)")
# Nodes with one child that pass on its rows one by one, with the same attributes.
_ROW_BY_ROW = frozenset(
    ("AdaptiveSparkPlan", "BroadcastExchange", "ColumnarToRow", "Exchange", "Filter", "InputAdapter", "Project", "Sort")
)
# By the type of a join: whether it drops each row on the left, and on the right, whose keys the other side lacks.
_DROPS = {"Inner": (True, True), "LeftSemi": (True, True), "LeftOuter": (False, True), "RightOuter": (True, False)}
# Whether each row that it returns is one on the left, or on the right, with further columns or without.
_RETURNS = {**dict.fromkeys(("LeftSemi", "LeftAnti", "LeftOuter"), (True, False)), "Inner": (True, True)}
_FIELD = re.compile(r"[<,]([^\s:,<>`]+):(tinyint|smallint|int|bigint|date|boolean|string|decimal\(\d+,\d+\))(?=[,>])")


@dataclass(frozen=True, slots=True, eq=False)
class _Scan:
    node: _Node
    table: str
    predicate: Predicate | None
    left: Unread

    def columns(self) -> dict[str, str]:
        """Return its columns by the numbers of their attributes; none if a name could be read in two ways."""
        output = _OUTPUT.match(self.node.text)
        parts = re.sub(r",? ?\.\.\. \d+ more fields$", "", output[1]).split(",") if output else []
        found = [_ATTRIBUTE_ID.fullmatch(part.strip()) for part in parts]
        return {one[2]: one[1] for one in found if one} if all(found) else {}

    def certain(self) -> Predicate | None:
        """Return what of the predicate can be evaluated with rows without excluding one by mistake."""
        if self.predicate is None or _ON_BRANCH.search(self.node.text):
            return None
        if not isinstance(self.node.metadata, dict) or "ReadSchema" not in self.node.metadata:
            return self.predicate  # of Iceberg, which is SQL with quoted strings
        schema = str(self.node.metadata["ReadSchema"])
        types = {name.lower(): kind for name, kind in _FIELD.findall(schema)} if schema.count("<") == 1 else {}
        return _with_types(self.predicate, types)


def _with_types(predicate: Predicate, types: Mapping[str, str]) -> Predicate | None:
    """Return what a predicate implies for sure, as Spark prints strings without quotes."""
    # A list of strings may be another list, and `null` may be a string.
    match predicate:
        case And(operands):
            return conjunction(p for o in operands if (p := _with_types(o, types)) is not None)
        case Or(operands):
            return predicate if all(_with_types(o, types) == o for o in operands) else None
        case Not(operand):
            return predicate if _with_types(operand, types) == operand else None
        case In() | IsNull():
            return predicate if types.get(predicate.column.lower(), "string") != "string" else None
        case _:
            return predicate if predicate.column.lower() in types else None


class _Joins:
    """Follows the join keys of a plan. scans: all scans of the plan. is_whole: whether no part of it is shared."""

    def __init__(self, scans: Sequence[_Scan], *, is_whole: bool) -> None:
        self._scans = scans
        self._is_used = is_whole and 1 < len(scans) <= MAX_JOINED
        self._columns = {scan: scan.columns() for scan in scans}
        self._known: dict[tuple[_Scan, _Node | None], tuple[tuple[InKeys, ...], Unread]] = {}

    def with_joins(self, scan: _Scan) -> Found:
        """Return the scan with the conditions on it, each of which is an unused one too until the keys are known."""
        through, notes = self._limits(scan, None, 0) if len(self._scans) <= MAX_JOINED else ((), ())
        filters = tuple((to_sql(one), str(Reason.JOIN_FILTER)) for one in through)
        return scan.table, scan.predicate, (*scan.left, *filters, *notes), through

    def _limits(self, scan: _Scan, top: _Node | None, hops: int) -> tuple[tuple[InKeys, ...], Unread]:
        """Return the conditions on a scan that the joins from it up to `top` imply, and the joins that are not used."""
        if (scan, top) in self._known:
            return self._known[scan, top]
        found: dict[InKeys, None] = {}
        left: dict[tuple[str, str], None] = {}
        columns, is_traced = self._columns[scan], self._is_used
        for node, side in scan.node.up():
            if node is top:
                break
            columns = {number: name for number, name in columns.items() if number not in node.assigned}
            if node.join is not None and side < 2:
                kind, pairs = node.join
                for pair in pairs if _DROPS.get(kind, (False, False))[side] else ():
                    mine, other = (_KEY.fullmatch(pair[at]) for at in (side, 1 - side))
                    is_traced_pair = is_traced and mine and other and not (mine[1] and other[1])
                    column = columns.get(mine[3]) if mine and is_traced_pair else None
                    keys = self._key_set(other[3], node, 1 - side, hops) if column and other else None
                    if column and keys is not None:
                        if keys.predicate is not None:
                            found[InKeys(column, (keys,))] = None
                    elif columns.keys() & set(re.findall(r"#(\d+)", pair[side])) and self._limited(node, 1 - side):
                        left[_ID.sub("", " = ".join(pair)), NOT_TRACED] = None
                is_traced = is_traced and _RETURNS.get(kind, (False, False))[side]
            elif node.kept is not None:
                columns = {number: name for number, name in columns.items() if number in node.kept}
            elif not node.passes(side):
                is_traced = False
        self._known[scan, top] = tuple(found), tuple(left)
        return self._known[scan, top]

    def _key_set(self, number: str, join: _Node, side: int, hops: int) -> Keys | None:
        """Return the keys of the scan to which an attribute of one side of a join belongs; None if it is unknown."""
        owners = [scan for scan in self._scans if number in self._columns[scan]]
        owners = [scan for scan in owners if self._leads(scan, join, side, number)]
        if len(owners) != 1:
            return None
        (scan,) = owners
        own = scan.certain()
        limits = self._limits(scan, join, hops + 1)[0] if hops + 1 < MAX_HOPS else ()
        predicate = conjunction([*([] if own is None else [own]), *limits])
        return Keys(scan.table, self._columns[scan][number], predicate)

    @staticmethod
    def _leads(scan: _Scan, join: _Node, side: int, number: str) -> bool:
        """Whether an attribute of a scan reaches one side of a join with no other values than those of the scan."""
        for node, at in scan.node.up():
            if node is join:
                return at == side
            if number in node.assigned or (node.kept is not None and number not in node.kept):
                return False
            if node.kept is None and not node.passes(at) and (node.join is None or at > 1):
                return False
        return False

    def _limited(self, join: _Node, side: int) -> bool:
        below = (scan for scan in self._scans if any(node is join and at == side for node, at in scan.node.up()))
        return any(scan.predicate is not None or scan.left for scan in below)
