"""Observes a Delta table without a JVM: `observe_delta` returns its table state.

Live files are read through deltalake, file tags and clustering columns from the log, and row counts that the log lacks
from Parquet footers.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pa_fs
import pyarrow.parquet as pq
from deltalake.exceptions import DeltaError
from numpy.typing import NDArray

from zlayout.errors import Diagnostic, Location, Refused, SpecError, TableError
from zlayout.formats.delta.read.features import (
    CLUSTERING,
    CONSTRAINT,
    behind_catalog,
    can_rebase,
    catalog_owned,
    refusals,
    table_features,
)
from zlayout.formats.delta.read.history import commit_infos, commit_records, external
from zlayout.formats.delta.read.log import (
    BY_COMMITS,
    GROUP,
    LAYOUT,
    LAYOUT_ID,
    LOG,
    PROVIDER,
    RECORDS,
    SIDECARS,
    VALUE,
    ZCUBE_COLUMNS,
    ZCUBE_ID,
    LogFiles,
    baselines,
    codes_of,
    layout_records,
    local_path,
    log_files,
    open_table,
    read_actions,
    read_annotations,
    table_files,
    unreadable,
)
from zlayout.formats.delta.read.schema import (
    STRING_PREFIX_DEFAULT,
    Leaf,
    columns_of,
    leaves,
    parse_names,
    schema_digest,
    string_prefix,
)
from zlayout.predicate.model import columns as predicate_columns
from zlayout.predicate.model import renamed
from zlayout.predicate.parse import parse_where
from zlayout.predicate.prune import may_match
from zlayout.spec.model import CLUSTERED_BY, TableName
from zlayout.spec.semantics import present_records
from zlayout.table.external import MAX_CLOCK_SKEW, ExternalRewrite, Ordering, maintained_by
from zlayout.table.order import distinct_rows
from zlayout.table.outside import Outside, counted, files_text, find_outside, is_below, is_plain
from zlayout.table.outside import refusal as outside_refusal
from zlayout.table.partition_values import python_values
from zlayout.table.state import (
    Bools,
    ColumnBounds,
    FileTable,
    Int32,
    Int64,
    LayoutRecord,
    Partition,
    PartitionField,
    PartitionRefusal,
    TableState,
    is_text,
    maxima,
    null_values,
    reserved_refusals,
)
from zlayout.text import dotted, path_of

# Clustering by Delta itself: the clustering columns of a table, and the columns by which each file is clustered.
#
# The clustering columns are in the domain metadata `delta.clustering`. A file that OPTIMIZE has clustered has the
# clustering provider `liquid` and the file tags ZCUBE_ID and ZCUBE_ZORDER_BY (`ZCubeInfo` in the Delta source). Files
# with the same ZCUBE_ID are a ZCube: one OPTIMIZE clustered them together.


DOMAIN = "delta.clustering"
LIQUID = "liquid"  # the provider of Delta's own OPTIMIZE


def clustering_columns(
    log: LogFiles, version: int, features: frozenset[str], all_leaves: Sequence[Leaf]
) -> tuple[str, ...] | None:
    """Return the clustering columns of a version, empty after CLUSTER BY NONE; None for a table without clustering.

    Args:
        features: The table features. The log is read only if clustering is one of them.

    Raises:
        TableError: ZL111, if the domain metadata cannot be understood; ZL113, if a commit is missing.
    """
    if CLUSTERING not in features:
        return None
    configuration = _configuration(log, version)
    names = {leaf.physical: leaf.name for leaf in all_leaves}
    try:
        physical = json.loads(configuration).get("clusteringColumns", []) if configuration else []
        return tuple(names[tuple(path)] for path in physical)
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
        raise TableError.of(
            "ZL111",
            f"expected domain metadata {DOMAIN} with columns of the table, found {configuration[:200]}",
            hint="run ALTER TABLE ... CLUSTER BY with the columns by which the table should be clustered",
        ) from error


def clustering_records(annotations: pa.Table) -> tuple[Int32, tuple[LayoutRecord, ...], Int32]:
    """Do what `zlayout.formats.delta.read.log.layout_records` does, for a clustered table.

    The files of one ZCube are one group. A file that no OPTIMIZE has clustered has neither record nor group (-1). The
    record of a file of another clustering provider has no columns, because only that provider knows them.

    Args:
        annotations: See `zlayout.formats.delta.read.log.read_annotations`.
    """
    encoded = [codes_of(annotations[name]) for name in (PROVIDER, ZCUBE_ID, ZCUBE_COLUMNS)]
    distinct, of_file = distinct_rows([codes for codes, _ in encoded])  # about one row per ZCube
    texts = [values.to_pylist() for _, values in encoded]
    found: dict[tuple[str, tuple[str, ...]], int] = {}
    cubes: dict[str, int] = {}
    layout = np.full(len(distinct), -1, np.int32)
    group = np.full(len(distinct), -1, np.int32)
    names: tuple[str, ...]
    for at in np.argsort(np.unique(of_file, return_index=True)[1]).tolist():  # in the order of their first files
        codes = distinct[at].tolist()
        provider, cube, columns = (
            values[code] if code >= 0 else None for code, values in zip(codes, texts, strict=True)
        )
        if provider not in (None, LIQUID):
            writer, names, cube = f"{PROVIDER}={provider}", (), f"{PROVIDER}={provider}"
        else:
            writer, names = LIQUID, _column_names(columns)
            if cube is None or not names:
                continue
        layout[at] = found.setdefault((writer, names), len(found))
        group[at] = cubes.setdefault(cube, len(cubes))
    records = tuple(LayoutRecord(provider, {CLUSTERED_BY: list(columns)}) for provider, columns in found)
    return layout[of_file], records, group[of_file]


def _column_names(text: str | None) -> tuple[str, ...]:
    """Return the column names in the tag ZCUBE_ZORDER_BY, as in the table state; empty if it is invalid."""
    try:
        names = json.loads(text or "")
        return tuple(dotted(parsed) for name in names for parsed in parse_names(name)[:1])
    except (ValueError, TypeError, RecursionError):
        return ()


def _configuration(log: LogFiles, version: int) -> str:
    segment = log.segment(version)
    for name in (*reversed(segment.commits), *segment.checkpoint):
        found = None
        for action in log.actions(name, "domainMetadata"):
            if action.get("domain") == DOMAIN:
                found = "" if action.get("removed") else str(action.get("configuration") or "")
        if found is not None:
            return found
    return ""


# Bounds and row counts of files, from Delta statistics.
#
# Bounds have the meaning that they have for Spark's file skipping. Row counts that the log lacks are read from Parquet
# footers or, for many files, estimated.


# Delta truncates timestamps in statistics to milliseconds, so its readers add one millisecond to the maximum.
_MICROSECONDS_PER_MILLISECOND = 1000
# A maximum that Spark truncated ends in one of these characters (StatisticsCollection.truncateMaxStringAgg). A
# truncated minimum has the length `delta.dataSkippingStringPrefixLength` (default 32), or one more if that would split
# a surrogate pair. A minimum that is not truncated may have this length too. So the length is considered only if some
# maximum of the column is truncated. The log does not store the property as it was when a file was written. Therefore
# a minimum of the default length counts as truncated too.
_TIE_BREAKERS = ("\x7f", "\U0010ffff")
# Writers that copy the statistics of Parquet files, such as delta-rs, truncate both bounds to this number of bytes and
# round the maximum up. They append no character that marks a truncated maximum.
_PARQUET_LENGTH_BYTES = 64
# Reading a footer takes one or two requests. If more files than this have no row count, row counts are estimated.
_MAX_FOOTERS = 64
_FOOTER_THREADS = 8


# Returns one statistic, given its name (min, max or null_count), the physical path of a leaf column, and the type.
Statistics = Callable[[str, tuple[str, ...], pa.DataType], pa.Array]


def read_bounds(
    statistics: Statistics, wanted: Sequence[Leaf], without: Collection[str], prefix: int
) -> dict[str, ColumnBounds]:
    """Return the bounds of leaf columns by name.

    Args:
        statistics: The statistics of the files, null where missing.
        without: The names of partition columns, whose bounds are null.
        prefix: The length in UTF-16 units to which the table's writers now truncate string bounds.
    """
    return {
        leaf.name: _bounds(statistics, leaf, leaf.skippable and leaf.name not in without, prefix) for leaf in wanted
    }


def recorded_columns(adds: pa.Table, leaves: Sequence[Leaf]) -> frozenset[str] | None:
    """Return the names of the leaf columns of which a file has a minimum; None if there are no files."""
    if not adds.num_rows:
        return None
    known = (leaf for leaf in leaves if leaf.skippable)
    return frozenset(
        leaf.name for leaf in known if _statistic(adds, "min", leaf.physical, leaf.type).null_count < adds.num_rows
    )


def _bounds(statistics: Statistics, leaf: Leaf, known: bool, prefix: int) -> ColumnBounds:
    null_count = pc.fill_null(statistics("null_count", leaf.physical, pa.int64()), -1)
    lower, upper = (
        statistics(name, leaf.physical, leaf.type) if known else pa.nulls(len(null_count), leaf.type)
        for name in ("min", "max")
    )
    truncated = np.zeros(len(null_count), np.bool_)
    if pa.types.is_string(leaf.type):
        truncated = _truncated(lower, upper, prefix)
    elif pa.types.is_timestamp(leaf.type):
        later = pc.add(upper.cast(pa.int64()), _MICROSECONDS_PER_MILLISECOND)
        upper = later.cast(leaf.type)
    return ColumnBounds(lower, upper, null_count.to_numpy(zero_copy_only=False), truncated)


def _statistic(adds: pa.Table, name: str, path: Sequence[str], type_: pa.DataType) -> pa.Array:
    if name not in adds.column_names:
        return pa.nulls(adds.num_rows, type_)
    column = adds[name].combine_chunks()
    for part in path:
        names = [field.name for field in column.type] if pa.types.is_struct(column.type) else []
        if part not in names:
            return pa.nulls(adds.num_rows, type_)
        column = pc.struct_field(column, [names.index(part)])
    return column.cast(type_)


def _truncated(lower: pa.Array, upper: pa.Array, prefix: int) -> NDArray[np.bool_]:
    """Return for each file whether one of its two string bounds may be truncated. See `_TIE_BREAKERS`."""
    marked = pc.or_(pc.ends_with(upper, _TIE_BREAKERS[0]), pc.ends_with(upper, _TIE_BREAKERS[1]))
    parts = [marked, *(pc.equal(pc.binary_length(side), _PARQUET_LENGTH_BYTES) for side in (lower, upper))]
    if pc.any(marked).as_py():
        length = _utf16_length(lower)
        lengths = {n for start in (STRING_PREFIX_DEFAULT, prefix) for n in (start, start + 1)}
        parts.append(pc.is_in(length, pa.array(sorted(lengths), length.type)))
    truncated: NDArray[np.bool_] = np.logical_or.reduce(
        [pc.fill_null(part, False).to_numpy(zero_copy_only=False) for part in parts]
    )
    return truncated


def _utf16_length(text: pa.Array) -> pa.Array:
    """Return lengths in UTF-16 units, as in Java: a character beyond the basic multilingual plane counts as two."""
    return pc.add(pc.utf8_length(text), pc.count_substring_regex(text, "[\U00010000-\U0010ffff]"))


def complete_row_counts(
    storage: pa_fs.FileSystem, path: pa.Array, num_records: pa.ChunkedArray, sizes: Int64, outside: Bools
) -> tuple[Int64, tuple[Diagnostic, ...]]:
    """Complete the row counts that the log lacks, from Parquet footers or, for many files, from file sizes.

    Args:
        storage: The file system, rooted at the table.
        path: string[files], the paths as in the log.
        num_records: int64[files], the row counts in the log, null if missing.
        sizes: int64[files], the file sizes in bytes.
        outside: bool[files], the files outside of the location of the table, whose footers are not read.

    Returns:
        int64[files], the row counts, and a note ZL411 if some are estimates.
    """
    rows = pc.fill_null(num_records, -1).to_numpy().astype(np.int64)
    unknown = np.flatnonzero(rows < 0)
    if not len(unknown):
        return rows, ()
    rows = rows.copy()
    if len(unknown) <= _MAX_FOOTERS:
        readable = unknown[~outside[unknown]]
        names = path.take(pa.array(readable)).to_pylist()
        with ThreadPoolExecutor(_FOOTER_THREADS) as pool:
            rows[readable] = list(pool.map(lambda name: _footer_rows(storage, name), names))
        unknown = np.flatnonzero(rows < 0)
    if not len(unknown):
        return rows, ()
    known = rows >= 0
    rows_per_byte = rows[known].sum() / max(int(sizes[known].sum()), 1) if known.any() else 0.01
    rows[unknown] = np.maximum(1, np.rint(sizes[unknown] * rows_per_byte)).astype(np.int64)
    note = Diagnostic(
        "ZL411",
        f"{len(unknown)} of {len(rows)} files have no row count in the log; it is estimated from the file size",
        "note",
        "run zlayout apply, which writes statistics for the files that it rewrites",
    )
    return rows, (note,)


def _footer_rows(storage: pa_fs.FileSystem, name: str) -> int:
    try:
        with storage.open_input_file(unquote(name)) as source:
            return int(pq.ParquetFile(source).metadata.num_rows)
    except (OSError, pa.ArrowException):
        return -1


# Partition values that are not what deltalake returns for them, or that a rewrite would change.


ZONE = r"(Z|[+-]\d{2}:?\d{2})$"
WRITTEN_AS_NULL = ("", "__HIVE_DEFAULT_PARTITION__")


def stored_values(adds: pa.Table, all_leaves: Sequence[Leaf], partition_columns: Collection[str]) -> list[Leaf]:
    """Return the partition columns whose values must be read as the log stores them.

    deltalake returns an empty string as null, and a timestamp without a time zone as one in UTC.
    """
    top = [leaf for leaf in all_leaves if len(leaf.path) == 1 and leaf.path[0] in partition_columns]
    return [
        leaf for leaf in top if has_zone(leaf.type) or (is_text(leaf.type) and _partition_value(adds, leaf).null_count)
    ]


def with_empty_strings(adds: pa.Table, annotations: pa.Table, stored: Sequence[Leaf]) -> pa.Table:
    """Return the add actions with the strings in partition columns that deltalake returns as null."""
    texts = [leaf for leaf in stored if is_text(leaf.type)]
    if not texts:
        return adds
    column = adds["partition"].combine_chunks()
    fields = [field.name for field in column.type]
    values = [pc.struct_field(column, [name]) for name in fields]
    for leaf in texts:
        at, text = fields.index(leaf.path[0]), annotations[VALUE + leaf.physical[0]].combine_chunks()
        values[at] = pc.coalesce(values[at], text.cast(values[at].type))
    filled = pa.StructArray.from_arrays(values, fields)
    return adds.set_column(adds.schema.get_field_index("partition"), "partition", filled)


def value_refusals(annotations: pa.Table, stored: Sequence[Leaf]) -> Iterator[PartitionRefusal]:
    """Yield ZL217 and ZL218 for partitions whose value a rewrite would change.

    Args:
        annotations: See `zlayout.formats.delta.read.log.read_annotations`.
        stored: The columns whose values it has.
    """
    for leaf in stored:
        values = annotations[VALUE + leaf.physical[0]].combine_chunks()
        if is_text(leaf.type):
            changed, refusal = pc.is_in(values, pa.array(WRITTEN_AS_NULL)), empty_string(leaf.path[0])
        else:
            without_zone = pc.invert(pc.match_substring_regex(values, ZONE))
            changed, refusal = pc.and_(without_zone, pc.not_equal(values, "")), no_zone(leaf.path[0])
        found = pc.fill_null(changed, False).to_numpy(zero_copy_only=False)
        if found.any():
            yield replace(refusal, files=found)


def null_refusals(adds: pa.Table, required: Sequence[Leaf], files: FileTable) -> Iterator[PartitionRefusal]:
    """Yield ZL245 for columns that must not be null, of which files have more nulls than deleted rows."""
    if not required or "null_count" not in adds.column_names:
        return
    counted = adds["null_count"].combine_chunks()
    for leaf in required:
        at = counted.type.get_field_index(leaf.physical[0])
        if at < 0 or not pc.max(values := counted.field(at)).as_py():  # the usual case, without a copy
            continue
        nulls = pc.fill_null(values, 0).to_numpy()
        if (found := nulls > files.deleted).any():
            yield replace(null_values(leaf.name), files=found)


def constraint_refusals(
    adds: pa.Table, all_leaves: Sequence[Leaf], properties: Mapping[str, str], files: FileTable
) -> Iterator[PartitionRefusal]:
    """Yield ZL245 for CHECK constraints of one column that a bound of a file violates, so that a row of it does.

    A constraint that zlayout cannot evaluate is not considered. Without deleted rows, a bound is the value of a row,
    unless it is truncated or rounded.
    """
    names = {leaf.name.lower(): leaf for leaf in all_leaves}
    for name, text in properties.items():
        if not name.startswith(CONSTRAINT):
            continue
        with suppress(SpecError):
            condition = parse_where(text, Location(""))
            if len(used := predicate_columns(condition)) != 1 or (leaf := names.get(min(used).lower())) is None:
                continue
            condition = renamed(condition, {min(used): leaf.name})
            if not (pa.types.is_integer(leaf.type) or pa.types.is_date(leaf.type) or pa.types.is_decimal(leaf.type)):
                continue
            broken = np.zeros(len(files), bool)
            for side in ("min", "max"):
                value = _statistic(adds, side, leaf.physical, leaf.type)
                exact = ColumnBounds(value, value, np.zeros(len(files), np.int64), np.zeros(len(files), bool))
                holds = may_match(condition, {leaf.name: exact}, files.rows)
                broken |= ~holds & value.is_valid().to_numpy(zero_copy_only=False)
            if (broken := broken & (files.deleted == 0)).any():
                found = f"rows that violate the CHECK constraint {name.removeprefix(CONSTRAINT)} ({text})"
                hint = "correct the rows by UPDATE or DELETE, or drop the constraint"
                yield PartitionRefusal("ZL245", found, hint, broken)


def empty_string(column: str) -> PartitionRefusal:
    found = f"an empty string in the partition column {column}, which Delta would store as null"
    hint = f"UPDATE these rows, or exclude them by `where` of the layout: {column} != ''"
    return PartitionRefusal("ZL217", found, hint, column=column)


def no_zone(column: str) -> PartitionRefusal:
    """Delta wrote these before version 3.3. A rewrite would read them in the session's zone and store the instant."""
    found = (
        f"a timestamp without a time zone in the partition column {column}, which readers in different time zones "
        "interpret as different instants"
    )
    hint = (
        "declare partition_timezone: UTC in the layout if their writer used UTC; else rewrite these partitions in the "
        "time zone of their writer, with Delta 3.3 or later, which records UTC"
    )
    return PartitionRefusal("ZL218", found, hint, column=column, zone=True)


