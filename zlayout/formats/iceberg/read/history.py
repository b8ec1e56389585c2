"""Reads from the snapshots of an Iceberg table what runs of zlayout committed, for example to settle an outcome."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from zlayout.errors import Refused
from zlayout.formats import undo
from zlayout.formats.base import TOUCHED, Commit, Group, RunMetrics, parse_touched, run_metrics
from zlayout.formats.iceberg.read import state_property as recorded
from zlayout.formats.iceberg.read import state_property as stored
from zlayout.formats.iceberg.read.catalog import load_table, readable_metadata
from zlayout.formats.iceberg.read.manifests import Change, manifests_of, read_change, read_live
from zlayout.formats.iceberg.read.snapshots import ancestors, head, heads, is_branch, operation_of, summary_of
from zlayout.formats.undo import Recorded, Undo, missing_files
from zlayout.spec.model import CatalogConfig, TableName
from zlayout.sql_text import quote_identifier
from zlayout.table.state import TableState


@dataclass(frozen=True, slots=True)
class RunCommit:
    """One snapshot that a run made, the data files that it added and removed, and the snapshot before it."""

    snapshot: int
    change: Change
    parent: int | None = None

    def commit(self, groups: Sequence[Group], earlier: frozenset[str] = frozenset()) -> Commit:
        """Return the event for this commit. It completed each group whose last file it removed.

        Args:
            groups: The groups of the run.
            earlier: Paths of files that earlier commits of the run removed.
        """
        removed = earlier | self.change.removed
        return Commit(
            "rewrite",
            self.snapshot,
            tuple(g.id for g in groups if _all_in(g, removed) and not _all_in(g, earlier)),
            files_removed=len(self.change.removed),
            files_added=len(self.change.added),
            bytes_removed=self.change.bytes_removed,
            bytes_added=self.change.bytes_added,
            rows=self.change.rows_added,
        )


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
    made = [s for s in _of_run(table, run_id) if s.snapshot_id not in earlier]
    made.sort(key=lambda s: s.sequence_number or 0)
    with readable_metadata(table, name):
        return tuple(
            RunCommit(
                s.snapshot_id, read_change(manifests_of(s, table.io), table.io, s.snapshot_id), s.parent_snapshot_id
            )
            for s in made
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
    removed: frozenset[str] = frozenset()
    for each in run:
        yield each.commit(groups, removed)
        removed |= each.change.removed


def _all_in(group: Group, removed: frozenset[str]) -> bool:
    return all(path in removed for path in group.files.path.to_pylist())


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


_GONE_HINT = "the replaced files cannot return; change the layout and apply instead"
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
    with readable_metadata(table, name):
        chosen, changes = _chosen(name, table, history, run)
    state = observe(history[0].snapshot_id)
    line = {one.snapshot_id: one for one in history}
    before = line[changes[0].version].parent_snapshot_id
    if before is None or before not in line:
        raise undo.gone(name, f"the snapshot before run {chosen} has expired", _GONE_HINT)
    later = history[: next(at for at, one in enumerate(history) if one.snapshot_id == before)]
    kept = [one for one in reversed(later) if _run_id(one) != chosen]
    net = undo.net_change(changes)
    with readable_metadata(table, name):
        _require_picks(name, table, state, kept, {path for path, _ in net.added}, chosen)
    states = {at: observe(line[at].parent_snapshot_id) for at in net.removed}
    removed, missing = _rows(state, {path for path, _ in net.added})
    undo.require_unchanged(name, chosen, missing, len(net.added), [])
    parts = [_rows(states[at], {path for path, _ in files}) for at, files in net.removed.items()]
    returned = pa.concat_tables([undo.FILES.empty_table(), *(files for files, _ in parts)]).combine_chunks()
    for each in (*states.values(), state):
        _require_spec(name, each, state, {*removed["path"].to_pylist(), *returned["path"].to_pylist()})
    _require_stored(name, table, returned)
    undo.require_rows(name, removed, returned, why_unknown([state, *states.values()]))
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


def _run_id(snapshot: Snapshot) -> str:
    return summary_of(snapshot).get(stored.RUN, "")


def _chosen(
    name: TableName, table: Table, history: Sequence[Snapshot], wanted: str | None
) -> tuple[str, list[undo.Change]]:
    """Return the run to undo, and those of its snapshots that replaced files."""
    runs = undo.runs_in_effect(Recorded(one.snapshot_id, _run_id(one)) for one in history)
    by_id = {one.snapshot_id: one for one in history}
    for run_id in [wanted] if wanted is not None else runs:
        changes = []
        for snapshot in reversed(runs.get(run_id, ())):
            found = read_change(manifests_of(by_id[snapshot], table.io), table.io, snapshot)
            added, removed = (tuple((path, "") for path in sorted(paths)) for paths in (found.added, found.removed))
            if removed:
                changes.append(undo.Change(snapshot, added, removed))
        if changes:
            return run_id, changes
    if wanted is not None:
        _require_on_main(name, table, wanted, by_id)
    raise undo.no_run(name, wanted, runs)


def _require_on_main(name: TableName, table: Table, wanted: str, history: Mapping[int, Snapshot]) -> None:
    for branch, ref in table.metadata.refs.items():
        if not is_branch(ref):
            continue
        newest = table.metadata.snapshot_by_id(ref.snapshot_id)
        line = [one for one in ancestors(table.metadata, newest) if one.snapshot_id not in history]
        if made := [one for one in line if _run_id(one) == wanted]:
            back = quote_identifier(branch)
            raise Refused.of(
                "ZL230",
                f"{name}: run {wanted} rewrote branch {branch}, and a rollback is possible on main only",
                hint=f"undo it with ALTER TABLE ... REPLACE BRANCH {back} AS OF VERSION {made[-1].parent_snapshot_id}, "
                "which also undoes later commits of the branch",
            )


def _require_picks(
    name: TableName, table: Table, state: TableState, kept: Sequence[Snapshot], added: set[str], run_id: str
) -> None:
    """Check that the later snapshots are appends that can be cherry-picked without a change of rows."""
    for snapshot in kept:
        run = _run_id(snapshot)
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
    """Return the files at these paths with the columns of FILES, and those that are not live in the state."""
    live = [identity for identity in undo.identities_of(state.files) if identity[0] in paths]
    found, _ = undo.file_rows(state, live)
    return found, [(path, "") for path in sorted(paths - {path for path, _ in live})]


def _require_spec(name: TableName, state: TableState, now: TableState, paths: set[str]) -> None:
    chosen = [at for at, path in enumerate(state.files.path.to_pylist()) if path in paths]
    specs = {state.files.partitions[at].spec_id for at in np.unique(state.files.partition[chosen]).tolist()}
    if specs - {now.spec_id}:
        raise undo.changed_table(
            name, f"its partition spec is {now.spec_id}, and those of the files are {sorted(specs)}"
        )


def why_unknown(states: Sequence[TableState]) -> str:
    """Return why the numbers of live rows are not known exactly, '' if they are."""
    if any("equality-deletes" in state.features for state in states):
        return "the table has equality deletes"
    if any(state.files.shared_deletes.any() for state in states):
        return "the table has position deletes that apply to several files"
    return ""


def _require_stored(name: TableName, table: Table, files: pa.Table) -> None:
    sizes = dict(zip(files["path"].to_pylist(), files["bytes"].to_pylist(), strict=True))

    def size(path: str) -> int | None:
        file = table.io.new_input(path)
        return len(file) if file.exists() else None

    with readable_metadata(table, name):
        missing = [path for path, _ in missing_files(sizes, size)]
    if missing:
        what = f"{len(missing)} of {len(sizes)} files that the run replaced are no longer on storage"
        raise undo.gone(name, what, _GONE_HINT, missing[0])
