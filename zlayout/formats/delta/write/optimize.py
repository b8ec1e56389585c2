"""Engine `native` on Delta: runs OPTIMIZE, then commits the layout records of the new files.

`run_native` rewrites the partitions of a plan. In a session without a JVM (`DeltaSql`), no file tags can be written.
There, the commit of OPTIMIZE itself stores the layout record of the files that it adds
(docs/adr/0044-native-by-sql.md).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import ceil
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from zlayout.errors import CommitConflict, EngineError, Refused
from zlayout.formats.base import Commit, Group, GroupFailed, Notify, PlannedTable, Progress, Stage
from zlayout.formats.delta.read.history import RunCommit
from zlayout.formats.delta.read.log import BY_COMMITS, GROUP, LAYOUT, LAYOUT_ID, RECORDS
from zlayout.formats.delta.read.schema import STRING_PREFIX
from zlayout.formats.delta.write.by_sql import DeltaSql
from zlayout.formats.delta.write.jvm import DeltaJvm
from zlayout.formats.delta.write.transaction import USER_METADATA, Log, spark_errors, user_metadata
from zlayout.formats.kernel.requirements import Replaced, partitions_of, paths_of, require_only_planned
from zlayout.planner.clustering import LARGE_CUBE, NEW_CUBE, is_full
from zlayout.planner.partitions import SMALL_BELOW
from zlayout.spark.arrow import from_arrow
from zlayout.spec.model import Layout
from zlayout.table.partition_values import any_of, literal
from zlayout.table.state import FileTable, Partition, TableState
from zlayout.text import path_of, quote_identifier, quote_path, string_literal

# The statement and the session configuration of OPTIMIZE.


def optimize_conf(
    layout: Layout, run_id: str, properties: Mapping[str, str], *, records: bool = False
) -> dict[str, str]:
    """Return the session configuration with which OPTIMIZE applies the layout settings and stores the user metadata.

    records: whether the user metadata contains the layout record of the files that the commit adds.
    """
    stored = layout_tags(layout) if records else {}
    return {
        "spark.databricks.io.skipping.mdc.rangeId.max": str(layout.range_ids),
        "spark.databricks.io.skipping.mdc.addNoise": str(layout.noise).lower(),
        "spark.databricks.io.skipping.mdc.sortWithinFiles": str(layout.sort_within).lower(),
        "spark.databricks.delta.optimize.maxFileSize": str(layout.target_size),
        "spark.databricks.delta.optimize.clustering.mergeStrategy.minCubeSize.threshold": str(LARGE_CUBE),
        "spark.databricks.delta.optimize.clustering.mergeStrategy.minCubeSize.targetCubeSize": str(NEW_CUBE),
        USER_METADATA: user_metadata(run_id, {**properties, **stored}),
        "spark.databricks.delta.commit.idempotencyCheck.enabled": "true",
        "spark.sql.readSideCharPadding": "false",
        "spark.databricks.delta.write.utcTimestampPartitionValues": "true",
    }


def selection_conf(layout: Layout) -> dict[str, str]:
    """Return the session configuration with which OPTIMIZE selects only small files.

    It is empty for a layout with z-order columns, because OPTIMIZE ZORDER BY selects all files.
    """
    if layout.orders:
        return {}
    return {
        "spark.databricks.delta.optimize.minFileSize": str(ceil(SMALL_BELOW * layout.target_size)),
        "spark.databricks.delta.optimize.maxDeletedRowsRatio": "1.0",
    }


def optimize_statement(location: str, work: PlannedTable, state: TableState) -> str:
    """Return the OPTIMIZE statement for the partitions of a plan.

    It has no WHERE if the plan has all partitions of the table. The statement for a clustered table has neither
    WHERE nor columns.
    """
    if state.clustering:
        return f"OPTIMIZE delta.{quote_identifier(location)}{' FULL' if is_full(work.layout, state.files) else ''}"
    type_of = {column.name: column.type for column in state.columns}
    types = [type_of[field.source] for field in state.partition_fields]
    where, layout = "", work.layout
    whole = work.covers_table and {state.files.partitions[at] for at in np.unique(state.files.partition)} <= set(
        partitions_of(work.groups)
    )
    if types and not whole:
        where = f" WHERE {partitions_predicate(partitions_of(work.groups), types)}"
    columns = ", ".join(quote_path(path_of(c.name)) for c in layout.columns)
    return f"OPTIMIZE delta.{quote_identifier(location)}{where}{f' ZORDER BY ({columns})' if columns else ''}"


def partitions_predicate(partitions: Sequence[Partition], types: Sequence[pa.DataType]) -> str:
    """Return a predicate that is true in exactly these partitions. types: the types of the partition columns."""
    return any_of([_in_partition(partition, types) for partition in partitions])


def _in_partition(partition: Partition, types: Sequence[pa.DataType]) -> str:
    tests = [
        f"{quote_path(path_of(field.source))} IS NULL"
        if value is None
        else f"{quote_path(path_of(field.source))} = {literal(value, type_)}"
        for field, value, type_ in zip(partition.fields, partition.values, types, strict=True)
    ]
    return "(" + " AND ".join(tests) + ")"


# The rewrite by OPTIMIZE, and the layout records of its new files.


# A commit of layout records changes no data. After a conflict, it is made again for the files that are still live.
_RECORD_ATTEMPTS = 3
_TAG_PREFIX = "zlayout."


def run_native(
    delta: DeltaJvm | DeltaSql,
    log: Log,
    state: TableState,
    work: PlannedTable,
    notify: Notify,
    observe: Callable[..., TableState],
) -> Iterator[Commit | GroupFailed]:
    """Run OPTIMIZE on the partitions of the groups, then commit the layout records of the new files.

    Args:
        log: Makes the commits of the run.
        state: The table state directly before OPTIMIZE.
        notify: Called with each stage.
        observe: Observes the table again, at a version if one is given.

    Yields:
        Each commit of OPTIMIZE, dropped groups, and the commit of the layout records.

    Raises:
        CommitConflict: ZL321, if OPTIMIZE failed before its first commit because of a concurrent change.
        EngineError: ZL314, if it failed before its first commit for another reason; ZL340.
        CommitUnknown: ZL331.
    """
    table = str(work.table)
    orders = work.layout.orders and not state.clustering
    notify(Progress(table, Stage.REWRITING, "with OPTIMIZE" + (" ZORDER BY" if orders else "")))
    statement = optimize_statement(delta.location, work, state)
    records = isinstance(delta, DeltaSql) and not state.clustering
    conf = optimize_conf(work.layout, work.run_id, work.spec.commit_properties, records=records)
    conf |= selection_conf(work.layout)
    commits, failure = log.run(statement, conf, state.version, "OPTIMIZE")
    if not commits:
        none_found = EngineError.of(
            "ZL319",
            f"{table}: OPTIMIZE found no file in the planned partitions",
            hint="plan again; other writers removed the files of these partitions",
        )
        yield GroupFailed(tuple(group.id for group in work.groups), none_found)
        return
    for at, (commit, _, _) in enumerate(commits):  # before anything else can fail
        whole = failure is None and at == len(commits) - 1
        yield replace(commit, groups=tuple(group.id for group in work.groups) if whole else ())
    _require_only_planned(work, commits, lambda version: observe(version).files)
    after = observe()
    # OPTIMIZE may commit in batches. After an error, a group is complete if none of its planned files is live.
    left = [group for group in work.groups if failure and _any_live(group, after.files)]
    finished = tuple(group.id for group in work.groups if group not in left)
    if failure and left:
        yield GroupFailed(tuple(group.id for group in left), failure)
    if state.clustering:  # there are no layout records: OPTIMIZE itself has marked the files that it clustered
        if after.clustering != state.clustering:
            message = f"the clustering columns of {table} were changed while OPTIMIZE ran"
            yield GroupFailed(finished, CommitConflict.of("ZL321", message, hint="the rows are the same; plan again"))
        return
    if isinstance(delta, DeltaSql):  # the commits of OPTIMIZE contain the layout records
        return
    notify(Progress(table, Stage.RECORDING))
    added = pa.concat_arrays([commit.added for commit in commits])
    yield from record(delta, log, work, finished, added, after.files)


def _require_only_planned(
    work: PlannedTable, commits: Iterable[RunCommit], files_at: Callable[[int | None], FileTable]
) -> None:
    chosen = set(partitions_of(work.groups))
    require_only_planned(
        work,
        [Replaced(commit.version, commit.version - 1, removed) for commit, _, removed in commits],
        lambda: files_at(work.version),
        files_at,
        lambda partitions: [at for at, partition in enumerate(partitions) if partition in chosen],
    )


def _any_live(group: Group, live: FileTable) -> bool:
    return bool(pc.any(pc.is_in(group.files.path, value_set=live.path)).as_py())


def refuse_partial(work: PlannedTable, state: TableState) -> None:
    """Check that OPTIMIZE, which rewrites whole partitions, would rewrite no file outside of the plan.

    Args:
        state: The table state at the version of the plan.

    Raises:
        Refused: ZL216, if the planned partitions have other files.
    """
    wanted = set(partitions_of(work.groups))
    chosen = [at for at, partition in enumerate(state.files.partitions) if partition in wanted]
    paths = state.files.path.cast(pa.string()).filter(pa.array(np.isin(state.files.partition, chosen)))
    outside = len(paths) - (pc.sum(pc.is_in(paths, value_set=paths_of(work.groups))).as_py() or 0)
    if outside:
        raise Refused.of(
            "ZL216",
            f"{work.table}: OPTIMIZE rewrites whole partitions, and {outside} files in them are not part of this work",
            hint="declare engine: native, so that whole partitions are planned",
        )


def record(
    delta: DeltaJvm, log: Log, work: PlannedTable, groups: tuple[str, ...], added: pa.Array, live: FileTable
) -> Iterator[Commit | GroupFailed]:
    """Commit the layout records of the files that OPTIMIZE added. The files of one partition are one group.

    Args:
        groups: The ids of the groups that the commit completes.
        added: string[files], the paths of the added files.
        live: The live files after OPTIMIZE. Added files that are no longer live are skipped.
    """
    rows = pc.index_in(added, value_set=live.path).drop_null()
    names = pa.array([f"{work.run_id}/{at}" for at in range(len(live.partitions))], pa.string())
    files = pa.table({"path": live.path.take(rows), "group": names.take(pa.array(live.partition).take(rows))})
    for attempt in range(_RECORD_ATTEMPTS):
        try:
            commit = commit_records(delta, log, work.layout, files, groups)
        except CommitConflict as conflict:
            if attempt == _RECORD_ATTEMPTS - 1:
                yield GroupFailed(groups, conflict)
            continue
        if commit is not None:
            yield commit
        return


def layout_tags(layout: Layout) -> dict[str, str]:
    """Return the file tags for a layout: its id, and its settings as canonical JSON, from which drift is explained."""
    settings = json.dumps(layout.recorded_settings(), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return {LAYOUT_ID: layout.layout_id, LAYOUT: settings}


def commit_records(
    delta: DeltaJvm, log: Log, layout: Layout, files: pa.Table, groups: tuple[str, ...]
) -> Commit | None:
    """Commit layout records for the live files among `files`. This changes their file tags and nothing else.

    The AddFiles come from the newest snapshot and keep their deletion vectors and statistics. Delta 4.4 does not report
    two mistakes, which tests must detect:

    - If the operation is not ComputeStats, the checksum of the version counts the files twice. Delta then cannot write
      a checkpoint.
    - AddFiles from `filesForScan` lack some statistics. A commit of these AddFiles would remove minimum and maximum.

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
    live = delta.all_files(snapshot)
    chosen = from_arrow(delta.spark, files.select(["path", "group"])).withColumnRenamed("group", "_group")
    others = F.map_filter(
        F.coalesce(F.col("tags"), F.expr("cast(map() as map<string, string>)")),
        lambda key, _: ~key.startswith(_TAG_PREFIX),
    )
    fixed = [part for name, value in layout_tags(layout).items() for part in (F.lit(name), F.lit(value))]
    tags = F.map_concat(others, F.create_map(*fixed, F.lit(GROUP), F.col("_group")))
    tagged = (
        live.join(F.broadcast(chosen), "path")
        .withColumn("tags", tags)
        .withColumn("dataChange", F.lit(False))
        .select(live.columns)
    )
    return delta.add_files(tagged)


