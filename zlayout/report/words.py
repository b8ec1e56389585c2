"""The words, numbers and phrases that reports have in common.

They are about one value, about one table, one line per table, and about the whole report.
"""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections import Counter
from collections.abc import Callable, Container, Iterator, Sequence
from typing import TypeVar

from zlayout.errors import Location
from zlayout.planner import passes
from zlayout.planner.model import (
    DECAY_REASONS,
    BytesRead,
    ChangeClustering,
    ChangePartitioning,
    ColumnForecast,
    Decay,
    Measure,
    Payback,
    Plan,
    PropertyChange,
    PropertyReason,
    QueryCost,
    RankedBy,
    Reason,
    RewriteGroup,
    SampleFacts,
    SetProperties,
    SettingDrift,
    Status,
    Summary,
    TablePlan,
    TouchedRange,
    Wait,
    WaitingGroups,
    WorkloadForecast,
    parts_of,
    summary,
    truncation_text,
)
from zlayout.planner.run_report import ResultStatus, RunReport, TableResult
from zlayout.spec.formats import FORMATS
from zlayout.text import first_of, plural, size

T = TypeVar("T", int, float)

_DRIFT_REASONS = (Reason.LAYOUT_CHANGED, Reason.PARTITIONING_CHANGED)
REASONS = {
    Reason.NOT_LAID_OUT: "not laid out yet",
    Reason.PARTITION_NOT_LAID_OUT: "partition not laid out yet",
    Reason.LAYOUT_CHANGED: "layout changed",
    Reason.PARTITIONING_CHANGED: "partitioning changed",
    Reason.BOUNDS_TRUNCATED: "bounds truncated",
    Reason.DELETED_ROWS: "deleted rows",
    Reason.DECAYED: "decayed",
    Reason.SMALL_FILES: "small files",
}
RESULT_STATUSES = {
    ResultStatus.AS_DECLARED: "as declared",
    ResultStatus.WITHIN_BUDGET: "as far as --max-rewrite-bytes allows",
    ResultStatus.OUT_OF_TIME: "as far as the time limit allows",
    ResultStatus.AS_PLANNED: "as planned, with more to do now",
    ResultStatus.HOT: "as declared except for hot partitions",
    ResultStatus.NOT_YET: "not yet as declared",
    ResultStatus.FAILED: "failed: not as declared",
    ResultStatus.UNKNOWN: "in an unknown state",
    ResultStatus.INTERRUPTED: "interrupted: not completed",
}
# Reports show a prediction as one number if its error is at most this share of the prediction.
MAX_ERROR = 0.2


def state(table: TablePlan) -> str:
    """Return the state of a table before apply in words.

    A change waits or is deferred, or is a first layout, drift, decay or another change. What the owner of the layout
    changed (`TablePlan.change`) is no drift.
    """
    if table.status is Status.UNCHANGED:
        return "matches no partition" if table.selects_nothing else "as declared"
    if table.status is not Status.CHANGES:
        return str(table.status)
    if table.waits:
        return "waits"
    if is_deferred(table):
        return "deferred"
    if table.change is not None:
        return "new layout" if table.change.is_new else "changed"
    if table.is_first:
        return "first layout"
    reasons = {group.reason for group in table.groups}
    redefined = any(isinstance(action, ChangePartitioning | ChangeClustering) for action in table.actions)
    if table.drift or redefined or not reasons.isdisjoint(_DRIFT_REASONS):
        return "drift"
    return "change" if reasons.isdisjoint(DECAY_REASONS) else "decay"


def is_deferred(table: TablePlan) -> bool:
    """Return whether the plan of a table has no actions because the budget is spent on other tables."""
    return table.that_wait(Wait.BUDGET) is not None and not table.actions and not table.waits


def same_size(text: str) -> str:
    """Mark a size after a rewrite with `~`: it is not known how well the rows compress in their new order."""
    return text and f"~{text}"


def number(value: float) -> str:
    """Write a count or a mean with thousands separators, and with one decimal if it is below 100 and not whole.

    Only 0 itself is written as 0.
    """
    if 0 < value < 0.05:
        return "<0.1"
    return f"{value:,.1f}" if value < 100 and abs(value - round(value)) >= 0.05 else f"{value:,.0f}"


