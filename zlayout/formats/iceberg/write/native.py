"""Engine `native` on Iceberg: runs the Java action of `rewrite_data_files`, which can store the run id in snapshots.

The action rewrites whole partitions, including files that were appended after the plan. The work is refused if the
planned version has files in these partitions that the work does not contain.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from zlayout.errors import CommitConflict, CommitUnknown, EngineError, Refused, ZlayoutError
from zlayout.formats.base import Commit, GroupFailed, Notify, PlannedTable, Progress, Stage
from zlayout.formats.iceberg.read import state_property as recorded
from zlayout.formats.iceberg.read.history import RunCommit, commits_to, run_commits, run_snapshots
from zlayout.formats.iceberg.read.schema import iceberg_name
from zlayout.formats.iceberg.read.support import also_selected, native_order
from zlayout.formats.iceberg.write.jvm import FAILURES, IcebergJvm, partition_filter
from zlayout.formats.iceberg.write.settings import dead_snapshots, write_state
from zlayout.formats.iceberg.write.staging import head, to_branch
from zlayout.formats.kernel.outcome import Failures, ran
from zlayout.formats.kernel.requirements import Replaced, partitions_of, require_only_planned
from zlayout.spec.model import CatalogConfig, Layout
from zlayout.table.state import FileTable, TableState

SHUFFLE_PARTITION_BYTES = 512 * 2**20  # if the target size is larger, each file is sorted in several shuffle partitions
UNLIMITED_BYTES = 2**63 - 1
MAX_COMMITS = 10
# With rewrite-all, this factor does not select files. It only determines the size at which the writer closes a file.
MAX_SIZE_FACTOR = 64


def rewrite(
    jvm: IcebergJvm,
    catalog: CatalogConfig,
    work: PlannedTable,
    notify: Notify,
    planned: FileTable,
    observe: Callable[[int | None], TableState],
) -> Iterator[Commit | GroupFailed]:
    """Run the action on the partitions of the work, then commit the layout records.

    Args:
        planned: The live files at the work's version.
        observe: Observes the table at a snapshot.

    Raises:
        Refused: ZL225, if another writer has removed files or rows since the plan.
        EngineError: ZL340, if the action also replaced files that are not part of the plan.
        CommitUnknown: ZL331, if no commit of the run is in the table and the action may still commit.
    """
    notify(Progress(str(work.table), Stage.REWRITING, f"with Iceberg's {native_order(work.layout)}"))
    earlier = run_snapshots(catalog, work.table, work.run_id)

    def run() -> int:
        return int(action(jvm, work).execute().failedDataFilesCount())

    def look() -> tuple[RunCommit, ...]:
        return run_commits(catalog, work.table, work.run_id, earlier)

    done = yield from settle(work, run, look, FAILURES, planned, observe)
    if done:
        yield from record(jvm, catalog, work, done)


def settle(
    work: PlannedTable,
    run: Callable[[], int],
    look: Callable[[], Sequence[RunCommit]],
    failures: Failures,
    planned: FileTable,
    observe: Callable[[int | None], TableState],
) -> Generator[Commit | GroupFailed, None, Sequence[RunCommit]]:
    """Run the rewrite, settle its outcome, and check what it replaced.

    Args:
        run: Runs the rewrite. Returns the number of files that it could not rewrite.
        look: Reads the commits of the rewrite from the table.
        failures: How the rewrite reports failures.
        planned: See `rewrite`.
        observe: See `rewrite`.

    Yields:
        The commits, and the groups that none of them completes.

    Returns:
        The commits.

    Raises:
        EngineError, CommitUnknown: See `rewrite`.
    """
    failed_files = 0

    def counted() -> None:
        nonlocal failed_files
        failed_files = run()

    done, failure = ran(f"rewriting {work.table} in run {work.run_id}", counted, look, failures)
    if isinstance(failure, CommitUnknown) and not done:
        raise failure
    commits = tuple(commits_to(work.groups, done))
    yield from commits
    finished = {group for commit in commits for group in commit.groups}
    failed = tuple(g.id for g in work.groups if g.id not in finished)
    if failed:
        yield GroupFailed(failed, failure or _not_committed(work, failed_files))
    require_only_planned(
        work,
        [Replaced(c.snapshot, c.parent, pa.array(c.change.removed, pa.string())) for c in done],
        lambda: planned,
        lambda snapshot: observe(snapshot).files,
        lambda partitions: also_selected(partitions, partitions_of(work.groups)),
    )
    return done


def action(jvm: IcebergJvm, work: PlannedTable) -> Any:
    """Return the configured Java action. Raises Refused ZL225, CommitConflict ZL320."""
    table = jvm.load(work.table)
    require_appends_only(table, work)
    rewrites = jvm.iceberg.spark.actions.SparkActions.get(jvm.jsession).rewriteDataFiles(table)
    to_branch(rewrites, table, work.table)
    rewrites = _ordered(jvm, rewrites, table, work.layout)
    if not work.covers_table:
        rewrites = rewrites.filter(partition_filter(jvm, partitions_of(work.groups)))
    for key, value in options(work, int(table.spec().specId())).items():
        rewrites = rewrites.option(key, value)
    for key, value in work.spec.commit_properties.items():
        rewrites = rewrites.snapshotProperty(key, value)
    return rewrites.snapshotProperty(recorded.RUN, work.run_id).snapshotProperty(
        recorded.LAYOUT_ID, work.layout.layout_id
    )


def _ordered(jvm: IcebergJvm, action: Any, table: Any, layout: Layout) -> Any:
    columns = [iceberg_name(c.name) for c in layout.columns]
    match native_order(layout):
        case "sort":
            order = jvm.iceberg.SortOrder.builderFor(table.schema())
            for column in columns:
                order = order.asc(column)
            return action.sort(order.build())
        case "hilbert":
            return action.hilbert(jvm.strings(columns))
        case _:
            return action.zOrder(jvm.strings(columns))


def options(work: PlannedTable, spec_id: int) -> dict[str, str]:
    """Return the options of `rewrite_data_files`. spec_id: the partition spec of the new files."""
    several = len({(p.spec_id, p.values) for p in partitions_of(work.groups)}) > 1
    return {
        "rewrite-all": "true",
        "target-file-size-bytes": str(work.layout.target_size),
        # The writer compares the size before compression, so a lower limit would split each file.
        "max-file-size-bytes": str(MAX_SIZE_FACTOR * work.layout.target_size),
        "max-file-group-size-bytes": str(UNLIMITED_BYTES),
        "output-spec-id": str(spec_id),
        # Else Iceberg may remove concurrent equality deletes: see `write.commit.Committer._require_equality_deletes`.
        "use-starting-sequence-number": "false",
        "shuffle-partitions-per-file": str(-(-work.layout.target_size // SHUFFLE_PARTITION_BYTES)),
        "partial-progress.enabled": str(several).lower(),
        "partial-progress.max-commits": str(MAX_COMMITS),
    }


# Keys in a snapshot's summary that count files. A snapshot that only rewrites manifests has none of them, or zeros.
FILE_CHANGES = (
    "added-data-files",
    "deleted-data-files",
    "added-delete-files",
    "removed-delete-files",
    "added-dvs",
    "removed-dvs",
)


def require_appends_only(table: Any, work: PlannedTable) -> None:
    """See `require_only_appends`. table: the Java table."""
    require_only_appends(work, _history(table, work))


def _history(table: Any, work: PlannedTable) -> Iterator[Past]:
    snapshot = head(table, work.table)
    while snapshot is not None:
        summary = dict(snapshot.summary())
        yield Past(
            int(snapshot.snapshotId()), str(snapshot.operation()), summary, summary.get(recorded.RUN) == work.run_id
        )
        parent = snapshot.parentId()
        snapshot = None if parent is None else table.snapshot(parent)


class Past(NamedTuple):
    """One snapshot of a branch.

    Attributes:
        of_run: Whether it is an earlier commit of the run, with other groups.
    """

    id: int
    operation: str
    summary: Mapping[str, str]
    of_run: bool


def require_only_appends(work: PlannedTable, history: Iterable[Past]) -> None:
    """Check that other writers have only appended files since the work's version.

    Iceberg's action does not check this, because it rewrites the files that it finds. Work without groups is not
    checked, because it depends on no files.

    Args:
        history: The snapshots of the branch, the newest first.

    Raises:
        Refused: ZL225, if another writer has removed files or rows.
    """
    if not work.groups:
        return
    newest = None
    for snapshot in history:
        newest = newest or snapshot
        if snapshot.id == work.version:
            return
        if snapshot.operation != "append" and not snapshot.of_run and not changes_no_files(snapshot.summary):
            break
    message = (
        f"{work.table} changed since the plan: expected snapshot {work.version} or appends to it, "
        f"found {'no snapshot' if newest is None else f'{newest.id} ({newest.operation})'}"
    )
    raise Refused.of("ZL225", message, hint="plan again")


def changes_no_files(summary: Mapping[str, str]) -> bool:
    """Return whether a snapshot with this summary added and removed no file."""
    return all(int(summary.get(key, "0")) == 0 for key in FILE_CHANGES)


def record(jvm: IcebergJvm, catalog: CatalogConfig, work: PlannedTable, done: Sequence[RunCommit]) -> Iterator[Commit]:
    """Add the snapshots of the run to the layout records. Yields the commit, nothing if they are recorded already."""
    dead = dead_snapshots(jvm, catalog, work.table, jvm.load(work.table))
    made = [c.snapshot for c in done]
    if write_state(jvm, work.table, lambda state: recorded.after(state, work.layout, made, dead)):
        yield Commit("record", made[-1])


def _not_committed(work: PlannedTable, failed_files: int) -> ZlayoutError:
    if failed_files:
        message = f"Iceberg could not write new files for {failed_files} files of {work.table}"
        return EngineError.of("ZL315", message, hint="see Spark's log; the files of these partitions are unchanged")
    message = f"Iceberg did not commit some partitions of {work.table}, most likely because of a concurrent commit"
    return CommitConflict.of("ZL322", message, hint="plan again; the concurrent commit stays")