def has_zone(type: pa.DataType) -> bool:
    return pa.types.is_timestamp(type) and type.tz is not None


def _partition_value(adds: pa.Table, leaf: Leaf) -> pa.Array:
    return pc.struct_field(adds["partition"].combine_chunks(), [leaf.path[0]])


# The table state.


AUTO_COMPACTION = "delta.autoOptimize.autoCompact"
_ADDED_PATHS = pa.schema({"add": pa.struct({"path": pa.string()})})
# The number of commits that are searched for rewrites by other writers, if no file has a layout record.
MAX_COMMITS_SEARCHED = 1000
# The same number, if some of the files have a layout record.
MAX_COMMITS_BESIDE_RECORDS = 100


def observe_delta(
    table: TableName,
    location: str,
    columns: Sequence[str],
    version: int | None = None,
    storage_options: Mapping[str, str] | None = None,
    permitted: Sequence[str] = (),
) -> TableState:
    """Return the table state of the Delta table at a location.

    If the catalog of the table owns its commits, the current version is the newest published version, and a warning
    states this (ZL418).

    Args:
        columns: The columns whose bounds are read. Names of columns that do not exist are ignored.
        version: The version to observe, None for the current one.
        storage_options: The storage options of deltalake.
        permitted: The locations outside of the table's own location in which it may have files.

    Raises:
        TableError: ZL110 if there is no Delta table, ZL112 if there is no such version, ZL111, ZL113, ZL114.
        Refused: ZL242, if a checkpoint refers to files outside of the log.
    """
    _require_own_log(table, location, permitted)
    options = dict(storage_options or {})
    with ExitStack() as stack:
        opened = open_table(table, location, version, options, stack)
        delta, at, owned_by = opened.delta, opened.version, opened.owned_by
        storage = table_files(opened.location, options)
        log_storage = log_files(opened.location, storage)
        metadata, protocol = delta.metadata(), delta.protocol()
        schema = json.loads(delta.schema().to_json())
        all_leaves = leaves(schema)
        try:
            adds = pa.table(delta.get_add_actions(flatten=False))
            log = opened.log if opened.log is not None and at in opened.log.commits else LogFiles(log_storage)
            del delta, opened  # frees the copy of the live files
            adds = adds.take(pc.sort_indices(adds["path"])).combine_chunks()
            stored = stored_values(adds, all_leaves, metadata.partition_columns)
            names = [leaf.physical[0] for leaf in stored]
            annotations = read_annotations(log, at, adds["path"].combine_chunks(), names)
            outside, *vectors = _outside(table, location, log, annotations, permitted)
        except (DeltaError, OSError, pa.ArrowException) as error:
            raise unreadable(table, location, error) from error
    properties = {str(k): str(v) for k, v in metadata.configuration.items()}
    features = owned_by | table_features(
        protocol.min_writer_version, protocol.reader_features, protocol.writer_features
    )
    fields = tuple(PartitionField(dotted([name])) for name in metadata.partition_columns)
    wanted = [leaf for leaf in all_leaves if leaf.name in columns]
    try:
        clustering = clustering_columns(log, at, features, all_leaves)
    except (OSError, ValueError, RecursionError, pa.ArrowException) as error:
        raise unreadable(table, location, error) from error
    adds = with_empty_strings(adds, annotations, stored)
    if not clustering and properties.get(RECORDS) == BY_COMMITS:
        try:
            annotations = _with_commit_records(log, at, adds, annotations, fields)
        except OSError as error:
            raise unreadable(table, location, error) from error
    records = clustering_records(annotations) if clustering else layout_records(annotations)
    must = {field["name"] for field in schema["fields"] if not field["nullable"]} - set(metadata.partition_columns)
    required = [leaf for leaf in all_leaves if leaf.path[0] in must and len(leaf.path) == 1]
    files, notes = _files(adds, annotations, records, storage, fields, wanted, string_prefix(properties), outside.files)
    strays = counted((outside, *vectors), location, table.catalog)
    known = columns_of(
        all_leaves, metadata.partition_columns, properties, columns, lambda: recorded_columns(adds, all_leaves)
    )
    files = replace(files, layouts=present_records(files.layouts, known))
    try:
        last_written, future = _last_written(adds, files, log, at)
    except (OSError, ValueError, RecursionError, pa.ArrowException, TableError) as error:
        raise unreadable(table, location, error) from error
    if catalog_owned(features, properties):
        notes = (*notes, behind_catalog(at))
    maintainers: tuple[Diagnostic, ...] = ()
    if properties.get(AUTO_COMPACTION, "false").lower() not in ("false", "disabled"):
        off = f"ALTER TABLE ... SET TBLPROPERTIES ('{AUTO_COMPACTION}' = 'false')"
        maintainers = (maintained_by(f"auto compaction ({AUTO_COMPACTION})", f"run {off}"),)
    oldest = pc.min(adds["modification_time"]).as_py()
    ordering, rewrites = _external(log, at, files, all_leaves, oldest)
    return TableState(
        table=str(table),
        format="delta",
        location=location,
        table_id=str(metadata.id),
        version=at,
        schema_digest=schema_digest(schema),
        columns=known,
        partition_fields=fields,
        spec_id=0,
        properties=properties,
        features=features,
        refusals=(*refusals(features, properties), *reserved_refusals(c.name for c in known), *strays.refusals),
        files=files,
        notes=notes,
        maintainers=maintainers,
        ordering=ordering,
        rewrites=rewrites,
        clustering=clustering,
        last_written=last_written,
        future_times=future,
        files_outside=strays.number,
        partition_refusals=(
            *value_refusals(annotations, stored),
            *null_refusals(adds, required, files),
            *constraint_refusals(adds, all_leaves, properties, files),
        ),
        required=tuple(leaf.name for leaf in required),
        can_rebase=can_rebase(features, properties),
    )


