"""Writes new files through Delta's own writer, with statistics from their Parquet footers where possible."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.fs as pa_fs
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from zlayout.formats.delta.read.schema import leaves
from zlayout.formats.delta.write.footers import Bounds, bounds_from_scan, footers_suffice, row_counts, statistics
from zlayout.formats.delta.write.jvm import DeltaJvm, metadata_column
from zlayout.formats.delta.write.source_files import file_uris
from zlayout.formats.kernel.commits import NewFiles, positions_among
from zlayout.spark.arrow import to_arrow
from zlayout.spark.jvm import session_conf
from zlayout.sql_text import quote_path
from zlayout.table.state import Int64

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
