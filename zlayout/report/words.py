"""Write numbers, sizes, settings, names and enum values in the form that all reports have in common."""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections.abc import Callable, Container, Iterator, Sequence
from typing import TypeVar

from zlayout.message_text import size as size
from zlayout.planner.actions import (
    DECAY_REASONS,
    ChangeClustering,
    ChangePartitioning,
    PropertyChange,
    PropertyReason,
    Reason,
    truncation_text,
)
from zlayout.planner.model import Status, TablePlan, Wait
from zlayout.planner.run_report import ResultStatus
from zlayout.spec.formats import FORMATS

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
