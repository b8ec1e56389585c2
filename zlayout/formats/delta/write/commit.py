"""Engine `zlayout` on Delta: rewrites the pinned files and commits them with conflict checks.

One transaction, pinned to one snapshot, reads and writes the files of all groups and commits them together. After a
conflict, groups are rebased onto the deletion vectors of other writers (`Rebase`; see `zlayout.formats.kernel.rebase`),
and sent again by a transaction that begins at a newer snapshot. If they cannot be rebased, they are divided into
halves, each with a new transaction that begins at the snapshot of its groups. The new files of a dropped group remain
as orphans for VACUUM.
"""

from __future__ import annotations

import decimal
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pa_fs
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from zlayout.errors import Diagnostic, EngineError, first_line
from zlayout.formats.base import Commit, Group, GroupFailed, Notice, Notify, PlannedTable, Progress, Stage
from zlayout.formats.delta.read.log import BASELINE, GROUP
from zlayout.formats.delta.read.observe import read_bounds
from zlayout.formats.delta.read.schema import Leaf, leaves
from zlayout.formats.delta.write.jvm import DeltaJvm, metadata_column
from zlayout.formats.delta.write.optimize import layout_tags
from zlayout.formats.delta.write.transaction import (
    FAILURES,
    Log,
    PinnedFiles,
    begin,
    file_uris,
    operation_metrics,
    pinned_files,
    require_no_silent_change,
    spark_errors,
    still_live,
)
from zlayout.formats.kernel import rebase
from zlayout.formats.kernel.commits import (
    Measurement,
    NewFiles,
    Rewritten,
    baseline_of,
    commit_apart,
    file_table,
    new_files,
    positions,
    positions_among,
    require_paths,
    rewrite_commit,
    spark_partitions,
)
from zlayout.formats.kernel.rebase import Deleted, Located
from zlayout.formats.kernel.requirements import changed_files
from zlayout.rewrite.engine import place, rewrite_conf
from zlayout.rewrite.gate import require_rows
from zlayout.rewrite.rows import FILE, POSITION, GroupTarget, Source
from zlayout.spark.arrow import from_arrow, to_arrow
from zlayout.spark.jvm import session_conf
from zlayout.table.state import Baseline, FileTable, Int64, Partition, TableState
from zlayout.text import quote_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Writes new files through Delta's own writer: `write_with_stats` returns them with their statistics.
#
# The statistics are computed from Parquet footers where possible.


# The truncation of string bounds, as in Delta's writer.


_LAST_ASCII = "\x7f"
_LAST_CHARACTER = "\U0010ffff"


def truncate_lower(value: Any, prefix: int) -> Any:
    """Truncate a string (UTF-8 bytes) to its first `prefix` characters. Other values are returned unchanged."""
    return value.decode()[:prefix] if isinstance(value, bytes) else value


def truncate_upper(value: Any, prefix: int) -> Any:
    """Truncate a string (UTF-8 bytes) to an upper bound of it. Other values are returned unchanged.

    This is the rule of Delta's `StatisticsCollection.truncateMaxStringAgg`, which counts lengths in UTF-16 units:
    truncate the string, and append a character that is greater than the first removed character. The character U+10FFFF
    is never removed, because none is greater. So the bound can be longer than `prefix`.

    Returns:
        The bound; None if it would need more than twice the length `prefix`.
    """
    if not isinstance(value, bytes):
        return value
    text, units = value.decode(), 0
    for at, character in enumerate(text):
        if units > 2 * prefix:
            return None
        if units >= prefix and character != _LAST_CHARACTER:
            return text[:at] + (_LAST_ASCII if character < _LAST_ASCII else _LAST_CHARACTER)
        units += 1 if character < "\U00010000" else 2
    return text if units <= 2 * prefix else None


# Delta's statistics of new files, from their Parquet footers.
#
# Delta computes minimum, maximum and null count by an aggregate over every row that it writes. The Parquet writer
# computes the same values and stores them in the footer, so the aggregate is not needed. Spark converts the values to
# JSON, as it does for Delta. tests/spark/test_delta_footers.py compares the result with Delta's for every type.


Bounds = tuple[Any, Any]
LeafTypes = Mapping[str, T.DataType]
# A function that scans new files whose footers lack statistics of a column. Its arguments are the physical dotted name
# of the column and the paths of the files. It returns the null count and the bounds of the column in each file.
Scan = Callable[[str, Sequence[str]], Mapping[str, tuple[int, Bounds]]]

