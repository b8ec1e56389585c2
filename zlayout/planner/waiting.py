"""Set aside groups that wait for a later run: those in hot partitions, and those in rarely read ones. Pure functions.

A partition is hot if another writer wrote a file to it a short time ago.

The bytes that a rewrite of a partition can save for each byte written are at most the number of executions that read
the partition. Therefore the decayed partitions that are read least wait, as long as the sum of the executions that read
them is at most the declared share of all executions. The choice depends on no files of other partitions, so that the
next plan chooses the same partitions after everything else is rewritten (docs/adr/0035-rarely-read.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from zlayout.errors import Diagnostic, Severity
from zlayout.message_text import first_of, plural
from zlayout.planner.actions import Reason, RewriteGroup
from zlayout.planner.model import HotGroups, RarelyReadGroups
from zlayout.planner.partitions import Bools, partition_names, partition_text
from zlayout.planner.selection import FileSelection, SelectedFiles, partitions_of, totals
from zlayout.planner.work import PlannedTable
from zlayout.spec.model import LayoutSpec
from zlayout.table.state import FileTable, Partition, PartitionRefusal, TableState, sums


def set_hot_aside(selection: FileSelection, state: TableState, after: int | None, *, whole: bool) -> FileSelection:
    """Move the files of hot partitions from `groups` to `hot`.

    Groups whose bounds must become longer wait together or not at all. If only some of them were rewritten, a later run
    would not select the others (docs/adr/0004-cut-bounds.md).

    Args:
        selection: The files to rewrite.
        state: The observed table.
        after: See `PlanOptions.hot_after`.
        whole: Whether groups of several partitions cannot be divided, so that they wait as a whole.
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


MAX_PARTITIONS_SHOWN = 3


def set_refused_aside(spec: LayoutSpec, selection: FileSelection, state: TableState) -> FileSelection:
    """Move the files of partitions that must not be rewritten from `groups` to `refused`."""
    if not (refusals := refusals_of(spec, state)):
        return selection
    refused = np.logical_or.reduce([refusal.partitions for refusal in refusals])[state.files.partition]
    parts = [part for group in selection.groups for part in _apart(group, refused, whole=False)]
    kept, aside = (tuple(part for part, wait in parts if wait is now) for now in (False, True))
    return replace(selection, groups=kept, refused=aside)


def refusals_of(spec: LayoutSpec, state: TableState) -> list[PartitionRefusal]:
    """Return the reasons not to rewrite some partitions that hold for the layout spec."""
    return [refusal for refusal in state.partition_refusals if not (refusal.zone and spec.partition_timezone)]


def refused_partitions(
    spec: LayoutSpec, state: TableState, waiting: Sequence[SelectedFiles], severity: Severity
) -> Iterator[Diagnostic]:
    """Yield each reason not to rewrite partitions of the groups `waiting`."""
    for refusal in refusals_of(spec, state) if waiting else ():
        owner = state.files.partition[np.concatenate([group.files for group in waiting])]
        if count := int(refusal.partitions[owner].sum()):
            names = [partition_text(state.files.partitions[n]) for n in np.unique(owner[refusal.partitions[owner]])]
            where = f" in {plural(len(names), 'partition')}" if state.partition_fields else ""
            message = f"{plural(count, 'file')}{where} {'has' if count == 1 else 'have'} {refusal.found}"
            detail = first_of(names, MAX_PARTITIONS_SHOWN)
            yield Diagnostic(refusal.code, message, severity, refusal.hint, spec.location, detail)


def _apart(group: SelectedFiles, hot: Bools, *, whole: bool) -> Iterator[tuple[SelectedFiles, bool]]:
    """Yield each part of a group, and whether it waits. hot: bool[N], the files of hot partitions."""
    waits = hot[group.files]
    if whole or waits.all() or not waits.any():
        yield group, bool(waits.any())
    else:
        yield replace(group, files=group.files[~waits]), False
        yield replace(group, files=group.files[waits]), True


def hot_groups(selection: FileSelection, state: TableState, after: int | None) -> HotGroups | None:
    """Return the totals of the groups that wait in hot partitions; None if there are none."""
    if after is None or not selection.hot:
        return None
    return HotGroups(after, len(partitions_of(selection.hot, state.files)), *totals(selection.hot, state.files))


def lengthens_later(selection: FileSelection) -> bool:
    """Return whether groups whose bounds must become longer wait in hot partitions."""
    return any(group.reason is Reason.BOUNDS_TRUNCATED for group in selection.hot)


def hot_notes(spec: LayoutSpec, state: TableState, waiting: tuple[SelectedFiles, ...]) -> Iterator[Diagnostic]:
    """Yield ZL415 if an unpartitioned table waits as a whole."""
    if waiting and not state.partition_fields:
        message = "the table is not partitioned, so that all of it waits until no other writer has written for a while"
        hint = "rewrite it with `--avoid-hot 0m`, or at a time of day when nothing is written"
        yield Diagnostic("ZL415", message, "note", hint, spec.location)


# The reasons for which a group may wait in a rarely read partition. Drift and first layouts do not wait. Neither do
# deleted rows, because only a rewrite removes them from storage, and groups whose bounds must become longer, because
# they would not be selected later.
MAY_WAIT = frozenset({Reason.DECAYED, Reason.SMALL_FILES, Reason.PARTITION_NOT_LAID_OUT})


