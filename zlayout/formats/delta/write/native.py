"""Engine `native` on Delta: runs OPTIMIZE ... ZORDER BY, then commits the layout records of the new files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from math import ceil

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zlayout.errors import CommitConflict, Diagnostic, EngineError, Refused
from zlayout.formats.base import Commit, Group, GroupFailed, Notify, Progress, Stage, Work
from zlayout.formats.delta.read.run_history import RunCommit
from zlayout.formats.delta.read.schema import dotted, parse_names
from zlayout.formats.delta.write.jvm import DeltaJvm
from zlayout.formats.delta.write.literals import partitions_predicate
from zlayout.formats.delta.write.outcome import USER_METADATA, Log, user_metadata
from zlayout.formats.delta.write.stamp import stamp
from zlayout.formats.kernel.requirements import partitions_of
from zlayout.planner.clustering import LARGE_CUBE, NEW_CUBE, is_full
from zlayout.planner.partitions import SMALL_BELOW
from zlayout.spec.layout import CLUSTERING_CURVE, Layout
from zlayout.sql_text import quote_identifier, quote_path
from zlayout.table.state import FileTable, TableState

# A commit of layout records changes no data. After a conflict it is tried again with the files that are live then.
_STAMP_ATTEMPTS = 3
_FEW_VALUES = 64  # at most this many values use only the lowest 6 bits of a range id
_USE_ZLAYOUT = "use engine: zlayout"


def optimize_conf(layout: Layout, run_id: str, properties: Mapping[str, str]) -> dict[str, str]:
    """Return the session configuration with which OPTIMIZE uses the layout settings and stores the user metadata."""
    return {
        "spark.databricks.io.skipping.mdc.rangeId.max": str(layout.range_ids),
        "spark.databricks.io.skipping.mdc.addNoise": str(layout.noise).lower(),
        "spark.databricks.io.skipping.mdc.sortWithinFiles": str(layout.sort_within).lower(),
        "spark.databricks.delta.optimize.maxFileSize": str(layout.target_size),
        "spark.databricks.delta.optimize.clustering.mergeStrategy.minCubeSize.threshold": str(LARGE_CUBE),
        "spark.databricks.delta.optimize.clustering.mergeStrategy.minCubeSize.targetCubeSize": str(NEW_CUBE),
        USER_METADATA: user_metadata(run_id, properties),
        "spark.databricks.delta.commit.idempotencyCheck.enabled": "true",
        "spark.sql.readSideCharPadding": "false",
        "spark.databricks.delta.write.utcTimestampPartitionValues": "true",
    }


def optimize_statement(location: str, work: Work, state: TableState) -> str:
    """Return the OPTIMIZE statement, with WHERE unless the work has all partitions of the table (`state`).

    A clustered table has no partitions, and its clustering columns are not repeated.
    """
    if state.clustering:
        return f"OPTIMIZE delta.{quote_identifier(location)}{' FULL' if is_full(work.layout, state.files) else ''}"
    where, layout, kinds = "", work.layout, _partition_types(state)
    whole = work.covers_table and {state.files.partitions[at] for at in np.unique(state.files.partition)} <= set(
        partitions_of(work.groups)
    )
    if kinds and not whole:
        where = f" WHERE {partitions_predicate(partitions_of(work.groups), kinds)}"
    columns = ", ".join(quote_path(parse_names(c.name)[0]) for c in layout.columns)
    return f"OPTIMIZE delta.{quote_identifier(location)}{where}{f' ZORDER BY ({columns})' if columns else ''}"


def selection_conf(layout: Layout) -> dict[str, str]:
    """Return the session configuration with which OPTIMIZE without ZORDER BY selects small files, and no others."""
    if layout.orders:
        return {}
    return {
        "spark.databricks.delta.optimize.minFileSize": str(ceil(SMALL_BELOW * layout.target_size)),
        "spark.databricks.delta.optimize.maxDeletedRowsRatio": "1.0",
    }


def run_native(
    delta: DeltaJvm,
    log: Log,
    state: TableState,
    work: Work,
    notify: Notify,
    observe: Callable[[], TableState],
) -> Iterator[Commit | GroupFailed]:
    """Run OPTIMIZE on the partitions of the groups, then commit the layout records of the new files.

    Args:
        log: Makes the commits of the run.
        state: The table directly before.
        notify: Called with each stage.
        observe: Observes the table again after OPTIMIZE.

    Yields:
        Each commit of OPTIMIZE, dropped groups, and the commit of the layout records.

    Raises:
        CommitConflict: ZL321, if OPTIMIZE failed because of a concurrent change.
        EngineError: If OPTIMIZE failed for another reason.
    """
    table = str(work.table)
    orders = work.layout.orders and not state.clustering
    notify(Progress(table, Stage.REWRITING, "with OPTIMIZE" + (" ZORDER BY" if orders else "")))
    statement = optimize_statement(delta.location, work, state)
    conf = optimize_conf(work.layout, work.run_id, work.commit_properties) | selection_conf(work.layout)
    commits, failure = log.run(statement, conf, state.version, "OPTIMIZE")
    if not commits:
        yield GroupFailed(tuple(group.id for group in work.groups), _no_files_found(table))
        return
    for at, commit in enumerate(commits):  # report them before anything else can fail
        whole = failure is None and at == len(commits) - 1
        yield _rewrite(commit, tuple(group.id for group in work.groups) if whole else ())
    after = observe()
    # OPTIMIZE may commit in batches: after an error, a group is complete if none of its files is live
    left = [group for group in work.groups if failure and _any_live(group, after.files)]
    finished = tuple(group.id for group in work.groups if group not in left)
    if failure and left:
        yield GroupFailed(tuple(group.id for group in left), failure)
    if state.clustering:  # OPTIMIZE itself has marked the files that it clustered
        if after.clustering != state.clustering:
            yield GroupFailed(finished, _other_clustering(table))
        return
    notify(Progress(table, Stage.RECORDING))
    added = pa.concat_arrays([commit.added for commit in commits])
    yield from record(delta, log, work, finished, added, after.files)


def _any_live(group: Group, live: FileTable) -> bool:
    return bool(pc.any(pc.is_in(group.files.path, value_set=live.path)).as_py())


def refuse_partial(work: Work, state: TableState) -> None:
    """Check that OPTIMIZE, which rewrites whole partitions, would rewrite no file outside of the work.

    Raises:
        Refused: ZL216, if `state`, the table at the work's version, has other files in these partitions.
    """
    wanted = set(partitions_of(work.groups))
    chosen = [at for at, partition in enumerate(state.files.partitions) if partition in wanted]
    paths = state.files.path.filter(pa.array(np.isin(state.files.partition, chosen)))
    planned = pa.concat_arrays([g.files.path for g in work.groups]) if work.groups else pa.array([], pa.string())
    outside = len(paths) - (pc.sum(pc.is_in(paths, value_set=planned)).as_py() or 0)
    if outside:
        raise Refused.of(
            "ZL216",
            f"{work.table}: OPTIMIZE rewrites whole partitions, and {outside} files in them are not part of this work",
            hint="declare engine: native, so that whole partitions are planned",
        )


def record(
    delta: DeltaJvm,
    log: Log,
    work: Work,
    groups: tuple[str, ...],
    added: pa.Array,
    live: FileTable,
) -> Iterator[Commit | GroupFailed]:
    """Commit layout records for the files of `added` that are still live. The files of one partition are one group."""
    rows = pc.index_in(added, value_set=live.path).drop_null()
    names = pa.array([f"{work.run_id}/{at}" for at in range(len(live.partitions))], pa.string())
    files = pa.table({"path": live.path.take(rows), "group": names.take(pa.array(live.partition).take(rows))})
    for attempt in range(_STAMP_ATTEMPTS):
        try:
            commit = stamp(delta, log, work.layout, files, groups)
        except CommitConflict as conflict:
            if attempt == _STAMP_ATTEMPTS - 1:
                yield GroupFailed(groups, conflict)
            continue
        if commit is not None:
            yield commit
        return


def native_diagnostics(layout: Layout, state: TableState) -> tuple[Diagnostic, ...]:
    """Return ZL401 for each layout setting that OPTIMIZE ZORDER BY does not support."""
    unsupported: list[tuple[str, str]] = []
    if state.clustering:
        return _not_supported(_not_clustered(layout))
    if not layout.orders:
        # OPTIMIZE rewrites no file alone, even if most of its rows are deleted.
        unsupported.append(("deleted rows stay: engine native without zorder combines small files only", _USE_ZLAYOUT))
        return _not_supported(unsupported)
    if layout.curve != "zorder" and len(layout.columns) > 1:
        unsupported.append(
            (f"zorder.curve {layout.curve} is not supported by Delta's OPTIMIZE, which uses zorder", _USE_ZLAYOUT)
        )
    if any(column.weight != 1.0 for column in layout.columns):
        unsupported.append(("weights in zorder.columns are ignored by Delta's OPTIMIZE", _USE_ZLAYOUT))
    if layout.noise:
        unsupported.append(
            ("zorder.noise is rand() without a seed in Delta's OPTIMIZE, so runs differ", "set zorder.noise to false")
        )
    if len(layout.columns) > 1:
        for column in layout.columns:
            if _few_values(state.files, column.name):
                unsupported.append(
                    (
                        f"column {column.name} has at most {_FEW_VALUES} values, for which Delta's OPTIMIZE uses only "
                        "the lowest bits: file skipping by it will hardly improve",
                        _USE_ZLAYOUT,
                    )
                )
    return _not_supported(unsupported)


def _not_clustered(layout: Layout) -> Iterator[tuple[str, str]]:
    """Yield each layout setting that OPTIMIZE of a clustered table does not support, and a hint."""
    if layout.curve != CLUSTERING_CURVE and len(layout.columns) > 1:
        yield f"zorder.curve {layout.curve} is not supported by liquid clustering", "declare zorder.curve: hilbert"
    if any(column.weight != 1.0 for column in layout.columns):
        yield "weights in zorder.columns are ignored by liquid clustering", "remove the weights"
    if layout.noise:
        yield "zorder.noise is rand() without a seed in Delta's OPTIMIZE, so runs differ", "set zorder.noise to false"


def _not_supported(found: Iterable[tuple[str, str]]) -> tuple[Diagnostic, ...]:
    return tuple(Diagnostic("ZL401", message, "note", hint) for message, hint in found)


def _partition_types(state: TableState) -> list[pa.DataType]:
    types = {column.name: column.type for column in state.columns}
    return [types[dotted([field.source])] for field in state.partition_fields]


def _rewrite(commit: RunCommit, groups: tuple[str, ...]) -> Commit:
    return Commit(
        kind="rewrite",
        version=commit.version,
        groups=groups,
        files_removed=commit.files_removed,
        files_added=len(commit.added),
        bytes_removed=commit.bytes_removed,
        bytes_added=commit.bytes_added,
        rows=commit.rows,
    )


def _no_files_found(table: str) -> EngineError:
    return EngineError(
        Diagnostic(
            "ZL319",
            f"{table}: OPTIMIZE found no file in the planned partitions",
            hint="plan again; other writers removed the files of these partitions",
        )
    )


def _other_clustering(table: str) -> CommitConflict:
    message = f"the clustering columns of {table} were changed while OPTIMIZE ran"
    return CommitConflict.of("ZL321", message, hint="the rows are the same; plan again")


def _few_values(files: FileTable, name: str) -> bool:
    """Return whether a column of integers or dates has at most `_FEW_VALUES` values, according to its bounds."""
    bounds = files.bounds.get(name)
    if bounds is None or not len(files) or not (pa.types.is_integer(bounds.lower.type) or _is_date(bounds.lower.type)):
        return False
    kind = pa.int32() if _is_date(bounds.lower.type) else pa.int64()
    low, high = pc.min(bounds.lower.cast(kind)).as_py(), pc.max(bounds.upper.cast(kind)).as_py()
    return low is not None and high is not None and high - low < _FEW_VALUES


def _is_date(kind: pa.DataType) -> bool:
    return bool(pa.types.is_date32(kind))
