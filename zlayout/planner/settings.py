"""Comparators of settings: each compares one concern of the spec with the table, and returns the changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from zlayout.planner import ordered
from zlayout.planner.actions import ChangePartitioning, CutBounds, PropertyChange, PropertyReason
from zlayout.planner.model import SettingDrift
from zlayout.planner.select import Selection
from zlayout.planner.work import Capabilities
from zlayout.spec.model import LayoutSpec
from zlayout.table.state import LayoutRecord, PartitionField, TableState


def partitioning(spec: LayoutSpec, state: TableState) -> tuple[PartitionField, ...]:
    """The partitioning to reach. The declared fields in another order count as those that the table has."""
    declared, has = spec.partition_by, state.partition_fields
    return has if declared is None or set(declared) == set(has) else declared


def compare_partitioning(spec: LayoutSpec, state: TableState, capabilities: Capabilities) -> ChangePartitioning | None:
    """The change of the partitioning, None where it is as declared."""
    before, after = state.partition_fields, partitioning(spec, state)
    if before == after:
        return None
    return ChangePartitioning(
        before=tuple(map(str, before)),
        after=tuple(map(str, after)),
        full_rewrite=not capabilities.partition_evolution,
        location=spec.mark("partition_by"),
    )


def compare_properties(spec: LayoutSpec, state: TableState, cuts: Sequence[CutBounds]) -> tuple[PropertyChange, ...]:
    """Table properties with which writers collect bounds for every z-order column, long enough to tell files apart.

    cuts: the columns whose bounds new files should keep longer.
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


def _longer_bounds(state: TableState, cuts: Sequence[CutBounds]) -> Iterator[PropertyChange]:
    for cut in cuts:
        for key, value in longer(state, cut):
            before = state.properties.get(key)
            yield PropertyChange(key, before, value, PropertyReason.BOUNDS_CUT, cut.column, cut)


def longer(state: TableState, cut: CutBounds) -> tuple[tuple[str, str], ...]:
    """The table properties (name, value) that make writers keep longer bounds of the column."""
    column = state.column(cut.column)
    return column.longer_bounds if column else ()


def compare_layout(spec: LayoutSpec, state: TableState, selection: Selection) -> tuple[SettingDrift, ...]:
    """Layout settings that differ between the spec and the layout record of the selected files.

    A first layout differs from nothing, unless the table reports an external ordering.
    """
    if not selection.groups:
        return ()
    record = _other_record(spec, state, selection)
    if record is None:
        return ordered.differences(spec, state)
    return tuple(
        SettingDrift(key, record.settings.get(key), value, spec.mark(key))
        for key, value in spec.layout.settings().items()
        if record.settings.get(key) != value
    )


def _other_record(spec: LayoutSpec, state: TableState, selection: Selection) -> LayoutRecord | None:
    """The first record of another layout among the selected files."""
    files = state.files
    chosen = files.layout[np.concatenate([s.files for s in selection.groups])]
    number = np.bincount(chosen + 1, minlength=len(files.layouts) + 1)[1:]  # without files of no layout, -1
    seen = (files.layouts[n] for n in np.flatnonzero(number))
    return next((record for record in seen if record.layout_id != spec.layout.layout_id), None)
