"""Carrying out a work: refusals first, then the choice of the engine, then what the format does with it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from zlayout.errors import Diagnostic, Refused
from zlayout.formats.base import Notify, Outcome, Work
from zlayout.formats.kernel.engine_check import (
    Internals,
    fallback_notices,
    fallback_reason,
    refused_in_fallback,
    untested,
)
from zlayout.formats.kernel.failures import Failures, java_errors
from zlayout.planner.work import Capabilities
from zlayout.spark.session import SparkRuntime
from zlayout.spec.model import Layout
from zlayout.table.state import TableState


class Steps(Protocol):
    """What a format supplies to `execute`."""

    capabilities: Capabilities
    internals: Internals

    @property
    def runtime(self) -> SparkRuntime: ...

    def native_losses(self, layout: Layout, state: TableState) -> tuple[Diagnostic, ...]:
        """Return ZL401 for each setting that the format's own rewrite cannot honour."""
        ...

    def checked(self, work: Work) -> TableState:
        """Observe the table. Raises Refused or CommitConflict ZL320 if the work must not be done to it."""
        ...

    def refuse_native(self, work: Work, state: TableState, *, declared: bool) -> None:
        """Raise Refused if the format's own rewrite would fail, or would do more than the work.

        declared: whether the layout declares engine native, for which the planner has chosen the files.
        """
        ...

    def carry_out(self, work: Work, state: TableState, notify: Notify, *, native: bool) -> Iterator[Outcome]:
        """Set the properties, change the partitioning and rewrite the groups, in this order."""
        ...


def execute(steps: Steps, failures: Failures, work: Work, notify: Notify) -> Iterator[Outcome]:
    """Carry out a work with the engine that it declares or, if that cannot run here, with engine native.

    Args:
        steps: The backend.
        failures: How the format reports failures.
        work: What to do to one table.
        notify: Called with each stage.

    Yields:
        Each commit once it is known to be in the table, each group that was dropped, and notices.

    Raises:
        Refused: Before anything is written.
        CommitConflict: ZL320, if the table is not the planned one any more.
        EngineError: If the rest cannot go on.
    """
    state = steps.checked(work)
    native = work.layout.engine == "native"
    if native and work.groups:
        steps.refuse_native(work, state, declared=True)
    rewrites_all = work.partition_by is not None and not steps.capabilities.partition_evolution
    reason = None
    if work.groups or rewrites_all:
        with java_errors(f"{work.table}: checking the versions of Spark and {steps.internals.name}", failures):
            reason = fallback_reason(steps.runtime.session, steps.internals)
    if reason is not None and rewrites_all:
        raise untested(f"{work.table}: changing partition_by", reason)
    if reason is not None and not native:
        try:
            steps.refuse_native(work, state, declared=False)
        except Refused as refused:
            raise refused_in_fallback(refused, reason) from refused
        yield from fallback_notices(work.table, reason, steps.native_losses(work.layout, state))
        native = True
    yield from steps.carry_out(work, state, notify, native=native)
