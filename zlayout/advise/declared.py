"""The layout that the table's own spec declares: whether it fits the table, and whether it can be simulated."""

from __future__ import annotations

from zlayout.errors import SpecError
from zlayout.plan.diff import partitioning
from zlayout.spec.model import Layout, LayoutSpec
from zlayout.spec.semantics import check
from zlayout.table.state import TableState


def fitting(spec: LayoutSpec, state: TableState) -> LayoutSpec:
    """The spec, if it fits the table. Raises SpecError ZL012, ZL033 to ZL036 at their places in it, as `plan` tells."""
    errors = [d for d in check(spec, state) if d.severity == "error"]
    if errors:
        raise SpecError(*errors)
    return spec


def declared_layout(spec: LayoutSpec, state: TableState) -> tuple[Layout | None, str]:
    """The layout to simulate as the declared one, None where there is none to simulate, and then why."""
    if not spec.layout.columns:
        return None, ""
    if partitioning(spec, state) != state.partition_fields:
        return None, "The declared layout is not simulated: it changes the partitioning, which stays as it is here."
    return spec.layout, ""