# Properties and clustering columns, which ALTER TABLE sets.


def set_properties(delta: DeltaJvm | DeltaSql, log: Log, work: PlannedTable, version: int) -> Commit:
    """Set the planned properties by ALTER TABLE. version: the version of the table directly before.

    Raises:
        Refused: ZL204, if the session's Delta does not know a property.
        EngineError: ZL314.
        CommitConflict: ZL321.
        CommitUnknown: ZL331.
    """
    if STRING_PREFIX in dict(work.properties) and not delta.knows_string_prefix:
        raise Refused.of(
            "ZL204",
            f"{work.table} needs longer bounds of strings, for which Delta has {STRING_PREFIX} only since version 4.1",
            hint="apply once with Delta 4.1 or newer, or use z-order columns that differ within 32 characters",
        )
    return _set(delta, log, work, version, work.properties)


def mark_records(delta: DeltaSql, log: Log, work: PlannedTable, version: int) -> Commit:
    """Set the table property by which readers know that commits store layout records. version: see `set_properties`."""
    return _set(delta, log, work, version, [(RECORDS, BY_COMMITS)])


def _set(
    delta: DeltaJvm | DeltaSql, log: Log, work: PlannedTable, version: int, properties: Iterable[tuple[str, str]]
) -> Commit:
    pairs = ", ".join(f"{string_literal(name)} = {string_literal(value)}" for name, value in properties)
    return _altered(delta, log, work, version, f"SET TBLPROPERTIES ({pairs})", "setting table properties")


def set_clustering(delta: DeltaJvm | DeltaSql, log: Log, work: PlannedTable, version: int) -> Commit:
    """Change the clustering columns to the planned ones. version: see `set_properties`.

    Raises:
        EngineError: ZL314, if Delta refuses a column.
        CommitConflict: ZL321.
        CommitUnknown: ZL331.
    """
    columns = ", ".join(quote_path(path_of(name)) for name in work.cluster_by or ())
    return _altered(delta, log, work, version, f"CLUSTER BY ({columns})", "changing the clustering columns")


def _altered(delta: DeltaJvm | DeltaSql, log: Log, work: PlannedTable, version: int, change: str, doing: str) -> Commit:
    """Run ALTER TABLE, which makes one commit after `version`. change: the clause that follows the table's location."""
    conf = optimize_conf(work.layout, work.run_id, work.spec.commit_properties)
    statement = f"ALTER TABLE delta.{quote_identifier(delta.location)} {change}"
    done, _ = log.run(statement, conf, version, doing)
    return Commit("settings", done[-1].commit.version if done else version)
