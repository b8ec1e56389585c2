"""Set aside the decayed partitions that the queries of a workload rarely read. Pure functions.

What a rewrite of a partition can save for each byte written is at most the number of executions that read the
partition. The partitions that are read least wait, as long as all that wait are read by at most the declared share of
all executions. Files of other partitions are not considered, so that the next plan finds the same after a rewrite of
everything else (docs/adr/0035-rarely-read.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from zlayout.errors import Diagnostic
from zlayout.planner.actions import Reason, RewriteGroup
from zlayout.planner.deferred import RarelyReadGroups
from zlayout.planner.partition_text import partition_names, partition_text
from zlayout.planner.partitions import Bools
from zlayout.planner.selection import FileSelection, SelectedFiles
from zlayout.spec.model import LayoutSpec
from zlayout.table.state import FileTable, Partition, TableState
from zlayout.table.sums import sums

# A changed layout is drift, and a first layout the first rewrite of the table. Deleted rows wait for no query, because
# a rewrite removes them from storage. Groups whose bounds must become longer would not be selected later.
MAY_WAIT = frozenset({Reason.DECAYED, Reason.SMALL_FILES, Reason.PARTITION_NOT_LAID_OUT})


def least_read(partitions: Mapping[str, float], allowed: float) -> frozenset[str]:
    """Choose the partitions that are read least.

    Args:
        partitions: By the name of each partition, the number of executions that read it.
        allowed: The limit of the sum of these numbers over the chosen partitions.
    """
    order = sorted(partitions, key=lambda name: (partitions[name], name))
    within = np.cumsum([partitions[name] for name in order]) <= allowed
    return frozenset(order[: int(within.sum())])


def may_wait(spec: LayoutSpec, selection: FileSelection, files: FileTable) -> tuple[Partition, ...]:
    """Return the partitions of which all selected files may wait."""
    numbers = dict.fromkeys(_partition(group, files) for group in _waiting(spec, selection.every_group, files))
    return tuple(files.partitions[number] for number in numbers)


def marked(partitions: Sequence[Partition], chosen: frozenset[str | int]) -> Bools | None:
    """Return which of P partitions are chosen by their name or their number, bool[P]; None if none is."""
    if not chosen:
        return None
    names, numbers = partition_names(partitions)
    found = [name in chosen or number in chosen for name, number in zip(names, numbers.tolist(), strict=True)]
    return np.array(found, bool)


def set_aside(
    spec: LayoutSpec, groups: Sequence[SelectedFiles], files: FileTable, rarely_read: Bools | None
) -> tuple[list[SelectedFiles], list[SelectedFiles], Bools]:
    """Divide groups into those to rewrite and those that wait.

    Args:
        spec: The declared layout.
        groups: The groups, each with files of one partition unless the partitioning changes.
        files: N files in P partitions.
        rarely_read: bool[P], the partitions that wait if all of their groups may; None for none.

    Returns:
        The two lists, and bool[P], the partitions that wait.
    """
    waits = np.zeros(len(files.partitions), bool)
    if rarely_read is not None:
        waits[[_partition(group, files) for group in _waiting(spec, groups, files)]] = True
        waits &= rarely_read
    parts = [(group, bool(waits[_partition(group, files)])) for group in groups]
    return [group for group, wait in parts if not wait], [group for group, wait in parts if wait], waits


def _waiting(spec: LayoutSpec, groups: Sequence[SelectedFiles], files: FileTable) -> list[SelectedFiles]:
    """Return the groups of partitions of which all groups may wait."""
    columns = np.minimum(files.deleted, files.rows), files.rows
    deleted, rows = (sums(files.partition, len(files.partitions), column) for column in columns)
    # The reason of a partition without a laid-out file does not state that its deleted rows exceed the tolerance.
    must = set(np.flatnonzero(deleted > spec.tolerance.deleted_rows * rows).tolist())
    must |= {_partition(group, files) for group in groups if group.reason not in MAY_WAIT}
    return [group for group in groups if _partition(group, files) not in must]


def _partition(group: SelectedFiles, files: FileTable) -> int:
    return int(files.partition[group.files[0]])


def rarely_read_groups(selection: FileSelection, state: TableState) -> RarelyReadGroups | None:
    """Return the totals of the groups that wait; None if there are none."""
    waiting = selection.rarely_read
    if not waiting:
        return None
    index = np.concatenate([group.files for group in waiting])
    numbers = partition_names(state.files.partitions)[1][np.unique(state.files.partition[index])]
    size = int(state.files.bytes[index].sum())
    return RarelyReadGroups(len(numbers), len(waiting), len(index), size, tuple(sorted(numbers.tolist())))


def names(selection: FileSelection, files: FileTable) -> frozenset[str | int]:
    """Return the names of the partitions that wait, for `PlanOptions.rarely_read` of another plan in the same run."""
    return frozenset(partition_text(files.partitions[_partition(g, files)]) for g in selection.rarely_read)


def rarely_read_note(spec: LayoutSpec, waiting: RarelyReadGroups) -> Diagnostic:
    """Make ZL416: partitions have decayed and are not rewritten."""
    what, files = _counted(waiting.partitions, "partition"), _counted(waiting.files, "file")
    message = (
        f"decay of {what} is tolerated: {files} of {waiting.bytes:,} bytes wait, because the queries of the workload "
        "rarely read them"
    )
    hint = "nothing; they are rewritten when queries read them, or with --include-rarely-read"
    return Diagnostic("ZL416", message, "note", hint, spec.location_of("tolerance.rarely_read"))


def unread_notes(
    spec: LayoutSpec, groups: Sequence[RewriteGroup], executions: Mapping[str, float]
) -> Iterator[Diagnostic]:
    """Yield ZL417 if most bytes of a plan are decayed partitions that no query with conditions reads, and could wait.

    Args:
        spec: The declared layout.
        groups: The groups of the plan.
        executions: By the name of each partition, the number of executions that read it; empty if it is not known.
    """
    unread = [g for g in groups if g.reason in MAY_WAIT and executions.get(g.partition, 1.0) == 0]
    size, whole = (sum(group.bytes for group in some) for some in (unread, groups))
    if spec.tolerance.rarely_read is None and 2 * size > whole:
        what = _counted(len({group.partition_number for group in unread}), "decayed partition")
        message = f"{size:,} of {whole:,} bytes are rewritten in {what} that no query with conditions reads"
        hint = "if the workload has nearly all queries, declare `tolerance: {rarely_read: 0%}`, so that they wait"
        yield Diagnostic("ZL417", message, "note", hint, spec.location_of("tolerance"))


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