def duration(seconds: float) -> str:
    """Write a time with one unit, for example `45 s`, `12 min` or `3.5 h`."""
    if seconds < 90:
        return f"{number(seconds)} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{number(seconds / 3600)} h"


def known(predicted: T | None, low: T | None, high: T | None, write: Callable[[T], str] = number) -> str:
    """Write a forecast: the prediction, or the range, for example `1..28`; '' if nothing is known.

    The range is written if there is no prediction, or if its error exceeds MAX_ERROR.
    """
    if predicted is not None and (low is None or high is None or high - low <= 2 * MAX_ERROR * predicted):
        return write(predicted)
    if low is None or high is None:
        return "" if low is None else f"{write(low)} or more"
    ends = write(low), write(high)
    return ends[0] if ends[0] == ends[1] else "..".join(ends)


def share(value: float) -> str:
    """Write a share or a quotient as a percentage, with one decimal below 10% and next to 100%.

    Only 0 and 1 themselves are written as 0% and 100%.
    """
    value = round(value, 9)  # sums of shares have rounding errors
    if 0 < value < 0.0005:
        return "<0.1%"
    if 0.995 <= value <= 1.005 and value != 1:
        return f"{min(value, 0.999) if value < 1 else max(value, 1.001):.1%}"
    return f"{value:.1%}" if 0 < value < 0.0995 else f"{value:.0%}"


def money(value: float) -> str:
    """Write a price with two decimals. Only 0 itself is written as 0.00."""
    return "<0.01" if 0 < value < 0.005 else f"{value:,.2f}"


def version_word(format: str) -> str:
    """Return the word that a format has for a version of a table: version or snapshot."""
    return FORMATS[format].version_word if format in FORMATS else "version"


def cleanup(format: str) -> str:
    """Return when the format removes replaced files from storage, in words that follow "until"."""
    return FORMATS[format].cleanup if format in FORMATS else "old versions are removed"


def property_reason(change: PropertyChange) -> str:
    """Write why a table property is set."""
    if change.reason is PropertyReason.BOUNDS_TRUNCATED and change.cut is not None:
        return printable(truncation_text(change.cut))
    return printable(f"no min/max statistics on {change.column}")


def setting(value: object) -> str:
    """Write a value as in a layout spec, for example `[a, b]` or `true`. Sizes are not converted."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return f"{value:.0f}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(setting(v) for v in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}: {setting(v)}" for k, v in value.items()) + "}"
    return printable(str(value))


def printable(text: str) -> str:
    """Make text safe for terminals and logs: replace control, format and bidi characters.

    Commands in the logs of CI services are changed too: `##[`, `##vso[` (Azure DevOps) and `##teamcity[` anywhere, and
    `::` at the beginning of a word (GitHub Actions). The section markers of GitLab contain control characters.
    """
    if not text.isprintable():  # nearly all text is printable, and this check is a hundred times as fast
        text = "".join(_REPLACED if unicodedata.category(c) in _UNSAFE else c for c in text)
    return without_commands(text)


def without_commands(text: str) -> str:
    """Replace a character of each command to the log of a CI service, and keep all other text."""
    return _COMMAND.sub(lambda begin: begin[0][0] + _REPLACED, text)


def wrapped(line: str, width: int, indent: int) -> list[str]:
    """Wrap a line at `width` characters, with `indent` spaces before further lines. Longer words are not divided."""
    if len(line) <= width:
        return [line]
    wrapper = textwrap.TextWrapper(width, subsequent_indent=" " * indent, replace_whitespace=False)
    wrapper.break_long_words = wrapper.break_on_hyphens = False
    return wrapper.wrap(line)


def aligned(rows: Sequence[Sequence[str]], right: Container[int]) -> Iterator[str]:
    """Yield a line for each row, with the cells of each column below each other. right: the columns to align right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = enumerate(zip(row, widths, strict=True))
        yield ("  " + "  ".join(f"{c:>{w}}" if n in right else f"{c:<{w}}" for n, (c, w) in cells)).rstrip()


# Control, format (bidi marks and overrides among them), surrogate, private use, line and paragraph separators.
_UNSAFE = frozenset(("Cc", "Cf", "Cs", "Co", "Zl", "Zp"))
_REPLACED = "\N{REPLACEMENT CHARACTER}"
_COMMAND = re.compile(r"##(?=\w{0,40}\[)|(?<!\S)::")


