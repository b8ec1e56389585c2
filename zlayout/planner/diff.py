"""The planner's decision for one table: a pure function of the spec and the observed state."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from zlayout.errors import Diagnostic
from zlayout.planner import cut_bounds, forecast, ordered
from zlayout.planner.actions import (
    Action,
    ChangePartitioning,
    CutBounds,
    PropertyChange,
    PropertyReason,
    Reason,
    RewriteGroup,
    SetProperties,
    cut_text,
)
from zlayout.planner.decision import Decision as Decision
from zlayout.planner.decision import Offer
from zlayout.planner.decision import PlanOptions as PlanOptions
from zlayout.planner.model import LeftOver, SettingDrift, Status, TablePlan
from zlayout.planner.partition_text import partition_text
from zlayout.planner.partitions import target_files
from zlayout.planner.requirements import (
    FilesAre,
    LayoutIs,
    PartitioningIs,
    PropertyIs,
    Requirement,
    SchemaIs,
    TableIs,
    VersionIs,
)
from zlayout.planner.select import Selection, moved, savings
from zlayout.planner.work import Capabilities, Group
from zlayout.spec.model import LayoutSpec
from zlayout.spec.semantics import check, lacks_bounds
from zlayout.table.digests import digests_of
from zlayout.table.histogram import size_histogram
from zlayout.table.state import FileTable, PartitionField, TableState


def decide(
    spec: LayoutSpec,
    state: TableState,
    capabilities: Capabilities,
    notes: tuple[Diagnostic, ...] = (),
    options: PlanOptions = PlanOptions(),  # noqa: B008 - frozen
) -> Decision:
    """What must be done to bring the table to its spec. notes: the backend's own diagnostics on the layout."""
    diagnostics = check(spec, state)
    if any(d.severity == "error" for d in diagnostics):
        return Decision(_facts(spec, state, Status.ERROR, diagnostics=diagnostics))
    fields = partitioning(spec, state)
    repartition = fields != state.partition_fields
    full = repartition and not capabilities.partition_evolution
    now = forecast.measure(state.files, spec)
    blind = cut_bounds.blind_partitions(spec, state)
    if full:
        everything = np.arange(len(state.files), dtype=np.int64)
        chosen = (moved(state.files, everything),) if len(everything) else ()
        selection = Selection(chosen, now.ideal, now.targets, (), 0, 0, moves=True)
    else:
        selection = ordered.select(spec, state, fields, now, blind, spec.max_group_size)
    budget = options.max_rewrite_bytes
    whole = _whole(state, spec, selection, budget) if budget is not None else None
    too_much = whole is not None and whole.bytes > whole.budget
    if too_much and not full:
        most = min(budget or 0, spec.max_group_size or budget or 0)
        selection = ordered.select(spec, state, fields, now, blind, most)
    pinned = state.files.split([chosen.files for chosen in selection.groups])
    digests, _ = digests_of(pinned)
    layout_id, target = spec.layout.layout_id, spec.layout.target_size
    groups = tuple(_group(layout_id, target, *part) for part in zip(pinned, digests, strict=True))
    short = cut_bounds.worth_longer(spec, state, [s.files for s in selection.groups])
    properties = _properties(spec, state, short)
    change = repartition or bool(properties) or bool(groups) or too_much
    refused = tuple(note for note in notes if note.severity == "refused")
    refusals = (*_refusals(spec, state, full, options), *refused) if change else ()
    if full and whole is not None and too_much:
        refusals = (*refusals, too_small(spec, whole.budget, whole.bytes))
    predictable = not selection.moves and capabilities.can_predict(spec.layout)
    status = Status.REFUSED if refusals else Status.CHANGES if change else Status.UNCHANGED
    plan = _facts(
        spec,
        state,
        status,
        actions=_actions(
            properties,
            _partition_change(spec, state, fields, full) if repartition else None,
            [_group_plan(state, g, s.reason) for g, s in zip(groups, selection.groups, strict=True)],
        ),
        requirements=_requirements(spec, state, properties, [g.id for g in groups], digests),
        drift=_drift(spec, state, selection),
        decay=selection.decay,
        columns=forecast.columns(
            now,
            selection.touched,
            selection.files,
            spec,
            predicted=predictable and bool(selection.groups),
            boundless=_boundless(spec, state),
        ),
        diagnostics=(
            *diagnostics,
            *refusals,
            *state.notes,
            *(note for note in notes if note not in refused),
            *_unused_settings(spec),
            *_scope_notes(spec, selection, len(state.files.partitions)),
            *_cut_notes(spec, state, short),
            *(() if selection.groups else ordered.note(spec, state)),
        ),
    )
    if status is not Status.CHANGES:
        return Decision(plan)
    decision = Decision(plan, groups, fields if repartition else None)
    if whole is None:
        return decision
    longer = frozenset(key for cut in short for key, _ in _longer(state, cut))
    return replace(decision, offer=Offer(savings(spec, state.files, now, selection.groups), whole, longer))


