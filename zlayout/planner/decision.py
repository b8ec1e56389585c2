"""What the planner decided for one table: the plan to show, and the pinned files behind it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from zlayout.planner.model import TablePlan
from zlayout.planner.work import Group, Work, pinned_groups
from zlayout.spec.model import LayoutSpec
from zlayout.table.state import FileTable


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
    """What the plan says about a table.

    pinned: the files behind each `RewriteGroup` of the plan, by its id; none unless the status is `changes`.
    """

    plan: TablePlan
    pinned: Mapping[str, FileTable] = field(default_factory=dict)

    @property
    def groups(self) -> tuple[Group, ...]:
        """The groups to rewrite with their pinned files."""
        return pinned_groups(self.plan.groups, self.pinned)

    def work(self, spec: LayoutSpec, run_id: str, verify: Literal["gate", "full"] = "gate") -> Work:
        """The decision as a work order."""
        return Work(
            table=spec.table,
            layout=spec.layout,
            run_id=run_id,
            actions=self.plan.actions,
            requirements=self.plan.requirements,
            pinned=self.pinned,
            declared=spec.partition_by or (),
            # Files that arrive outside `where` before the rewrite must stay outside it.
            covers_table=spec.where is None and sum(map(len, self.pinned.values())) == self.plan.files,
            verify=verify,
        )
