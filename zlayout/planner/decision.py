"""The decision of the planner for one table: its plan and the pinned files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from zlayout.errors import Diagnostic
from zlayout.planner.accepted import acceptance
from zlayout.planner.actions import TruncatedBounds
from zlayout.planner.model import TablePlan
from zlayout.planner.work import Group, Work, pinned_groups
from zlayout.spec.model import LayoutSpec
from zlayout.table.state import FileTable


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """Limits on what a plan may do.

    Attributes:
        allow_full_rewrite: Whether a partitioning change may replace every file of a Delta table.
        max_rewrite_bytes: The budget of a run in bytes; None for no limit.
        sample_bytes: The limit, in bytes, of the column chunks that are read from each table for a forecast; 0 for a
            forecast from metadata alone.
        hot_after: A time in milliseconds since 1970. A partition in which another writer wrote a file after it is hot,
            and waits for a later run. None if no partition waits for this reason.
        rarely_read: The partitions of one table whose decay may wait because the workload rarely reads them: their
            names, or their numbers in the plan document.
        include_rarely_read: Whether these partitions are rewritten although `tolerance.rarely_read` lets them wait.
    """

    allow_full_rewrite: bool = False
    max_rewrite_bytes: int | None = None
    sample_bytes: int = 0
    hot_after: int | None = None
    rarely_read: frozenset[str | int] = frozenset()
    include_rarely_read: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """The plan of one table with the pinned files of its actions.

    Attributes:
        plan: The plan of the table.
        pinned: The files of each `RewriteGroup`, by group id; empty unless the status of the plan is `changes`.
        column_ids: The column id of each z-order column, see `Column`; empty if one of them has none.
        after: The files of the partition that a picture shows, as a simulation on a sample predicts them after the
            rewrite; None without a sample, or if some of them could not be simulated. They have bounds of only the
            columns of the picture.
        rarely_read: The names of the partitions that wait because they are rarely read. Later plans of the same run get
            them in `PlanOptions.rarely_read`, so that the same partitions wait.
        truncated: The columns whose bounds the properties of the plan make longer.
    """

    plan: TablePlan
    pinned: Mapping[str, FileTable] = field(default_factory=dict)
    column_ids: tuple[str, ...] = ()
    after: FileTable | None = None
    rarely_read: frozenset[str | int] = frozenset()
    truncated: tuple[TruncatedBounds, ...] = ()

    @property
    def groups(self) -> tuple[Group, ...]:
        """The groups to rewrite with their pinned files."""
        return pinned_groups(self.plan.groups, self.pinned)

    def noting(self, diagnostic: Diagnostic) -> Decision:
        """Return the decision with one more diagnostic in its plan."""
        plan = self.plan
        return replace(self, plan=replace(plan, diagnostics=(*plan.diagnostics, diagnostic)))

    def work(
        self,
        spec: LayoutSpec,
        run_id: str,
        verify: Literal["gate", "full"] = "gate",
        predictions: Callable[[], Mapping[str, float]] = dict,
    ) -> Work:
        """Return the work order that carries out the decision.

        Args:
            spec: The layout spec of the table.
            run_id, verify, predictions: See `Work`.
        """
        return Work(
            table=spec.table,
            layout=spec.layout.identified(self.column_ids) if self.column_ids else spec.layout,
            run_id=run_id,
            actions=self.plan.actions,
            requirements=self.plan.requirements,
            pinned=self.pinned,
            declared=spec.partition_by or (),
            # If this is true, engine native rewrites the table without a filter, including files that were added after
            # the plan. If the spec has `where`, such files may be out of scope.
            covers_table=spec.where is None and sum(map(len, self.pinned.values())) == self.plan.files,
            verify=verify,
            predictions=predictions,
            accepts=acceptance(spec) if self.plan.is_whole else "",
            commit_properties=spec.commit_properties,
            partition_timezone=spec.partition_timezone,
            query_cost=self.plan.workload.predicted if self.plan.workload else None,
        )