def partitioning(spec: LayoutSpec, state: TableState) -> tuple[PartitionField, ...]:
    """The partitioning to reach. The declared fields in another order are those that the table has."""
    declared, has = spec.partition_by, state.partition_fields
    return has if declared is None or set(declared) == set(has) else declared


def _boundless(spec: LayoutSpec, state: TableState) -> list[str]:
    """The z-order columns that have no bounds and get none."""
    found = (state.column(name) for name in spec.column_names)
    return [c.name for c in found if c is not None and lacks_bounds(c, state) and not c.enable_stats]


def _whole(state: TableState, spec: LayoutSpec, selection: Selection, budget: int) -> LeftOver:
    """All of the selection, as it is left over when nothing of it is done."""
    size = sum(int(state.files.bytes[s.files].sum()) for s in selection.groups)
    files = sum(len(s.files) for s in selection.groups)
    touched = zip(spec.column_names, selection.touched.sum(axis=0).tolist(), strict=True)
    return LeftOver(budget, len(selection.groups), files, size, tuple(touched))


def _facts(spec: LayoutSpec, state: TableState, status: Status, **parts: object) -> TablePlan:
    files = state.files
    return TablePlan(
        table=str(spec.table),
        format=state.format,
        location=spec.location,
        status=status,
        settings=tuple(spec.layout.settings().items()),
        files=len(files),
        bytes=int(files.bytes.sum()),
        rows=int(files.live_rows.sum()),
        partitions=len(files.partitions),
        size_histogram=tuple((b.label, b.files) for b in size_histogram(files.bytes, spec.layout.target_size)),
        **parts,  # type: ignore[arg-type]
    )


def _group(layout_id: str, target_size: int, files: FileTable, digest: str) -> Group:
    identity = f"{layout_id}\0{digest}"
    return Group(
        id=hashlib.sha256(identity.encode()).hexdigest()[:12],
        files=files,
        target_files=target_files(files, target_size),
    )


def _group_plan(state: TableState, group: Group, reason: Reason) -> RewriteGroup:
    partition = group.files.partition
    partitions = partition[:1] if (partition == partition[0]).all() else np.unique(partition)
    names = [partition_text(state.files.partitions[p]) for p in partitions[:2]]
    more = f" and {len(partitions) - 1} more" if len(partitions) > 1 else ""
    return RewriteGroup(
        id=group.id,
        partition=f"{names[0]}{more}",
        files=len(group.files),
        bytes=int(group.files.bytes.sum()),
        rows=int(group.files.live_rows.sum()),
        target_files=group.target_files,
        reason=reason,
        partitions=len(partitions),
    )


def _actions(
    properties: tuple[PropertyChange, ...], partitioning: ChangePartitioning | None, groups: Sequence[RewriteGroup]
) -> tuple[Action, ...]:
    settings = (SetProperties(properties),) if properties else ()
    return (*settings, *((partitioning,) if partitioning else ()), *groups)


def _requirements(
    spec: LayoutSpec,
    state: TableState,
    properties: Sequence[PropertyChange],
    groups: Sequence[str],
    digests: Sequence[str],
) -> tuple[Requirement, ...]:
    return (
        TableIs(state.table_id),
        VersionIs(state.version),
        SchemaIs(state.schema_digest),
        LayoutIs(spec.layout.layout_id),
        PartitioningIs(tuple(map(str, state.partition_fields))),
        *(PropertyIs(change.name, change.before) for change in properties),
        *(FilesAre(group, digest) for group, digest in zip(groups, digests, strict=True)),
    )


def _drift(spec: LayoutSpec, state: TableState, selection: Selection) -> tuple[SettingDrift, ...]:
    """Declared settings that differ from what the selected files were laid out with.

    A first layout differs from nothing, unless the table says how others ordered it.
    """
    if not selection.groups:
        return ()
    files = state.files
    chosen = files.layout[np.concatenate([s.files for s in selection.groups])]
    number = np.bincount(chosen + 1, minlength=len(files.layouts) + 1)[1:]  # without those of no layout
    seen = (files.layouts[n] for n in np.flatnonzero(number))
    records = [record for record in seen if record.layout_id != spec.layout.layout_id]
    declared = spec.layout.settings()
    if not records:
        return ordered.differences(spec, state)
    return tuple(
        SettingDrift(key, record.settings.get(key), value, spec.mark(key))
        for record in records[:1]
        for key, value in declared.items()
        if record.settings.get(key) != value
    )


