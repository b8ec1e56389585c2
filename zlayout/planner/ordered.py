"""Tables that zlayout never laid out and that say themselves how others ordered them.

Their files carry no record to go by, so the table's word is compared with the spec, and its files are measured.
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
    """Where the order that the table says it has is not the declared one; empty where it says nothing."""
    if (ordering := state.ordering) is None:
        return ()
    has = (
        ("zorder.columns", list(ordering.columns), list(spec.column_names)),
        # by one column, every curve is a plain sort
        ("zorder.curve", ordering.curve, ordering.curve if len(ordering.columns) == 1 else spec.layout.curve),
    )
    return tuple(SettingDrift(key, before, after, spec.mark(key)) for key, before, after in has if before != after)


def as_declared(spec: LayoutSpec, state: TableState) -> bool:
    """Whether the table says that it is ordered by the declared columns and curve."""
    return state.ordering is not None and not differences(spec, state)


def decay(spec: LayoutSpec, state: TableState, now: Measured) -> tuple[Decay, ...]:
    """How far the files of such a table are from what a rewrite would leave: the worst partition of each measure."""
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
    """As `zlayout.planner.select.select`, but nothing of a table that others ordered as declared while in tolerance.

    All of it or nothing: once zlayout laid out a part, the table's own word no longer counts for the rest.
    """
    selection = by_record(spec, state, fields, now, blind, most_bytes)
    if selection.moves or blind.any() or not as_declared(spec, state):
        return selection
    measured = decay(spec, state, now)
    if any(measure.exceeded for measure in measured):
        return replace(selection, decay=measured)
    return replace(selection, groups=(), touched=now.touched, files=now.files, decay=measured)


def note(spec: LayoutSpec, state: TableState) -> tuple[Diagnostic, ...]:
    """ZL408, for such a table that is left as it is."""
    if state.ordering is None or not as_declared(spec, state):
        return ()
    message = f"its order is from {state.ordering.source}, and as good as declared: zlayout leaves it alone"
    hint = "it is laid out once it is past its tolerance, or when the table no longer says how it is ordered"
    return (Diagnostic("ZL408", message, "note", hint, spec.mark("zorder.columns")),)
