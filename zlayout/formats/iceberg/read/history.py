"""Reads from the snapshots of an Iceberg table what runs of zlayout committed, for example to settle an outcome."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import SnapshotRef
from pyiceberg.table.snapshots import Snapshot

from zlayout.errors import Refused
from zlayout.formats import undo
from zlayout.formats.base import TOUCHED, Commit, Group, RunMetrics, parse_touched, run_metrics
from zlayout.formats.iceberg.read import state_property as recorded
from zlayout.formats.iceberg.read.catalog import load_table, readable_metadata
from zlayout.formats.iceberg.read.manifests import (
    EQUALITY_DELETES,
    Change,
    DataColumns,
    manifests_of,
    read_change,
    read_live,
)
from zlayout.formats.iceberg.read.schema import unpartitioned_specs
from zlayout.formats.trial import TRIAL
from zlayout.formats.undo import Recorded, Undo, missing_files
from zlayout.spec.model import MAIN, CatalogConfig, TableName
from zlayout.table.external import MAX_CLOCK_SKEW, ExternalRewrite, external_rewrites, instant_of_milliseconds
from zlayout.table.state import Int64, TableState, maxima
from zlayout.text import first_of, quote_identifier, quote_value

# The snapshots of a table: its branches, and the changes of other writers.


MAX_NAMED = 5  # branches that a message names
MAX_SNAPSHOTS = 1000  # that are searched for rewrites by other writers
# The operations of snapshots that remove data files, as shown to users.
_REMOVALS = {"replace": "replace (a rewrite of data files)", "overwrite": "overwrite", "delete": "delete"}
_THETA_SKETCH = "apache-datasketches-theta-v1"


def head(metadata: TableMetadata, name: TableName) -> Snapshot | None:
    """Return the newest snapshot of the branch of `name`, None for a table without a snapshot.

    Raises:
        Refused: ZL238, if the table has no such branch, or a tag of this name.
    """
    if not name.branch:
        return metadata.current_snapshot()
    ref = metadata.refs.get(name.branch)
    if ref is None or not is_branch(ref):
        found = "no such branch" if ref is None else "a tag of this name"
        branches = [MAIN, *sorted(other for other, it in metadata.refs.items() if other != MAIN and is_branch(it))]
        message = f"expected branch {quote_value(name.branch)} of {name.on('')}, found {found}"
        hint = f"use a branch of the table: {first_of(branches, MAX_NAMED)}"
        hint += "" if ref else "; or create it with ALTER TABLE ... CREATE BRANCH"
        raise Refused.of("ZL238", message, hint=hint)
    return metadata.snapshot_by_id(ref.snapshot_id)


def heads(metadata: TableMetadata) -> list[Snapshot]:
    """Return the newest snapshots of all branches, each once."""
    ids = {ref.snapshot_id for ref in metadata.refs.values() if is_branch(ref)} | {metadata.current_snapshot_id}
    return [snapshot for snapshot in metadata.snapshots if snapshot.snapshot_id in ids]


def is_branch(ref: SnapshotRef) -> bool:
    """Return whether a reference is a branch, and not a tag."""
    return str(ref.snapshot_ref_type.value) == "branch"


def ancestors(metadata: TableMetadata, snapshot: Snapshot | None) -> Iterator[Snapshot]:
    """Yield a snapshot and its ancestors, the newest first, as far as they have not expired."""
    by_id = {s.snapshot_id: s for s in metadata.snapshots}
    while snapshot is not None:
        yield snapshot
        by_id.pop(snapshot.snapshot_id, None)  # so that a cycle in invalid metadata ends
        parent = snapshot.parent_snapshot_id
        snapshot = None if parent is None else by_id.get(parent)


def summary_of(snapshot: Snapshot) -> Mapping[str, str]:
    """Return the summary of a snapshot, empty if it has none."""
    return snapshot.summary.additional_properties if snapshot.summary else {}


def operation_of(snapshot: Snapshot) -> str:
    """Return the operation of a snapshot, as Iceberg names it."""
    return str(snapshot.summary.operation.value) if snapshot.summary else "unknown operation"


def trial_property(table: TableName) -> str:
    """Return the table property that marks the branch of a trial, for the snapshot at which the branch was created."""
    return f"{TRIAL}.{table.branch}"


def reads_property(table: TableName) -> str:
    """Return the table property with what queries read of a trial: its version, and the bytes of `Reads`."""
    return f"{TRIAL}-reads.{table.branch}"


def external_rewrites_of(
    metadata: TableMetadata, snapshot: Snapshot | None, own: frozenset[int], *, known: bool
) -> tuple[ExternalRewrite, ...]:
    """Return what other writers rewrote between the last snapshot by zlayout and a snapshot.

    Args:
        metadata: The metadata of the table, whose snapshots may have expired in part.
        snapshot: The newest snapshot to consider.
        own: The snapshots in the layout records. Those that were made by SQL have no run id.
        known: Whether the table has layout records, so that zlayout has rewritten it.
    """
    found: list[ExternalRewrite] = []
    for number, one in enumerate(ancestors(metadata, snapshot)):
        summary = summary_of(one)
        if recorded.LAYOUT_ID in summary or recorded.RUN in summary or one.snapshot_id in own:
            return external_rewrites(found)
        if number >= MAX_SNAPSHOTS:
            break
        removed = summary.get("deleted-data-files", "0")
        if (operation := _REMOVALS.get(operation_of(one))) and removed.isdecimal() and int(removed):
            time = instant_of_milliseconds(one.timestamp_ms)
            maintains = operation_of(one) == "replace"
            found.append(ExternalRewrite(operation, one.snapshot_id, _engine(summary), time, maintenance=maintains))
    return external_rewrites(found) if known else ()


def _engine(summary: Mapping[str, str]) -> str:
    name, version = summary.get("engine-name", ""), summary.get("engine-version", "")
    if not name:
        return "Trino" if "trino_query_id" in summary else ""
    return f"{name} {version}".strip()


def _commit_times(metadata: TableMetadata) -> tuple[dict[int, int], int]:
    """Return the time of each snapshot in milliseconds since 1970, and how many have times in the future."""
    # A snapshot was not committed later than the next one, and none in the future. The time is 0 if it is unknown.
    latest = int(time.time() * 1000) + MAX_CLOCK_SKEW
    times: dict[int, int] = {}
    future = 0
    limit = 0
    for one in sorted(metadata.snapshots, key=lambda s: (s.sequence_number or 0, s.timestamp_ms), reverse=True):
        known = bool(np.int64(one.timestamp_ms) <= latest)  # OverflowError for a number that is no time at all
        future += not known
        limit = one.timestamp_ms if known else limit
        times[one.snapshot_id] = limit
    return times, future


def written_by_others(data: DataColumns, metadata: TableMetadata, state: recorded.State) -> tuple[Int64, int]:
    """Return the time of the last write to each partition of `data.partitions`, int64[P], in milliseconds since 1970.

    A data file, or a delete file for files of the partition, was written when its snapshot was committed. Snapshots
    that have expired and those of zlayout do not count. The time is 0 if none counts. A snapshot with a time in the
    future was committed before the next one. The second result is the number of such snapshots.
    """
    own = {s.snapshot_id for s in metadata.snapshots if recorded.RUN in summary_of(s)} | recorded.listed(state)
    committed, future = _commit_times(metadata)
    times = {snapshot: at for snapshot, at in committed.items() if snapshot not in own}
    snapshots, inverse = np.unique(data.int64("snapshot"), return_inverse=True)
    of_files = np.array([times.get(snapshot, 0) for snapshot in snapshots.tolist()], np.int64)[inverse]
    latest = maxima(data.partition_index(), len(data.partitions), of_files)
    unpartitioned = unpartitioned_specs(metadata)
    for delete in data.deletes:
        written = times.get(delete.snapshot, 0)
        if delete.content == EQUALITY_DELETES and delete.partition[0] in unpartitioned:  # applies to all partitions
            latest = np.maximum(latest, written)
        elif (at := data.partitions.get(delete.partition)) is not None:
            latest[at] = max(latest[at], written)
    return latest, future


def distinct_counts(metadata: TableMetadata, snapshot: Snapshot | None) -> Mapping[int, int]:
    """Return the number of distinct values by field id, from the statistics of the snapshot.

    The table metadata has this number as a property of each sketch, so that no statistics file (Puffin) is opened.
    Statistics of other snapshots are ignored, because values may have been added since.
    """
    found: dict[int, int] = {}
    if snapshot is None:
        return found
    for file in metadata.statistics:
        for blob in file.blob_metadata if file.snapshot_id == snapshot.snapshot_id else ():
            text = (blob.properties or {}).get("ndv", "")
            if blob.type == _THETA_SKETCH and len(blob.fields) == 1 and text.isdecimal():
                found[blob.fields[0]] = int(text)
    return found


# What runs of zlayout committed.


class RunCommit(NamedTuple):
    """One snapshot that a run made, the data files that it added and removed, and the snapshot before it."""

    snapshot: int
    change: Change
    parent: int | None = None


def run_commits(
    catalog: CatalogConfig, name: TableName, run_id: str, earlier: Collection[int] = ()
) -> tuple[RunCommit, ...]:
    """Return the snapshots of a run, in the order of their commits.

    Args:
        earlier: The ids of snapshots to leave out.

    Raises:
        TableError: ZL121 to ZL123, ZL125, ZL127, ZL128.
    """
    table = load_table(catalog, name)
    return _commits(table, name, [s for s in _of_run(table, run_id) if s.snapshot_id not in earlier])


def rewrites_since(
    catalog: CatalogConfig, name: TableName, earlier: Collection[int], application: str | None
) -> tuple[RunCommit, ...]:
    """Return the snapshots that rewrote data files, in the order of their commits.

    Args:
        earlier: The ids of snapshots to leave out.
        application: The id of the Spark application that made the snapshots, None for any. Snapshots without such an
            id are not left out.

    Raises:
        TableError: ZL121 to ZL123, ZL125, ZL127, ZL128.
    """
    table = load_table(catalog, name)
    made = [
        one
        for one in table.metadata.snapshots
        if one.snapshot_id not in earlier
        and operation_of(one) == "replace"
        and application in (None, summary_of(one).get("app-id", application))
    ]
    return tuple(commit for commit in _commits(table, name, made) if commit.change.removed)


def _commits(table: Table, name: TableName, snapshots: list[Snapshot]) -> tuple[RunCommit, ...]:
    snapshots.sort(key=lambda s: s.sequence_number or 0)
    with readable_metadata(table, name):
        return tuple(
            RunCommit(
                s.snapshot_id, read_change(manifests_of(s, table.io), table.io, s.snapshot_id), s.parent_snapshot_id
            )
            for s in snapshots
        )


def run_snapshots(catalog: CatalogConfig, name: TableName, run_id: str) -> frozenset[int]:
    """Return the ids of the snapshots of a run, from the table's metadata alone.

    Raises:
        TableError: ZL121 to ZL123, ZL127.
    """
    return frozenset(s.snapshot_id for s in _of_run(load_table(catalog, name), run_id))


def _of_run(table: Table, run_id: str) -> list[Snapshot]:
    return [s for s in table.metadata.snapshots if summary_of(s).get(recorded.RUN) == run_id]


def last_run(catalog: CatalogConfig, name: TableName) -> RunMetrics | None:
    """See `zlayout.formats.base.Backend`. Raises TableError ZL121 to ZL123, ZL127; Refused ZL238."""
    metadata = load_table(catalog, name).metadata
    for snapshot in ancestors(metadata, head(metadata, name)):
        summary = summary_of(snapshot)
        columns = parse_touched(summary.get(TOUCHED))
        if recorded.RUN in summary and columns:
            return run_metrics(summary[recorded.RUN], snapshot.snapshot_id, columns, summary)
    return None


def commits_to(groups: Sequence[Group], run: Sequence[RunCommit]) -> Iterator[Commit]:
    """Yield the events for the commits of a run. If a group needs several commits, the last of them completes it."""
    left = {group.id: set(group.files.path.to_pylist()) for group in groups}
    for snapshot, change, _ in run:
        for paths in left.values():
            paths -= change.removed
        completed = tuple(id for id, paths in left.items() if not paths)
        left = {id: paths for id, paths in left.items() if paths}
        yield Commit(
            "rewrite",
            snapshot,
            completed,
            files_removed=len(change.removed),
            files_added=len(change.added),
            bytes_removed=change.bytes_removed,
            bytes_added=change.bytes_added,
            rows=change.rows_added,
        )


def live_snapshots(catalog: CatalogConfig, name: TableName) -> frozenset[int]:
    """Return the ids of all snapshots that added a live data file of any branch.

    Raises:
        TableError: ZL121 to ZL123, ZL125, ZL127, ZL128.
    """
    table: Table = load_table(catalog, name)
    with readable_metadata(table, name):
        every = [manifest for snapshot in heads(table.metadata) for manifest in manifests_of(snapshot, table.io)]
        manifests = {manifest.manifest_path: manifest for manifest in every}
        return frozenset(read_live(manifests.values(), table.io, ()).snapshot)


# Determines from the metadata of an Iceberg table, without a JVM, what the rollback of a run undoes.
#
# A rollback returns the branch main to the snapshot directly before the run, and cherry-picks the later appends.
# Adding the replaced files in a new snapshot would be unsafe: when the run's snapshot expires, Iceberg's
# `ExpireSnapshots` deletes the files that it removed, without a check whether a later snapshot has added them again.


# Entries of a summary that a cherry-picked snapshot may lose: numbers that Iceberg computes, and the engine. Other
# entries may be the state of a streaming writer, which would write its rows again if it did not find them.
_PLAIN = re.compile(
    r"(added|deleted|removed|total)-[a-z-]+|changed-partition-count|manifests-[a-z]+|entries-processed"
    r"|engine-(name|version)|iceberg-version|app-(id|name)|spark\.app\.id|trino_query_id"
)


def undo_run(
    catalog: CatalogConfig, name: TableName, observe: Callable[[int | None], TableState], run: str | None
) -> Undo:
    """Determine the rollback of a run.

    Args:
        observe: Observes the table at a snapshot, None for the current one.
        run: The id of the run; None for the newest run in effect that changed files.

    Raises:
        Refused: ZL230 to ZL236.
        TableError: ZL121 to ZL125, ZL127, ZL128.
    """
    table = load_table(catalog, name)
    history = list(ancestors(table.metadata, table.current_snapshot()))
    run_of = _run_ids(table.metadata)
    with readable_metadata(table, name):
        chosen, changes = _chosen(name, table, history, run_of, run)
    state = observe(history[0].snapshot_id)
    line = {one.snapshot_id: one for one in history}
    before = line[changes[0].version].parent_snapshot_id
    if before is None or before not in line:
        raise undo.gone(name, f"the snapshot before run {chosen} has expired")
    later = history[: next(at for at, one in enumerate(history) if one.snapshot_id == before)]
    kept = [one for one in reversed(later) if run_of.get(one.snapshot_id) != chosen]
    ours, replaced = undo.net_change(changes)
    added = {path for path, _ in ours}
    with readable_metadata(table, name):
        _require_picks(name, table, state, kept, added, chosen, run_of)
    states = {at: observe(line[at].parent_snapshot_id) for at in replaced}
    removed, missing = _rows(state, added)
    undo.require_unchanged(name, chosen, missing, len(added), [])
    parts = [_rows(states[at], {path for path, _ in files}) for at, files in replaced.items()]
    returned = pa.concat_tables([undo.FILES.empty_table(), *(files for files, _ in parts)]).combine_chunks()
    for each in (*states.values(), state):
        _require_spec(name, each, state, {*removed["path"].to_pylist(), *returned["path"].to_pylist()})
    _require_stored(name, table, returned)
    undo.require_rows(name, removed, returned, undo.why_unknown([state, *states.values()]))
    return Undo(
        name,
        "iceberg",
        chosen,
        tuple(change.version for change in changes),
        state.version,
        state.table_id,
        state.location,
        removed,
        returned,
        tuple(one.snapshot_id for one in kept),
        before,
    )


def _run_ids(metadata: TableMetadata) -> dict[int, str]:
    """Return the ids of runs by snapshot, from the summaries, and for runs by SQL from a table property."""
    # Whoever may alter the table can write the property. To undo anything but a rewrite would change the rows.
    summaries = {one.snapshot_id: summary_of(one) for one in metadata.snapshots}
    rewrites = {one.snapshot_id for one in metadata.snapshots if operation_of(one) == "replace"}
    by_sql = {at: run for at, run in recorded.runs(metadata.properties).items() if at in rewrites}
    return by_sql | {at: summary[recorded.RUN] for at, summary in summaries.items() if recorded.RUN in summary}


def _chosen(
    name: TableName, table: Table, history: Sequence[Snapshot], run_of: Mapping[int, str], wanted: str | None
) -> tuple[str, list[undo.Change]]:
    runs = undo.runs_in_effect(Recorded(one.snapshot_id, run_of.get(one.snapshot_id, "")) for one in history)
    by_id = {one.snapshot_id: one for one in history}

    def change(snapshot: int) -> undo.Change | None:
        found = read_change(manifests_of(by_id[snapshot], table.io), table.io, snapshot)
        added, removed = (tuple((path, "") for path in sorted(paths)) for paths in (found.added, found.removed))
        return undo.Change(snapshot, added, removed) if removed else None

    if (chosen := undo.changes_of(runs, wanted, change)) is None:
        if wanted is not None:
            _require_on_main(name, table, wanted, by_id, run_of)
        raise undo.no_run(name, wanted, runs)
    return chosen


def _require_on_main(
    name: TableName, table: Table, wanted: str, history: Mapping[int, Snapshot], run_of: Mapping[int, str]
) -> None:
    for branch, ref in table.metadata.refs.items():
        if not is_branch(ref):
            continue
        newest = table.metadata.snapshot_by_id(ref.snapshot_id)
        line = [one for one in ancestors(table.metadata, newest) if one.snapshot_id not in history]
        if made := [one for one in line if run_of.get(one.snapshot_id) == wanted]:
            back = quote_identifier(branch)
            raise Refused.of(
                "ZL230",
                f"{name}: run {wanted} rewrote branch {branch}, and a rollback is possible on main only",
                hint=f"undo it with ALTER TABLE ... REPLACE BRANCH {back} AS OF VERSION {made[-1].parent_snapshot_id}, "
                "which also undoes later commits of the branch",
            )


def _require_picks(
    name: TableName,
    table: Table,
    state: TableState,
    kept: Sequence[Snapshot],
    added: set[str],
    run_id: str,
    run_of: Mapping[int, str],
) -> None:
    """Check that the later snapshots are appends that can be cherry-picked without a change of rows."""
    for snapshot in kept:
        run = run_of.get(snapshot.snapshot_id, "")
        what = f"{operation_of(snapshot)} of run {run}" if run else operation_of(snapshot)
        by = f"snapshot {snapshot.snapshot_id} ({what})"
        summary = summary_of(snapshot)
        if operation_of(snapshot) == "append" and not run:
            if other := sorted(key for key in summary if not _PLAIN.fullmatch(key)):
                raise _cannot_keep(name, f"{by} stores {other[0]}, which a writer may need to find again")
            continue
        change = read_change(manifests_of(snapshot, table.io), table.io, snapshot.snapshot_id)
        undo.require_unchanged(name, run_id, [(path, "") for path in sorted(change.removed & added)], len(added), [by])
        if any(int(summary.get(f"added-{kind}", 0)) for kind in ("delete-files", "dvs", "equality-delete-files")):
            raise _cannot_keep(name, f"{by} deleted rows")
        raise _cannot_keep(name, f"{by} is later than the run and is not an append")
    if kept and "row-lineage" in state.features:
        raise _cannot_keep(name, f"{len(kept)} later snapshots gave row ids, which their rows would lose")


def _cannot_keep(name: TableName, what: str) -> Refused:
    message = f"{name}: a rollback cannot keep a later snapshot as it is: {what}"
    hint = "if a later run made it, roll back that run first; if not, change the layout and apply instead"
    return Refused.of("ZL236", message, hint=hint)


def _rows(state: TableState, paths: set[str]) -> tuple[pa.Table, list[tuple[str, str]]]:
    live = [identity for identity in undo.identities_of(state.files) if identity[0] in paths]
    found, _ = undo.file_rows(state, live)
    return found, [(path, "") for path in sorted(paths - {path for path, _ in live})]


def _require_spec(name: TableName, state: TableState, now: TableState, paths: set[str]) -> None:
    chosen = [at for at, path in enumerate(state.files.path.to_pylist()) if path in paths]
    specs = undo.specs_of(state.files.take(np.array(chosen, np.int64)))
    if specs - {now.spec_id}:
        raise undo.changed_table(
            name, f"its partition spec is {now.spec_id}, and those of the files are {sorted(specs)}"
        )


def _require_stored(name: TableName, table: Table, files: pa.Table) -> None:
    def size(path: str) -> int | None:
        file = table.io.new_input(path)
        return len(file) if file.exists() else None

    with readable_metadata(table, name):
        missing = missing_files(undo.sizes_of(files), size)
    if missing:
        raise undo.not_stored(name, missing, len(files))