def _properties(spec: LayoutSpec, state: TableState, short: tuple[CutBounds, ...]) -> tuple[PropertyChange, ...]:
    """Table properties that make writers collect bounds for every z-order column, long enough to tell files apart."""
    wanted: dict[str, tuple[str, PropertyReason, str, CutBounds | None]] = {}
    for name in spec.column_names:
        column = state.column(name)
        if column is not None and not column.stats:
            for key, value in column.enable_stats:
                wanted[key] = (value, PropertyReason.NO_STATISTICS, name, None)
    for cut in short:
        for key, value in _longer(state, cut):
            wanted.setdefault(key, (value, PropertyReason.BOUNDS_CUT, cut.column, cut))
    return tuple(PropertyChange(key, state.properties.get(key), *change) for key, change in wanted.items())


def _longer(state: TableState, cut: CutBounds) -> tuple[tuple[str, str], ...]:
    column = state.column(cut.column)
    return column.longer_bounds if column else ()


def _cut_notes(spec: LayoutSpec, state: TableState, short: tuple[CutBounds, ...]) -> tuple[Diagnostic, ...]:
    """ZL406 for each column that no layout can skip by, and what apply does about it."""
    place = spec.mark("zorder.columns")
    notes = [
        (cut, "apply sets " + ", ".join(f"{key} to {value}" for key, value in _longer(state, cut)))
        for cut in short
        if cut.same
    ]
    hint = "the table keeps long bounds already: unset that property and apply again if these files are older than it"
    notes += [(cut, hint) for cut in cut_bounds.hopeless(spec, state)]
    return tuple(
        Diagnostic("ZL406", f"{cut_text(cut)}: no layout can skip by them", "note", hint, place) for cut, hint in notes
    )


def _partition_change(
    spec: LayoutSpec, state: TableState, fields: tuple[PartitionField, ...], full: bool
) -> ChangePartitioning:
    before = tuple(map(str, state.partition_fields))
    return ChangePartitioning(before, tuple(map(str, fields)), full, spec.mark("partition_by"))


def _refusals(spec: LayoutSpec, state: TableState, full: bool, options: PlanOptions) -> tuple[Diagnostic, ...]:
    refusals = list(state.refusals)
    place = spec.mark("partition_by")
    if full and not options.allow_full_rewrite:
        refusals.append(
            Diagnostic(
                "ZL201",
                f"partition_by changed: {state.format} can only do that by rewriting every file",
                "refused",
                "pass --allow-full-rewrite to plan it, or set partition_by back",
                place,
            )
        )
    if full and spec.where is not None:
        refusals.append(
            Diagnostic(
                "ZL202",
                "partition_by changed, which needs every file, and `where` limits what may be touched",
                "refused",
                "take `where` out for this change",
                place,
            )
        )
    return tuple(refusals)


def too_small(spec: LayoutSpec, budget: int, least: int) -> Diagnostic:
    """ZL205: the budget is less than the least that there is to do. Both in bytes."""
    return Diagnostic(
        "ZL205",
        f"{spec.table}: --max-rewrite-bytes is {budget:,} bytes, the least there is to rewrite takes {least:,}",
        "refused",
        "allow more bytes, or leave the table out with --exclude",
        spec.location,
    )


def _unused_settings(spec: LayoutSpec) -> tuple[Diagnostic, ...]:
    """Settings that somebody wrote down and that the curve has no use for."""
    layout, unused = spec.layout, []
    if not layout.uses_range_ids and "zorder.range_ids" in spec.marks:
        alone = " by one column" if layout.effective_curve != layout.curve else ""
        unused.append(("zorder.range_ids", f"{layout.curve}{alone} cuts at the values themselves"))
    if layout.engine == "zlayout" and layout.weights != {c.name: c.weight for c in layout.columns}:
        what = "one column" if len(layout.columns) == 1 else layout.curve
        unused.append(("zorder.columns", f"{what} has no use for weights"))
    return tuple(
        Diagnostic(
            "ZL404", f"{key} has no effect: {why}", "note", "take it out, or choose another curve", spec.mark(key)
        )
        for key, why in unused
    )


def _scope_notes(spec: LayoutSpec, selection: Selection, partitions: int) -> tuple[Diagnostic, ...]:
    """partitions: how many the table has."""
    if partitions and selection.out_of_scope == partitions and not selection.straddling:
        message, hint = f"`where` selects none of the {partitions:,} partitions", "compare it with their values"
        return (Diagnostic("ZL403", message, "note", hint, spec.mark("where")),)
    if not selection.straddling:
        return ()
    return (
        Diagnostic(
            "ZL403",
            f"`where` cuts through {selection.straddling} partitions or cannot decide them; they are left alone",
            "note",
            "put the limit on a partition boundary to include them",
            spec.mark("where"),
        ),
    )
