"""The steps that transactions of rewrites and of rollbacks share: begin, metrics, the check before the commit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow.compute as pc

from zlayout.errors import CommitConflict
from zlayout.formats.delta.write.jvm import DeltaJvm
from zlayout.formats.kernel.commits import Rewritten, new_files
from zlayout.table.state import Int64


def begin(delta: DeltaJvm, snapshot: Any, adds: Any) -> Any:
    """Begin a transaction that has read exactly these AddFiles, a java.util.List.

    For this transaction, a concurrent change of one of the files is a conflict, and a concurrent append is not.
    """
    transaction = delta.begin(snapshot)
    transaction.trackFilesRead(delta.seq(adds))
    transaction.trackReadPredicates(delta.seq([]), False, True)
    return transaction


def require_no_silent_change(delta: DeltaJvm, transaction: Any, table: str, hint: str) -> None:
    """Check for changes since the transaction's snapshot that must prevent the commit, but are no conflicts for Delta.

    Call this directly before the commit. It checks three changes:

    - Row tracking was enabled. Delta would give the rows new ids, although they have ids since that change.
    - The clustering columns were changed. Delta's conflict check ignores the domain metadata that contains them. (If a
      table is clustered for the first time, it gets a table feature, which is a conflict in the commit itself:
      `outcome.Log`.)
    - The catalog of the table has taken over its commits. Delta 4.4 would write the commit to the log without the
      catalog. Reading the newest snapshot is the check, because Delta refuses to read it in this case.

    Args:
        transaction: The transaction that will be committed (py4j).
        table: The name of the table, for messages.
        hint: What to do after a conflict.

    Raises:
        CommitConflict: ZL321.
        Py4JJavaError: If the catalog owns the commits now, or the log cannot be read.
    """
    before, now = transaction.snapshot(), delta.snapshot()
    if not delta.tracks_rows(before) and delta.tracks_rows(now):
        raise CommitConflict.of("ZL321", f"{table}: row tracking was enabled before the commit", hint=hint)
    clustering = delta.clustering(before)
    if clustering is not None and delta.clustering(now) != clustering:
        raise CommitConflict.of("ZL321", f"{table}: the clustering columns were changed before the commit", hint=hint)


def operation_metrics(rewritten: Sequence[Rewritten]) -> dict[str, int]:
    """Return the metrics of the commit that replaces the files of these groups, which DESCRIBE HISTORY shows.

    Names and meaning are those of Delta's own OPTIMIZE: `DeltaOperationMetrics.OPTIMIZE` and `createMetrics` in Delta's
    `commands/OptimizeTableCommand.scala`.
    """
    removed = [each.group.files for each in rewritten]
    vectors = sum(pc.sum(pc.not_equal(f.version_key, "")).as_py() or 0 for f in removed)
    return replacement_metrics(np.concatenate([f.bytes for f in removed]), new_files(rewritten).bytes, vectors)


def replacement_metrics(removed: Int64, added: Int64, vectors: int) -> dict[str, int]:
    """Return the metrics of a replacement of files, given their sizes and the number of removed deletion vectors."""
    return {
        "numRemovedFiles": len(removed),
        "numRemovedBytes": int(removed.sum()),
        "numAddedFiles": len(added),
        "numAddedBytes": int(added.sum()),
        **_quartiles(np.sort(added)),
        "numDeletionVectorsRemoved": vectors,
    }


def _quartiles(sizes: Int64) -> dict[str, int]:
    """Return the quartiles of sorted sizes as Delta computes them: the elements at a quarter, a half and so on."""
    count = len(sizes)
    if not count:  # all rows of the groups were deleted, so no file was written
        return {}
    at = {"min": 0, "p25": count // 4, "p50": count // 2, "p75": count * 3 // 4, "max": count - 1}
    return {f"{name}FileSize": int(sizes[index]) for name, index in at.items()}
