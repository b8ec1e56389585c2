"""The history of a project: what each command found and did at each table, and how the tables develop.

`records_of` makes records from a plan or a run report, and `SqliteStore` appends them to a file and reads them again.
`growths` predicts when a decay measure passes its tolerance. Its slope is robust against outliers.
"""

from __future__ import annotations

import json
import math
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from zlayout.planner.model import Reason, Status, TablePlan
from zlayout.planner.run_report import ResultStatus, RunReport, TableResult, Trend
from zlayout.sqlite_files import Database, open_database, schema

# Records as plain data. They contain no value of a row.


# The version of the fields of a record. A history of another version is neither read nor written.
RECORD_VERSION = 1


class Command(StrEnum):
    """The command that made a record."""

    PLAN = "plan"
    DRIFT = "drift"
    APPLY = "apply"


class RecordState(StrEnum):
    """The state of a table at the end of a command.

    Attributes:
        INTERRUPTED: `apply` was interrupted or killed after its first commit, so that the table was not read again.
    """

    AS_DECLARED = "as_declared"
    DRIFT = "drift"
    DECAY = "decay"
    FIRST_LAYOUT = "first_layout"
    REFUSED = "refused"
    ERROR = "error"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class ColumnRecord:
    """The metrics of one z-order column.

    Attributes:
        touched: Touched at the beginning of the command.
        floor: The lowest touched of any layout; None if it is unknown.
        predicted: The forecast of touched after a rewrite; None without a sample.
        measured: Touched after the rewrites of `apply`; None if nothing was measured.
    """

    column: str
    touched: float
    floor: float | None = None
    predicted: float | None = None
    measured: float | None = None

    @property
    def last(self) -> float:
        """Touched at the end of the command."""
        return self.touched if self.measured is None else self.measured


@dataclass(frozen=True, slots=True)
class DecayRecord:
    """The value of one decay measure in the worst partition, and its tolerance, at the beginning of the command."""

    measure: str
    value: float
    tolerance: float


@dataclass(frozen=True, slots=True)
class Record:
    """What one command found and did at one table.

    Attributes:
        time: The end of the command, in UTC.
        run_id: The run id of `apply`; for other commands an id that all records of the command share.
        layout_id: The id of the declared layout.
        state: The state of the table at the end.
        files: The number of live files at the end.
        bytes: The size of the live files at the end.
        rewrite_bytes: `apply`: the bytes that were rewritten; other commands: the bytes to rewrite.
        columns: The z-order columns; empty if the table could not be read, or not again after a rewrite.
        decay: The decay measures; empty like `columns`.
    """

    time: datetime
    run_id: str
    command: Command
    table: str
    layout_id: str
    state: RecordState
    files: int
    bytes: int
    rewrite_bytes: int
    columns: tuple[ColumnRecord, ...] = ()
    decay: tuple[DecayRecord, ...] = ()

    @property
    def rewrote(self) -> bool:
        """Whether the command rewrote files."""
        return self.command is Command.APPLY and self.rewrite_bytes > 0

    def row(self) -> dict[str, Any]:
        """Return the record as a row of a history: plain values, and lists of maps for columns and decay measures."""
        plain = {"command": self.command.value, "state": self.state.value}
        return {"record_version": RECORD_VERSION, **asdict(self), **plain}

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> Record:
        """Return the record of a row. Raises ValueError, TypeError or KeyError if the row is not a record."""
        if row["record_version"] != RECORD_VERSION:
            raise ValueError(f"expected record version {RECORD_VERSION}, found {row['record_version']}")
        parsed = {
            "time": row["time"].astimezone(UTC),
            "command": Command(row["command"]),
            "state": RecordState(row["state"]),
            "columns": tuple(ColumnRecord(**column) for column in row["columns"]),
            "decay": tuple(DecayRecord(**decay) for decay in row["decay"]),
        }
        return cls(**{key: parsed.get(key, value) for key, value in row.items() if key != "record_version"})


# Records of a plan or a run report. All functions are pure.


