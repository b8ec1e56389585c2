"""Propose the changes of one observed table with the diagnostics of its backend."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from threading import Lock

from zlayout.errors import Refused, TableError, ZlayoutError
from zlayout.formats.base import Backend
from zlayout.planner.decision import Decision, PlanOptions
from zlayout.planner.diff import propose
from zlayout.planner.model import Status, TablePlan
from zlayout.planner.proposal import Proposal
from zlayout.planner.settings import partitioning
from zlayout.spec.model import LayoutSpec
from zlayout.table.state import TableState

# Changes to tables of at most this number of files are found one table at a time. This takes milliseconds for each, in
# which numpy and Arrow release the interpreter lock so often that several threads together take longer.
MAX_FILES_IN_TURN = 10_000
_IN_TURN = Lock()


def proposed(spec: LayoutSpec, state: TableState, backend: Backend, options: PlanOptions) -> Proposal | Decision:
    """Find all changes that could be made to one table. spec: with the column names of the table."""
    notes = backend.native_diagnostics(spec.layout, state) if spec.layout.engine == "native" else ()
    if (fields := partitioning(spec, state)) != state.partition_fields:
        place = spec.location_of("partition_by")
        notes += tuple(replace(d, location=place) for d in backend.partition_diagnostics(fields, state))
    with _IN_TURN if len(state.files) <= MAX_FILES_IN_TURN else nullcontext():
        return propose(spec, state, backend.capabilities, notes, options)


def unreadable(spec: LayoutSpec, backend: Backend, error: BaseException) -> Decision:
    """Return the decision about a table that cannot be read, whatever the library of a format raises.

    It must not stop the other tables. Libraries in Rust raise PanicException, which is no Exception.
    """
    known = error
    if not isinstance(known, ZlayoutError):
        known = TableError.of(
            "ZL104",
            f"{spec.table} cannot be read: {type(error).__name__}: {error}",
            hint="check the access to the table; if it is correct, report this error",
            location=spec.location,
        )
    plan = TablePlan(
        table=str(spec.table),
        format=backend.capabilities.format,
        location=spec.location,
        status=Status.REFUSED if isinstance(known, Refused) else Status.ERROR,
        diagnostics=known.diagnostics,
        rule=spec.rule,
    )
    return Decision(plan)
