"""The passes that let groups of files wait for a later run: each reason to wait is one module of this package.

The name of a pass is that of its module, and of its field of the plan document. `park`, or else the selection, lets
groups wait for its `WAIT`; `section` makes the field; `text` writes it for the line `LABEL` of reports, which explain
the label by `TERM`; `notes` yields diagnostics; `again` gives the options with which the same groups wait in a later
plan. A budget is spent after all passes, on the groups of all tables (`zlayout.planner.budget`).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from zlayout.errors import Diagnostic
from zlayout.planner.model import TablePlan

if TYPE_CHECKING:
    from zlayout.planner.selection import FileSelection
    from zlayout.planner.work import PlanOptions
    from zlayout.spec.model import LayoutSpec
    from zlayout.table.state import TableState

# A module is imported when it is first used, because reports of most plans need none.
PASSES = ("hot", "rarely_read")


@cache
def _pass(name: str) -> Any:
    return import_module(f"{__name__}.{name}")


def park(selection: FileSelection, state: TableState, options: PlanOptions, *, whole: bool) -> FileSelection:
    """Let selected groups wait. whole: Whether groups of several partitions cannot be divided."""
    for each in map(_pass, PASSES):
        if hasattr(each, "park"):
            selection = each.park(selection, state, options, whole=whole)
    return selection


def sections(selection: FileSelection, state: TableState, options: PlanOptions) -> dict[str, Any]:
    """Return the fields of a `TablePlan` that state which groups wait; None for a reason for which none waits."""
    return {name: _pass(name).section(selection, state, options) for name in PASSES}


def lines(plan: TablePlan) -> Iterator[tuple[str, str]]:
    """Yield a label and a text for each reason for which groups of the plan wait, if reports have a line of it."""
    for name in PASSES:
        if (waiting := getattr(plan, name)) and (label := _pass(name).LABEL):
            yield label, _pass(name).text(waiting)


def terms(plan: TablePlan) -> Iterator[str]:
    """Yield the explanations of the labels of these lines."""
    return (_pass(name).TERM for name in PASSES if getattr(plan, name) and _pass(name).LABEL)


def notes_before(spec: LayoutSpec, state: TableState, options: PlanOptions) -> Iterator[Diagnostic]:
    """Yield the diagnostics about what decides which groups wait."""
    if options.hot_after is not None:
        yield from _pass("hot").notes_before(spec, state)


def notes(spec: LayoutSpec, state: TableState, selection: FileSelection, *, refused: bool) -> Iterator[Diagnostic]:
    """Yield the diagnostics about groups that wait. refused: Whether the table must not be changed."""
    for name in PASSES:
        yield from _pass(name).notes(spec, state, selection, refused=refused)


def again(options: PlanOptions, plan: TablePlan, state: TableState | None = None) -> PlanOptions:
    """Return the options with which the groups that wait in this plan wait in a later plan too.

    Args:
        options: The options of the later plan.
        plan: The plan.
        state: The table that it was made from; None if it is no longer known.
    """
    for name in PASSES:
        options = _pass(name).again(options, plan, state)
    return options