def _with_commit_records(
    log: LogFiles, version: int, adds: pa.Table, annotations: pa.Table, fields: tuple[PartitionField, ...]
) -> pa.Table:
    """Return the annotations with the layout records that commits store. adds, annotations: in the same order."""
    tagged = annotations[LAYOUT_ID].combine_chunks()
    if not tagged.null_count:
        return annotations
    times = pc.fill_null(adds["modification_time"].cast(pa.int64()), 0).to_pylist()
    paths, partition = annotations["path"].to_pylist(), _partitions(adds, fields)[0]
    columns = {name: annotations[name].to_pylist() for name in (LAYOUT_ID, LAYOUT, GROUP)}
    left = {path: at for at, path in enumerate(paths) if columns[LAYOUT_ID][at] is None}
    oldest = [min(times[at] for at in left.values())]
    with suppress(ValueError, RecursionError, pa.ArrowException):  # a damaged commit ends the search
        for record in commit_records(log, version, lambda: oldest[0]):
            for path in record.paths.to_pylist():
                if (at := left.pop(path, None)) is not None:
                    group = f"{record.run_id}/{partition[at]}"
                    for name, value in ((LAYOUT_ID, record.layout_id), (LAYOUT, record.settings), (GROUP, group)):
                        columns[name][at] = value
            if not left:
                break
            oldest[0] = min(times[at] for at in left.values())
    for name, values in columns.items():
        at = annotations.schema.get_field_index(name)
        annotations = annotations.set_column(at, name, pa.array(values, pa.string()))
    return annotations


