"""Commits a rollback on Delta: a transaction that removes the files of a run and adds those that the run replaced.

RESTORE would also undo the later commits of other writers. This transaction has the conflict checks of a rewrite: it
has read exactly the files that it removes, so a concurrent change of one of them is a conflict, and an append is not.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zlayout.formats.base import Commit, Notify, Progress, Stage
from zlayout.formats.delta.read.history import VACUUMED
from zlayout.formats.delta.write.jvm import DeltaJvm
from zlayout.formats.delta.write.outcome import Log, spark_errors
from zlayout.formats.delta.write.source_files import (
    add_files_at,
    begin,
    replacement_metrics,
    require_no_silent_change,
    require_pinned,
)
from zlayout.formats.kernel.execute import rollback_commit
from zlayout.formats.undo import ROLLBACK, Undo, not_stored


def roll_back(delta: DeltaJvm, log: Log, undo: Undo, notify: Notify) -> Commit:
    """Commit a rollback.

    Args:
        log: Makes the commit.
        undo: The rollback. Conflicts are checked from its version on.
        notify: Called with each stage.

    Raises:
        Refused: ZL233, if a file that returns is no longer on storage. Nothing was committed.
        CommitConflict: ZL320, ZL321.
        EngineError: ZL314.
        CommitUnknown: ZL331.
    """
    table = str(undo.table)
    notify(Progress(table, Stage.STARTING, "by reading the replaced files"))
    with spark_errors(table, "reading the replaced files"):
        snapshot = delta.snapshot_at(undo.version)
        removed = _adds(delta, snapshot, undo.removed, table)
        returned = delta.files.joined(
            [
                _adds(delta, delta.snapshot_at(version), _at(undo.returned, version), table)
                for version in pc.unique(undo.returned["version"]).to_pylist()
            ]
        )
        transaction = begin(delta, snapshot, removed)
    notify(Progress(table, Stage.COMMITTING))
    with spark_errors(table, "committing the rollback"):
        now = int(time.time() * 1000)
        old, new = (files["bytes"].to_numpy() for files in (undo.removed, undo.returned))
        delta.register_metrics(transaction, replacement_metrics(old, new, vectors=0))
        if missing := _missing(delta, returned):  # directly before the commit, because VACUUM may run
            raise not_stored(undo.table, missing, len(returned), VACUUMED)
        require_no_silent_change(delta, transaction, table, "run rollback again")
        actions = delta.seq(delta.files.replacing(returned, removed, now, data_change=False))
        tags = {ROLLBACK: undo.run_id}
        version = log.commit(transaction, actions, delta.optimize([]), "committing the rollback", tags)
    return rollback_commit(undo, version)


def _at(files: pa.Table, version: int) -> pa.Table:
    return files.filter(pc.equal(files["version"], version))


def _adds(delta: DeltaJvm, snapshot: Any, files: pa.Table, table: str) -> Any:
    """Return AddFiles as a java.util.List. In a snapshot, their `dataChange` is false. files: see `undo.FILES`."""
    paths, vectors = (files[name].cast(pa.string()).combine_chunks() for name in ("path", "version_key"))
    return require_pinned(delta, add_files_at(delta, snapshot, paths), table, paths, vectors).adds


def _missing(delta: DeltaJvm, files: Any) -> list[str]:
    changed = np.flatnonzero(delta.files.stored(files) != delta.files.sizes(files))
    return [*delta.files.paths(files).take(pa.array(changed)).to_pylist(), *delta.files.missing_vectors(files)]
