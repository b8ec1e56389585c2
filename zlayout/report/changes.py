"""What the layouts of a pull request change: the words and groups that the reports of `changed:REV` have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from zlayout.planner.model import SAME_READS, Changes, LayoutChange, Plan, Status, TablePlan
from zlayout.report.words import (
    bytes_text,
    cost_text,
    declared,
    duration,
    is_deferred,
    money,
    number,
    rewrite_text,
    states_text,
    touched_text,
    worst_first,
)
from zlayout.text import plural, size

_REWRITE = (
    "A rewrite changes no row; it only moves rows to other files. zlayout rollback TABLE undoes the last rewrite of a "
    "table, as long as the replaced files are stored."
)
MORE, MAYBE_MORE = "more than now", "perhaps more than now"
GONE = "zlayout neither rewrites nor reports them any more; their files stay as they are."


@dataclass(frozen=True, slots=True)
class ChangeGroup:
    """Tables whose layouts change in the same way, the worst first.

    Attributes:
        change: The change of the first table.
    """

    change: LayoutChange
    tables: tuple[TablePlan, ...]

    @property
    def title(self) -> str:
        """The name of the table, or how many tables there are."""
        return self.tables[0].table if len(self.tables) == 1 else plural(len(self.tables), "table")

    @property
    def kind(self) -> str:
        """What happens to the layout, in words that follow the title."""
        layouts = "layout" if len(self.tables) == 1 else "layouts"
        if self.change.is_new:
            return f"new {layouts}"
        return f"{layouts} changed" if self.change.is_change else f"{layouts} with a new problem"

    @property
    def files(self) -> list[str]:
        """The YAML files of the layouts; for one table with the line."""
        if len(self.tables) == 1:
            return [str(self.tables[0].location)]
        return list(dict.fromkeys(table.location.path for table in self.tables))

    @property
    def knows_times(self) -> bool:
        """Whether the time that the rewrite takes is known for a table."""
        return any(table.change is not None and table.change.seconds is not None for table in self.tables)

    @property
    def settings(self) -> list[tuple[str, str, str]]:
        """(name, value before, value now) of each setting that differs. Catalogs may hold secrets: no value."""
        found = _texts(self.change)
        catalog = self.tables[0].table.partition(".")[0]
        return [*found, *((f"catalogs.{catalog}.{key}", "", "another value") for key in self.change.catalog)]


def _texts(change: LayoutChange) -> list[tuple[str, str, str]]:
    return [(s.key, declared(s.before, s.key), declared(s.after, s.key)) for s in change.settings]


def change_groups(plan: Plan) -> list[ChangeGroup]:
    """Return the tables whose layouts differ, grouped by how they differ; the group with the worst table first."""
    found: dict[object, list[TablePlan]] = {}
    for table in worst_first(plan.changed):
        assert table.change is not None
        key = (table.change.is_new, tuple(_texts(table.change)), table.change.catalog, table.table.partition(".")[0])
        found.setdefault(key, []).append(table)
    return [ChangeGroup(tables[0].change, tuple(tables)) for tables in found.values() if tables[0].change]


def headline(plan: Plan, changes: Changes) -> str:
    """Write how many layouts differ, are new, and are gone."""
    changed = plan.changed
    new = sum(table.change is not None and table.change.is_new for table in changed)
    parts = [
        f"{plural(count, 'layout')} {words}"
        for count, words in ((len(changed) - new, "changed"), (new, "new"))
        if count
    ]
    if gone := len(changes.removed):
        parts.append(f"{plural(gone, 'table')} no longer managed")
    return ", ".join(parts) or "no layout changed"


def effect(tables: Sequence[TablePlan]) -> str:
    """Write what apply would do to tables: files, bytes, time and price."""
    rewriting = [table for table in tables if table.groups]
    stopped = sum(table.status in (Status.ERROR, Status.REFUSED) for table in tables)
    altering = sum(table.alters and not table.groups for table in tables)
    parts = []
    if rewriting:
        files = sum(table.rewrite_files for table in rewriting)
        total = size(sum(table.rewrite_bytes for table in rewriting))
        parts.append(f"rewrites {total} in {plural(files, 'file')} of {plural(len(rewriting), 'table')}")
    if altering:
        parts.append(f"alters {plural(altering, 'table')} without a rewrite")
    refused = f" {plural(stopped, 'table')} cannot be changed." if stopped else ""
    return f"Apply {' and '.join(parts) or 'changes no file'}.{_time(rewriting)}{refused}"


def nothing_yet(tables: Sequence[TablePlan]) -> str:
    """Write that the plans of these tables are not carried out yet; '' if there is nothing to carry out."""
    return "Nothing is applied yet." if any(table.actions for table in tables) else ""


def _time(tables: Sequence[TablePlan]) -> str:
    known = [t.change for t in tables if t.change is not None and t.change.seconds is not None]
    others = len(tables) - len(known)
    if not known:
        return " How long that takes is unknown before the first apply." if others else ""
    seconds = sum(change.seconds or 0 for change in known)
    prices = [change.cost for change in known if change.cost is not None]
    price = f" and costs {money(sum(prices))}" if len(prices) == len(known) else ""
    unknown = f", without {plural(others, 'table')} that no run has rewritten yet" if others else ""
    return f" That takes about {duration(seconds)}{price} at the speed of the last runs{unknown}."


def action_text(table: TablePlan) -> str:
    """Write what apply would do to one table."""
    if table.status in (Status.ERROR, Status.REFUSED):
        return f"nothing: {table.status}"
    if table.waits or is_deferred(table):
        return "nothing now: it waits for a later run"
    if table.selects_nothing:
        return "nothing: `where` matches no partition"
    if table.groups:
        return _spelled(f"rewrites {rewrite_text(table)}").replace(" -> ", " → ")
    return "alters settings alone" if table.alters else "nothing: laid out like this already"


def time_text(table: TablePlan) -> str:
    """Write how long the rewrite of one table takes, and its price; '' if that is unknown or nothing is rewritten."""
    change = table.change
    if change is None or change.seconds is None:
        return "unknown" if table.groups else ""
    return f"about {duration(change.seconds)}" + ("" if change.cost is None else f", {money(change.cost)}")


def reads(table: TablePlan) -> Iterator[tuple[str, str, str]]:
    """Yield for z-order columns and the workload: what reads, what it opens now and after apply, and how that grows.

    The last one is `MORE`, `MAYBE_MORE` or ''.
    """
    for column in table.columns if table.groups else ():
        read = column.bytes_read
        if files := touched_text(column):
            now = f"{_files(number(column.touched))}, {size(read.now)}"
            then = _spelled(f"{_files(files)}, {bytes_text(read) or 'unknown'}")
            may_grow = MAYBE_MORE if read.predicted is None and read.grows_to(read.high) else ""
            grows = MORE if read.grows_to(read.predicted_or_low) else may_grow
            yield column.column, f"{now} → {then}", grows
    workload = table.workload
    if workload is not None and table.groups:
        after, now = workload.predicted, cost_text(workload.now)
        unknown = "unknown without --sample" if workload.floor is None else "unknown"
        then = unknown if after is None else cost_text(after)
        is_more = after is not None and after.bytes > SAME_READS * workload.now.bytes
        yield "workload", f"{now} → {then}", MORE if is_more else ""


def _spelled(text: str) -> str:
    """Write ranges in words, for readers who see no other output of zlayout."""
    return text.replace("..", " to ")


def _files(count: str) -> str:
    return f"{count} file{'' if count == '1' else 's'}"


def dropped_columns(table: TablePlan) -> tuple[str, ...]:
    """Return the columns by which the table was z-ordered, and is not any more."""
    settings = table.change.settings if table.change else ()
    found = next(((s.before, s.after) for s in settings if s.key == "zorder.columns"), ((), ()))
    before, after = (
        [str(column["name"] if isinstance(column, dict) else column) for column in columns or ()] for columns in found
    )
    return tuple(column for column in before if column not in after)


@dataclass(frozen=True, slots=True)
class Problem:
    """What a reviewer must know before the merge.

    Attributes:
        severity: That of a diagnostic.
        words: The message of a diagnostic; or words of this module, with COLUMNS where names of columns belong.
        columns: The columns, () in the message of a diagnostic.
    """

    severity: str
    words: str
    columns: tuple[str, ...] = ()

    def text(self, column: Callable[[str], str] = str) -> str:
        """Write the words with the names of the columns, each written by `column`."""
        if not self.columns:
            return self.words
        before, _, after = self.words.partition(COLUMNS)
        return before + ", ".join(map(column, self.columns)) + after


COLUMNS = "{columns}"
_MORE = f"queries that filter on {COLUMNS} read {MORE}"
_DROPPED = (
    f"no longer in zorder.columns: {COLUMNS}. Queries that filter on it may open more files from then on, which later "
    "plans do not show, unless a workload has such queries"
)


def problems(plan: Plan) -> list[tuple[Problem, list[str]]]:
    """Return what a reviewer must know before the merge, with the names of the tables, the worst first."""
    changed = plan.changed
    found = [("", d) for d in plan.diagnostics] + [(table.table, d) for table in changed for d in table.diagnostics]
    told: dict[Problem, list[str]] = {}
    for name, d in found:
        if d.severity != "note":
            text = f"{d.code} {d.text}" + (f" ({d.hint})" if d.hint else "")
            told.setdefault(Problem(d.severity, text), []).append(name)
    for table in changed:
        more = tuple(what for what, _, grows in reads(table) if grows == MORE)
        if more and not table.reads_more:
            told.setdefault(Problem("warning", _MORE, more), []).append(table.table)
        if gone := dropped_columns(table):
            told.setdefault(Problem("warning", _DROPPED, gone), []).append(table.table)
    order = ("error", "refused", "warning")
    listed = [(problem, [name for name in names if name]) for problem, names in told.items()]
    return sorted(listed, key=lambda one: order.index(one[0].severity))


def after_merge(plan: Plan) -> str:
    """Write what is applied after the merge."""
    changed = plan.changed
    if not any(table.actions for table in changed):
        return "This plan has nothing to apply after the merge."
    exactly = (
        "After the merge, zlayout apply with the plan file of this run changes exactly these files. Files that are "
        "added until then wait for a later plan. A table whose layout, schema or planned files change until then is "
        "not rewritten by this plan: it needs a new one, and the other tables do not."
    )
    return f"{exactly} {_REWRITE}" if any(table.groups for table in changed) else exactly


def backlog(plan: Plan, changes: Changes) -> str:
    """Write in one line what is not as declared and not changed by the pull request."""
    others = [table for table in plan.tables if table.change is None]
    if not others:
        same = changes.unchanged
        return f"Not part of this plan: {plural(same, 'layout')} that did not change." if same else ""
    left = [table for table in others if not table.as_declared]
    states = f": {states_text(left)}" if left else ""
    return f"Backlog: {len(left):,} of {plural(len(others), 'other table')} not as declared{states}."