# One table: drift, decay, rewrite, forecasts, workload and result.


# The number of partitions that the screen names without -v.
MAX_PARTITIONS = 6
# The number of workload files that are named.
MAX_SOURCES = 3
# The maximum number of decimals with which a decay measure and its tolerance are shown to differ.
MAX_DECIMALS = 9
# What becomes of the rewrite if other writers change the same files meanwhile.
REBASED = "rows that other writers mark as deleted are deleted from the new files too"
CONFLICTS = "a delete, update or merge by another writer in the same files is a conflict"
_SIZES = ("files.target_size", "files.max_group_size")
NARROW = "`zlayout plan --sample` narrows the forecast"


def drift_text(drift: SettingDrift) -> str:
    """Write `setting of the table -> declared setting`."""
    return f"{declared(drift.before, drift.key)} -> {declared(drift.after, drift.key)}"


def altered(table: TablePlan) -> Iterator[tuple[str, str, str, str, Location | None]]:
    """Yield (name, present value, declared value, reason, location) of what actions change besides files.

    Only table properties have a reason. The other names are `partition_by` and `cluster by`.
    """
    for action in table.actions:
        match action:
            case SetProperties(changes):
                yield from ((c.name, setting(c.before), setting(c.after), property_reason(c), None) for c in changes)
            case ChangePartitioning() | ChangeClustering():
                name = "partition_by" if isinstance(action, ChangePartitioning) else "cluster by"
                yield name, setting(action.before), setting(action.after), "", action.location


def declared(value: object, key: str) -> str:
    """Write the value of the setting `key` as in a layout spec, with the unit of sizes."""
    if key in _SIZES and isinstance(value, int):
        return size(value)
    if key.startswith("tolerance.") and isinstance(value, float):
        return f"{value:g}x" if key.endswith(".touched") else share(value)
    return setting(value)


def layout_text(table: TablePlan) -> str:
    """Write the declared curve and its columns, or that rows keep their order."""
    settings = dict(table.settings)
    if "zorder.columns" not in settings:
        return "compaction alone"
    return f"{setting(settings.get('zorder.curve'))} by {setting(settings.get('zorder.columns'))}"


def rewrite_text(table: TablePlan) -> str:
    """Write what the plan rewrites: partitions, bytes, files before and after, and the commits if there are several."""
    groups = table.groups
    of = ""
    if table.partitions > 1:
        of = f"{partition_count(groups, table.partitions)} of {plural(table.partitions, 'partition')}, "
    commits = len(parts_of(groups, table.commit_bytes))
    after = written_text(table)
    in_commits = f", {commits:,} commits" if commits > 1 else ""
    files = f"{table.rewrite_files:,} -> {after} file{'' if after in ('1', '~1') else 's'}"
    return f"{of}{size(table.rewrite_bytes)}, {files}{in_commits}"


def partition_count(groups: Sequence[RewriteGroup], limit: int | None = None) -> str:
    """Write the number of partitions that contain files of the groups; at most `limit`, None for an unknown limit.

    It is a range if groups have files of several partitions, because a plan names only the first partition of a group.
    """
    first = len({g.partition_number or g.partition for g in groups})
    low, high = max(first, *(g.partitions for g in groups)), first + sum(g.partitions - 1 for g in groups)
    return known(None, low, high if low == high else limit and min(high, limit))


def written_text(table: TablePlan) -> str:
    """Write the number of files that replace the rewritten files: a prediction or a range, `~` before an estimate."""
    after, kept = table.files_after, table.files - table.rewrite_files
    ends = (after.predicted, after.low, after.high) if after else (None, None, None)
    predicted, low, high = (None if n is None else n - kept for n in ends)
    return known(predicted, low, high) or f"~{sum(g.target_files for g in table.groups):,}"


def partitions_text(groups: tuple[RewriteGroup, ...], limit: int | None) -> str:
    """List the partitions that the plan rewrites, in the order of their numbers. limit: the maximum, None for all."""
    ordered = sorted(groups, key=lambda group: group.partition_number)
    names = list(dict.fromkeys(printable(group.partition) for group in ordered if group.partition))
    more = f" and {len(names) - limit:,} more" if limit is not None and len(names) > limit else ""
    return "; ".join(names[:limit]) + more


