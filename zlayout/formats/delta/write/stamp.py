"""Records on live files which layout they have, by a commit that changes their tags and nothing else.

Two mistakes would go unnoticed in Delta 4.4, as the tests show. With another operation than ComputeStats the version
checksum counts the files twice, and no checkpoint can be written any more. Files from `filesForScan` have trimmed
statistics, so tagging those would delete min and max.
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.fs as pa_fs

from zlayout.formats.base import Commit
from zlayout.formats.delta.read.tags import GROUP, LAYOUT, LAYOUT_ID
from zlayout.formats.delta.write.failures import spark_errors
from zlayout.formats.delta.write.jvm import DeltaJvm
from zlayout.formats.delta.write.outcome import Log
from zlayout.spec.model import Layout

_PREFIX = "zlayout."


def layout_tags(layout: Layout) -> dict[str, str]:
    """Return the tags for a file's layout: its id, and its settings as canonical JSON to explain drift."""
    settings = json.dumps(layout.settings(), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return {LAYOUT_ID: layout.layout_id, LAYOUT: settings}


def stamp(
    delta: DeltaJvm,
    storage: pa_fs.FileSystem,
    table: str,
    layout: Layout,
    run_id: str,
    files: pa.Table,
    groups: tuple[str, ...],
) -> Commit | None:
    """Tag those of `files` that are live now, in one commit; return None if none is.

    files: columns path and group (strings), one row per file. Only files of the newest snapshot are changed, with the
    deletion vectors and statistics that they have there. Raises CommitConflict ZL321 if one of them is changed or
    removed during the commit, CommitUnknown ZL331.
    """
    with spark_errors(table, "recording the layout"):
        snapshot = delta.snapshot()
        transaction = delta.begin(snapshot)
        adds = delta.seq(_tagged(delta, snapshot, layout, files))
        if adds.isEmpty():
            return None
        transaction.trackFilesRead(adds)
        version = Log(delta, storage, table, run_id).commit(
            transaction, adds, delta.compute_stats(), "recording the layout"
        )
    return Commit("record", version, groups)


def _tagged(delta: DeltaJvm, snapshot: Any, layout: Layout, files: pa.Table) -> Any:
    """The live AddFiles among `files` with their new tags, as a java.util.List."""
    from pyspark.sql import functions as f

    live = delta.all_files(snapshot)
    chosen = delta.spark.createDataFrame(files.select(["path", "group"])).withColumnRenamed("group", "_group")
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