def least_read(partitions: Mapping[str, float], allowed: float) -> frozenset[str]:
    """Choose the partitions that are read least.

    Args:
        partitions: The number of executions that read each partition, by the name of the partition.
        allowed: The limit of the sum of these numbers over the chosen partitions.

    Returns:
        The names of the chosen partitions.
    """
    order = sorted(partitions, key=lambda name: (partitions[name], name))
    within = np.cumsum([partitions[name] for name in order]) <= allowed
    return frozenset(order[: int(within.sum())])


def may_wait(spec: LayoutSpec, selection: FileSelection, files: FileTable) -> tuple[Partition, ...]:
    """Return the partitions in which all groups may wait as rarely read."""
    numbers = dict.fromkeys(group.partition_in(files) for group in _may_wait(spec, selection.every_group, files))
    return tuple(files.partitions[number] for number in numbers)


def marked(partitions: Sequence[Partition], chosen: frozenset[str | int]) -> Bools | None:
    """Return which of P partitions `chosen` contains by name or by number, bool[P]; None if `chosen` is empty."""
    if not chosen:
        return None
    names, numbers = partition_names(partitions)
    found = [name in chosen or number in chosen for name, number in zip(names, numbers.tolist(), strict=True)]
    return np.array(found, bool)


def set_rarely_read_aside(
    spec: LayoutSpec, groups: Sequence[SelectedFiles], files: FileTable, rarely_read: Bools | None
) -> tuple[list[SelectedFiles], list[SelectedFiles], Bools]:
    """Divide groups into those to rewrite and those that wait in rarely read partitions.

    Args:
        spec: The layout spec.
        groups: The groups, each with files of one partition unless the partitioning changes.
        files: The files of the table.
        rarely_read: bool[P], the rarely read partitions, which wait if all of their groups may; None for none.

    Returns:
        The groups to rewrite, the groups that wait, and bool[P], the partitions that wait.
    """
    waits = np.zeros(len(files.partitions), bool)
    if rarely_read is not None:
        waits[[group.partition_in(files) for group in _may_wait(spec, groups, files)]] = True
        waits &= rarely_read
    parts = [(group, bool(waits[group.partition_in(files)])) for group in groups]
    return [group for group, wait in parts if not wait], [group for group, wait in parts if wait], waits


def _may_wait(spec: LayoutSpec, groups: Sequence[SelectedFiles], files: FileTable) -> list[SelectedFiles]:
    """Return the groups of the partitions in which all groups may wait."""
    columns = np.minimum(files.deleted, files.rows), files.rows
    deleted, rows = (sums(files.partition, len(files.partitions), column) for column in columns)
    # The reason of a group does not show whether its partition exceeds the tolerance for deleted rows: if the partition
    # has no laid-out files, that is the reason of the group.
    must = set(np.flatnonzero(deleted > spec.tolerance.deleted_rows * rows).tolist())
    must |= {group.partition_in(files) for group in groups if group.reason not in MAY_WAIT}
    return [group for group in groups if group.partition_in(files) not in must]


def rarely_read_groups(selection: FileSelection, state: TableState) -> RarelyReadGroups | None:
    """Return the totals of the groups that wait in rarely read partitions; None if there are none."""
    waiting, files = selection.rarely_read, state.files
    if not waiting:
        return None
    numbers = sorted(partition_names(files.partitions)[1][partitions_of(waiting, files)].tolist())
    return RarelyReadGroups(len(numbers), *totals(waiting, files), tuple(numbers))


def rarely_read_names(table: PlannedTable) -> frozenset[str | int]:
    """Return the names of the partitions that wait because they are rarely read.

    Later plans of the same run get them in `PlanOptions.rarely_read`, so that the same partitions wait. Their numbers
    may differ then.
    """
    waiting = table.plan.rarely_read
    if waiting is None or table.state is None:
        return frozenset()
    names, numbers = partition_names(table.state.files.partitions)
    return frozenset(name for name, n in zip(names, numbers.tolist(), strict=True) if n in waiting.partition_numbers)


def rarely_read_note(spec: LayoutSpec, waiting: RarelyReadGroups) -> Diagnostic:
    """Return ZL416: partitions have decayed and are not rewritten."""
    what, files = plural(waiting.partitions, "partition"), plural(waiting.files, "file")
    message = (
        f"decay of {what} is tolerated: {files} of {waiting.bytes:,} bytes wait, because the queries of the workload "
        "rarely read them"
    )
    hint = "nothing to do; they are rewritten when queries read them, or with --include-rarely-read"
    return Diagnostic("ZL416", message, "note", hint, spec.location_of("tolerance.rarely_read"))


def unread_notes(
    spec: LayoutSpec, groups: Sequence[RewriteGroup], executions: Mapping[str, float]
) -> Iterator[Diagnostic]:
    """Yield ZL417 if most bytes of a plan are in decayed partitions that could wait because no query reads them.

    Args:
        spec: The layout spec.
        groups: The groups of the plan.
        executions: The number of executions with conditions that read each partition, by the name of the partition;
            empty if it is unknown.
    """
    unread = [g for g in groups if g.reason in MAY_WAIT and executions.get(g.partition) == 0]
    size, whole = (sum(group.bytes for group in some) for some in (unread, groups))
    if spec.tolerance.rarely_read is None and 2 * size > whole:
        what = plural(len({group.partition_number for group in unread}), "decayed partition")
        message = f"{size:,} of {whole:,} bytes are rewritten in {what} that no query with conditions reads"
        hint = "if the workload has nearly all queries, declare `tolerance: {rarely_read: 0%}`, so that they wait"
        yield Diagnostic("ZL417", message, "note", hint, spec.location_of("tolerance"))
