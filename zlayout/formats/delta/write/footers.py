"""Delta's statistics of new files, from their Parquet footers instead of from a second pass over all rows.

Delta computes minimum, maximum and null count by an aggregate over each row that it writes. The Parquet writer has
computed the same, column by column, and stored it in the footer. The statistics in the log are equal for each type
(tests/spark/test_delta_footers.py); Spark itself converts the values to JSON, as it does for Delta.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.fs as pa_fs
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from zlayout.errors import EngineError, first_line
from zlayout.formats.delta.read.schema import Leaf

Bounds = tuple[Any, Any]
Kinds = Mapping[str, T.DataType]
# Null count and bounds of a column (by physical dotted name) in new files (by path) whose footers lack them.
Scan = Callable[[str, Sequence[str]], Mapping[str, tuple[int, Bounds]]]

_READERS = 16  # threads
# The writers that are known to treat NaN as the largest value, as Spark does, and not to ignore it.
_COUNTS_NAN = "parquet-mr version 1.16."
_OLD_CALENDAR = b"org.apache.spark.legacyDateTime"
_EXACT = decimal.Context(prec=76)
_LAST_ASCII = "\x7f"
_LAST_CHARACTER = "\U0010ffff"


@dataclass(slots=True)
class Footer:
    """What one file's footer contains about its columns, by physical dotted name.

    bounds: numbers; strings as UTF-8 bytes; dates in days and timestamps in microseconds since 1970. If values are too
    long for Parquet, neither nulls nor bounds are known.
    """

    rows: int
    nulls: dict[str, int] = field(default_factory=dict)
    bounds: dict[str, Bounds] = field(default_factory=dict)

    def knows(self, column: str, *, bounded: bool) -> bool:
        nulls = self.nulls.get(column)
        return nulls is not None and (not bounded or column in self.bounds or nulls == self.rows)


def in_footers(leaves: Sequence[Leaf], stats_schema: T.StructType) -> bool:
    """Return whether footers contain all that `stats_schema` (Delta's `statsSchema`) needs.

    They do not for arrays, maps and variants, of which a footer counts other nulls than Delta, and not if two of the
    table's leaves have the same dotted name.
    """
    kinds = {".".join(leaf.physical): leaf.type for leaf in leaves}
    counted = _leaf_types(_part(stats_schema, "nullCount"))
    return len(kinds) == len(leaves) and not any(pa.types.is_null(kinds.get(c, pa.null())) for c in counted)


def statistics(
    spark: SparkSession,
    storage: pa_fs.FileSystem,
    paths: Sequence[str],
    stats_schema: T.StructType,
    string_prefix: int,
    scan: Scan,
) -> dict[str, str]:
    """Compute Delta's statistics of new files.

    Args:
        spark: The session.
        storage: The file system, rooted at the table.
        paths: Of the files as in the log, URL-encoded and relative.
        stats_schema: Delta's `statsSchema`.
        string_prefix: Number of characters of a string bound to keep.
        scan: Computes what a footer lacks.

    Returns:
        The statistics as JSON, by path. Files without rows are left out.

    Raises:
        EngineError: ZL316, if a footer cannot be read.
    """
    kinds, counted = _leaf_types(_part(stats_schema, "minValues")), _leaf_types(_part(stats_schema, "nullCount"))
    read = read_footers(storage, paths, kinds, counted)
    footers = {path: footer for path, footer in read.items() if footer.rows}
    for column in counted:
        unknown = [path for path, footer in footers.items() if not footer.knows(column, bounded=column in kinds)]
        for path, (nulls, bounds) in (scan(column, unknown) if unknown else {}).items():
            footers[path].nulls[column] = nulls
            if column in kinds:
                footers[path].bounds[column] = bounds
    rows = [{"path": path, "stats": _row(footer, stats_schema, string_prefix)} for path, footer in footers.items()]
    schema = T.StructType().add("path", T.StringType()).add("stats", stats_schema)
    table = pa.Table.from_pylist(rows, schema=to_arrow_schema(schema))
    found = spark.createDataFrame(table, schema).select("path", F.to_json("stats").alias("stats")).toArrow()
    return dict(zip(found["path"].to_pylist(), found["stats"].to_pylist(), strict=True))


def read_footers(storage: pa_fs.FileSystem, paths: Sequence[str], bounded: Kinds, counted: Kinds) -> dict[str, Footer]:
    """Read the footers of several files, by path as in the log. Raises EngineError ZL316."""
    with ThreadPoolExecutor(_READERS) as pool:
        read = pool.map(lambda path: read_footer(storage, unquote(path), bounded, counted), paths)
        return dict(zip(paths, read, strict=True))


def read_footer(storage: pa_fs.FileSystem, path: str, bounded: Kinds, counted: Kinds) -> Footer:
    """Read the footer of one Parquet file for these columns, over all row groups. Raises EngineError ZL316."""
    try:
        metadata = pq.read_metadata(path, filesystem=storage)
    except (OSError, pa.ArrowException) as error:
        raise EngineError.of(
            "ZL316",
            f"the new file {path} is gone or cannot be read: {first_line(error)}",
            hint="nothing was committed; run VACUUM only with a retention period, and plan again",
        ) from error
    chunks: dict[str, list[Any]] = {name: [] for name in counted}
    for group in range(metadata.num_row_groups):
        row_group = metadata.row_group(group)
        for at in range(metadata.num_columns):
            chunk = row_group.column(at)
            if chunk.path_in_schema in chunks:
                chunks[chunk.path_in_schema].append(chunk.statistics)
    unreadable = _unreadable(metadata, bounded)
    footer = Footer(metadata.num_rows)
    for name, found in chunks.items():
        # not one per row group: absent, or two columns with the same dotted name
        if len(found) != metadata.num_row_groups or any(s is None or not s.has_null_count for s in found):
            continue
        footer.nulls[name] = sum(s.null_count for s in found)
        filled = [s for s in found if s.num_values]
        if name in bounded and name not in unreadable and filled and all(s.has_min_max for s in filled):
            lows, highs = ([_number(v, bounded[name]) for v in raw] for raw in zip(*map(_raw, filled), strict=True))
            footer.bounds[name] = min(lows, key=_in_order), max(highs, key=_in_order)
    return footer


def _raw(statistics: pq.Statistics) -> Bounds:
    return statistics.min_raw, statistics.max_raw


def _in_order(value: Any) -> tuple[bool, Any]:
    """A sort key for which NaN is the largest value, as in Spark."""
    return value != value, value


def _unreadable(metadata: pq.FileMetaData, bounded: Kinds) -> set[str]:
    """The columns whose bounds `_number` would read wrongly."""
    unknown = set()
    old_calendar = _OLD_CALENDAR in (metadata.metadata or {})
    without_nan = not str(metadata.created_by).startswith(_COUNTS_NAN)
    for at in range(metadata.num_columns):
        column = metadata.schema.column(at)
        match bounded.get(column.path):
            case T.FloatType() | T.DoubleType() if without_nan:
                unknown.add(column.path)
            case T.DateType() | T.TimestampType() | T.TimestampNTZType() if old_calendar:
                unknown.add(column.path)
            case T.TimestampType() | T.TimestampNTZType() if "timeUnit=microseconds" not in str(column.logical_type):
                unknown.add(column.path)
            case T.DecimalType() as kind if column.scale != kind.scale:
                unknown.add(column.path)
    return unknown


def scanned(low: pa.Scalar, high: pa.Scalar) -> Bounds:
    """Return bounds that a scan found in the form of `Footer.bounds`."""
    return _plain(low), _plain(high)


def _plain(value: pa.Scalar) -> Any:
    if isinstance(value, pa.Date32Scalar | pa.TimestampScalar):
        return value.value  # Python's dates end at the year 9999
    if isinstance(value, pa.StringScalar) and value.is_valid:
        return value.as_buffer().to_pybytes()  # which need not be UTF-8
    return value.as_py()


def _number(raw: Any, kind: T.DataType) -> Any:
    """A bound as Parquet stores it, in the form of `Footer.bounds`."""
    if isinstance(kind, T.DecimalType):
        unscaled = int.from_bytes(raw, "big", signed=True) if isinstance(raw, bytes) else raw
        return decimal.Decimal(unscaled).scaleb(-kind.scale, _EXACT)
    if isinstance(kind, T.FloatType | T.DoubleType):
        return raw + 0.0  # Parquet widens a bound of 0.0 to -0.0; they are the same value
    return raw


def _row(footer: Footer, stats_schema: T.StructType, string_prefix: int) -> dict[str, Any]:
    known = {c: v for c, v in footer.bounds.items() if _is_text(v)}
    low = {c: cut_lower(v[0], string_prefix) for c, v in known.items()}
    high = {c: cut_upper(v[1], string_prefix) for c, v in known.items()}
    values = {"minValues": low, "maxValues": high, "nullCount": footer.nulls}
    whole: dict[str, Any] = {"numRecords": footer.rows, "tightBounds": True}
    for part, by_column in values.items():
        whole[part] = _nested(_part(stats_schema, part), by_column)
    return {name: whole[name] for name in stats_schema.names}


def _is_text(bounds: Bounds) -> bool:
    """Whether bounds are valid UTF-8 if they are strings. JSON would change others, and so their order."""
    try:
        return all(not isinstance(bound, bytes) or bound.decode() is not None for bound in bounds)
    except UnicodeDecodeError:
        return False


def cut_lower(value: Any, prefix: int) -> Any:
    """Return the first `prefix` characters of a string's bytes; other values unchanged."""
    return value.decode()[:prefix] if isinstance(value, bytes) else value


def cut_upper(value: Any, prefix: int) -> Any:
    """Return a short string that is not below a string's bytes, None if there is none; other values as they are.

    This is the rule of Delta's `StatisticsCollection.truncateMaxStringAgg`, which counts lengths in UTF-16 units: cut,
    and append a character above the first one that was cut off.
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
