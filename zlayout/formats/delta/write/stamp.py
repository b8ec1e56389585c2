"""Commits layout records: changes the file tags of live files and nothing else.

Delta 4.4 does not report two mistakes, for which there are tests:

- With another operation than ComputeStats, the checksum of the version counts the files twice. Delta then cannot write
  a checkpoint.
- AddFiles from `filesForScan` lack some statistics. A commit of these AddFiles would remove min and max.
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from zlayout.formats.base import Commit
from zlayout.formats.delta.read.tags import GROUP, LAYOUT, LAYOUT_ID
from zlayout.formats.delta.write.failures import spark_errors
from zlayout.formats.delta.write.jvm import DeltaJvm
from zlayout.formats.delta.write.outcome import Log
from zlayout.spark.arrow import from_arrow
from zlayout.spec.layout import Layout

_PREFIX = "zlayout."


def layout_tags(layout: Layout) -> dict[str, str]:
    """Return the file tags for a layout: its id, and its settings as canonical JSON, by which drift is explained."""
    settings = json.dumps(layout.recorded_settings(), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return {LAYOUT_ID: layout.layout_id, LAYOUT: settings}


def stamp(
    delta: DeltaJvm,
    log: Log,
    layout: Layout,
    files: pa.Table,
    groups: tuple[str, ...],
) -> Commit | None:
    """Commit layout records for the live files among `files`.

    The AddFiles come from the newest snapshot and keep their deletion vectors and statistics.

    Args:
        files: A table with the columns path and group (strings), one row per file.
        groups: The ids of the groups that the commit completes.

    Returns:
        The commit, None if no file is live.

    Raises:
        CommitConflict: ZL321, if one of the files is changed or removed concurrently.
        CommitUnknown: ZL331.
    """
    with spark_errors(log.table, "recording the layout"):
        snapshot = delta.snapshot()
        transaction = delta.begin(snapshot)
        adds = delta.seq(_tagged(delta, snapshot, layout, files))
        if adds.isEmpty():
            return None
        transaction.trackFilesRead(adds)
        version = log.commit(transaction, adds, delta.compute_stats(), "recording the layout")
    return Commit("record", version, groups)


def _tagged(delta: DeltaJvm, snapshot: Any, layout: Layout, files: pa.Table) -> Any:
    """Return the live AddFiles among `files` with their new file tags, as a java.util.List."""
    from pyspark.sql import functions as f

    live = delta.all_files(snapshot)
    chosen = from_arrow(delta.spark, files.select(["path", "group"])).withColumnRenamed("group", "_group")
    others = f.map_filter(
        f.coalesce(f.col("tags"), f.expr("cast(map() as map<string, string>)")),
        lambda key, _: ~key.startswith(_PREFIX),
    )
    fixed = [part for name, value in layout_tags(layout).items() for part in (f.lit(name), f.lit(value))]
    tags = f.map_concat(others, f.create_map(*fixed, f.lit(GROUP), f.col("_group")))
    tagged = (
        live.join(f.broadcast(chosen), "path")
        .withColumn("tags", tags)
        .withColumn("dataChange", f.lit(False))
        .select(live.columns)
    )
    return delta.add_files(tagged)