_READER_THREADS = 16
# The number of files whose footers are in memory as Python objects at the same time.
_FOOTERS_AT_ONCE = 2000
# The Parquet writer that is known to treat NaN as the largest value, as Spark does. Other writers may ignore NaN.
_WRITER_WITH_NAN = "parquet-mr version 1.16."
_OLD_CALENDAR = b"org.apache.spark.legacyDateTime"
_EXACT = decimal.Context(prec=76)


@dataclass(slots=True)
class Footer:
    """The statistics in the footer of one file.

    Attributes:
        nulls: The null counts by the columns' physical dotted names. A column is missing if the footer does not have
            its statistics, for example because its values are too long.
        bounds: Minimum and maximum by the same names. Strings are UTF-8 bytes, dates are days since 1970, and
            timestamps are microseconds since 1970.
    """

    rows: int
    nulls: dict[str, int] = field(default_factory=dict)
    bounds: dict[str, Bounds] = field(default_factory=dict)

    def has(self, column: str, *, bounded: bool) -> bool:
        """Return whether the footer has the null count of a column and, if `bounded`, its bounds."""
        nulls = self.nulls.get(column)
        return nulls is not None and (not bounded or column in self.bounds or nulls == self.rows)


def footers_suffice(leaves: Sequence[Leaf], stats_schema: T.StructType) -> bool:
    """Return whether footers contain all statistics of `stats_schema` (Delta's `statsSchema`).

    They do not if it has arrays, maps or variants, because footers and Delta count different nulls for these. They do
    not either if two leaf columns of the table have the same physical dotted name.
    """
    types = {".".join(leaf.physical): leaf.type for leaf in leaves}
    counted = _leaf_types(_part(stats_schema, "nullCount"))
    return len(types) == len(leaves) and not any(pa.types.is_null(types.get(c, pa.null())) for c in counted)


def statistics(
    spark: SparkSession,
    storage: pa_fs.FileSystem,
    paths: pa.Array,
    stats_schema: T.StructType,
    string_prefix: int,
    scan: Scan,
) -> pa.Table:
    """Compute Delta's statistics of new files.

    Args:
        storage: The file system, rooted at the table.
        paths: string[files], the paths as in the log, URL-encoded and relative.
        stats_schema: Delta's `statsSchema`.
        string_prefix: The length to which string bounds are truncated: see `truncate_lower` and `truncate_upper`.
        scan: Computes the statistics that a footer lacks.

    Returns:
        A table with the columns path, rows (int64) and change: a JSON object with the statistics as `stats`, as in an
        AddFile. The order of the files is kept. Files without rows are omitted.

    Raises:
        EngineError: ZL316, if a footer cannot be read.
    """
    schema = T.StructType().add("path", T.StringType()).add("stats", stats_schema)
    parts = (  # only one of these is in memory at a time
        _rows(storage, paths[start : start + _FOOTERS_AT_ONCE].to_pylist(), stats_schema, string_prefix, scan)
        for start in range(0, max(len(paths), 1), _FOOTERS_AT_ONCE)
    )
    table = pa.concat_tables([pa.Table.from_pylist(part, schema=to_arrow_schema(schema)) for part in parts])
    stats = F.to_json("stats")
    change = F.to_json(F.struct(stats.alias("stats"))).alias("change")
    rows = F.get_json_object(stats, "$.numRecords").cast("bigint").alias("rows")  # the numbers that the log will have
    found = to_arrow(from_arrow(spark, table, schema).select("path", rows, change))
    at = pc.index_in(table["path"], value_set=found["path"].combine_chunks())
    return found.take(at)


def _rows(
    storage: pa_fs.FileSystem, paths: Sequence[str], stats_schema: T.StructType, string_prefix: int, scan: Scan
) -> list[dict[str, Any]]:
    bounded, counted = _leaf_types(_part(stats_schema, "minValues")), _leaf_types(_part(stats_schema, "nullCount"))
    read = read_footers(storage, paths, bounded, counted)
    footers = {path: footer for path, footer in read.items() if footer.rows}
    for column in counted:
        unknown = [path for path, footer in footers.items() if not footer.has(column, bounded=column in bounded)]
        for path, (nulls, bounds) in (scan(column, unknown) if unknown else {}).items():
            footers[path].nulls[column] = nulls
            if column in bounded:
                footers[path].bounds[column] = bounds
    return [{"path": path, "stats": _row(footer, stats_schema, string_prefix)} for path, footer in footers.items()]