def reasons_text(groups: tuple[RewriteGroup, ...]) -> str:
    """Write why groups are rewritten, with the number of partitions per reason if reasons differ."""
    reasons = dict.fromkeys(group.reason for group in groups)
    if len(reasons) == 1:
        return REASONS[groups[0].reason]
    counts = {reason: partition_count([g for g in groups if g.reason is reason]) for reason in reasons}
    return ", ".join(f"{REASONS[r]} ({n} partition{'' if n == '1' else 's'})" for r, n in counts.items())


def shown_decay(table: TablePlan, *, verbose: bool) -> tuple[Decay, ...]:
    """Return the decay measures to show: those above their tolerance if the plan has a rewrite; all if verbose."""
    return tuple(decay for decay in table.decay if verbose or (decay.exceeded and table.groups))


def decay_text(decay: Decay) -> str:
    """Write one decay measure and its tolerance."""
    value, limit = measure_texts(decay.measure, decay.value, decay.tolerance)
    where = f" ({plural(decay.partitions, 'partition')})" if decay.partitions > 1 else ""
    value = f"about {value}" if decay.estimated else value
    return f"{decay.measure} {value}, tolerance {limit}" + (where if decay.exceeded else " (within)")


def measure_texts(measure: str, value: float, tolerance: float) -> tuple[str, str]:
    """Write the value of a decay measure and its tolerance: ratios for touched, else shares.

    If the values differ, the texts differ too, so that the text shows which one is larger.
    """
    ratio = measure == Measure.TOUCHED
    texts = tuple(f"{v:.2f}x" if ratio else share(v) for v in (value, tolerance))
    decimals = 0
    while texts[0] == texts[1] and value != tolerance and decimals < MAX_DECIMALS:
        decimals += 1
        texts = tuple(f"{v:.{decimals}f}x" if ratio else f"{v:.{decimals}%}" for v in (value, tolerance))
    return texts[0], texts[1]


def touched_text(column: ColumnForecast | TouchedRange) -> str:
    """Write what is known of touched after apply; '' if nothing is."""
    return known(column.predicted, column.low, column.high)


def bytes_text(read: BytesRead) -> str:
    """Write what is known of the bytes that a query reads after apply; '' if nothing is."""
    return same_size(known(read.predicted, read.low, read.high, size))


def has_row_groups(table: TablePlan) -> bool:
    """Return whether a file of the sample has several row groups, so that queries may skip some of them."""
    return table.sample is not None and (table.sample.row_groups_in_files or 0) > table.sample.files


def row_groups_text(read: BytesRead) -> tuple[str, str]:
    """Write the size of the row groups that a query cannot skip, now and after apply; '' if nothing is known.

    The row groups of a new file are unknown before it is written. At most, a query reads the whole files that it opens.
    """
    now = "" if read.in_row_groups is None else f"~{size(read.in_row_groups)}"
    return now, "" if read.high is None else f"at most {same_size(size(read.high))}"


def is_vague(table: TablePlan) -> bool:
    """Return whether a sample would narrow a forecast, which is a range. Refused tables are not sampled."""
    return table.status is not Status.REFUSED and any(
        c.predicted is None and c.low is not None and c.low != c.high for c in table.columns
    )


def sample_text(sample: SampleFacts) -> str:
    """Write which sample the forecast is made from."""
    each = (sample.row_groups_in_files or 0) / max(sample.files, 1)
    parts = f"; files have {number(each)} row groups each" if each > 1 else ""
    return (
        f"forecast from {plural(sample.rows, 'sampled row')}: {plural(sample.row_groups, 'row group')} of "
        f"{plural(sample.files, 'file')}, {size(sample.bytes_read)} read, seed {sample.seed}{parts}"
    )


def later_text(table: TablePlan) -> str:
    """Write what is left for a later run; '' if nothing is."""
    return "; ".join(text for _, text in later_lines(table))


def later_lines(table: TablePlan) -> Iterator[tuple[str, str]]:
    """Yield a label and a text for what the budget leaves for a later run, and for each other reason to wait."""
    if (deferred := table.that_wait(Wait.BUDGET)) is not None:
        yield "left over", left_over_text(deferred)
    yield from passes.lines(table)


