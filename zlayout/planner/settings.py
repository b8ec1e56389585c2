"""Compare the layout spec with the settings of the table: partitioning, table properties, and layout."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from zlayout.planner import ordered
from zlayout.planner.actions import ChangePartitioning, PropertyChange, PropertyReason, TruncatedBounds
from zlayout.planner.model import SettingDrift
from zlayout.planner.selection import FileSelection
from zlayout.planner.work import Capabilities
from zlayout.spec.layout import CLUSTERED_BY
from zlayout.spec.model import LayoutSpec
from zlayout.table.state import PartitionField, TableState


def partitioning(spec: LayoutSpec, state: TableState) -> tuple[PartitionField, ...]:
    """Return the partitioning to reach. The order of partition fields does not count as a difference."""
    declared, has = spec.partition_by, state.partition_fields
    return has if declared is None or set(declared) == set(has) else declared


def compare_partitioning(spec: LayoutSpec, state: TableState, capabilities: Capabilities) -> ChangePartitioning | None:
    """Return the partitioning change; None if the partitioning is as declared."""
    before, after = state.partition_fields, partitioning(spec, state)
    if before == after:
        return None
    return ChangePartitioning(
        before=tuple(map(str, before)),
        after=tuple(map(str, after)),
        full_rewrite=not capabilities.partition_evolution,
        location=spec.location_of("partition_by"),
    )


def compare_properties(
    spec: LayoutSpec, state: TableState, truncated: Sequence[TruncatedBounds]
) -> tuple[PropertyChange, ...]:
    """Return the table properties to set so that writers store bounds of every z-order column, and long enough ones.

    Args:
        spec: The layout spec.
        state: The observed table.
        truncated: The columns whose bounds should be longer in new files.
    """
    wanted: dict[str, PropertyChange] = {}
    for column in state.columns_of(spec.column_names):
        for key, value in () if column.stats else column.enable_stats:
            reason = PropertyReason.NO_STATISTICS
            wanted[key] = PropertyChange(key, state.properties.get(key), value, reason, column.name)
    for bounds in truncated:
        for key, value in properties_for_longer(state, bounds):
            reason = PropertyReason.BOUNDS_TRUNCATED
            change = PropertyChange(key, state.properties.get(key), value, reason, bounds.column, bounds)
            wanted.setdefault(key, change)
    return tuple(wanted.values())


def properties_for_longer(state: TableState, truncated: TruncatedBounds) -> tuple[tuple[str, str], ...]:
    """Return the names and values of the table properties that make writers keep longer bounds of the column."""
    return state.columns_of([truncated.column])[0].longer_bounds


def compare_layout(spec: LayoutSpec, state: TableState, selection: FileSelection) -> tuple[SettingDrift, ...]:
    """Return the layout settings in which the spec differs from the layout records of the selected files.

    If several records differ, the first of them in the table state is compared. If none does, the spec is compared with
    the external ordering, if the table reports one.
    """
    if not selection.every_group:
        return ()
    files, layout = state.files, spec.layout
    numbers = np.unique(files.layout[np.concatenate([group.files for group in selection.every_group])])
    records = [files.layouts[n] for n in numbers[numbers >= 0].tolist()]
    record = next((r for r in records if not layout.covers(r.layout_id, r.settings)), None)
    if record is None:
        return ordered.differences(spec, state)
    if (clustered_by := record.settings.get(CLUSTERED_BY)) is not None:
        key, declared = "zorder.columns", list(spec.column_names)
        return (SettingDrift(key, clustered_by, declared, spec.location_of(key)),)
    return tuple(
        SettingDrift(key, record.settings.get(key), value, spec.location_of(key))
        for key, value in layout.settings().items()
        if record.settings.get(key) != value
    )