_OF_RESULT = {
    ResultStatus.AS_DECLARED: RecordState.AS_DECLARED,
    ResultStatus.FAILED: RecordState.ERROR,
    ResultStatus.UNKNOWN: RecordState.ERROR,
}
_DRIFTED = (Reason.LAYOUT_CHANGED, Reason.PARTITIONING_CHANGED)


def records_of(
    report: RunReport, layout_ids: Mapping[str, str], command: Command, run_id: str, time: datetime
) -> list[Record]:
    """Return one record per table.

    Args:
        report: What the command found, and the results of `apply`.
        layout_ids: The id of the declared layout of each table, by table name.
        run_id: The id for the records of tables without a result of `apply`.
        time: The end of the command, in UTC.
    """
    records = []
    for table in report.plan.tables:
        result = report.results.get(table.table)
        rewritten = result.bytes_removed if result else 0
        # The metrics before a rewrite do not belong to the files after it.
        is_known = not (result and result.commits) or bool(result.columns) or not table.columns
        record = Record(
            time=time,
            run_id=result.run_id if result else run_id,
            command=command,
            table=table.table,
            layout_id=layout_ids.get(table.table, ""),
            state=state_of(table, result),
            files=table.files + (result.files_added - result.files_removed if result else 0),
            bytes=table.bytes + (result.bytes_added - rewritten if result else 0),
            rewrite_bytes=rewritten if command is Command.APPLY else table.rewrite_bytes,
            columns=tuple(_columns(table, result)) if is_known else (),
            decay=tuple(_decay(table)) if is_known else (),
        )
        records.append(record)
    return records


def _decay(table: TablePlan) -> Iterator[DecayRecord]:
    return (DecayRecord(decay.measure.value, decay.value, decay.tolerance) for decay in table.decay)


def _columns(table: TablePlan, result: TableResult | None) -> Iterator[ColumnRecord]:
    measured = {column.column: column for column in result.columns} if result else {}
    for column in table.columns:
        after = measured.get(column.column)
        predicted = after.predicted if after and after.predicted is not None else column.predicted
        yield ColumnRecord(column.column, column.touched, column.floor, predicted, after.touched if after else None)


def state_of(table: TablePlan, result: TableResult | None = None) -> RecordState:
    """Return the state of a table at the end of a command.

    It is that of the plan if the command did not apply it, or if `apply` left changes for a later run.
    """
    if result is not None and result.outcome in _OF_RESULT:
        return _OF_RESULT[result.outcome]
    if result is not None and result.outcome is ResultStatus.INTERRUPTED and result.commits:
        return RecordState.INTERRUPTED
    if table.status in (Status.REFUSED, Status.ERROR):
        return RecordState.REFUSED if table.status is Status.REFUSED else RecordState.ERROR
    if table.as_declared:
        return RecordState.AS_DECLARED
    if table.is_first:
        return RecordState.FIRST_LAYOUT
    drifted = table.selects_nothing or table.drift or table.partitioning
    if drifted or any(group.reason in _DRIFTED for group in table.groups):
        return RecordState.DRIFT
    return RecordState.DECAY


# The SQLite file. Several processes may append at the same time.


# Identifies the file as a history of zlayout: "ZLAY" in ASCII.
APPLICATION_ID = 0x5A4C4159
# The time to wait for other processes that write, in seconds.
MAX_WAIT = 10.0
_COLUMNS = (
    "time", "run_id", "command", "table_name", "layout_id", "state",
    "files", "bytes", "rewrite_bytes", "columns", "decay",
)  # fmt: skip
_CREATE = (
    """CREATE TABLE records (
        id INTEGER PRIMARY KEY, time TEXT NOT NULL, run_id TEXT NOT NULL, command TEXT NOT NULL,
        table_name TEXT NOT NULL, layout_id TEXT NOT NULL, state TEXT NOT NULL, files INTEGER NOT NULL,
        bytes INTEGER NOT NULL, rewrite_bytes INTEGER NOT NULL, columns TEXT NOT NULL, decay TEXT NOT NULL)""",
    "CREATE INDEX records_of_table ON records (table_name, time)",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {RECORD_VERSION}",
)
_INSERT = f"INSERT INTO records ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"
_REPLACED = "DELETE FROM records WHERE run_id = ? AND table_name = ? AND command = 'apply'"
_NEWEST = f"SELECT {', '.join(_COLUMNS)} FROM records WHERE table_name = ? ORDER BY time DESC, id DESC LIMIT ?"