def left_over_text(left: WaitingGroups) -> str:
    """Write what the budget defers, and what is known of touched after the deferred groups are rewritten too."""
    touched = "   ".join(f"{printable(c.column)} {text}" for c in left.columns if (text := touched_text(c)))
    then = f"; then touched {touched}" if touched else ""
    ranked = ", ranked by the workload" if left.ranked_by is RankedBy.WORKLOAD else ""
    return f"{plural(left.groups, 'group')} of {size(left.bytes)}, {plural(left.files, 'file')}{ranked}{then}"


def result_text(result: TableResult) -> str:
    """Write the result of one table: status, commits, files, bytes and run id."""
    made = plural(result.commits, "commit")
    if result.files_removed or result.files_added:
        old = f"{size(result.bytes_removed)} -> " if result.bytes_removed else ""
        made += f", {result.files_removed:,} -> {result.files_added:,} files, {old}{size(result.bytes_added)} written"
    if result.rebased_rows:
        made += f", {plural(result.rebased_rows, 'row')} rebased in {plural(result.rebased_commits, 'commit')}"
        made += f" (readers skip {share(result.rebased_share)} of the new rows)"
    if result.deferred_groups:
        made += f", {plural(result.deferred_groups, 'group')} ({size(result.deferred_bytes)}) left for a later run"
    return f"{RESULT_STATUSES[result.outcome]}; {made}; run {result.run_id}"


def measured_text(result: TableResult) -> str:
    """Write the measured and the predicted touched of each column, and the bytes that a query reads."""
    return "   ".join(
        f"{printable(c.column)} {number(c.touched)}"
        + ("" if c.predicted is None else f" (predicted {number(c.predicted)})")
        + (f", {size(c.bytes_read)}" if c.bytes_read else "")
        for c in result.columns
    )


def storage_text(table: TablePlan, result: TableResult | None) -> str:
    """Write the size of the replaced files, and until when they stay on storage; '' if no file is replaced."""
    replaced = table.rewrite_bytes if result is None else result.bytes_removed
    if not replaced:
        return ""
    change, until = table.partitioning, f"stay until {cleanup(table.format)}"
    if result is not None:
        return f"grew by {size(result.bytes_added)}; the replaced {size(replaced)} {until}"
    if change and change.full_rewrite and "zorder.columns" in dict(table.settings):  # ADR 0002: it is written twice
        until = f"and ~{size(replaced)} that are written in between {until}"
    return f"the replaced {size(replaced)} {until}"


def workload_lines(table: TablePlan) -> Iterator[str]:
    """Yield lines: what a query of the workload opens now, after apply, and at the floor; the queries; the pay-back."""
    workload = table.workload
    if workload is None:
        return
    predicted, low, high, floor = workload.predicted, workload.low, workload.high, workload.floor
    then, limit = "", "" if floor is None else f" (floor {cost_text(floor)})"
    if table.groups and predicted and low and high:
        files = known(predicted.files, low.files, high.files)
        then = f" -> {_cost(files, same_size(known(predicted.bytes, low.bytes, high.bytes, size)))}"
    yield f"{cost_text(workload.now)} a query{then}{limit}"
    sources = first_of(workload.sources, MAX_SOURCES)
    part = share(workload.share)
    of = "" if part == "100%" else f", {part} of the weight"
    unknown = "what they open after apply" if table.groups else "the floor"
    hint = f"; --sample predicts {unknown}" if floor is None else ""
    yield f"{plural(workload.queries, 'query')} of {sources}{of}{hint}"
    if workload.through:
        yield f"through {first_of(workload.through, MAX_SOURCES)}"
    if workload.payback is not None:
        yield _payback(workload, workload.payback)


def cost_text(cost: QueryCost) -> str:
    """Write the files and bytes that a query opens."""
    return _cost(number(cost.files), size(cost.bytes))


def _cost(files: str, size_: str) -> str:
    return f"{files} {'file' if files == '1' else 'files'}, {size_}"


