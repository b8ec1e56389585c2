"""Set aside the groups of partitions that must not be rewritten, and state why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from zlayout.errors import Diagnostic, Severity
from zlayout.planner.model import Wait
from zlayout.planner.partitions import Bools, partition_text
from zlayout.planner.selection import FileSelection, Group, apart
from zlayout.spec.model import LayoutSpec
from zlayout.table.state import PartitionRefusal, TableState, counts
from zlayout.text import first_of, plural

MAX_PARTITIONS_SHOWN = 3


def set_refused_aside(spec: LayoutSpec, selection: FileSelection, state: TableState) -> FileSelection:
    """Let the files of partitions that must not be rewritten wait."""
    if not (refusals := refusals_of(spec, state)):
        return selection
    partition = state.files.partition
    refused = np.logical_or.reduce([_partitions(refusal, state) for refusal in refusals])[partition]
    selection = replace(selection, groups=tuple(apart(selection.groups, refused, whole=False)))
    return selection.parking(lambda group: bool(refused[group.index].any()), Wait.REFUSED)


def refusals_of(spec: LayoutSpec, state: TableState) -> list[PartitionRefusal]:
    """Return the reasons not to rewrite some partitions that hold for the layout spec."""
    return [refusal for refusal in state.partition_refusals if not (refusal.zone and spec.partition_timezone)]


def refused_partitions(
    spec: LayoutSpec, state: TableState, waiting: Sequence[Group], severity: Severity
) -> Iterator[Diagnostic]:
    """Yield each reason not to rewrite partitions of the groups `waiting`."""
    for refusal in refusals_of(spec, state) if waiting else ():
        owner = state.files.partition[np.concatenate([group.index for group in waiting])]
        if len(partitions := np.unique(owner[_partitions(refusal, state)[owner]])):
            names = [partition_text(state.files.partitions[n]) for n in partitions]
            inside = np.isin(state.files.partition, partitions)
            count, total = int((refusal.files & inside).sum()), int(inside.sum())
            files = plural(total, "file") if count == total else f"{count:,} of {plural(total, 'file')}"
            where = f" in {plural(len(names), 'partition')}" if state.partition_fields else ""
            message = f"{files}{where} {'has' if count == 1 else 'have'} {refusal.found}"
            detail = first_of(names, MAX_PARTITIONS_SHOWN)
            yield Diagnostic(refusal.code, message, severity, refusal.hint, spec.location, detail)


def _partitions(refusal: PartitionRefusal, state: TableState) -> Bools:
    return counts(state.files.partition[refusal.files], len(state.files.partitions)) > 0
