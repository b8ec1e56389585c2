"""Compare the layout spec with the settings of the table, and make the diagnostics of a plan.

`compare_partitioning`, `compare_properties` and `compare_layout` find the settings that differ. The other functions
make refusals, and notes on settings, bounds, scope and sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from zlayout.errors import Diagnostic
from zlayout.planner.forecast import Measured
from zlayout.planner.model import (
    READS_MORE,
    SAME_READS,
    ChangePartitioning,
    ColumnForecast,
    FilesAfter,
    PropertyChange,
    PropertyReason,
    SettingDrift,
    TruncatedBounds,
    Wait,
    truncation_text,
)
from zlayout.planner.partitions import Index
from zlayout.planner.select import ordering_differences
from zlayout.planner.selection import FileSelection
from zlayout.planner.work import Capabilities
from zlayout.spec.model import CLUSTERED_BY, CLUSTERING_CURVE, LayoutSpec
from zlayout.table import outside
from zlayout.table.external import ExternalRewrite
from zlayout.table.metrics import layout_metrics
from zlayout.table.state import PartitionField, TableState
from zlayout.text import plural

# The settings: partitioning, table properties, and layout.


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
    numbers = np.unique(files.layout[np.concatenate([group.index for group in selection.every_group])])
    records = [files.layouts[n] for n in numbers[numbers >= 0].tolist()]
    record = next((r for r in records if not layout.covers(r.layout_id, r.settings)), None)
    if record is None:
        return ordering_differences(spec, state)
    if (clustered_by := record.settings.get(CLUSTERED_BY)) is not None:
        key, declared = "zorder.columns", list(spec.column_names)
        return (SettingDrift(key, clustered_by, declared, spec.location_of(key)),)
    return tuple(
        SettingDrift(key, record.settings.get(key), value, spec.location_of(key))
        for key, value in layout.settings().items()
        if record.settings.get(key) != value
    )


# The diagnostics: refusals and notes.

MAX_REWRITES_SHOWN = 3
UNUSED_WITHOUT_ORDER = ("files.sort_within", "tolerance.unclustered", "tolerance.touched")


def full_rewrite_refusals(
    spec: LayoutSpec, state: TableState, change: ChangePartitioning | None, *, allowed: bool
) -> Iterator[Diagnostic]:
    """Yield ZL201 or ZL202 if a partitioning change needs a full rewrite that is not allowed or not possible."""
    if change is None or not change.full_rewrite:
        return
    if not allowed:
        message = f"partition_by changed, which needs a full rewrite of a {state.format} table"
        hint = "use --allow-full-rewrite, or restore partition_by"
        yield Diagnostic("ZL201", message, "refused", hint, change.location)
    if spec.where is not None:
        message = "partition_by changed, which needs a full rewrite, but `where` limits which partitions may be changed"
        yield Diagnostic("ZL202", message, "refused", "remove `where` for this change", change.location)


def budget_too_small(spec: LayoutSpec, budget: int, min_bytes: int) -> Diagnostic:
    """Return ZL205: the budget is smaller than the smallest possible rewrite. Both are in bytes."""
    message = f"expected --max-rewrite-bytes of at least {min_bytes:,} bytes, found {budget:,}"
    hint = "use a larger --max-rewrite-bytes, or leave the table out with --exclude"
    return Diagnostic("ZL205", message, "refused", hint, spec.location)


def unused_settings(spec: LayoutSpec) -> Iterator[Diagnostic]:
    """Yield ZL404 for each declared setting that has no effect with the rest of the layout, or without a workload."""
    layout, waits = spec.layout, "tolerance.rarely_read"
    if waits in spec.locations and not spec.workload:
        hint = "add the queries to workloads/, or remove it"
        yield unused(spec, waits, "the table has no workload", hint)
    if not layout.orders:
        for key in (key for key in UNUSED_WITHOUT_ORDER if key in spec.locations):
            hint = "remove it, or declare zorder.columns"
            yield unused(spec, key, "without zorder, rows keep their order", hint)
        return
    if not layout.uses_range_ids and "zorder.range_ids" in spec.locations:
        alone = " with one column" if layout.effective_curve != layout.curve else ""
        yield unused(spec, "zorder.range_ids", f"{layout.curve}{alone} uses no range ids")
    if layout.engine == "zlayout" and layout.weights != {c.name: c.weight for c in layout.columns}:
        what = "one column" if len(layout.columns) == 1 else layout.curve
        yield unused(spec, "zorder.columns", f"{what} ignores weights")


def not_predictable(spec: LayoutSpec, state: TableState) -> Diagnostic:
    """Return ZL413: no sample predicts the order that engine native writes."""
    if state.clustering:
        why = "OPTIMIZE of a clustered table orders by a Hilbert curve, and the layout declares another curve"
        hint = f"declare zorder.curve: {CLUSTERING_CURVE} to plan with a forecast; "
    else:
        why = "engine native orders by the bytes of the values, which a sample does not show"
        hint = "use engine zlayout to plan with a forecast; "
    hint += "`inspect` measures the table after apply"
    return Diagnostic("ZL413", f"this plan has no forecast: {why}", "note", hint, spec.location_of("engine"))


def unused(spec: LayoutSpec, key: str, why: str, hint: str = "remove it, or choose another curve") -> Diagnostic:
    """Return ZL404: the declared setting `key` has no effect."""
    return Diagnostic("ZL404", f"{key} has no effect: {why}", "note", hint, spec.location_of(key))


def scope_notes(spec: LayoutSpec, selection: FileSelection, partitions: int) -> Iterator[Diagnostic]:
    """Yield ZL403 for partially matched partitions, and ZL403 or ZL443 if `where` matches no partition.

    Args:
        spec: The layout spec.
        selection: The files to rewrite.
        partitions: The number of partitions of the table.
    """
    location = spec.location_of("where")
    if matched := selection.partially_matched:
        match, are = ("matches", "is") if matched == 1 else ("match", "are")
        message = f"{plural(matched, 'partition')} {match} `where` only in part, and {are} not changed"
        yield Diagnostic("ZL403", message, "note", "change `where` to a partition boundary to include them", location)
    if partitions and selection.out_of_scope == partitions:
        message = f"`where` matches none of the {partitions:,} partitions, so that nothing is laid out"
        if spec.where_may_be_empty:
            yield Diagnostic("ZL403", message, "note", location=location)
        else:
            hint = "compare `where` with the values of the partitions, or declare `where_may_be_empty: true`"
            yield Diagnostic("ZL443", message, "warning", hint, location)


def adoption_notes(
    spec: LayoutSpec, state: TableState, selection: FileSelection, now: Measured
) -> Iterator[Diagnostic]:
    """Yield ZL420 if adopted files stay, and ZL422 if no budget is spent on groups whose rewrite gains nothing."""
    if files := len(selection.adopted):
        adopted = state.files.take(selection.adopted)
        partitions = len(np.unique(adopted.partition))
        where = "" if partitions == 1 else f" in {partitions:,} partitions"
        message = f"{files:,} files{where} have no layout record but are in the declared order; they are not rewritten"
        hint = "nothing to do; they count as laid out while they are within the tolerance"
        if len(now.metrics) > 1:
            metrics = now.metrics if files == len(state.files) else layout_metrics(adopted, spec.column_names)
            opened = ", ".join(f"{each.touched:,.1f} by {each.column}" for each in metrics)
            message = (
                f"{files:,} files{where} have no layout record but are within the tolerance; they are not rewritten: a "
                f"query for one value opens {opened} of {files:,} files"
            )
            hint = "lower `tolerance.touched`, or give a column a larger weight, if that is too many for a column"
        yield Diagnostic("ZL420", message, "note", hint, spec.location_of("zorder.columns"))
    if left_out := selection.that_wait(Wait.NO_GAIN):
        groups = plural(len(left_out), "group")
        files_left_out = plural(sum(len(group.index) for group in left_out), "file")
        message = f"no budget is spent on {groups} with {files_left_out}, whose rewrite would gain nothing"
        hint = "plan without --max-rewrite-bytes to rewrite them too"
        yield Diagnostic("ZL422", message, "note", hint, spec.location)


def branch_refusals(
    spec: LayoutSpec, properties: Sequence[PropertyChange], partitioning: ChangePartitioning | None
) -> Iterator[Diagnostic]:
    """Yield ZL239 if the plan for a branch would change settings that all branches of the table share."""
    if not spec.table.branch:
        return
    shared = [f"table property {change.name} = {change.after}" for change in properties]
    shared += [] if partitioning is None else ["partition_by"]
    if shared:
        message = (
            f"branch {spec.table.branch} cannot be laid out: the layout changes {', '.join(shared)}, for all branches"
        )
        hint = f"run `zlayout apply {spec.table.on('')} --branch main` first, or remove these settings from the layout"
        yield Diagnostic("ZL239", message, "refused", hint, spec.location)


def outside_notes(spec: LayoutSpec, state: TableState, *, refused: bool) -> Iterator[Diagnostic]:
    """Yield ZL447 if files are outside of the table's location. refused: whether the plan has the refusals."""
    if not state.files_outside:
        return
    permitted = all(refusal.code != outside.CODE for refusal in state.refusals)
    if permitted:
        message = f"{outside.files_text(state.files_outside)} outside of the table's location, as its catalog permits"
        yield Diagnostic("ZL447", message, "note", "nothing to do; a rewrite writes new files at the table's location")
    elif not refused:
        found = next(refusal for refusal in state.refusals if refusal.code == outside.CODE)
        message = f"{found.message}; no change is planned, and a rewrite would be refused"
        yield Diagnostic("ZL447", message, "warning", found.hint, spec.location)


