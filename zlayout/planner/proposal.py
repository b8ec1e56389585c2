"""The proposal for one table: everything that a plan is assembled from, before the budget chooses candidates."""

from __future__ import annotations

from dataclasses import dataclass

from zlayout.errors import Diagnostic
from zlayout.planner.actions import ChangeClustering, ChangePartitioning, PropertyChange, TruncatedBounds
from zlayout.planner.candidates import Candidate
from zlayout.planner.deferred import DeferredGroups, HotGroups
from zlayout.planner.forecast import Measured
from zlayout.planner.model import Status
from zlayout.planner.partitions import Floats
from zlayout.planner.selection import FileSelection
from zlayout.planner.worth import Worth
from zlayout.spec.model import LayoutSpec
from zlayout.table.state import TableState


@dataclass(frozen=True, slots=True)
class Proposal:
    """All changes that could be made to one table.

    Attributes:
        partitioning: The partitioning change; None if there is none.
        clustering: The change of the clustering columns; None if there is none.
        properties: The table properties to set.
        cuts: Columns whose bounds become longer in rewritten files.
        indistinct_anyway: Columns with indistinct bounds although the table already keeps long bounds.
        candidates: The groups of the selection with pinned files.
        predictable: Whether the order that the engine writes can be simulated on a sample of the rows.
        checked: Diagnostics of the spec.
        refusals: Diagnostics because of which nothing may be written.
        notes: Other diagnostics of the backend.
        whole: With a budget, the totals of everything that should be rewritten.
        hot: The totals of what waits because its partitions are hot; None if nothing does.
        savings: With a budget, float64[G, d], by how much each candidate alone lowers touched of each z-order column.
        worth: What each candidate saves the queries of the workload, by which the budget ranks them; None if the budget
            ranks them by `savings`.
    """

    spec: LayoutSpec
    state: TableState
    partitioning: ChangePartitioning | None
    clustering: ChangeClustering | None
    properties: tuple[PropertyChange, ...]
    cuts: tuple[TruncatedBounds, ...]
    indistinct_anyway: tuple[TruncatedBounds, ...]
    now: Measured
    selection: FileSelection
    candidates: tuple[Candidate, ...]
    predictable: bool
    checked: tuple[Diagnostic, ...]
    refusals: tuple[Diagnostic, ...]
    notes: tuple[Diagnostic, ...]
    whole: DeferredGroups | None = None
    hot: HotGroups | None = None
    savings: Floats | None = None
    worth: Worth | None = None

    @property
    def provable(self) -> bool:
        """Whether metadata limits the result of a rewrite: zlayout writes the files, and the partitioning stays."""
        return self.spec.layout.engine == "zlayout" and not self.selection.moves

    @property
    def moves(self) -> bool:
        """Whether zlayout writes files that change their partition."""
        return self.spec.layout.engine == "zlayout" and self.selection.moves

    @property
    def exceeds_budget(self) -> bool:
        """Whether the files that should be rewritten are larger than the budget."""
        return self.whole is not None and self.whole.bytes > self.whole.budget

    @property
    def waits(self) -> bool:
        """Whether nothing is changed because all files that should be rewritten are in hot partitions."""
        return self.hot is not None and not self.candidates

    @property
    def has_changes(self) -> bool:
        groups = self.candidates or self.selection.left_out or self.selection.hot
        return bool(self.partitioning or self.clustering or self.properties or groups or self.exceeds_budget)

    @property
    def selects_nothing(self) -> bool:
        """Whether the table has partitions, and `where` matches none of them as a whole."""
        partitions = len(self.state.files.partitions)
        return 0 < partitions == self.selection.out_of_scope

    @property
    def status(self) -> Status:
        if self.refusals:
            return Status.REFUSED
        return Status.CHANGES if self.has_changes else Status.UNCHANGED

    @property
    def everything(self) -> Choice:
        """The choice of every candidate."""
        return Choice(tuple(range(len(self.candidates))))


@dataclass(frozen=True, slots=True)
class Choice:
    """The numbers of the candidates of a proposal to carry out, or the refusal because of which none is."""

    candidates: tuple[int, ...]
    refusal: Diagnostic | None = None
