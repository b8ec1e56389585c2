"""The pass of hot partitions: those to which another writer wrote a file a short time ago wait (`--avoid-hot`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

from zlayout.errors import Diagnostic
from zlayout.planner.model import Reason, Wait, WaitingGroups
from zlayout.planner.selection import FileSelection, Group, apart
from zlayout.planner.work import PlanOptions
from zlayout.spec.model import LayoutSpec
from zlayout.table.state import TableState
from zlayout.text import plural, size

LABEL, TERM = "hot", "hot: partitions with recent writes"


def park(selection: FileSelection, state: TableState, options: PlanOptions, *, whole: bool) -> FileSelection:
    """Let the files of hot partitions wait.

    Groups whose bounds must become longer wait together or not at all. If only some of them were rewritten, a later run
    would not select the others (docs/adr/0004-cut-bounds.md).

    Args:
        selection: The files to rewrite.
        state: The observed table.
        options: See `PlanOptions.hot_after`.
        whole: Whether groups of several partitions cannot be divided, so that they wait as a whole.
    """
    if options.hot_after is None or not len(state.last_written):
        return selection
    hot = (state.last_written > options.hot_after)[state.files.partition]
    parts = tuple(apart(selection.groups, hot, whole=whole))
    truncated = any(hot[part.index].any() and part.reason is Reason.BOUNDS_TRUNCATED for part in parts)

    def waits(group: Group) -> bool:
        return bool(hot[group.index].any()) or (truncated and group.reason is Reason.BOUNDS_TRUNCATED)

    return replace(selection, groups=parts).parking(waits, Wait.HOT)


def section(waiting: WaitingGroups, options: PlanOptions) -> WaitingGroups:
    """Add the time after which a write makes a partition hot."""
    return replace(waiting, after=options.hot_after)


def text(waiting: WaitingGroups) -> str:
    """Write which groups wait because their partitions are hot, and the time after which a write makes them hot."""
    since = datetime.fromtimestamp((waiting.after or 0) // 1000, UTC)
    return (
        f"{plural(waiting.groups, 'group')} of {size(waiting.bytes)}, {plural(waiting.files, 'file')}, in "
        f"{plural(len(waiting.partition_numbers), 'partition')} written after {since:%Y-%m-%d %H:%M} UTC"
    )


def notes_before(spec: LayoutSpec, state: TableState, options: PlanOptions) -> Iterator[Diagnostic]:
    """Yield ZL449 if times of writes, on which it depends which partitions wait, are in the future."""
    if options.hot_after is not None and state.future_times:
        message = (
            f"{plural(state.future_times, 'write')} to the table with a time in the future: the time of the commit, or "
            "of the next one, decides whether its partitions wait"
        )
        yield Diagnostic("ZL449", message, "note", "correct the clock of the machine that wrote them", spec.location)


def notes(
    spec: LayoutSpec,
    state: TableState,
    waiting: WaitingGroups,  # noqa: ARG001
    *,
    refused: bool,  # noqa: ARG001
) -> Iterator[Diagnostic]:
    """Yield ZL415 if an unpartitioned table waits as a whole."""
    if not state.partition_fields:
        message = "the table is not partitioned, so that all of it waits until no other writer has written for a while"
        hint = "rewrite it with `--avoid-hot 0m`, or at a time of day when nothing is written"
        yield Diagnostic("ZL415", message, "note", hint, spec.location)


def again(options: PlanOptions, waiting: WaitingGroups, state: TableState | None) -> PlanOptions:  # noqa: ARG001
    """Return the options with which the partitions that wait in a plan wait in a later plan too."""
    return replace(options, hot_after=waiting.after)
