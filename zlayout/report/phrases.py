"""The phrases of one table that several reports use: drift, decay, layout, rewrite, partitions, reasons, result."""

from __future__ import annotations

from collections import Counter
from typing import Any

from zlayout.planner.actions import RewriteGroup
from zlayout.planner.model import Decay, Measure, SettingDrift, TablePlan
from zlayout.planner.parts import parts_of
from zlayout.planner.result import TableResult
from zlayout.report.forecast_text import written_text
from zlayout.report.words import REASONS, RESULT_STATUSES, cleanup, plural, printable, setting, share, size

# The number of partitions that the screen names without -v.
MAX_PARTITIONS = 6
_SIZES = ("files.target_size",)


def drift_text(drift: SettingDrift) -> str:
    """Write `setting of the table -> declared setting`."""
    return f"{declared(drift.before, drift.key)} -> {declared(drift.after, drift.key)}"


def declared(value: Any, key: str) -> str:
    """Write the value of the setting `key` as in a layout spec, with the unit of sizes."""
    return size(value) if key in _SIZES and isinstance(value, int) else setting(value)


def layout_text(table: TablePlan) -> str:
    """Write the declared curve and its columns, or that rows keep their order."""
    settings = dict(table.settings)
    if "zorder.columns" not in settings:
        return "compaction alone"
    return f"{setting(settings.get('zorder.curve'))} by {setting(settings.get('zorder.columns'))}"


def rewrite_text(table: TablePlan) -> str:
    """Write how much the plan rewrites: partitions, bytes, files before and after, and commits if there are several."""
    groups = table.groups
    files = sum(g.files for g in groups)
    parts = max([len({g.partition for g in groups}), *(g.partitions for g in groups)])
    of = f"{parts:,} of {plural(table.partitions, 'partition')}, " if table.partitions > 1 else ""
    commits = len(parts_of(groups, table.commit_bytes))
    after = written_text(table)
    in_commits = f", {commits:,} commits" if commits > 1 else ""
    return (
        f"{of}{size(table.rewrite_bytes)}, {files:,} -> {after} file{'' if after in ('1', '~1') else 's'}{in_commits}"
    )


def partitions_text(groups: tuple[RewriteGroup, ...], limit: int | None) -> str:
    """List the partitions that the plan rewrites, in the order of their numbers, at most `limit` of them."""
    ordered = sorted(groups, key=lambda group: group.partition_number)
    names = list(dict.fromkeys(printable(group.partition) for group in ordered if group.partition))
    more = f" and {len(names) - limit:,} more" if limit is not None and len(names) > limit else ""
    return "; ".join(names[:limit]) + more


def reasons_text(groups: tuple[RewriteGroup, ...]) -> str:
    """Write why groups are rewritten, with the number of groups per reason if reasons differ."""
    counts = Counter(group.reason for group in groups)
    if len(counts) == 1:
        return REASONS[next(iter(counts))]
    return ", ".join(f"{REASONS[reason]} ({plural(n, 'partition')})" for reason, n in counts.items())


def shown_decay(table: TablePlan, *, verbose: bool) -> tuple[Decay, ...]:
    """Return the decay measures that the text shows: those above their tolerance that are rewritten, or all."""
    return tuple(decay for decay in table.decay if verbose or (decay.exceeded and table.groups))


def decay_text(decay: Decay) -> str:
    """Write one decay measure and its tolerance."""
    times = decay.measure is Measure.TOUCHED
    value, limit = (f"{v:.2f}x" if times else share(v) for v in (decay.value, decay.tolerance))
    where = f" ({plural(decay.partitions, 'partition')})" if decay.partitions > 1 else ""
    return f"{decay.measure} {value}, tolerance {limit}" + (where if decay.exceeded else " (within)")


def result_text(result: TableResult) -> str:
    """Write the result of one table: status, commits, files, bytes and run id."""
    made = plural(result.commits, "commit")
    if result.files_removed or result.files_added:
        made += f", {result.files_removed:,} -> {result.files_added:,} files, {_written(result)}"
    if result.deferred_groups:
        made += f", {plural(result.deferred_groups, 'group')} ({size(result.deferred_bytes)}) left for a later run"
    return f"{RESULT_STATUSES[result.outcome]}; {made}; run {result.run_id}"


def _written(result: TableResult) -> str:
    before = f"{size(result.bytes_removed)} -> " if result.bytes_removed else ""
    return f"{before}{size(result.bytes_added)} written"


def storage_text(table: TablePlan, result: TableResult | None) -> str:
    """Write what stays on storage because of a rewrite, and until when; '' if nothing is replaced."""
    replaced = table.rewrite_bytes if result is None else result.bytes_removed
    if not replaced:
        return ""
    stay = f"the replaced {size(replaced)} stay until {cleanup(table.format)}"
    return stay if result is None else f"grew by {size(result.bytes_added)}; {stay}"
