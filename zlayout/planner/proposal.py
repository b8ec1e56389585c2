"""What could be done to one table: all that a plan is assembled from, before a budget chooses."""

from __future__ import annotations

from dataclasses import dataclass

from zlayout.errors import Diagnostic
from zlayout.planner.actions import ChangePartitioning, CutBounds, PropertyChange
from zlayout.planner.candidates import Candidate
from zlayout.planner.forecast import Measured
from zlayout.planner.model import LeftOver, Status
from zlayout.planner.partitions import Floats
from zlayout.planner.select import Selection
from zlayout.spec.model import LayoutSpec
from zlayout.table.state import TableState


@dataclass(frozen=True, slots=True)
class Proposal:
    """What could be done to one table.

    partitioning, properties: the changes of settings. cuts: columns whose bounds the rewritten files keep longer;
    hopeless: columns whose bounds are cut although the table keeps long ones. now: the metrics. candidates: the groups
    of the selection. predictable: whether metadata tells what a rewrite leaves. checked: diagnostics of the spec.
    refusals: why nothing may be written; notes: diagnostics of the backend.

    With a budget, whole: all that should be rewritten, as it is left over when nothing is. savings: float64[G, d], by
    how much each candidate alone lowers touched of each z-order column.
    """

    spec: LayoutSpec
    state: TableState
    partitioning: ChangePartitioning | None
    properties: tuple[PropertyChange, ...]
    cuts: tuple[CutBounds, ...]
    hopeless: tuple[CutBounds, ...]
    now: Measured
    selection: Selection
    candidates: tuple[Candidate, ...]
    predictable: bool
    checked: tuple[Diagnostic, ...]
    refusals: tuple[Diagnostic, ...]
    notes: tuple[Diagnostic, ...]
    whole: LeftOver | None = None
    savings: Floats | None = None

    @property
    def exceeds_budget(self) -> bool:
        """Whether there is more to rewrite than the budget allows."""
        return self.whole is not None and self.whole.bytes > self.whole.budget

    @property
    def has_changes(self) -> bool:
        return bool(self.partitioning or self.properties or self.candidates or self.exceeds_budget)

    @property
    def status(self) -> Status:
        if self.refusals:
            return Status.REFUSED
        return Status.CHANGES if self.has_changes else Status.UNCHANGED

    @property
    def everything(self) -> Choice:
        """The choice of all candidates."""
        return Choice(tuple(range(len(self.candidates))))


@dataclass(frozen=True, slots=True)
class Choice:
    """The candidates of a proposal to carry out, by their numbers. refusal: why the table is refused instead."""

    candidates: tuple[int, ...]
    refusal: Diagnostic | None = None
