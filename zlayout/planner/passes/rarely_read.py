"""The pass of rarely read partitions, whose decay waits as `tolerance.rarely_read` allows. Pure functions.

The bytes that a rewrite of a partition can save for each byte written are at most the number of executions that read
the partition. Therefore the decayed partitions that are read least wait, as long as the sum of the executions that read
them is at most the declared share of all executions. The choice depends on no files of other partitions, so that the
next plan chooses the same partitions after everything else is rewritten (docs/adr/0035-rarely-read.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from zlayout.errors import Diagnostic
from zlayout.planner.model import Reason, RewriteGroup, WaitingGroups
from zlayout.planner.partitions import Bools, partition_names
from zlayout.planner.selection import FileSelection, Group
from zlayout.planner.work import PlanOptions
from zlayout.spec.model import LayoutSpec
from zlayout.table.state import FileTable, Partition, TableState, sums
from zlayout.text import plural

LABEL = ""  # reports have no line, because the note states everything

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


def waiting_partitions(spec: LayoutSpec, groups: Sequence[Group], files: FileTable, rarely_read: Bools | None) -> Bools:
    """Return the rarely read partitions that wait, bool[P].

    Args:
        spec: The layout spec.
        groups: The groups, each with files of one partition unless the partitioning changes.
        files: The files of the table.
        rarely_read: bool[P], the rarely read partitions, which wait if all of their groups may; None for none.
    """
    waits = np.zeros(len(files.partitions), bool)
    if rarely_read is not None:
        waits[[group.partition_in(files) for group in _may_wait(spec, groups, files)]] = True
        waits &= rarely_read
    return waits


def _may_wait(spec: LayoutSpec, groups: Sequence[Group], files: FileTable) -> list[Group]:
    columns = np.minimum(files.deleted, files.rows), files.rows
    deleted, rows = (sums(files.partition, len(files.partitions), column) for column in columns)
    # The reason of a group does not show whether its partition exceeds the tolerance for deleted rows: if the partition
    # has no laid-out files, that is the reason of the group.
    must = set(np.flatnonzero(deleted > spec.tolerance.deleted_rows * rows).tolist())
    must |= {group.partition_in(files) for group in groups if group.reason not in MAY_WAIT}
    return [group for group in groups if group.partition_in(files) not in must]


def notes(spec: LayoutSpec, state: TableState, waiting: WaitingGroups, *, refused: bool) -> Iterator[Diagnostic]:  # noqa: ARG001
    """Yield ZL416 if partitions have decayed and are not rewritten."""
    if not refused:
        what, files = plural(len(waiting.partition_numbers), "partition"), plural(waiting.files, "file")
        message = (
            f"decay of {what} is tolerated: {files} of {waiting.bytes:,} bytes wait, because the queries of the "
            "workload rarely read them"
        )
        hint = "nothing to do; they are rewritten when queries read them, or with --include-rarely-read"
        yield Diagnostic("ZL416", message, "note", hint, spec.location_of("tolerance.rarely_read"))


def again(options: PlanOptions, waiting: WaitingGroups, state: TableState | None) -> PlanOptions:
    """Return the options with which the partitions that wait in a plan wait in a later plan too.

    Args:
        options: The options of the later plan.
        waiting: The groups that wait in the plan.
        state: The table that it was made from. The partitions are then found by their names, because their numbers may
            change; else by their numbers.
    """
    chosen: frozenset[str | int] = frozenset(waiting.partition_numbers)
    if state is not None:
        names, numbers = partition_names(state.files.partitions)
        chosen = frozenset(name for name, number in zip(names, numbers.tolist(), strict=True) if number in chosen)
    return replace(options, rarely_read=chosen)


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
