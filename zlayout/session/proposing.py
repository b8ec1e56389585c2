"""Observe one table, and find the changes that could be made to it."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from threading import Lock

from zlayout.errors import Refused, ZlayoutError
from zlayout.formats.base import Backend
from zlayout.planner.diff import propose
from zlayout.planner.model import Status, TablePlan
from zlayout.planner.notes import partitioning
from zlayout.planner.proposal import Proposal
from zlayout.planner.work import PlannedTable, PlanOptions
from zlayout.session.concurrent_reads import cannot_read
from zlayout.spec.model import LayoutSpec
from zlayout.spec.semantics import in_case_of
from zlayout.table.state import TableState

# Only one thread at a time finds the changes of a table with at most this number of files. That takes milliseconds, in
# which numpy and Arrow release the interpreter lock so often that several threads take longer than one.
MAX_FILES_IN_TURN = 10_000
_IN_TURN = Lock()


def observe_and_propose(
    spec: LayoutSpec, backend: Backend, options: PlanOptions, version: int | None = None
) -> Proposal | PlannedTable:
    """Observe one table, at the given version or the present one, and find all changes that could be made to it."""
    try:
        spec, state = _observed(spec, backend, version)
        return proposed(spec, state, backend, options)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        return unreadable(spec, backend, error)


def _observed(spec: LayoutSpec, backend: Backend, version: int | None) -> tuple[LayoutSpec, TableState]:
    """The table is read twice if the letter case of a column in the spec differs from that in the table."""
    state = backend.observe(spec.table, _measured(spec), version)
    found = in_case_of(spec, state)
    if _measured(found) != _measured(spec):
        state = backend.observe(spec.table, _measured(found), state.version if state.version >= 0 else version)
    return found, state


def _measured(spec: LayoutSpec) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*spec.column_names, *(field.source for field in spec.partition_by or ()))))


def proposed(spec: LayoutSpec, state: TableState, backend: Backend, options: PlanOptions) -> Proposal | PlannedTable:
    """Find all changes that could be made to one table. spec: The spec with the column names of the table."""
    notes = backend.native_diagnostics(spec.layout, state) if spec.layout.engine == "native" else ()
    if (fields := partitioning(spec, state)) != state.partition_fields:
        location = spec.location_of("partition_by")
        notes += tuple(replace(d, location=location) for d in backend.partition_diagnostics(fields, state))
    with _IN_TURN if len(state.files) <= MAX_FILES_IN_TURN else nullcontext():
        return propose(spec, state, backend.capabilities, notes, options)


def unreadable(spec: LayoutSpec, backend: Backend, error: BaseException) -> PlannedTable:
    """Return a table that cannot be read with the error as its plan, so that the error does not stop the other tables.

    error: Any exception of the library of a format. Libraries in Rust raise PanicException, which is not an Exception.
    """
    known = error
    if not isinstance(known, ZlayoutError):
        known = cannot_read(spec.table, error, spec.location)
    plan = TablePlan(
        table=str(spec.table),
        format=backend.capabilities.format,
        location=spec.location,
        status=Status.REFUSED if isinstance(known, Refused) else Status.ERROR,
        diagnostics=known.diagnostics,
        rule=spec.rule,
    )
    return PlannedTable(spec, None, plan)