def _require_own_log(table: TableName, location: str, permitted: Sequence[str]) -> None:
    """Through a link in the log, zlayout would read the log of another table, or write to it. A pipe never ends."""
    if (path := local_path(location)) is None:
        return
    files = [f"{path}/{LOG}/x"]
    for folder in (f"{path}/{LOG}", f"{path}/{LOG}/{SIDECARS}"):
        with suppress(OSError, ValueError), os.scandir(folder) as entries:
            files += [entry.path for entry in entries if not is_plain(entry)]
    if leading_out := [file for file in files if not is_below(file, [path, *permitted])]:
        what = f"{table}: {files_text(len(leading_out))} of the log"
        places = {os.path.dirname(os.path.realpath(file)) for file in leading_out}
        raise Refused(outside_refusal(what, location, places, table.catalog))


def _outside(
    table: TableName, location: str, log: LogFiles, annotations: pa.Table, permitted: Sequence[str]
) -> list[Outside]:
    if log.sidecars:
        folder = f"{location.rstrip('/')}/{LOG}/{SIDECARS}"
        sidecars = find_outside(pa.array(log.sidecars), folder, uris=True)
        if count := int(sidecars.files.sum()):
            what = f"{table}: {files_text(count)}, to which a checkpoint refers,"
            raise Refused(outside_refusal(what, folder, sidecars.places, table.catalog))
    found = [find_outside(annotations["path"].combine_chunks(), location, permitted, uris=True)]
    vectors = annotations["vector"]
    if vectors.null_count < len(vectors):
        found.append(find_outside(vectors.drop_null().combine_chunks(), location, permitted, uris=True))
    return found


