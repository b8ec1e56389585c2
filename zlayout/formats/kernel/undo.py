"""Checks directly before a rollback that it may be made and that it is still the one that was shown."""

from __future__ import annotations

from typing import Protocol

from zlayout.errors import CommitConflict
from zlayout.formats.base import Commit
from zlayout.formats.kernel.engine_check import Internals, fallback_reason, untested
from zlayout.formats.kernel.failures import Failures, java_errors
from zlayout.formats.undo import Undo, total
from zlayout.spark.session import SparkRuntime
from zlayout.spec.model import TableName


class Undoes(Protocol):
    """What a format provides to `checked_undo`."""

    internals: Internals

    @property
    def runtime(self) -> SparkRuntime: ...

    def undo(self, table: TableName, run: str | None) -> Undo: ...


def checked_undo(steps: Undoes, failures: Failures, shown: Undo) -> Undo:
    """Determine a rollback again from the newest version of the table.

    Raises:
        Refused: ZL204, if this session lacks the methods of engine zlayout; or for the reasons of `Undoes.undo`.
        CommitConflict: ZL320, if the rollback would now change other files than were shown.
    """
    with java_errors(f"{shown.table}: checking the versions of Spark and {steps.internals.name}", failures):
        reason = fallback_reason(steps.runtime.session, steps.internals)
    if reason is not None:
        raise untested(f"{shown.table}: a rollback", reason)
    now = steps.undo(shown.table, shown.run_id)
    if not now.same_as(shown):
        message = f"{shown.table}: a rollback of run {shown.run_id} would now change other files than were shown"
        raise CommitConflict.of("ZL320", message, hint="run rollback again and review it")
    return now


def rollback_commit(undo: Undo, version: int) -> Commit:
    """Return the commit of a rollback. version: of the table after it, a snapshot on Iceberg."""
    return Commit(
        "rollback",
        version,
        files_removed=len(undo.removed),
        files_added=len(undo.returned),
        bytes_removed=total(undo.removed, "bytes"),
        bytes_added=total(undo.returned, "bytes"),
        rows=undo.rows,
    )