def row_counts(storage: pa_fs.FileSystem, paths: pa.Array) -> Int64:
    """Return the number of rows of each file: int64[files]. Raises EngineError ZL316, if a footer cannot be read."""
    counts = [
        footer.rows
        for start in range(0, len(paths), _FOOTERS_AT_ONCE)
        for footer in read_footers(storage, paths[start : start + _FOOTERS_AT_ONCE].to_pylist(), {}, {}).values()
    ]
    return np.array(counts, np.int64)


def read_footers(
    storage: pa_fs.FileSystem, paths: Sequence[str], bounded: LeafTypes, counted: LeafTypes
) -> dict[str, Footer]:
    """Read the footers of several files, and return them by path as in the log. Raises EngineError ZL316."""
    with ThreadPoolExecutor(_READER_THREADS) as pool:
        read = pool.map(lambda path: read_footer(storage, unquote(path), bounded, counted), paths)
        return dict(zip(paths, read, strict=True))


def read_footer(storage: pa_fs.FileSystem, path: str, bounded: LeafTypes, counted: LeafTypes) -> Footer:
    """Read the footer of one Parquet file and combine the statistics of its row groups.

    Args:
        storage: The file system.
        path: The path in `storage`.
        bounded: The types of the columns whose bounds are read.
        counted: The types of the columns whose null counts are read.

    Raises:
        EngineError: ZL316, if the footer cannot be read.
    """
    try:
        metadata = pq.read_metadata(path, filesystem=storage)
    except (OSError, pa.ArrowException) as error:
        raise EngineError.of(
            "ZL316",
            f"the new file {path} is missing or cannot be read: {first_line(error)}",
            hint="run VACUUM only with a retention period, and plan again; nothing was committed",
        ) from error
    chunks: dict[str, list[Any]] = {name: [] for name in counted}
    for group in range(metadata.num_row_groups):
        row_group = metadata.row_group(group)
        for at in range(metadata.num_columns):
            chunk = row_group.column(at)
            if chunk.path_in_schema in chunks:
                chunks[chunk.path_in_schema].append(chunk.statistics)
    uncertain = _columns_with_uncertain_bounds(metadata, bounded)
    footer = Footer(metadata.num_rows)
    for name, found in chunks.items():
        # If there is not one chunk per row group, the column is missing, or two columns have the same dotted name.
        if len(found) != metadata.num_row_groups or any(s is None or not s.has_null_count for s in found):
            continue
        footer.nulls[name] = sum(s.null_count for s in found)
        filled = [s for s in found if s.num_values]
        if name in bounded and name not in uncertain and filled and all(s.has_min_max for s in filled):
            lows = [_number(s.min_raw, bounded[name]) for s in filled]
            highs = [_number(s.max_raw, bounded[name]) for s in filled]
            footer.bounds[name] = min(lows, key=_nan_last), max(highs, key=_nan_last)
    return footer


def _nan_last(value: Any) -> tuple[bool, Any]:
    """Return a sort key for which NaN is the largest value, as in Spark."""
    return value != value, value


def _columns_with_uncertain_bounds(metadata: pq.FileMetaData, bounded: LeafTypes) -> set[str]:
    """Return the columns whose bounds in the footer may have another meaning than `_number` assumes."""
    unknown = set()
    old_calendar = _OLD_CALENDAR in (metadata.metadata or {})
    without_nan = not str(metadata.created_by).startswith(_WRITER_WITH_NAN)
    for at in range(metadata.num_columns):
        column = metadata.schema.column(at)
        match bounded.get(column.path):
            case T.FloatType() | T.DoubleType() if without_nan:
                unknown.add(column.path)
            case T.DateType() | T.TimestampType() | T.TimestampNTZType() if old_calendar:
                unknown.add(column.path)
            case T.TimestampType() | T.TimestampNTZType() if "timeUnit=microseconds" not in str(column.logical_type):
                unknown.add(column.path)
            case T.DecimalType() as type_ if column.scale != type_.scale:
                unknown.add(column.path)
    return unknown


def bounds_from_scan(low: pa.Scalar, high: pa.Scalar) -> Bounds:
    """Convert the minimum and the maximum that a scan returned to the form of `Footer.bounds`."""
    return _plain(low), _plain(high)


