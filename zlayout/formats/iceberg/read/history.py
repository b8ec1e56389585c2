"""Reads from the snapshots of an Iceberg table what runs of zlayout committed, for example to settle an outcome."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zlayout.formats.base import Commit, Group
from zlayout.formats.iceberg.read import state_property as recorded
from zlayout.formats.iceberg.read.catalog import load_table, readable_metadata
from zlayout.formats.iceberg.read.manifests import Change, manifests_of, read_change, read_live
from zlayout.formats.iceberg.read.snapshots import ancestors, head, heads, summary_of
from zlayout.formats.run_metrics import TOUCHED, RunMetrics, parse_touched, run_metrics
from zlayout.spec.model import CatalogConfig, TableName

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot


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
