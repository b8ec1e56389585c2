"""Observes a Delta table without a JVM: reads live files through deltalake, and file tags from the log."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pa_fs
from deltalake.exceptions import DeltaError

from zlayout.errors import Diagnostic, Refused
from zlayout.formats.delta.read.clustering import clustering_columns, clustering_records
from zlayout.formats.delta.read.features import behind_catalog, catalog_owned, refusals, table_features
from zlayout.formats.delta.read.history import commit_infos, external
from zlayout.formats.delta.read.location import local_path, log_files, table_files
from zlayout.formats.delta.read.log import LOG, SIDECARS, LogFiles
from zlayout.formats.delta.read.opening import open_table, unreadable
from zlayout.formats.delta.read.schema import Leaf, columns_of, leaves, schema_digest, string_prefix
from zlayout.formats.delta.read.statistics import complete_row_counts, read_bounds, recorded_columns
from zlayout.formats.delta.read.tags import baselines, codes_of, layout_records, read_annotations
from zlayout.spec.model import TableName
from zlayout.spec.renames import present_records
from zlayout.table.external import ExternalRewrite, Ordering
from zlayout.table.order import distinct_rows
from zlayout.table.outside import Outside, counted, files_text, find_outside, is_below, is_plain
from zlayout.table.outside import refusal as outside_refusal
from zlayout.table.python_values import python_values
from zlayout.table.reserved import reserved_refusals
from zlayout.table.state import (
    Bools,
    FileTable,
    Int32,
    Int64,
    LayoutRecord,
    Partition,
    PartitionField,
    TableState,
)
from zlayout.table.sums import maxima

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
        TableError: ZL110 if there is no Delta table, ZL111 if the log cannot be read, ZL112 if the version does not
            exist, ZL113 if a commit is missing, ZL114 if the storage cannot be reached.
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
        try:
            adds = pa.table(delta.get_add_actions(flatten=False))
            del delta, opened  # frees the copy of the live files
            adds = adds.take(pc.sort_indices(adds["path"])).combine_chunks()
            log = LogFiles(log_storage)
            annotations = read_annotations(log, at, adds["path"].combine_chunks())
            outside, *vectors = _outside(table, location, log, annotations, permitted)
        except (DeltaError, OSError, pa.ArrowException) as error:
            raise unreadable(table, location, error) from error
    all_leaves = leaves(schema)
    properties = {str(k): str(v) for k, v in metadata.configuration.items()}
    features = owned_by | table_features(
        protocol.min_writer_version, protocol.reader_features, protocol.writer_features
    )
    fields = tuple(PartitionField(name) for name in metadata.partition_columns)
    wanted = [leaf for leaf in all_leaves if leaf.name in columns]
    try:
        clustering = clustering_columns(log, at, features, all_leaves)
    except (OSError, ValueError, RecursionError, pa.ArrowException) as error:
        raise unreadable(table, location, error) from error
    records = clustering_records(annotations) if clustering else layout_records(annotations)
    files, notes = _files(adds, annotations, records, storage, fields, wanted, string_prefix(properties), outside.files)
    strays = counted((outside, *vectors), location, table.catalog)
    known = columns_of(
        all_leaves, metadata.partition_columns, properties, columns, lambda: recorded_columns(adds, all_leaves)
    )
    files = replace(files, layouts=present_records(files.layouts, known))
    if catalog_owned(features, properties):
        notes = (*notes, behind_catalog(at))
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
        ordering=ordering,
        rewrites=rewrites,
        clustering=clustering,
        last_written=_last_written(adds, files),
        files_outside=strays.number,
    )


def _require_own_log(table: TableName, location: str, permitted: Sequence[str]) -> None:
    """Check that links in the log of a local table lead to files of the table, and that it has no pipes.

    Through a link, zlayout would read the log of another table, or write to it.

    Raises:
        Refused: ZL242.
    """
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
    """Find the data files and the deletion vectors, if there are any, that are outside of the location.

    Raises:
        Refused: ZL242, if a checkpoint refers to files outside of the log.
    """
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


def _last_written(adds: pa.Table, files: FileTable) -> Int64:
    """Return when other writers last wrote a live file of each partition.

    Returns:
        int64[partitions], in milliseconds since 1970; 0 if all files of a partition have a layout record.
    """
    times = pc.fill_null(adds["modification_time"].cast(pa.int64()), 0).to_numpy()
    return maxima(files.partition, len(files.partitions), np.where(files.layout < 0, times, 0))


def _external(
    log: LogFiles, version: int, files: FileTable, known: Sequence[Leaf], oldest: int | None
) -> tuple[Ordering | None, tuple[ExternalRewrite, ...]]:
    """Return the external ordering and rewrites in the newest commits; None and no rewrites if a commit cannot be read.

    Commits have column names in the letter case of the statement. The result has them in the letter case of the schema.

    Args:
        oldest: The time of the oldest live file in milliseconds since 1970; None if the table has no files.
    """
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
    """Return the live files, and a note if row counts are estimates.

    Args:
        adds: The live files as deltalake returns them, sorted by path.
        annotations: The file tags and deletion vectors of the same files.
        records: The result of `layout_records` or `clustering_records`.
        storage: The file system, rooted at the table.
        wanted: The leaf columns whose bounds are read.
        prefix: The length in UTF-16 units to which writers truncate string bounds.
        outside: bool[files], the files outside of the location of the table.
    """
    layout, layouts, group = records
    path = annotations["path"].combine_chunks()
    sizes = adds["size_bytes"].to_numpy()
    rows, notes = complete_row_counts(storage, path, adds["num_records"], sizes, outside)
    partition, partitions = _partitions(adds, fields)
    partitioning = {leaf.name for leaf in wanted if leaf.path[0] in {f.source for f in fields}}
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
        bounds=read_bounds(adds, wanted, partitioning, prefix),
        baselines=baselines(group, annotations),
    ), notes


def _partitions(adds: pa.Table, fields: tuple[PartitionField, ...]) -> tuple[Int32, tuple[Partition, ...]]:
    """Return the index of each file's partition, and the partitions."""
    count = adds.num_rows
    if not fields or not count:
        return np.zeros(count, np.int32), (Partition(0, fields, ()),) if count else ()
    column = adds["partition"].combine_chunks()
    encoded = [codes_of(pa.chunked_array([pc.struct_field(column, [field.source])])) for field in fields]
    distinct, which = distinct_rows([codes for codes, _ in encoded])
    dictionaries = [python_values(dictionary) for _, dictionary in encoded]
    partitions = tuple(
        Partition(0, fields, tuple(None if at < 0 else d[at] for at, d in zip(row, dictionaries, strict=True)))
        for row in distinct.tolist()
    )
    return which.astype(np.int32), partitions
