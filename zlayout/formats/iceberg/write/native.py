"""Engine `native` on Iceberg: `rewrite_data_files` through its Java action, which can sign snapshots with the run's id.

The action orders whole partitions. It includes files that were appended to the work's partitions after the plan. Work
that leaves out other files of these partitions is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from zlayout.errors import CommitConflict, CommitUnknown, Diagnostic, EngineError, Refused, ZlayoutError
from zlayout.formats.base import Commit, GroupFailed, Notify, Progress, Work
from zlayout.formats.iceberg.read import state_property as recorded
from zlayout.formats.iceberg.read.history import RunCommit, commits_to, run_commits, run_snapshots
from zlayout.formats.iceberg.write.expressions import also_selected, leaves_deletes_behind, partition_filter
from zlayout.formats.iceberg.write.jvm import FAILURES, IcebergJvm
from zlayout.formats.iceberg.write.record import dead_snapshots, write_state
from zlayout.formats.kernel.outcome import ran
from zlayout.formats.kernel.requirements import partitions_of
from zlayout.spec.model import CatalogConfig, Layout
from zlayout.table.state import TableState

CURVES = frozenset({"zorder", "hilbert", "linear"})
DEFAULT_RANGE_IDS = 1000
SHUFFLE_PARTITION = 512 * 2**20  # bytes; a larger file is sorted as several shuffle partitions
WHOLE = 2**63 - 1  # no limit on the bytes that are ordered together
MAX_COMMITS = 10


def native_diagnostics(layout: Layout) -> tuple[Diagnostic, ...]:
    """Return ZL401 for each declared setting that `rewrite_data_files` cannot honour."""
    lost = []
    if layout.curve not in CURVES:
        lost.append((f"zorder.curve {layout.curve}", "it orders by zorder instead"))
    if layout.range_ids != DEFAULT_RANGE_IDS and layout.curve != "linear":
        lost.append((f"zorder.range_ids {layout.range_ids}", "it interleaves the bytes of the values themselves"))
    if layout.noise:
        lost.append(("zorder.noise true", "it keeps equal keys together"))
    if any(c.weight != 1.0 for c in layout.columns):
        lost.append(("weights of zorder.columns", "it gives every column the same share"))
    if not layout.sort_within:
        lost.append(("files.sort_within false", "it always sorts inside a file"))
    return tuple(
        Diagnostic("ZL401", f"engine native on Iceberg cannot honour {name}: {what}", "note", "use engine zlayout")
        for name, what in lost
    )


def refuse_native(work: Work, state: TableState) -> None:
    """Check before anything is written that the action can do the work, and would do nothing else.

    state: the table at the work's version.

    Raises:
        Refused: ZL223, for a column that its curve cannot order; ZL224, for files outside the work that its filter
            would select.
    """
    found = [] if work.layout.curve == "linear" else unordered_columns(work.layout, state)
    if not work.covers_table:
        found += _outside_files(work, state)
    if found:
        raise Refused(*found)


def rewrite(jvm: IcebergJvm, catalog: CatalogConfig, work: Work, notify: Notify) -> Iterator[Commit | GroupFailed]:
    """Run the action on the work's partitions, then record what it laid out.

    Raises:
        Refused: ZL225, if others did more than append since the plan.
        CommitUnknown: ZL331, if nothing of the run is in the table but its commit may still be under way.
    """
    notify(Progress(str(work.table), f"rewriting with Iceberg's {_order(work.layout)}"))
    earlier = run_snapshots(catalog, work.table, work.run_id)
    failed_files = 0

    def run() -> None:
        nonlocal failed_files
        failed_files = int(action(jvm, work).execute().failedDataFilesCount())

    def look() -> tuple[RunCommit, ...]:
        return run_commits(catalog, work.table, work.run_id, earlier)

    done, failure = ran(f"rewriting {work.table} in run {work.run_id}", run, look, FAILURES)
    if isinstance(failure, CommitUnknown) and not done:
        raise failure
    commits = tuple(commits_to(work.groups, done))
    yield from commits
    finished = {group for commit in commits for group in commit.groups}
    left = tuple(g.id for g in work.groups if g.id not in finished)
    if left:
        yield GroupFailed(left, failure or _not_committed(work, failed_files))
    if done:
        yield from record(jvm, catalog, work, done)


def action(jvm: IcebergJvm, work: Work) -> Any:
    """Return the Java action, ready to be executed. Raises Refused ZL225."""
    table = jvm.load(work.table)
    require_appends_only(table, work)
    rewrites = jvm.iceberg.spark.actions.SparkActions.get(jvm.jsession).rewriteDataFiles(table)
    rewrites = _ordered(jvm, rewrites, table, work.layout)
    if not work.covers_table:
        rewrites = rewrites.filter(partition_filter(jvm, partitions_of(work.groups)))
    for key, value in _options(work, int(table.spec().specId())).items():
        rewrites = rewrites.option(key, value)
    return rewrites.snapshotProperty(recorded.RUN, work.run_id).snapshotProperty(
        recorded.LAYOUT_ID, work.layout.layout_id
    )


def _ordered(jvm: IcebergJvm, action: Any, table: Any, layout: Layout) -> Any:
    columns = [c.name for c in layout.columns]
    match _order(layout):
        case "sort":
            order = jvm.iceberg.SortOrder.builderFor(table.schema())
            for column in columns:
                order = order.asc(column)
            return action.sort(order.build())
        case "hilbert":
            return action.hilbert(jvm.strings(columns))
        case _:
            return action.zOrder(jvm.strings(columns))


def _order(layout: Layout) -> str:
    return {"linear": "sort", "hilbert": "hilbert"}.get(layout.curve, "zorder")


# With rewrite-all this does not select files. It only sets the size at which the writer closes a file.
MAX_SIZE_FACTOR = 64


def _options(work: Work, spec_id: int) -> dict[str, str]:
    several = len({(p.spec_id, p.values) for p in partitions_of(work.groups)}) > 1
    return {
        "rewrite-all": "true",
        "target-file-size-bytes": str(work.layout.target_size),
        # The writer measures the size before compression, which would cut each file into several.
        "max-file-size-bytes": str(MAX_SIZE_FACTOR * work.layout.target_size),
        "max-file-group-size-bytes": str(WHOLE),
        "output-spec-id": str(spec_id),
        "use-starting-sequence-number": str(not leaves_deletes_behind(partitions_of(work.groups), spec_id)).lower(),
        "shuffle-partitions-per-file": str(-(-work.layout.target_size // SHUFFLE_PARTITION)),
        "partial-progress.enabled": str(several).lower(),
        "partial-progress.max-commits": str(MAX_COMMITS),
    }


# The counts of files in a snapshot's summary. A rewrite of manifests alone has none of these, or zeros.
FILE_CHANGES = (
    "added-data-files",
    "deleted-data-files",
    "added-delete-files",
    "removed-delete-files",
    "added-dvs",
    "removed-dvs",
)


def require_appends_only(table: Any, work: Work) -> None:
    """Check that others have only appended since the version that the groups were chosen from.

    Iceberg's action rewrites the files that it finds, so it would not notice. Work without groups depends on no files.

    Raises:
        Refused: ZL225.
    """
    if not work.groups:
        return
    snapshot = table.currentSnapshot()
    while snapshot is not None and snapshot.snapshotId() != work.version:
        summary = dict(snapshot.summary())
        mine = summary.get(recorded.RUN) == work.run_id  # an earlier part of the run, with other groups
        if snapshot.operation() != "append" and not mine and not keeps_files(summary):
            break
        parent = snapshot.parentId()
        snapshot = None if parent is None else table.snapshot(parent)
    if snapshot is None or snapshot.snapshotId() != work.version:
        now = table.currentSnapshot()
        raise Refused.of(
            "ZL225",
            f"{work.table} changed since the plan: expected snapshot {work.version} or appends to it, "
            f"found {'no snapshot' if now is None else f'{now.snapshotId()} ({now.operation()})'}",
            hint="plan again",
        )


def keeps_files(summary: Mapping[str, str]) -> bool:
    """Return whether a snapshot with this summary added and removed no file."""
    return all(int(summary.get(key, "0")) == 0 for key in FILE_CHANGES)


def record(jvm: IcebergJvm, catalog: CatalogConfig, work: Work, done: Sequence[RunCommit]) -> Iterator[Commit]:
    """Add the snapshots of the run to the recorded state, in one commit if that changes anything."""
    dead = dead_snapshots(jvm, catalog, work.table, jvm.load(work.table))
    mine = [c.snapshot for c in done]
    if write_state(jvm, work.table, lambda state: recorded.after(state, work.layout, mine, dead)):
        yield Commit("record", mine[-1])


def _not_committed(work: Work, failed_files: int) -> ZlayoutError:
    if failed_files:
        return EngineError.of(
            "ZL315",
            f"Iceberg could not write the new files for {failed_files} old ones of {work.table}",
            hint="the files of these partitions are unchanged; see Spark's log",
        )
    return CommitConflict.of(
        "ZL322",
        f"these partitions of {work.table} were not committed, most likely because a concurrent commit changed them",
        hint="the other change stands; plan again",
    )


def unordered_columns(layout: Layout, state: TableState) -> list[Diagnostic]:
    found = []
    for zorder in layout.columns:
        column = state.column(zorder.name)
        if column is None:
            continue
        why = "a decimal" if str(column.type).startswith("decimal") else "nested" if "." in column.name else ""
        if why:
            found.append(
                Diagnostic(
                    "ZL223",
                    f"Iceberg's own {_order(layout)} cannot order by {column.name}, which is {why}",
                    "refused",
                    "use engine zlayout, or curve linear",
                )
            )
    return found


def _outside_files(work: Work, state: TableState) -> list[Diagnostic]:
    mine = {path for group in work.groups for path in group.files.path.to_pylist()}
    taken = np.isin(state.files.partition, also_selected(state.files.partitions, partitions_of(work.groups)))
    paths = state.files.path.to_pylist()
    outside = [paths[row] for row in np.flatnonzero(taken).tolist() if paths[row] not in mine]
    if not outside:
        return []
    return [
        Diagnostic(
            "ZL224",
            f"engine native rewrites whole partitions, and {len(outside)} files in them are not part of this work",
            "refused",
            "use engine zlayout, or plan all files of these partitions and of older partition specs",
        )
    ]