def undone_notes(spec: LayoutSpec, state: TableState, selection: FileSelection) -> Iterator[Diagnostic]:
    """Yield ZL431 if files are rewritten after other writers rewrote files that zlayout had laid out.

    Not for clustered tables: every OPTIMIZE lays out such a table, whoever runs it.
    """
    if not selection.every_group or not state.rewrites or state.clustering:
        return
    shown = [_rewrite_text(rewrite) for rewrite in state.rewrites[:MAX_REWRITES_SHOWN]]
    if left := len(state.rewrites) - len(shown):
        shown.append(f"{left:,} other operations")
    message = f"since the last rewrite by zlayout, files were rewritten by {'; '.join(shown)}"
    hint = "nothing; they changed or restored rows, and the plan lays out the files that they left"
    if any(rewrite.maintenance for rewrite in state.rewrites):
        hint = "disable this maintenance for the table, so that only zlayout rewrites its files"
    yield Diagnostic("ZL431", message, "note", hint, spec.location)


def _rewrite_text(rewrite: ExternalRewrite) -> str:
    facts = [rewrite.engine or "unknown engine"]
    facts += [] if rewrite.time is None else [f"{rewrite.time:%Y-%m-%d %H:%M:%S} UTC"]
    last = f"at version {rewrite.version}"
    last = last if rewrite.commits == 1 else f"{rewrite.commits:,} times, last {last}"
    return f"{rewrite.operation} {last} ({', '.join(facts)})"


