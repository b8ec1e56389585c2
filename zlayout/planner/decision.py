"""What the planner decided for one table: the plan to show, and the pinned files behind it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from zlayout.planner.model import TablePlan
from zlayout.planner.work import Group, Work
from zlayout.spec.model import LayoutSpec
from zlayout.table.state import PartitionField


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """What a plan may do.

    allow_full_rewrite: a change of the partitioning may replace every file of a Delta table. max_rewrite_bytes: the
    bytes of files that a run may rewrite, None for no limit.
    """

    allow_full_rewrite: bool = False
    max_rewrite_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """What the plan says about a table, and the pinned groups behind it (none unless the status is `changes`).

    partition_by: the partitioning to change to, None where it stays.
    """

    plan: TablePlan
    groups: tuple[Group, ...] = ()
    partition_by: tuple[PartitionField, ...] | None = None

    def work(self, spec: LayoutSpec, run_id: str, verify: Literal["gate", "full"] = "gate") -> Work:
        """The decision as a work order."""
        plan = self.plan
        return Work(
            table=spec.table,
            layout=spec.layout,
            run_id=run_id,
            version=-1 if plan.version is None else plan.version,
            properties=tuple((p.name, p.after) for p in plan.properties),
            partition_by=self.partition_by,
            groups=self.groups,
            # Files that arrive outside `where` before the rewrite must stay outside it.
            covers_table=spec.where is None and sum(len(g.files) for g in self.groups) == plan.files,
            verify=verify,
            requirements=plan.requirements,
        )
