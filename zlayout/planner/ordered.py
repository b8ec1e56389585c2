"""Plan tables with an external ordering, in which zlayout has laid out no file.

The files have no layout records. Instead, the external ordering is compared with the spec, and the files are measured.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from zlayout.errors import Diagnostic
from zlayout.planner.forecast import Measured
from zlayout.planner.model import Decay, Measure, SettingDrift
from zlayout.planner.partitions import Bools, file_facts, partition_facts
from zlayout.planner.select import SelectionInput, worst_of
from zlayout.planner.select import select as by_layout_record
from zlayout.planner.selection import FileSelection
from zlayout.spec.model import LayoutSpec
from zlayout.table.state import TableState


def differences(spec: LayoutSpec, state: TableState) -> tuple[SettingDrift, ...]:
    """Return the settings in which the external ordering differs from the spec.

    There are none without an external ordering or z-order columns. For a clustered table, `zlayout.planner.clustering`
    compares the clustering columns instead.
    """
    if (ordering := state.ordering) is None or not spec.layout.orders or state.clustering:
        return ()
    compared = (
        ("zorder.columns", list(ordering.columns), list(spec.column_names)),
        # A curve over one column is a plain sort.
        ("zorder.curve", ordering.curve, ordering.curve if len(ordering.columns) == 1 else spec.layout.curve),
    )
    return tuple(
        SettingDrift(key, before, after, spec.location_of(key)) for key, before, after in compared if before != after
    )


def as_declared(spec: LayoutSpec, state: TableState) -> bool:
    """Return whether the external ordering has the declared columns and curve."""
    orders = spec.layout.orders and not state.clustering
    return state.ordering is not None and orders and not differences(spec, state)


def decay(spec: LayoutSpec, state: TableState, now: Measured) -> tuple[Decay, ...]:
    """Return the decay measures except `unclustered`, each with its highest value in any partition in scope."""
    facts, _ = partition_facts(spec, state, state.partition_fields, file_facts(spec, state.files))
    scope, tolerance = facts.in_scope, spec.tolerance
    measures = (
        (Measure.TOUCHED, now.ratio[: len(scope)], scope & (facts.files > 1), tolerance.touched),
        (Measure.SMALL_FILES, facts.small, scope & (now.targets[: len(scope)] < facts.files), tolerance.small_files),
        (Measure.DELETED_ROWS, facts.deleted, scope, tolerance.deleted_rows),
    )
    return worst_of(measures, np.zeros(len(scope), bool), state.estimated_deletes)


def select(given: SelectionInput, rarely_read: Bools | None = None) -> FileSelection:
    """Select files as `zlayout.planner.select.select` does, but none of a table that is ordered as declared.

    If such a table exceeds a tolerance, partitions are selected by their bounds alone, because the external ordering no
    longer counts once zlayout has laid out a file. If the external ordering is not as declared, no file is adopted.
    """
    spec, state = given.spec, given.state
    adopts = not differences(spec, state) and not state.clustering
    selection = by_layout_record(replace(given, adopts=adopts), rarely_read=rarely_read)
    if selection.moves or given.indistinct.any() or not as_declared(spec, state):
        return selection
    measured = decay(spec, state, given.now)
    if any(measure.exceeded for measure in measured):
        return replace(selection, decay=measured)
    return replace(selection, groups=(), waiting=(), decay=measured)


def note(spec: LayoutSpec, state: TableState) -> tuple[Diagnostic, ...]:
    """Return ZL408 for an unchanged table whose external ordering is as declared."""
    if state.ordering is None or not as_declared(spec, state):
        return ()
    message = f"the external ordering ({state.ordering.source}) is as declared; nothing is rewritten"
    hint = "zlayout lays the table out when it exceeds its tolerance, or no longer reports an ordering"
    return (Diagnostic("ZL408", message, "note", hint, spec.location_of("zorder.columns")),)
