"""Writes new files through Delta's own writer, with statistics from their Parquet footers where possible."""

from __future__ import annotations

import decimal
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any
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

from zlayout.errors import EngineError, first_line
from zlayout.formats.delta.read.schema import Leaf, leaves
from zlayout.formats.delta.write.jvm import DeltaJvm, metadata_column
from zlayout.formats.delta.write.source_files import file_uris
from zlayout.formats.kernel.commits import NewFiles, positions_among
from zlayout.spark.arrow import from_arrow, to_arrow
from zlayout.spark.jvm import session_conf
from zlayout.sql_text import quote_path
from zlayout.table.state import Int64

# Truncates string bounds as Delta's writer does.


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


# Computes Delta's statistics of new files from their Parquet footers.
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


_WITHOUT_STATS = {"spark.databricks.delta.stats.collect": "false"}


def write_with_stats(
    delta: DeltaJvm, storage: pa_fs.FileSystem, snapshot: Any, transaction: Any, frame: DataFrame, like: Any
) -> NewFiles:
    """Write rows to new files of the table without a commit.

    Args:
        storage: The file system, rooted at the table.
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
        return _new_files(delta, written, written_paths, row_counts(storage, written_paths))
    with session_conf(delta.spark, _WITHOUT_STATS):
        written = delta.write_files(transaction, frame)
    written_paths = delta.files.paths(written)
    columns = {".".join(leaf.physical): leaf.path for leaf in all_leaves}

    def scan(column: str, paths: Sequence[str]) -> Mapping[str, tuple[int, Bounds]]:  # see `footers.Scan`
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

    stats = statistics(delta.spark, storage, written_paths, stats_schema, delta.string_prefix(snapshot), scan)
    kept = stats["path"].combine_chunks()
    changes = stats["change"].cast(pa.large_string()).combine_chunks()
    changed = delta.files.select(written, positions_among(written_paths, kept))
    changed = delta.files.changed(changed, changes, np.arange(len(kept)))
    return _new_files(delta, changed, kept, stats["rows"].to_numpy())


def _new_files(delta: DeltaJvm, adds: Any, paths: pa.Array, rows: Int64) -> NewFiles:
    return NewFiles(adds, np.arange(len(paths)), paths, delta.files.sizes(adds), rows)