def _plain(value: pa.Scalar) -> Any:
    if isinstance(value, pa.Date32Scalar | pa.TimestampScalar):
        return value.value  # not as_py(), because Python's dates end at the year 9999
    if isinstance(value, pa.StringScalar) and value.is_valid:
        return value.as_buffer().to_pybytes()  # not as_py(), because Spark's strings may be invalid UTF-8
    return value.as_py()


def _number(raw: Any, type_: T.DataType) -> Any:
    """Convert a bound from Parquet's physical type to the form of `Footer.bounds`."""
    if isinstance(type_, T.DecimalType):
        unscaled = int.from_bytes(raw, "big", signed=True) if isinstance(raw, bytes) else raw
        return decimal.Decimal(unscaled).scaleb(-type_.scale, _EXACT)
    if isinstance(type_, T.FloatType | T.DoubleType):
        return raw + 0.0  # Parquet stores a minimum of 0.0 as -0.0; both are the same value
    return raw


def _row(footer: Footer, stats_schema: T.StructType, string_prefix: int) -> dict[str, Any]:
    known = {c: v for c, v in footer.bounds.items() if _fits_json(v)}
    low = {c: truncate_lower(v[0], string_prefix) for c, v in known.items()}
    high = {c: truncate_upper(v[1], string_prefix) for c, v in known.items()}
    values = {"minValues": low, "maxValues": high, "nullCount": footer.nulls}
    whole: dict[str, Any] = {"numRecords": footer.rows, "tightBounds": True}
    for part, by_column in values.items():
        whole[part] = _nested(_part(stats_schema, part), by_column)
    return {name: whole[name] for name in stats_schema.names}


def _fits_json(bounds: Bounds) -> bool:
    try:
        return all(not isinstance(bound, bytes) or bound.decode() is not None for bound in bounds)
    except UnicodeDecodeError:
        return False


