"""What the planner decided for one table: the plan to show, and the pinned files behind it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from zlayout.planner.model import LeftOver, TablePlan
from zlayout.planner.work import Group, Work
from zlayout.spec.model import LayoutSpec
from zlayout.table.state import PartitionField


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """allow_full_rewrite: a change of partitioning may replace every file of a Delta table.

    max_rewrite_bytes: how many bytes of files a run may rewrite, None for as many as it takes.
    """

    allow_full_rewrite: bool = False
    max_rewrite_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Offer:
    """What a byte budget can choose from: the decision's groups, none larger than the budget if that can be helped.

    saves: float64[G, d], by how much each of the groups lowers touched of each z-order column. whole: all that should
    be rewritten, as it is left over when nothing is. longer: keys of the properties that make bounds longer.
    """

    saves: NDArray[np.float64]
    whole: LeftOver
    longer: frozenset[str]


@dataclass(frozen=True, slots=True)
class Decision:
    """What the plan says of a table, and the pinned groups of files behind it (none unless there are changes).

    offer: until the budget is spent (`zlayout.planner.budget`) the groups are what it may be spent on.
    """

    plan: TablePlan
    groups: tuple[Group, ...] = ()
    partition_by: tuple[PartitionField, ...] | None = None
    offer: Offer | None = None

    def work(self, spec: LayoutSpec, run_id: str, verify: Literal["gate", "full"] = "gate") -> Work:
        """The decision as an order for a backend."""
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
