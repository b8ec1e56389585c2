"""The declared layout: whether it fits the table, and whether it can be simulated."""

from __future__ import annotations

from dataclasses import replace

from zlayout.errors import SpecError
from zlayout.planner.settings import partitioning
from zlayout.planner.work import Capabilities
from zlayout.spec.model import Layout, LayoutSpec
from zlayout.spec.semantics import check
from zlayout.table.state import TableState


def fitting(spec: LayoutSpec, state: TableState) -> LayoutSpec:
    """The spec, if it fits the table. Raises SpecError ZL012, ZL033 to ZL036 with their locations, as `plan` does."""
    errors = [d for d in check(spec, state) if d.severity == "error"]
    if errors:
        raise SpecError(*errors)
    return spec


def declared_layout(
    spec: LayoutSpec, state: TableState, capabilities: Capabilities
) -> tuple[Layout | None, tuple[str, ...]]:
    """The declared layout, None if there is none to simulate, and notes about it."""
    layout = spec.layout
    if not layout.columns:
        return None, ()
    notes: tuple[str, ...] = ()
    if layout.engine == "native":
        notes = ("The declared layout is of engine native; those to choose from are of engine zlayout.",)
    if partitioning(spec, state) != state.partition_fields:
        why = "it changes the partitioning, which stays as it is here"
    elif not capabilities.can_predict(layout):
        why = f"what engine native of {capabilities.format} leaves by curve {layout.curve} cannot be predicted"
    else:
        return layout, notes
    return None, (*notes, f"The declared layout is not simulated: {why}.")


def searched(spec: LayoutSpec) -> Layout:
    """The base of the simulated layouts, without columns, with engine zlayout, whose rewrite can be simulated."""
    return replace(spec.layout, columns=(), engine="zlayout")