class SqliteStore:
    """A history in one file. Its methods raise any exception if the file cannot be read or written."""

    def __init__(self, path: Path, keep_days: int, max_wait: float = MAX_WAIT) -> None:
        self._path, self._keep_days, self._max_wait = path, keep_days, max_wait

    def append(self, records: Sequence[Record]) -> None:
        """Add records, and remove those that are too old, and those of the same runs of `apply`, which they replace."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        oldest = _text(datetime.now(UTC) - timedelta(days=self._keep_days))
        with open_database(self._path, self._max_wait, writes=True) as opened, self._writing(opened):
            database = opened.connection
            if not _version(database):
                for statement in _CREATE:
                    database.execute(statement)
            made = [(one.run_id, one.table) for one in records if one.command is Command.APPLY]
            database.executemany(_REPLACED, made)
            database.executemany(_INSERT, map(_row, records))
            database.execute("DELETE FROM records WHERE time < ?", (oldest,))

    def read(self, tables: Iterable[str], limit: int) -> dict[str, list[Record]]:
        """Return the newest records of each table, at most `limit` per table, oldest first.

        A history that does not exist yet has no records.
        """
        if not self._path.exists():
            return {}
        with open_database(self._path, self._max_wait, writes=False) as (database, _):
            if not _version(database):
                return {}
            rows = ((table, database.execute(_NEWEST, (table, limit)).fetchall()) for table in tables)
            return {table: [_record(row) for row in reversed(newest)] for table, newest in rows if newest}

    @contextmanager
    def _writing(self, opened: Database) -> Iterator[None]:
        database, until = opened.connection, time.monotonic() + self._max_wait
        # SQLite does not wait for other writers when it changes the journal mode, so the statement is repeated.
        while True:
            opened.deferral.check()
            try:
                database.execute("PRAGMA journal_mode = WAL")
                break
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                    raise
                time.sleep(0.02)
        database.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            database.execute("ROLLBACK")
            raise
        database.execute("COMMIT")


def _version(database: sqlite3.Connection) -> int:
    (owner,), (version,) = (
        database.execute(f"PRAGMA {name}").fetchone() for name in ("application_id", "user_version")
    )
    objects = schema(database)
    if not (owner or version or objects):
        return 0
    if owner != APPLICATION_ID:
        raise ValueError("expected a history of zlayout, found another database")
    if version != RECORD_VERSION:
        raise ValueError(f"expected record version {RECORD_VERSION}, found {version}")
    if {" ".join(found.sql.split()) for found in objects} != {" ".join(sql.split()) for sql in _CREATE[:2]}:
        raise ValueError("expected the table of a history of zlayout, found other tables, views or triggers")
    return int(version)


def _text(time: datetime) -> str:
    """Return a time as text in UTC. The alphabetical order of such texts is the order of the times."""
    return time.astimezone(UTC).isoformat(timespec="milliseconds")


def _row(record: Record) -> tuple[Any, ...]:
    row = record.row() | {"time": _text(record.time), "table_name": record.table}
    lists = {name: json.dumps(row[name], separators=(",", ":"), allow_nan=False) for name in ("columns", "decay")}
    return tuple((row | lists)[name] for name in _COLUMNS)


def _record(row: Sequence[Any]) -> Record:
    values = dict(zip(_COLUMNS, row, strict=True))
    lists = {name: json.loads(values[name]) for name in ("columns", "decay")}
    time = datetime.fromisoformat(values["time"])
    table = values.pop("table_name")
    return Record.of_row({"record_version": RECORD_VERSION, **values, **lists, "time": time, "table": table})


# The growth of decay measures, and trends.


# The minimum number of records for a slope, and the minimum time between the first and the last one.
MIN_RECORDS = 4
MIN_DAYS = 1.0
# A prediction may lie ahead by at most this multiple of the time that the records cover.
MAX_DAYS_AHEAD = 4.0
# The number of newest records that a slope is computed from. The time grows with the square of this number.
MAX_RECORDS = 200
# The quantile of the normal distribution for a confidence interval of 90%.
_Z = 1.6449
_SECONDS_PER_DAY = 86400.0


@dataclass(frozen=True, slots=True)
class Growth:
    """A decay measure that grows towards its tolerance.

    Attributes:
        value: The newest value.
        per_day: The slope: the median of the slopes between all pairs of records (Theil-Sen).
        days: The days from now until the value passes the tolerance, by the steepest and by the flattest slope of the
            confidence interval of 90%.
        records: The number of records.
    """

    measure: str
    value: float
    tolerance: float
    per_day: float
    days: tuple[float, float]
    records: int


def growths(records: Sequence[Record], now: datetime) -> list[Growth]:
    """Return the decay measures that grow, and for which the records support a prediction.

    Only records after the last rewrite and with the present layout count. A measure is left out if it has fewer than
    MIN_RECORDS, if they cover less than MIN_DAYS, if the confidence interval of the slope contains 0, if the value is
    already above the tolerance, or if the predicted time is in the past or too far ahead.

    Args:
        records: The records of one table, oldest first.
        now: The present time, in UTC.
    """
    since = since_rewrite(records)[-MAX_RECORDS:]
    found = []
    for measure in since[-1].decay if since else ():
        points = [
            (record.time.timestamp() / _SECONDS_PER_DAY, decay.value)
            for record in since
            for decay in record.decay
            if decay.measure == measure.measure
        ]
        slope = _slope(points)
        if slope is None or measure.value > measure.tolerance:
            continue
        low, middle, high = slope
        distance, age = measure.tolerance - measure.value, now.timestamp() / _SECONDS_PER_DAY - points[-1][0]
        days = distance / high - age, distance / low - age
        if days[0] >= 0 and days[1] <= MAX_DAYS_AHEAD * (points[-1][0] - points[0][0]):
            found.append(Growth(measure.measure, measure.value, measure.tolerance, middle, days, len(points)))
    return found


def since_rewrite(records: Sequence[Record]) -> list[Record]:
    """Return the records with measures of the present layout, after the last rewrite; oldest first."""
    found: list[Record] = []
    for record in reversed(records):
        if record.rewrote or (found and record.layout_id != found[-1].layout_id):
            break
        if record.decay:
            found.append(record)
    return found[::-1]


def _slope(points: Sequence[tuple[float, float]]) -> tuple[float, float, float] | None:
    """Return lower end, Theil-Sen slope and upper end per day of points (day, value); None if the slope may be 0."""
    count = len(points)
    if count < MIN_RECORDS or points[-1][0] - points[0][0] < MIN_DAYS:
        return None
    slopes = np.sort([(b - a) / (then - at) for (at, a), (then, b) in combinations(points, 2) if then > at])
    # The interval of Kendall's statistic: Hollander, Wolfe, Nonparametric Statistical Methods, section 9.3.
    # Its ends are equally far from the ends of the sorted slopes.
    half = _Z * math.sqrt(count * (count - 1) * (2 * count + 5) / 18)
    rank = max(round((len(slopes) - half) / 2), 1)
    low, high = slopes[rank - 1], slopes[-rank]
    return (float(low), float(np.median(slopes)), float(high)) if low > 0 else None


def touched_trend(records: Sequence[Record]) -> Trend:
    """Return touched at the end of each recorded command, for the columns of the newest record that has columns."""
    known = [record for record in records if record.columns]
    names = [column.column for column in known[-1].columns] if known else []
    values = [{column.column: column.last for column in record.columns} for record in known]
    return Trend(
        tuple(record.time.timestamp() for record in known),
        {name: tuple(of_time.get(name) for of_time in values) for name in names},
    )
