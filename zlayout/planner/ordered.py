"""Tables with an external ordering, of which zlayout laid out nothing.

Their files have no layout record. The reported ordering is compared with the spec, and the files are measured.
"""

from __future__ import annotations

from dataclasses import replace

from zlayout.errors import Diagnostic
from zlayout.planner.forecast import Measured
from zlayout.planner.model import Decay, Measure, SettingDrift
from zlayout.planner.partitions import Bools, Floats, file_facts, partition_facts
from zlayout.planner.select import Selection
from zlayout.planner.select import select as by_record
from zlayout.spec.model import LayoutSpec
from zlayout.table.state import PartitionField, TableState


def differences(spec: LayoutSpec, state: TableState) -> tuple[SettingDrift, ...]:
    """The settings in which the external ordering differs from the spec; empty where none is reported."""
    if (ordering := state.ordering) is None:
        return ()
    has = (
        ("zorder.columns", list(ordering.columns), list(spec.column_names)),
        # By one column, every curve is a plain sort.
        ("zorder.curve", ordering.curve, ordering.curve if len(ordering.columns) == 1 else spec.layout.curve),
    )
    return tuple(SettingDrift(key, before, after, spec.mark(key)) for key, before, after in has if before != after)


def as_declared(spec: LayoutSpec, state: TableState) -> bool:
    """Whether the table reports that it is ordered by the declared columns and curve."""
    return state.ordering is not None and not differences(spec, state)


def decay(spec: LayoutSpec, state: TableState, now: Measured) -> tuple[Decay, ...]:
    """How far the files of such a table are from what a rewrite would leave: each measure of the worst partition."""
    facts, _ = partition_facts(spec, state, state.partition_fields, file_facts(spec, state.files))
    mine, several = facts.in_scope, facts.files > 1
    tolerance = spec.tolerance
    measures: tuple[tuple[Measure, Floats, float], ...] = (
        (Measure.TOUCHED, now.ratio[mine & several], tolerance.touched),
        (Measure.SMALL_FILES, facts.small[mine & (now.targets < facts.files)], tolerance.small_files),
        (Measure.DELETED_ROWS, facts.deleted[mine], tolerance.deleted_rows),
    )
    worst = (Decay(name, float(v.max(initial=0.0)), limit, int((v > limit).sum())) for name, v, limit in measures)
    return tuple(measure for measure in worst if measure.value > 0)


def select(
    spec: LayoutSpec,
    state: TableState,
    fields: tuple[PartitionField, ...],
    now: Measured,
    blind: Bools,
    most_bytes: int | None,
) -> Selection:
    """As `zlayout.planner.select.select`, but nothing while the table is ordered as declared and within tolerance.

    Everything or nothing is selected: once zlayout has laid out a part, the reported ordering does not count any more.
    """
    selection = by_record(spec, state, fields, now, blind, most_bytes)
    if selection.moves or blind.any() or not as_declared(spec, state):
        return selection
    measured = decay(spec, state, now)
    if any(measure.exceeded for measure in measured):
        return replace(selection, decay=measured)
    return replace(selection, groups=(), touched=now.touched, files=now.files, decay=measured)


def note(spec: LayoutSpec, state: TableState) -> tuple[Diagnostic, ...]:
    """ZL408 for a table that is ordered as declared and not changed."""
    if state.ordering is None or not as_declared(spec, state):
        return ()
    message = f"its order is from {state.ordering.source} and as declared: zlayout does not change it"
    hint = "it is laid out once it is above its tolerance, or when the table no longer reports an order"
    return (Diagnostic("ZL408", message, "note", hint, spec.mark("zorder.columns")),)