def _payback(workload: WorkloadForecast, pay: Payback) -> str:
    time = "time unknown until the first apply"
    if pay.seconds is not None:
        price = "" if pay.cost is None else f" for {money(pay.cost)}"
        time = f"about {duration(pay.seconds)}{price} at the speed of the last run"
    text = f"the rewrite reads and writes {size(pay.rewrite_bytes)}, {time}"
    ends = (workload.high, workload.predicted, workload.low)
    least, saved, most = (0 if end is None else workload.now.bytes - end.bytes for end in ends)
    if pay.queries is None or not 0 < least <= saved <= most:
        never = workload.low is not None and most <= 0
        return f"{text}; {'queries then read no less' if never else 'it is not known whether it pays back'}"

    def paid_back(value: float, one: str, many: str) -> str:
        found = known(value, value * saved / most, value * saved / least)
        return f"after {found} {one if found == '1' else many}"

    def in_a_day(value: float, write: Callable[[float], str]) -> str:
        return known(value, value * least / saved, value * most / saved, write)

    if pay.days is None or pay.saved_per_day is None:
        return f"{text}; paid back {paid_back(pay.queries, 'query', 'queries')}"
    worth = "" if pay.worth_per_day is None else f" ({in_a_day(pay.worth_per_day, money)})"
    in_money = "" if pay.money_days is None else f", in money {paid_back(pay.money_days, 'day', 'days')}"
    less = in_a_day(pay.saved_per_day, lambda count: size(round(count)))
    return f"{text}; {less}{worth} less read a day, paid back {paid_back(pay.days, 'day', 'days')}{in_money}"


# One line per table, for plans of many tables.


MIN_NAME_WIDTH = 20
# Without --verbose, a plan shows at most MAX_TABLES tables in full, and at most MAX_LINES others in one line each.
MAX_TABLES = 20
MAX_LINES = 100
_ORDER = (Status.ERROR, Status.REFUSED, Status.CHANGES, Status.UNCHANGED)
_KINDS = {Status.ERROR: "error", Status.REFUSED: "refused", Status.CHANGES: "rewrite", Status.UNCHANGED: ""}


def worst_first(tables: Sequence[TablePlan]) -> list[TablePlan]:
    """Sort tables by status (errors, refused, changes, unchanged), then by bytes to rewrite, the most first."""
    return sorted(tables, key=lambda t: (_ORDER.index(t.status), t.as_declared, -t.rewrite_bytes, t.table))


