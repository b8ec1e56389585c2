"""Write forecasts and samples in the words that all reports share."""

from __future__ import annotations

from datetime import UTC, datetime

from zlayout.planner.deferred import DeferredGroups, HotGroups, RankedBy
from zlayout.planner.forecasts import BytesRead, SampleFacts
from zlayout.planner.model import Status, TablePlan
from zlayout.planner.result import TableResult
from zlayout.report.words import known, number, plural, printable, size

NARROW = "`zlayout plan --sample` narrows the forecast"


def written_text(table: TablePlan) -> str:
    """Write the number of files that replace the rewritten ones: a prediction, or a range."""
    after, kept = table.files_after, table.files - sum(g.files for g in table.groups)
    if after is None:
        return f"~{sum(g.target_files for g in table.groups):,}"
    predicted, low, high = (None if n is None else n - kept for n in (after.predicted, after.low, after.high))
    return known(predicted, low, high) or "?"


def bytes_text(read: BytesRead) -> str:
    """Write what is known of the bytes that a query reads after apply; '' if nothing is."""
    return known(read.predicted, read.low, read.high, size)


def has_row_groups(table: TablePlan) -> bool:
    """Return whether a file of the sample has several row groups, so that queries may skip some of them."""
    return table.sample is not None and (table.sample.row_groups_in_files or 0) > table.sample.files


def row_groups_text(read: BytesRead) -> tuple[str, str]:
    """Write the bytes in row groups that a query cannot skip, now and after apply; '' if nothing is known.

    How many row groups a new file has is not known before it is written: its size is the limit of what is read of it.
    """
    now = "" if read.in_row_groups is None else f"~{size(read.in_row_groups)}"
    return now, "" if read.high is None else f"at most {size(read.high)}"


def is_vague(table: TablePlan) -> bool:
    """Return whether a forecast of the plan is a range that a sample narrows. A refused plan is not sampled."""
    return table.status is not Status.REFUSED and any(
        c.predicted is None and c.low is not None and c.low != c.high for c in table.columns
    )


def sample_text(sample: SampleFacts) -> str:
    """Write what the forecast was made from."""
    each = (sample.row_groups_in_files or 0) / max(sample.files, 1)
    parts = f"; files have {number(each)} row groups each" if each > 1 else ""
    return (
        f"forecast from {plural(sample.rows, 'sampled row')}: {plural(sample.row_groups, 'row group')} of "
        f"{plural(sample.files, 'file')}, {size(sample.bytes_read)} read, seed {sample.seed}{parts}"
    )


def measured_text(result: TableResult) -> str:
    """Write the measured touched of each column beside the prediction, and the bytes that a query reads."""
    return "   ".join(
        f"{printable(c.column)} {number(c.touched)}"
        + ("" if c.predicted is None else f" (predicted {number(c.predicted)})")
        + (f", {size(c.bytes_read)}" if c.bytes_read else "")
        for c in result.columns
    )


def left_over_text(left: DeferredGroups) -> str:
    """Write what the budget defers, and what is known of touched after it is rewritten too."""
    after = [(c.column, known(c.predicted, c.low, c.high)) for c in left.columns]
    touched = "   ".join(f"{printable(name)} {text}" for name, text in after if text)
    then = f"; then touched {touched}" if touched else ""
    ranked = ", ranked by the workload" if left.ranked_by is RankedBy.WORKLOAD else ""
    return f"{plural(left.groups, 'group')} of {size(left.bytes)}, {plural(left.files, 'file')}{ranked}{then}"


def hot_text(hot: HotGroups) -> str:
    """Write what waits because its partitions are hot, and since when a write makes them so."""
    since = datetime.fromtimestamp(hot.after // 1000, UTC)
    return (
        f"{plural(hot.groups, 'group')} of {size(hot.bytes)}, {plural(hot.files, 'file')}, in "
        f"{plural(hot.partitions, 'partition')} written after {since:%Y-%m-%d %H:%M} UTC"
    )


def later_text(table: TablePlan) -> str:
    """Write what is left for a later run, by the budget and because partitions are hot; '' if nothing is."""
    deferred = left_over_text(table.left_over) if table.left_over else ""
    return "; ".join(filter(None, (deferred, hot_text(table.hot) if table.hot else "")))
