"""Compare declared settings with those of the table: partitioning, table properties, and layout."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from zlayout.planner import ordered
from zlayout.planner.actions import ChangePartitioning, PropertyChange, PropertyReason, TruncatedBounds
from zlayout.planner.model import SettingDrift
from zlayout.planner.selection import FileSelection
from zlayout.planner.work import Capabilities
from zlayout.spec.layout import CLUSTERED_BY
from zlayout.spec.model import LayoutSpec
from zlayout.table.state import LayoutRecord, PartitionField, TableState


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
    spec: LayoutSpec, state: TableState, cuts: Sequence[TruncatedBounds]
) -> tuple[PropertyChange, ...]:
    """Return the table properties to set so that writers collect bounds that distinguish files for each z-order column.

    cuts: the columns whose bounds should be longer in new files.
    """
    wanted = {change.name: change for change in _missing_statistics(spec, state)}
    for change in _longer_bounds(state, cuts):
        wanted.setdefault(change.name, change)
    return tuple(wanted.values())


def _missing_statistics(spec: LayoutSpec, state: TableState) -> Iterator[PropertyChange]:
    for name in spec.column_names:
        column = state.column(name)
        if column is not None and not column.stats:
            for key, value in column.enable_stats:
                yield PropertyChange(key, state.properties.get(key), value, PropertyReason.NO_STATISTICS, name)


def _longer_bounds(state: TableState, cuts: Sequence[TruncatedBounds]) -> Iterator[PropertyChange]:
    for cut in cuts:
        for key, value in longer(state, cut):
            before = state.properties.get(key)
            yield PropertyChange(key, before, value, PropertyReason.BOUNDS_TRUNCATED, cut.column, cut)


def longer(state: TableState, cut: TruncatedBounds) -> tuple[tuple[str, str], ...]:
    """Return the table properties, as (name, value), that make writers keep longer bounds of the column."""
    column = state.column(cut.column)
    return column.longer_bounds if column else ()


def compare_layout(spec: LayoutSpec, state: TableState, selection: FileSelection) -> tuple[SettingDrift, ...]:
    """Return the layout settings in which the spec differs from the layout record of the selected files.

    Files without a layout record are compared with the external ordering, if the table reports one.
    """
    if not selection.every_group:
        return ()
    record = _other_record(spec, state, selection)
    if record is None:
        return ordered.differences(spec, state)
    if (clustered_by := record.settings.get(CLUSTERED_BY)) is not None:
        key, declared = "zorder.columns", list(spec.column_names)
        return (SettingDrift(key, clustered_by, declared, spec.location_of(key)),)
    return tuple(
        SettingDrift(key, record.settings.get(key), value, spec.location_of(key))
        for key, value in spec.layout.settings().items()
        if record.settings.get(key) != value
    )


def _other_record(spec: LayoutSpec, state: TableState, selection: FileSelection) -> LayoutRecord | None:
    """Return the first layout record among the selected files that the declared layout does not cover."""
    files = state.files
    chosen = files.layout[np.concatenate([s.files for s in selection.every_group])]
    number = np.bincount(chosen + 1, minlength=len(files.layouts) + 1)[1:]  # -1 is no record
    seen = (files.layouts[n] for n in np.flatnonzero(number))
    return next((record for record in seen if not spec.layout.covers(record.layout_id, record.settings)), None)