def table_lines(tables: Sequence[TablePlan], width: int) -> Iterator[tuple[str, str]]:
    """Yield (style, line) for each table: its name, its state, the bytes to rewrite, and touched of its columns.

    Names are shortened in the middle, so that a line has at most `width` characters if this is possible.
    """
    rows = [(printable(table.table), *_cells(table)) for table in tables]
    names, states, sizes = (max((len(row[at]) for row in rows), default=0) for at in range(3))
    names = min(names, max(width // 2, MIN_NAME_WIDTH))
    for table, (name, words, rewritten, rest) in zip(tables, rows, strict=True):
        line = f"  {_shortened(name, names):<{names}}  {words:<{states}}  {rewritten:>{sizes}}  {rest}".rstrip()
        yield _KINDS[table.status], line if len(line) <= width else f"{line[: width - 3]}..."


def brief(tables: Sequence[TablePlan], width: int) -> Iterator[tuple[str, str]]:
    """Yield (style, line) for tables that are not shown in full, the worst of them last.

    Each of the worst MAX_LINES has one line; the others are counted.
    """
    tables = worst_first(tables)
    shown, others = tables[:MAX_LINES], tables[MAX_LINES:]
    if others:
        yield "", f"  {plural(len(others), 'table')} not listed: {states_text(others)}"
    yield from table_lines(shown[::-1], width)
    yield "dim", "  -v shows all tables in full; --summary shows one line for each"
    yield "", ""


def states_text(tables: Sequence[TablePlan]) -> str:
    """Write the number of tables in each state of `words.state`, for example `2 drift, 11 decay`."""
    return ", ".join(f"{count:,} {words}" for words, count in Counter(map(state, tables)).items())


def _cells(table: TablePlan) -> tuple[str, str, str]:
    match table.status:
        case Status.ERROR | Status.REFUSED:
            first = next((d for d in table.diagnostics if d.severity in ("error", "refused")), None)
            return state(table), "", printable(f"{first.code} {first.message}") if first else ""
        case Status.CHANGES:
            afters = [(c, touched_text(c)) for c in table.columns]
            cells = [f"{printable(c.column)} {number(c.touched)}{then and ' -> '}{then}" for c, then in afters]
            return state(table), size(table.rewrite_bytes) if table.groups else "", "  ".join(cells)
        case _:
            return state(table), "", plural(table.files, "file")


def _shortened(name: str, width: int) -> str:
    if len(name) <= width:
        return name
    end = (width - 3) // 2
    return f"{name[: width - 3 - end]}...{name[-end:]}"


# The last line of a report: the number of tables in each state.


def last_line(shown: Plan | RunReport) -> str:
    """Return the summary, for example `Plan: 1 to alter, 1 to rewrite, 12 unchanged. Rewrites 1.2 TiB.`

    Numbers that are 0 are left out. The summary of a drift report is `drift_line`.
    """
    report = RunReport.of(shown)
    if report.drift:
        return drift_line(report.plan)
    if report.results:
        ended = ", ".join(f"{count} {words}" for _, count, words in outcome_counts(report))
        return f"Applied: {ended}. Wrote {size(sum(r.bytes_added for r in report.results.values()))}."
    plan = report.plan
    counts = summary(plan.tables)
    if not (plan.has_changes or counts.refused or counts.failed):
        return f"No changes. {plural(counts.unchanged, 'table')} laid out as declared.{_nothing_selected(counts)}"
    parts = [f"{number:,} {words}" for _, number, words in plan_counts(plan)]
    rewrites = f" Rewrites {size(counts.rewrite_bytes)}." if counts.rewrite_bytes else ""
    return f"Plan: {', '.join(parts)}.{rewrites}{_nothing_selected(counts)}"


def _nothing_selected(counts: Summary) -> str:
    return f" `where` of {plural(counts.empty, 'table')} matches no partition." if counts.empty else ""


def title(report: RunReport) -> str:
    """Return what the report is about: plan, drift, or the result of apply."""
    return "result of apply" if report.results else "drift" if report.drift else "plan"


def drift_line(plan: Plan) -> str:
    """Return the summary of `zlayout drift`, for example `Drift: 2 of 14 tables are not as declared.`"""
    counts = summary(plan.tables)
    more = f" {plural(counts.failed, 'table')} could not be planned." if counts.failed else ""
    other, unfit = len(plan.not_as_declared), len(plan.unfit)
    if unfit:
        more += f" {plural(unfit, 'layout')} no longer {'fits' if unfit == 1 else 'fit'} the workload."
    if not other:
        unchanged = f"{plural(counts.unchanged, 'table')} laid out as declared."
        return f"Drift is not known:{more} {unchanged}" if counts.failed else f"No drift. {unchanged}{more}"
    rewrites = f" `zlayout apply` would rewrite {size(counts.rewrite_bytes)}." if counts.rewrite_bytes else ""
    verb = "is" if other == 1 else "are"
    return f"Drift: {other:,} of {plural(len(plan.tables), 'table')} {verb} not as declared.{more}{rewrites}"


def plan_counts(plan: Plan) -> list[tuple[str, int, str]]:
    """Return (style, number of tables, words) for each thing that the plan does, as `outcome_counts`."""
    counts = summary(plan.tables)
    numbers = [
        ("changes", counts.alter, "to alter"),
        ("changes", counts.rewrite, "to rewrite"),
        ("changes", sum(table.waits for table in plan.tables), "waiting"),
        ("changes", sum(map(is_deferred, plan.tables)), "deferred"),
        ("unchanged", counts.unchanged, "unchanged"),
        ("refused", counts.refused, "refused"),
        ("error", counts.failed, "failed"),
    ]
    return [count for count in numbers if count[1]]


def outcome_counts(report: RunReport) -> list[tuple[str, int, str]]:
    """Return (style, number of tables, words) for each result status, and for the tables that apply did not start.

    The style is the class of the number in the HTML report. Numbers that are 0 are left out.
    """
    plan, outcomes = report.plan, [result.outcome for result in report.results.values()]
    counts = [
        ("unchanged" if outcome.succeeded else "error", outcomes.count(outcome), text.partition(":")[0])
        for outcome, text in RESULT_STATUSES.items()
    ]
    left = sum(table.table not in report.results for table in plan.with_status(Status.CHANGES))
    counts += [("changes", left, "not begun")]
    counts += [("refused", len(plan.with_status(Status.REFUSED)), "refused")]
    counts += [("error", len(plan.with_status(Status.ERROR)), "with errors")]
    return [count for count in counts if count[1]]