def truncation_notes(
    spec: LayoutSpec, state: TableState, truncated: Sequence[TruncatedBounds], properties: Sequence[PropertyChange]
) -> Iterator[Diagnostic]:
    """Yield ZL406 for each column with indistinct bounds that apply makes longer.

    Args:
        spec: The layout spec.
        state: The observed table.
        truncated: The columns whose bounds apply makes longer.
        properties: The table properties that apply sets.
    """
    for bounds in truncated:
        names = {name for name, _ in properties_for_longer(state, bounds)}
        changes = ", ".join(f"{change.name} to {change.after}" for change in properties if change.name in names)
        if bounds.same and changes:
            yield _indistinct(spec, bounds, f"apply sets {changes}")


def indistinct_notes(spec: LayoutSpec, indistinct_anyway: Sequence[TruncatedBounds]) -> Iterator[Diagnostic]:
    """Yield ZL406 for each column with indistinct bounds although the table already keeps long bounds."""
    for bounds in indistinct_anyway:
        hint = "if the files are older than the property that makes bounds longer, unset it and apply again"
        yield _indistinct(spec, bounds, hint)


def _indistinct(spec: LayoutSpec, bounds: TruncatedBounds, hint: str) -> Diagnostic:
    message = f"{truncation_text(bounds)}: no layout can skip files by them"
    return Diagnostic("ZL406", message, "note", hint, spec.location_of("zorder.columns"))


