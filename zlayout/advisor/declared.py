"""What a simulation needs from the layout spec: the declared layout, the base of a search, and the bound lengths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from zlayout.errors import SpecError
from zlayout.planner.settings import partitioning
from zlayout.planner.truncated_bounds import worth_longer
from zlayout.planner.work import Capabilities
from zlayout.spec.defaults import DEFAULT_CURVE
from zlayout.spec.layout import CLUSTERING_CURVE, CURVES, Layout
from zlayout.spec.model import LayoutSpec
from zlayout.spec.semantics import check
from zlayout.table.state import LONG_BOUND, TableState, is_text

CLUSTERED = (
    "The table is liquid-clustered, and what its OPTIMIZE writes cannot be predicted. "
    "All simulated layouts use Hilbert curves and engine zlayout."
)


def fitting(spec: LayoutSpec, state: TableState) -> LayoutSpec:
    """Return the spec if it is valid for the table.

    Raises:
        SpecError: The errors of `zlayout.spec.semantics.check`.
    """
    errors = [d for d in check(spec, state) if d.severity == "error"]
    if errors:
        raise SpecError(*errors)
    return spec


def declared_layout(
    spec: LayoutSpec, state: TableState, capabilities: Capabilities
) -> tuple[Layout | None, tuple[str, ...]]:
    """Return the declared layout and notes about it. The layout is None if it cannot be simulated."""
    layout = spec.layout
    if not layout.columns:
        return None, ()
    if state.clustering:
        return None, (CLUSTERED,)
    notes: tuple[str, ...] = ()
    if layout.engine == "native":
        notes = ("The declared layout uses engine native. All simulated layouts use engine zlayout.",)
    if partitioning(spec, state) != state.partition_fields:
        why = "it changes the partitioning, and simulations keep the partitioning"
    elif not capabilities.can_predict(layout, state):
        why = f"the result of engine native of {capabilities.format} with curve {layout.curve} cannot be predicted"
    else:
        return layout, notes
    return None, (*notes, f"The declared layout is not simulated: {why}.")


def searched(spec: LayoutSpec, state: TableState) -> Layout:
    """Return the declared layout without columns and cuts, as the base of the layouts that a search tries.

    Its engine is zlayout, and its curve is the declared one, or the default if that cannot be tried. For a table with
    liquid clustering, engine and curve are those of OPTIMIZE.
    """
    if state.clustering:
        return replace(spec.layout, columns=(), curve=CLUSTERING_CURVE, engine="native")
    plain = spec.layout.orders and spec.layout.curve in CURVES
    curve = spec.layout.curve if plain else DEFAULT_CURVE["zlayout"]
    return replace(spec.layout, columns=(), curve=curve, cuts=(), engine="zlayout")


def bound_lengths(spec: LayoutSpec, state: TableState, columns: Sequence[str]) -> dict[str, int]:
    """Return the bound lengths with which a rewrite would write bounds.

    If the rewrite would first change table properties so that writers store bounds or longer bounds, these are the
    lengths after the change.

    Args:
        spec: The layout spec of the table, or one with the layout to simulate.
        state: The observed table.
        columns: Names of columns.

    Returns:
        The bound length by column in characters (bytes for binary), for string and binary columns whose bounds would be
        truncated.
    """
    all_files = [np.arange(len(state.files), dtype=np.int64)] if len(state.files) else []
    longer = {bounds.column for bounds in worth_longer(spec, state, all_files)}
    found = {}
    for name in columns:
        column = state.column(name)
        if column is None or not is_text(column.type):
            continue
        lengthened = name in longer or bool(column.enable_stats)
        length = max(LONG_BOUND, column.bound_length or 0) if lengthened else column.bound_length
        if length is not None:
            found[name] = length
    return found