def _last_written(adds: pa.Table, files: FileTable, log: LogFiles, version: int) -> tuple[Int64, int]:
    """Return when other writers last wrote a file to each partition, and how many files have times in the future."""
    # A file whose time is later than the newest commit counts as written when the commit that added it was written, or
    # if that is no longer in the log, its checkpoint.
    # The times are int64[partitions], in ms since 1970; 0 if all files have a layout record.
    times = np.where(files.layout < 0, pc.fill_null(adds["modification_time"].cast(pa.int64()), 0).to_numpy(), 0)
    newest = log.times.get(log.commits.get(version, ""), 0)
    late = np.flatnonzero(times > newest + MAX_CLOCK_SKEW) if newest else np.zeros(0, np.int64)
    if len(late):
        times = times.copy()
        segment = log.segment(version)
        times[late] = max((log.times.get(name, 0) for name in segment.checkpoint), default=newest)
        paths = files.path.take(pa.array(late))
        for name in segment.commits:
            added = read_actions(log.read(name), _ADDED_PATHS)["add"].combine_chunks()
            found = pc.is_in(paths, pc.struct_field(added, "path").cast(paths.type)).to_numpy(zero_copy_only=False)
            times[late[found]] = log.times.get(name, newest)
    return maxima(files.partition, len(files.partitions), times), len(late)