def small_partition_files(spec: LayoutSpec, after: FilesAfter, partitions: int) -> Diagnostic:
    """Return ZL412: most new files would be smaller than half of the target, because partitions are small."""
    message = (
        f"partition_by divides the rows among about {partitions:,} partitions, and {after.small or 0:,} new files "
        f"would be smaller than half of files.target_size"
    )
    hint = "use a coarser partition_by, or z-order columns instead of partitions"
    return Diagnostic("ZL412", message, "warning", hint, spec.location_of("partition_by"))


MIB, GIB = 2**20, 2**30
# Smaller files cost more to open than to read. Larger files are too large to be skipped often.
MIN_TARGET_SIZE, MAX_TARGET_SIZE = MIB, 16 * GIB
# A small target size is reported only if the table has more than this number of files besides one for each partition.
MAX_FEW_FILES = 100


def reads_more(spec: LayoutSpec, columns: Sequence[ColumnForecast]) -> Iterator[Diagnostic]:
    """Yield ZL440 if a query for one value reads more bytes after the rewrite, by more than the error of the estimate.

    Bytes read are the mean over the z-order columns, weighted by their weights. Without a prediction, the lowest
    possible number counts.
    """
    after = [c.bytes_read.predicted_or_low for c in columns]
    weights = np.array([spec.layout.weights.get(c.column, 1.0) for c in columns])
    if not columns or any(size is None for size in after):
        return
    now = float(weights @ np.array([c.bytes_read.now for c in columns])) / float(weights.sum())
    then = float(weights @ np.array(after, np.float64)) / float(weights.sum())
    if now <= 0 or then <= SAME_READS * now:
        return
    known = all(c.bytes_read.predicted is not None for c in columns)
    mean = "" if len(columns) == 1 else ", in the mean over the z-order columns"
    message = (
        f"after the rewrite, a query for one value reads {'' if known else 'at least '}{then / now:,.1f} times as many "
        f"bytes as now{mean}: {then:,.0f} instead of {now:,.0f} (whole files, if rows keep their size)"
    )
    hint = "use a smaller files.target_size, or accept it with `plan --detailed-exitcode --allow-worse`"
    yield Diagnostic(READS_MORE, message, "warning", hint, spec.location_of("files.target_size"))


def one_file(spec: LayoutSpec, targets: Index) -> Iterator[Diagnostic]:
    """Yield ZL441 if every partition fits in one file. targets: int64[P], the number of files after a rewrite."""
    if targets.max(initial=0) == 1:
        what = "the table" if int((targets > 0).sum()) == 1 else "each partition"
        message = f"{what} fits in one file of files.target_size, so that no layout can skip files"
        yield Diagnostic("ZL441", message, "note", "", spec.location_of("files.target_size"))


def unreasonable_size(spec: LayoutSpec, targets: Index, *, rewrites: bool) -> Iterator[Diagnostic]:
    """Yield ZL442 for a target size with which the table has very many small files, or files too large to be skipped.

    Args:
        spec: The layout spec.
        targets: int64[P], the number of files after a rewrite of each partition.
        rewrites: Whether the plan rewrites files. If not, small files are not reported.
    """
    size, files = spec.layout.target_size, int(targets.sum())
    if size > MAX_TARGET_SIZE:
        effect = f"which is more than {MAX_TARGET_SIZE:,}: queries must read very large files"
    elif rewrites and size < MIN_TARGET_SIZE and files - int((targets > 0).sum()) > MAX_FEW_FILES:
        effect = f"with which the table has {files:,} files"
    else:
        return
    message = f"files.target_size is {size:,} bytes, {effect}"
    yield Diagnostic("ZL442", message, "warning", "use 64MiB to 1GiB", spec.location_of("files.target_size"))
