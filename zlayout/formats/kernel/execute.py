"""What every format does before it changes a table: check the work order, choose the engine, check a rollback."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from zlayout.errors import CommitConflict, Diagnostic, Refused
from zlayout.formats.base import Backend, Commit, Event, Notify, Work
from zlayout.formats.kernel.engine_check import (
    Internals,
    fallback_notices,
    fallback_reason,
    refused_in_fallback,
    untested,
)
from zlayout.formats.kernel.failures import Failures, java_errors
from zlayout.formats.undo import Undo, total
from zlayout.spark.session import SparkRuntime
from zlayout.spec.model import Layout
from zlayout.table.state import TableState


class Steps(Backend, Protocol):
    """What the backend of a format provides to `execute` and `checked_undo`."""

    @property
    def runtime(self) -> SparkRuntime: ...

    def unsupported_settings(self, layout: Layout, state: TableState) -> tuple[Diagnostic, ...]:
        """Return ZL401 for each layout setting that engine native does not support."""
        ...

    def checked(self, work: Work) -> TableState:
        """Observe the table and check that the work may be done.

        Raises:
            Refused: If zlayout must not change the table.
            CommitConflict: ZL320, if the table is no longer the planned one.
        """
        ...

    def refuse_native(self, work: Work, state: TableState, *, declared: bool) -> None:
        """Check that engine native can do the work and would rewrite the planned files only.

        Args:
            work: The work order.
            state: The table.
            declared: Whether the layout declares engine native, so that the planner has chosen the files for it.

        Raises:
            Refused: If engine native cannot do the work, or if it would rewrite other files.
        """
        ...

    def carry_out(self, work: Work, state: TableState, notify: Notify, *, native: bool) -> Iterator[Event]:
        """Set the properties, change the partitioning and rewrite the groups, in this order.

        native: whether engine native rewrites the groups, and not engine zlayout.
        """
        ...


def execute(steps: Steps, internals: Internals, failures: Failures, work: Work, notify: Notify) -> Iterator[Event]:
    """Execute a work order with the declared engine or, if this cannot run in the session, with engine native.

    Args:
        steps: The steps of the format.
        internals: The methods that zlayout calls in the format's jar.
        failures: How the format reports failures.
        work: The work order.
        notify: Called with each stage.

    Yields:
        Each commit as soon as it is known to be in the table, each group that was dropped, and notices.

    Raises:
        Refused: If the work is not allowed. Nothing has been written.
        CommitConflict: ZL320, if the table is no longer the planned one.
        EngineError: If the work cannot be continued. The commits that were yielded stay in the table.
    """
    state = steps.checked(work)
    native = work.layout.engine == "native"
    if native and work.groups:
        steps.refuse_native(work, state, declared=True)
    rewrites_all = work.partition_by is not None and not steps.capabilities.partition_evolution
    reason = None
    if work.groups or rewrites_all:
        with java_errors(f"{work.table}: checking the versions of Spark and {internals.name}", failures):
            reason = fallback_reason(steps.runtime.session, internals)
    if reason is not None and rewrites_all:
        raise untested(f"{work.table}: changing partition_by", reason)
    if reason is not None and not native:
        try:
            steps.refuse_native(work, state, declared=False)
        except Refused as refused:
            raise refused_in_fallback(refused, reason) from refused
        yield from fallback_notices(work.table, reason, steps.unsupported_settings(work.layout, state))
        native = True
    yield from steps.carry_out(work, state, notify, native=native)


def checked_undo(steps: Steps, internals: Internals, failures: Failures, shown: Undo) -> Undo:
    """Determine a rollback again from the newest version, and check that it is the one that the user has seen.

    Args:
        steps: The steps of the format.
        internals: The methods that zlayout calls in the format's jar.
        failures: How the format reports failures.
        shown: The rollback that the user has seen.

    Raises:
        Refused: ZL204, if engine zlayout cannot run in this session; or as `Backend.undo` raises it.
        CommitConflict: ZL320, if the rollback would now change other files than were shown.
    """
    with java_errors(f"{shown.table}: checking the versions of Spark and {internals.name}", failures):
        reason = fallback_reason(steps.runtime.session, internals)
    if reason is not None:
        raise untested(f"{shown.table}: a rollback", reason)
    now = steps.undo(shown.table, shown.run_id)
    if not now.same_as(shown):
        message = f"{shown.table}: a rollback of run {shown.run_id} would now change other files than were shown"
        raise CommitConflict.of("ZL320", message, hint="run rollback again and review it")
    return now


def rollback_commit(undo: Undo, version: int) -> Commit:
    """Return the event for the commit of a rollback. version: the version that the commit made."""
    return Commit(
        "rollback",
        version,
        files_removed=len(undo.removed),
        files_added=len(undo.returned),
        bytes_removed=total(undo.removed, "bytes"),
        bytes_added=total(undo.returned, "bytes"),
        rows=undo.rows,
    )
