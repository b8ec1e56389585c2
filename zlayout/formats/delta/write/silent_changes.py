"""Checks directly before a commit for the changes that Delta does not take for conflicts, although they exclude it."""

from __future__ import annotations

from typing import Any

from zlayout.errors import CommitConflict
from zlayout.formats.delta.write.jvm import DeltaJvm


def require_no_silent_change(delta: DeltaJvm, transaction: Any, table: str, hint: str) -> None:
    """Check that neither row tracking nor the clustering columns were changed after the transaction's snapshot.

    If row tracking is enabled, Delta gives the rows of the transaction other ids than they have by then. The conflict
    check of Delta ignores the domain metadata with the clustering columns. That a table becomes clustered for the first
    time adds a table feature, which is a conflict in the commit itself (`outcome.Log`).

    If the catalog of the table has taken over its commits, Delta 4.4 would rebase the transaction and write it to the
    log without the catalog. The newest snapshot is read for every table, because Delta refuses it then.

    Args:
        delta: The table.
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