def _nested(schema: T.StructType, values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    return {
        f.name: _nested(f.dataType, values, f"{prefix}{f.name}.")
        if isinstance(f.dataType, T.StructType)
        else values.get(prefix + f.name)
        for f in schema.fields
    }


def _part(stats_schema: T.StructType, name: str) -> T.StructType:
    part = stats_schema[name].dataType if name in stats_schema.names else T.StructType()
    assert isinstance(part, T.StructType)
    return part


def _leaf_types(schema: T.StructType) -> dict[str, T.DataType]:
    return dict(_each_leaf(schema, ""))


def _each_leaf(schema: T.StructType, prefix: str) -> Iterator[tuple[str, T.DataType]]:
    for f in schema.fields:
        if isinstance(f.dataType, T.StructType):
            yield from _each_leaf(f.dataType, f"{prefix}{f.name}.")
        else:
            yield prefix + f.name, f.dataType


# The writer.


_WITHOUT_STATS = {"spark.databricks.delta.stats.collect": "false"}


def write_with_stats(
    delta: DeltaJvm,
    open_storage: Callable[[], pa_fs.FileSystem],
    snapshot: Any,
    transaction: Any,
    frame: DataFrame,
    like: Any,
) -> NewFiles:
    """Write rows to new files of the table without a commit.

    Args:
        open_storage: See `Log`.
        snapshot: The snapshot that the transaction is pinned to (py4j).
        transaction: The transaction that writes (py4j).
        like: Any AddFile of the snapshot (py4j): see `DeltaJvm.read_back`.

    Returns:
        The new files. Files without rows are omitted.

    Raises:
        EngineError: ZL316, if a new file cannot be read.
    """
    stats_schema = T.StructType.fromJson(json.loads(delta.stats_schema(snapshot)))
    all_leaves = leaves(json.loads(delta.schema(snapshot)))
    if not footers_suffice(all_leaves, stats_schema):
        written = delta.write_files(transaction, frame)
        written_paths = delta.files.paths(written)
        return _new_files(delta, written, written_paths, row_counts(open_storage(), written_paths))
    with session_conf(delta.spark, _WITHOUT_STATS):
        written = delta.write_files(transaction, frame)
    written_paths = delta.files.paths(written)
    columns = {".".join(leaf.physical): leaf.path for leaf in all_leaves}

    def scan(column: str, paths: Sequence[str]) -> Mapping[str, tuple[int, Bounds]]:  # see `Scan`
        by_uri = dict(zip(file_uris(delta.base_uri(), paths).to_pylist(), paths, strict=True))
        rows = delta.read_back(
            snapshot, delta.files.select(written, positions_among(written_paths, pa.array(paths, pa.string()))), like
        )
        value = F.col(quote_path(columns[column]))
        nulls = F.count_if(value.isNull()).alias("nulls")
        file = metadata_column(rows).getField("file_path")
        found = to_arrow(rows.groupBy(file).agg(nulls, F.min(value), F.max(value)))
        return {
            by_uri[uri.as_py()]: (count.as_py(), bounds_from_scan(low, high))
            for uri, count, low, high in zip(*found.columns, strict=True)
        }

    stats = statistics(delta.spark, open_storage(), written_paths, stats_schema, delta.string_prefix(snapshot), scan)
    kept = stats["path"].combine_chunks()
    changes = stats["change"].cast(pa.large_string()).combine_chunks()
    changed = delta.files.select(written, positions_among(written_paths, kept))
    changed = delta.files.changed(changed, changes, np.arange(len(kept)))
    return _new_files(delta, changed, kept, stats["rows"].to_numpy())


def _new_files(delta: DeltaJvm, adds: Any, paths: pa.Array, rows: Int64) -> NewFiles:
    return NewFiles(adds, np.arange(len(paths)), paths, delta.files.sizes(adds), rows)


# The bounds of new files, for baselines and metrics, from the statistics that are about to be committed.


# The names of statistics in the log, by the names that deltalake gives them.
_STATISTICS = {"min": "minValues", "max": "maxValues", "null_count": "nullCount"}


def written_files(
    files: NewFiles, stats: pa.Array, wanted: Sequence[Leaf], partition: Partition, prefix: int
) -> FileTable | None:
    """Return the new files of one group with the bounds of the z-order columns.

    Args:
        stats: string[files], the statistics as in the log.
        wanted: The leaf columns that are z-order columns.
        partition: The partition of the group.
        prefix: The length in UTF-16 units to which writers truncate string bounds.

    Returns:
        The files; None if the statistics cannot be read, because a rewrite must not fail for this reason.
    """
    values: dict[tuple[str, tuple[str, ...]], list[Any]] = {
        (name, leaf.physical): [] for name in _STATISTICS for leaf in wanted
    }
    try:
        for text in stats:  # one at a time, because the statistics of a wide table are large
            document = json.loads(text.as_py(), parse_float=str, parse_int=str)  # Arrow converts the texts
            for (name, path), found in values.items():
                found.append(_value(document.get(_STATISTICS[name]), path))
        bounds = read_bounds(
            lambda name, path, type_: pa.array(values[name, path], pa.string()).cast(type_), wanted, (), prefix
        )
    except (ValueError, TypeError, ArithmeticError, AttributeError, pa.ArrowException):
        return None
    return file_table(files, np.zeros(len(files), np.int64), (partition,), bounds)


def _value(document: Any, path: Sequence[str]) -> Any:
    for part in path:
        document = document.get(part) if isinstance(document, dict) else None
    return document


# The rewrite and its commits.


# DelayedCommitProtocol puts the number of the Spark partition into the name of a file.
FILE_NAME = r"(?:^|/)part-(?P<partition>\d{5,})-[^/]*$"


def run_zlayout(
    delta: DeltaJvm, log: Log, snapshot: Any, state: TableState, work: PlannedTable, notify: Notify
) -> Iterator[Commit | GroupFailed | Notice]:
    """Rewrite the planned groups and commit them.

    Args:
        log: Makes the commits of the run.
        snapshot: The snapshot that is read, and from which conflicts are checked (py4j).
        state: The table state of the snapshot. Groups that have changed since the plan are dropped: `still_live`.
        notify: Called with each stage.

    Raises:
        EngineError: ZL310 to ZL314, ZL316, ZL318. Only the commits that were yielded were made.
        CommitUnknown: ZL331.
    """
    table = str(work.table)
    groups, changed = still_live(work, state.files)
    if changed:
        failed = tuple(group.id for group, _ in changed)
        files = sum(len(group.files) for group, _ in changed)
        yield GroupFailed(failed, changed_files(table, sum(count for _, count in changed), files))
    if not groups:
        return
    measurement = Measurement(state.files, work)
    with spark_errors(table, "rewriting"):
        pinned = pinned_files(delta, snapshot, table, groups, len(state.files))
        transaction = begin(delta, snapshot, pinned.adds)
        notify(Progress(table, Stage.REWRITING))
        rewritten, notes = write_groups(delta, log.open_storage, snapshot, state, transaction, pinned, groups, work)
        work.predictions()  # wait for the sample here, because a commit should be short and is not interrupted
        notify(Progress(table, Stage.COMMITTING))
    yield from map(Notice, notes)
    committer = Committer(delta, log, snapshot, pinned, transaction, work, measurement, notify)
    for outcome in commit_apart(rewritten, committer.commit):
        yield from map(Notice, committer.notes())
        yield outcome


class Committer:
    """Commits groups that one transaction has written: first all of them and, after a conflict, some of them."""

    def __init__(
        self,
        delta: DeltaJvm,
        log: Log,
        snapshot: Any,
        pinned: PinnedFiles,
        transaction: Any,
        work: PlannedTable,
        measurement: Measurement,
        notify: Notify = lambda _: None,
    ) -> None:
        """Store the transaction that wrote the files. It is used for the first commit, which contains all groups."""
        self._delta = delta
        self._log = log
        self._rebase = Rebase(delta, snapshot, pinned, work, notify)
        self._transactions = [transaction]
        self._work = work
        self._measurement = measurement

    def notes(self) -> list[Diagnostic]:
        """Return why groups were not rebased: see `Rebase.notes`."""
        return self._rebase.notes()

    def commit(self, some: Sequence[Rewritten]) -> Commit:
        """Make one commit. After a conflict with deletion vectors of other writers, rebase the groups and try again.

        Raises:
            CommitConflict: ZL321.
            EngineError: ZL305, ZL310, ZL314, ZL316.
            CommitUnknown: ZL331.
        """
        return self._rebase.until_committed(some, self._commit)

    def _commit(self, some: Sequence[Rewritten]) -> Commit:
        rebased = self._rebase.rows(some)
        snapshot, some = self._rebase.snapshot(some), self._rebase.added(some)
        new = new_files(some)
        with spark_errors(str(self._work.table), "committing"):
            added = self._delta.files.select(new.handles, new.at)
            removed = self._rebase.removed(each.group for each in some)
            require_paths(self._work.table, some, self._delta.files.paths(added), self._delta.files.paths(removed))
            transaction = self._transactions.pop() if self._transactions else begin(self._delta, snapshot, removed)
        with spark_errors(str(self._work.table), "measuring the rewrite"):
            vectors = len(removed) - (pc.sum(pc.equal(self._delta.files.vectors(removed), "")).as_py() or 0)
            self._delta.register_metrics(transaction, operation_metrics(some, vectors))
        tags = self._measurement.properties(some)
        version = self.send(transaction, added, removed, tags)
        # Nothing after the commit may fail, even if the JVM dies.
        self._measurement.committed(some)
        return replace(rewrite_commit(version, some), rebased=rebased)

    def send(self, transaction: Any, added: Any, removed: Any, tags: Mapping[str, str] | None = None) -> int:
        """Commit the replacement of AddFiles by others, both in Java lists, and return the version.

        Raises the errors of `commit`.
        """
        with spark_errors(str(self._work.table), "committing"):
            now = int(time.time() * 1000)
            actions = self._delta.seq(self._delta.files.replacing(added, removed, now, data_change=False))
            operation = self._delta.optimize([column.name for column in self._work.layout.columns])
            self._delta.require_files(added)  # directly before each commit, not only before the first
            require_no_silent_change(self._delta, transaction, str(self._work.table), "plan again")
            return self._log.commit(transaction, actions, operation, "committing", tags)


def write_groups(
    delta: DeltaJvm,
    open_storage: Callable[[], pa_fs.FileSystem],
    snapshot: Any,
    state: TableState,
    transaction: Any,
    files: PinnedFiles,
    groups: Sequence[Group],
    work: PlannedTable,
) -> tuple[list[Rewritten], tuple[Diagnostic, ...]]:
    """Place and write the rows of all groups in one Spark job and check the gate, without a commit.

    Returns:
        The groups with their new files, and notes for the user.
    """
    frame, table = delta.data_frame(snapshot, files.adds), str(work.table)
    origin = metadata_column(frame)
    deletes = any(bool(group.files.deleted.any()) for group in groups)
    paths, positions_in = origin.getField("file_path"), origin.getField("row_index")
    source = Source(frame, paths, positions_in, table=table, has_deletes=deletes)
    with rewrite_conf(delta.spark):
        targets = _targets(delta, groups, source if state.notes else None)
        placed = place(source, work.layout, targets)
        new = write_with_stats(delta, open_storage, snapshot, transaction, placed.frame, files.adds[0])
        placed.gate.check()
        hint = "use a version of Delta that zlayout was tested with"
        numbers = spark_partitions(new.path, FILE_NAME, "part-<number>-...", hint)
        owner = placed.group_of.astype(np.int64)[numbers]
        if work.verify == "full" or _records_other_values(delta, files, groups, new, owner, state):
            placed.gate.verify(delta.read_back(snapshot, new.handles, files.adds[0]))
    added = new.split(owner, len(groups))
    counts = {t.id: (t.rows, int(of_group.rows.sum())) for t, of_group in zip(targets, added, strict=True)}
    require_rows(counts, table, has_deletes=deletes)
    written = _written(delta, snapshot, work, groups, new, owner)
    baselines = [baseline_of(measured, work.layout) for measured in written]
    handles = tagged(delta, new.handles, work, groups, owner, baselines)
    rewritten = [
        Rewritten(group, replace(of_group, handles=handles), measured)
        for group, of_group, measured in zip(groups, added, written, strict=True)
    ]
    return rewritten, placed.notes(work.table)


def _written(
    delta: DeltaJvm, snapshot: Any, work: PlannedTable, groups: Sequence[Group], new: NewFiles, owner: Int64
) -> list[FileTable | None]:
    """Return the new files by group, None if bounds cannot be read. owner: int64[files], the position of the group."""
    names = {column.name for column in work.layout.columns}
    wanted = [leaf for leaf in leaves(json.loads(delta.schema(snapshot))) if leaf.name in names]
    prefix, stats = delta.string_prefix(snapshot), delta.files.stats(new.handles)
    found = []
    for group, chosen in zip(groups, positions(owner, len(groups)), strict=True):
        partition = group.files.partitions[group.files.partition[0]]
        of_group = stats.take(pa.array(chosen))
        found.append(written_files(new.take(chosen), of_group, wanted, partition, prefix))
    return found


def _records_other_values(
    delta: DeltaJvm, files: PinnedFiles, groups: Sequence[Group], new: NewFiles, owner: Int64, state: TableState
) -> bool:
    """Needed because the gate compares rows before their partition values become strings in the log."""
    if not state.partition_fields:
        return False
    before = np.array([files.of([group])[0] for group in groups], np.int64)
    return not delta.files.partitioned_as(new.handles, files.adds, before[owner])


def _targets(delta: DeltaJvm, groups: Sequence[Group], uncounted: Source | None) -> list[GroupTarget]:
    """uncounted: the rows to count if the log lacks exact row counts, else None."""
    base = delta.base_uri()
    uris = [file_uris(base, group.files.path.to_pylist()) for group in groups]
    rows = [int(group.files.live_rows.sum()) for group in groups]
    if uncounted is not None:
        found = to_arrow(uncounted.frame.groupBy(uncounted.file.alias("file")).count())
        counted = dict(zip(found["file"].to_pylist(), found["count"].to_pylist(), strict=True))
        rows = [sum(counted.get(uri, 0) for uri in paths.to_pylist()) for paths in uris]
    return [
        GroupTarget(group.id, paths, live, group.target_files)
        for group, paths, live in zip(groups, uris, rows, strict=True)
    ]


def tagged(
    delta: DeltaJvm,
    adds: Any,
    work: PlannedTable,
    groups: Sequence[Group],
    owner: Int64,
    baselines: Sequence[Baseline | None],
) -> Any:
    """Return copies of new AddFiles with the file tags of their layout records. `dataChange` is false, as in OPTIMIZE.

    Args:
        adds: The new AddFiles, a java.util.List.
        owner: int64[files], the position of the group of each new file.
        baselines: The baseline of each group, None if it is not known.
    """
    changes = []
    for group, baseline in zip(groups, baselines, strict=True):
        tags = {**layout_tags(work.layout), GROUP: f"{work.run_id}/{group.id}"}
        if baseline is not None:
            tags[BASELINE] = str(baseline)
        changes.append(json.dumps({"dataChange": False, "tags": tags}))
    return delta.files.changed(adds, pa.array(changes, pa.string()), owner)


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads lists of AddFile with their deletion vectors; satisfies `kernel.rebase.Reader`.

    Attributes:
        snapshot: The pinned snapshot (py4j).
        like: See `DeltaJvm.read_back`.
    """

    delta: DeltaJvm
    snapshot: Any
    like: Any
    table: str

    @property
    def session(self) -> SparkSession:
        return self.delta.spark

    def select(self, files: Any, at: Int64) -> Any:
        return self.delta.files.select(files, at)

    def names(self, files: Any) -> pa.Array:
        return file_uris(self.delta.base_uri(), self.delta.files.paths(files).to_pylist())

    def pinned(self, files: Any) -> DataFrame:
        return _with_origin(self.delta.data_frame(self.snapshot, files))

    def written(self, files: Any) -> DataFrame:
        return _with_origin(self.delta.read_back(self.snapshot, files, self.like))


def _with_origin(frame: DataFrame) -> DataFrame:
    origin = metadata_column(frame)
    return frame.select("*", origin.getField("file_path").alias(FILE), origin.getField("row_index").alias(POSITION))


class Rebase(rebase.Rebase):
    """The deletion vectors of the pinned files and of the new files of one rewrite, all of them lists of AddFile.

    A version is a snapshot (py4j).
    """

    def __init__(self, delta: DeltaJvm, snapshot: Any, pinned: PinnedFiles, work: PlannedTable, notify: Notify) -> None:
        """Store what the rewrite has read. snapshot: the pinned one (py4j). notify: called with each stage."""
        super().__init__(delta.spark, pinned.adds, work, notify, FAILURES)
        self._delta, self._snapshot, self._pinned = delta, snapshot, pinned

    def snapshot(self, some: Sequence[Rewritten]) -> Any:
        """Return the snapshot at which the transaction for these groups begins. They were rebased together."""
        return self._versions.get(some[0].group.id, self._snapshot)

    def removed(self, groups: Iterable[Group]) -> Any:
        """Return the AddFiles of the groups' pinned files in that snapshot, a java.util.List."""
        return self._delta.files.select(self._old, self._pinned.of(groups))

    def _is_possible(self) -> bool:
        return self._delta.writes_vectors(self._snapshot)

    def _newest(self) -> Any:
        return self._delta.snapshot()

    @contextmanager
    def _reader(self) -> Iterator[Reader]:
        yield Reader(self._delta, self._snapshot, self._pinned.adds[0], str(self._work.table))

    def _deleted_rows(self, now: Any, some: Sequence[Rewritten]) -> Deleted | None:
        delta, files = self._delta, self._delta.files
        if not (delta.same_definition(self._snapshot, now) and delta.writes_vectors(now)):
            return None
        groups = [each.group for each in some]
        at = self._positions(groups)
        before = files.select(self._old, at)
        after = files.after(before, self.snapshot(some).version(), now.version())
        if after is None:
            return None
        if not files.same_ids(before, after):
            return None  # Delta does not check this, because the transaction begins at the newest version
        removed = files.missing(after)
        same = pc.equal(files.vectors(before), files.vectors(after))
        changed = np.flatnonzero(removed | ~np.asarray(same.to_numpy(zero_copy_only=False), bool))
        before, after = files.select(before, changed), files.select(after, changed)
        if not len(changed) or files.deleted_since(before, after) > rebase.MAX_ROWS:
            return None
        rows = files.newly_deleted(before, after)
        if not rows or not sum(map(len, rows)):
            return None
        owner = np.repeat(np.arange(len(some)), [len(group.files) for group in groups])
        return Deleted(before, after, removed[changed], at[changed], owner[changed], rows)

    def _positions(self, groups: Sequence[Group]) -> Int64:
        return self._pinned.of(groups)

    def _written(self, handles: Any) -> Any:
        return handles

    def _marked(self, files: Any, copies: Located) -> Any:
        if pc.any(pc.equal(self._delta.files.stats(files), "")).as_py():
            return None  # Delta requires the number of rows of a file with a deletion vector
        return self._delta.files.marked(files, copies.positions)

    def _newly_deleted(self, before: Any, after: Any) -> Sequence[Int64] | None:
        return self._delta.files.newly_deleted(before, after)

    def _replaced(self, files: Any, at: Int64, others: Any) -> Any:
        return self._delta.files.replaced(files, at, others)

    def _to_commit(self, added: NewFiles) -> NewFiles:
        return replace(added, handles=self._new)
