"""The passes that let groups of files wait for a later run: each reason to wait is one module of this package.

The name of the module is the value of the `Wait` that it is for. `park`, or else the selection, lets groups wait. In
the plan, `WaitingGroups` states them, to which `section` may add. `text` writes them for the line `LABEL` of reports,
which explain the label by `TERM`; an empty `LABEL` is no line. `notes_before` yields diagnostics about what decides
which groups wait, and `notes` diagnostics about these groups; `again` gives the options with which the same groups wait
in a later plan. `LABEL` is required, and `text` and `TERM` with it; each of the others is optional. A budget is spent
after all passes, on the groups of all tables (`zlayout.planner.diff`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from zlayout.errors import Diagnostic
from zlayout.planner.model import TablePlan, Wait, WaitingGroups

if TYPE_CHECKING:
    from zlayout.planner.selection import FileSelection
    from zlayout.planner.work import PlanOptions
    from zlayout.spec.model import LayoutSpec
    from zlayout.table.state import TableState

# The passes in their order. The budget, and the selection for the other two reasons, are no modules of this package.
PASSES = tuple(reason for reason in Wait if reason not in (Wait.BUDGET, Wait.NO_GAIN, Wait.REFUSED))


@cache
def _pass(reason: Wait) -> Any:
    # A module is imported when it is first used, because reports of most plans need none.
    return import_module(f"{__name__}.{reason}")


def _with(name: str) -> Iterator[Any]:
    return (getattr(each, name) for each in map(_pass, PASSES) if hasattr(each, name))


def park(selection: FileSelection, state: TableState, options: PlanOptions, *, whole: bool) -> FileSelection:
    """Let selected groups wait. whole: Whether groups of several partitions cannot be divided."""
    for park_some in _with("park"):
        selection = park_some(selection, state, options, whole=whole)
    return selection


def sections(selection: FileSelection, state: TableState, options: PlanOptions) -> Iterator[WaitingGroups]:
    """Yield the totals of the groups that wait, for each reason for which some do."""
    for reason in PASSES:
        if groups := selection.that_wait(reason):
            from zlayout.planner.selection import waiting_groups

            found, each = waiting_groups(reason, groups, state.files), _pass(reason)
            yield each.section(found, options) if hasattr(each, "section") else found


def lines(plan: TablePlan) -> Iterator[tuple[str, str]]:
    """Yield a label and a text for each reason for which groups of the plan wait, if reports have a line of it."""
    return ((each.LABEL, each.text(waiting)) for each, waiting in _waiting(plan.waiting) if each.LABEL)


def terms(plan: TablePlan) -> Iterator[str]:
    """Yield the explanations of the labels of these lines."""
    return (each.TERM for each, _ in _waiting(plan.waiting) if each.LABEL)


def _waiting(waiting: Sequence[WaitingGroups]) -> Iterator[tuple[Any, WaitingGroups]]:
    return ((_pass(groups.reason), groups) for groups in waiting if groups.reason in PASSES)


def notes_before(spec: LayoutSpec, state: TableState, options: PlanOptions) -> Iterator[Diagnostic]:
    """Yield the diagnostics about what decides which groups wait."""
    for notes_of in _with("notes_before"):
        yield from notes_of(spec, state, options)


def notes(
    spec: LayoutSpec, state: TableState, waiting: Sequence[WaitingGroups], *, refused: bool
) -> Iterator[Diagnostic]:
    """Yield the diagnostics about groups that wait. refused: Whether the table must not be changed."""
    for each, groups in _waiting(waiting):
        if hasattr(each, "notes"):
            yield from each.notes(spec, state, groups, refused=refused)


def again(options: PlanOptions, plan: TablePlan, state: TableState | None = None) -> PlanOptions:
    """Return the options with which the groups that wait in this plan wait in a later plan too.

    Args:
        options: The options of the later plan.
        plan: The plan.
        state: The table that it was made from; None if it is no longer known.
    """
    for each, groups in _waiting(plan.waiting):
        options = each.again(options, groups, state) if hasattr(each, "again") else options
    return options
