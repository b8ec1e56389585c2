"""Set aside the groups in hot partitions, in which another writer wrote a file a short time ago. Pure functions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from zlayout.errors import Diagnostic
from zlayout.planner.actions import Reason
from zlayout.planner.deferred import HotGroups
from zlayout.planner.partitions import Bools
from zlayout.planner.selection import FileSelection, SelectedFiles
from zlayout.spec.model import LayoutSpec
from zlayout.table.state import TableState


def set_aside(selection: FileSelection, state: TableState, after: int | None, *, whole: bool) -> FileSelection:
    """Move the files of hot partitions from `groups` to `hot`.

    Groups whose bounds must become longer are set aside together or not at all, because a later run would not select
    those that wait (docs/adr/0004-cut-bounds.md).

    Args:
        after: Partitions with a later write are hot, in milliseconds since 1970; None if none is.
        whole: Whether groups of several partitions cannot be divided.
    """
    if after is None or not len(state.last_written):
        return selection
    hot = (state.last_written > after)[state.files.partition]
    parts = [part for group in selection.groups for part in _apart(group, hot, whole=whole)]
    truncated = any(wait and part.reason is Reason.BOUNDS_TRUNCATED for part, wait in parts)
    parts = [(part, wait or (truncated and part.reason is Reason.BOUNDS_TRUNCATED)) for part, wait in parts]
    if not any(wait for _, wait in parts):
        return selection
    kept, aside = (tuple(part for part, wait in parts if wait is now) for now in (False, True))
    return replace(selection, groups=kept, hot=aside)


def _apart(group: SelectedFiles, hot: Bools, *, whole: bool) -> Iterator[tuple[SelectedFiles, bool]]:
    """Yield the parts of a group with whether they wait. hot: bool[N], the files of hot partitions."""
    waits = hot[group.files]
    if whole or waits.all() or not waits.any():
        yield group, bool(waits.any())
    else:
        yield replace(group, files=group.files[~waits]), False
        yield replace(group, files=group.files[waits]), True


def hot_groups(selection: FileSelection, state: TableState, after: int | None) -> HotGroups | None:
    """Return the totals of the groups that were set aside; None if there are none."""
    if after is None or not selection.hot:
        return None
    index = np.concatenate([group.files for group in selection.hot])
    partitions = len(np.unique(state.files.partition[index]))
    return HotGroups(after, partitions, len(selection.hot), len(index), int(state.files.bytes[index].sum()))


def lengthens_later(selection: FileSelection) -> bool:
    """Return whether a group waits whose bounds must become longer."""
    return any(group.reason is Reason.BOUNDS_TRUNCATED for group in selection.hot)


def hot_notes(spec: LayoutSpec, state: TableState, waiting: tuple[SelectedFiles, ...]) -> Iterator[Diagnostic]:
    """Yield ZL415 if an unpartitioned table waits as a whole."""
    if waiting and not state.partition_fields:
        message = "the table is not partitioned, so that all of it waits until no other writer has written for a while"
        hint = "rewrite it with `--avoid-hot 0m`, or at a time of day when nothing is written"
        yield Diagnostic("ZL415", message, "note", hint, spec.location)