def _external(
    log: LogFiles, version: int, files: FileTable, known: Sequence[Leaf], oldest: int | None
) -> tuple[Ordering | None, tuple[ExternalRewrite, ...]]:
    """Return the external ordering and rewrites in the newest commits. oldest: of all live files, in ms since 1970."""
    laid_out = files.layout >= 0
    if len(files) and laid_out.all():
        return None, ()
    beside_records = bool(laid_out.any())
    limit = MAX_COMMITS_BESIDE_RECORDS if beside_records else MAX_COMMITS_SEARCHED
    try:
        found = external(commit_infos(log, version, limit), oldest)
    except (OSError, ValueError, RecursionError):
        return None, ()
    rewrites = found.rewrites if found.known or beside_records else ()
    if found.ordering is None or beside_records:
        return None, rewrites
    # commits have the letter case of the statement
    names = {leaf.name.lower(): leaf.name for leaf in known}
    ordered_by = tuple(names.get(name.lower(), name) for name in found.ordering.columns)
    return replace(found.ordering, columns=ordered_by), rewrites


def _files(
    adds: pa.Table,
    annotations: pa.Table,
    records: tuple[Int32, tuple[LayoutRecord, ...], Int32],
    storage: pa_fs.FileSystem,
    fields: tuple[PartitionField, ...],
    wanted: Sequence[Leaf],
    prefix: int,
    outside: Bools,
) -> tuple[FileTable, tuple[Diagnostic, ...]]:
    """Return the live files. adds, annotations: in the same order. prefix: the UTF-16 units of a truncated string."""
    layout, layouts, group = records
    path = annotations["path"].combine_chunks()
    sizes = adds["size_bytes"].to_numpy()
    rows, notes = complete_row_counts(storage, path, adds["num_records"], sizes, outside)
    partition, partitions = _partitions(adds, fields)
    partitioning = {leaf.name for leaf in wanted} & {f.source for f in fields}
    return FileTable(
        path=path,
        version_key=annotations["version_key"].combine_chunks(),
        rows=rows,
        deleted=annotations["deleted"].to_numpy(),
        shared_deletes=np.zeros(len(path), np.bool_),
        bytes=sizes,
        partition=partition,
        partitions=partitions,
        layout=layout,
        layouts=layouts,
        group=group,
        bounds=read_bounds(partial(_statistic, adds), wanted, partitioning, prefix),
        baselines=baselines(group, annotations),
    ), notes


def _partitions(adds: pa.Table, fields: tuple[PartitionField, ...]) -> tuple[Int32, tuple[Partition, ...]]:
    count = adds.num_rows
    if not fields or not count:
        return np.zeros(count, np.int32), (Partition(0, fields, ()),) if count else ()
    column = adds["partition"].combine_chunks()
    encoded = [codes_of(pa.chunked_array([pc.struct_field(column, [*path_of(field.source)])])) for field in fields]
    distinct, which = distinct_rows([codes for codes, _ in encoded])
    dictionaries = [python_values(dictionary) for _, dictionary in encoded]
    partitions = tuple(
        Partition(0, fields, tuple(None if at < 0 else d[at] for at, d in zip(row, dictionaries, strict=True)))
        for row in distinct.tolist()
    )
    return which.astype(np.int32), partitions
