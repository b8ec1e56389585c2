"""The trials of Iceberg tables. A trial is a branch."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import TYPE_CHECKING

from zlayout.formats.iceberg.read import state_property as recorded
from zlayout.formats.iceberg.read.catalog import load_table
from zlayout.formats.iceberg.read.observe import observe
from zlayout.formats.iceberg.read.snapshots import ancestors, head, operation_of, summary_of, trial_property
from zlayout.formats.iceberg.read.undo import why_unknown
from zlayout.formats.trial import Trial, TrialCommit
from zlayout.spark.session import SparkRuntime
from zlayout.spec.model import CatalogConfig, TableName
from zlayout.table.state import TableState

if TYPE_CHECKING:
    from pyiceberg.table.snapshots import Snapshot


class IcebergTrials:
    """See `zlayout.formats.trial.Trials`."""

    def __init__(self, catalog: CatalogConfig, runtime: SparkRuntime) -> None:
        self._catalog = catalog
        self._runtime = runtime

    def read(self, name: TableName) -> Trial | None:
        """See `Trials.read`. Raises Refused ZL238; TableError ZL121 to ZL123, ZL127."""
        metadata = load_table(self._catalog, name).metadata
        if name.branch not in metadata.refs:
            return None
        newest, current = head(metadata, name), metadata.current_snapshot()
        assert newest is not None
        line, main = list(ancestors(metadata, newest)), list(ancestors(metadata, current))
        of_main = {one.snapshot_id for one in main}
        fork = next((one.snapshot_id for one in line if one.snapshot_id in of_main), None)
        marker = metadata.properties.get(trial_property(name), "")
        return Trial(
            table=name,
            format="iceberg",
            table_id=str(metadata.table_uuid),
            marked=any(str(one.snapshot_id) == marker for one in line),
            main=-1 if current is None else current.snapshot_id,
            version=newest.snapshot_id,
            commits=_since(line, fork),
            moved=_since(main, fork) if fork is not None else (),
            known=fork is not None,
        )

    def rows(self, trial: Trial) -> tuple[int, int] | None:
        """See `Trials.rows`. Raises TableError ZL121 to ZL125, ZL127, ZL128."""
        main = observe(self._catalog, trial.table.on(""), (), trial.main)
        branch = observe(self._catalog, trial.table, (), trial.version)
        if why_unknown([main, branch]):
            return None
        return int(main.files.live_rows.sum()), int(branch.files.live_rows.sum())

    def begin(self, name: TableName, state: TableState) -> None:
        """See `Trials.begin` and `iceberg.write.trial.begin`."""
        from zlayout.formats.iceberg.write.jvm import IcebergJvm
        from zlayout.formats.iceberg.write.trial import begin

        begin(IcebergJvm(self._runtime.session), name, state.table_id, state.version)

    def publish(self, trial: Trial) -> None:
        """See `Trials.publish` and `iceberg.write.trial.publish`."""
        from zlayout.formats.iceberg.write.jvm import IcebergJvm
        from zlayout.formats.iceberg.write.trial import publish

        publish(IcebergJvm(self._runtime.session), trial)

    def drop(self, trial: Trial) -> None:
        """See `Trials.drop` and `iceberg.write.trial.drop`."""
        from zlayout.formats.iceberg.write.jvm import IcebergJvm
        from zlayout.formats.iceberg.write.trial import drop

        drop(IcebergJvm(self._runtime.session), trial)


def _since(newest_first: Sequence[Snapshot], fork: int | None) -> tuple[TrialCommit, ...]:
    """Return the commits after the snapshot `fork`, the oldest first; all commits if it is None."""
    found = []
    for one in takewhile(lambda one: one.snapshot_id != fork, newest_first):
        operation = operation_of(one)
        run_id = summary_of(one).get(recorded.RUN, "")
        found.append(TrialCommit(one.snapshot_id, operation, run_id, rewrite=operation == "replace"))
    return tuple(reversed(found))
