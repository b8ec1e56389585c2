"""What a plan finds wrong, as a flat list: the common ground of annotations, SARIF and JUnit."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from zlayout.errors import Diagnostic, Location
from zlayout.planner.model import Plan, Status, TablePlan
from zlayout.planner.run_report import RunReport
from zlayout.report.text import decay_text, drift_text, reasons_text, rewrite_text
from zlayout.report.words import OUTCOMES, printable, property_reason, setting

Level = Literal["error", "warning", "note"]
_NUMBERS = re.compile(r"(?<!\w)\d[\d.,]*")
LEVELS: tuple[Level, ...] = ("error", "warning", "note")

# Rule ids are stable: code scanning and dashboards remember findings by them.
RULES: Mapping[str, str] = {
    "layout-drift": "A declared setting differs from what the table's files were laid out with.",
    "not-laid-out": "The declared layout was never applied.",
    "layout-decay": "The data moved on past the tolerance since it was laid out.",
    "partitioning-drift": "The table is partitioned otherwise than declared.",
    "table-property": "A table property keeps the declared layout from working.",
    "not-applied": "Apply left the table otherwise than declared.",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong with one table, safe to print: no control characters, one line.

    rule: a key of RULES or a ZL code. subject: the setting, measure or property it is about; with rule and table it
    names the finding for good. location: the place in the YAML file.
    """

    rule: str
    level: Level
    table: str
    subject: str
    message: str
    location: Location


def findings(shown: Plan | RunReport) -> tuple[Finding, ...]:
    """All findings, worst first: by level, then by bytes to rewrite, then by table."""
    report = RunReport.of(shown)
    tables = sorted(report.plan.tables, key=lambda t: (-t.rewrite_bytes, t.table))
    found = [f for table in tables for f in of_table(table, report)]
    return tuple(sorted(found, key=lambda f: LEVELS.index(f.level)))


def _safe(finding: Finding) -> Finding:
    """A plan file may say anything anywhere: in one line and without what a terminal would act on."""
    rule, table, subject, message = map(printable, (finding.rule, finding.table, finding.subject, finding.message))
    place = replace(finding.location, path=printable(finding.location.path))
    return Finding(rule, finding.level, table, subject, message, place)


def of_table(table: TablePlan, report: RunReport) -> tuple[Finding, ...]:
    """The findings of one table; no more than notes for one that is as declared.

    After an apply, only what is still open: its problems, or that the table is not as declared yet.
    """
    return tuple(map(_safe, _of_table(table, report)))


def _of_table(table: TablePlan, report: RunReport) -> Iterator[Finding]:
    result = report.results.get(table.table)
    if result is None:
        yield from _diagnostics(table, table.diagnostics)
        yield from _changes(table)
    elif report.is_open(table):
        problems = tuple(_diagnostics(table, result.problems))
        text = f"run {result.run_id}: {OUTCOMES[result.outcome]}"
        yield from problems or (Finding("not-applied", "error", table.table, "run", text, table.location),)


def _changes(table: TablePlan) -> Iterator[Finding]:
    def finding(rule: str, subject: str, message: str, location: Location | None) -> Finding:
        return Finding(rule, "warning", table.table, subject, f"{message}{cost}", location or table.location)

    if table.status not in (Status.CHANGES, Status.REFUSED):
        return
    groups = table.groups
    cost = f" (rewrites {rewrite_text(table)})" if groups else ""
    told = False
    if table.partitioning:
        before, after = (setting(list(names)) for names in (table.partitioning.before, table.partitioning.after))
        text = f"partition_by is declared as {after}, the table has {before}"
        yield finding("partitioning-drift", "partition_by", text, table.partitioning.location)
        told = True
    for drift in table.drift:
        yield finding("layout-drift", drift.key, f"declared {drift.key} differs: {drift_text(drift)}", drift.location)
        told = True
    for decay in table.decay if groups else ():
        if decay.exceeded:
            yield finding("layout-decay", decay.measure, decay_text(decay), None)
            told = True
    for change in table.properties:
        text = f"{change.name} must be {setting(change.after)}, is {setting(change.before)}: "
        yield finding("table-property", change.name, text + property_reason(change), None)
        told = True
    if groups and not told:
        rule = "not-laid-out" if table.is_first else "layout-drift"
        yield finding(rule, "files", f"files are {reasons_text(groups)}", None)


def _diagnostics(table: TablePlan, diagnostics: tuple[Diagnostic, ...]) -> Iterator[Finding]:
    for d in diagnostics:
        level: Level = "note" if d.severity == "note" else "warning" if d.severity == "warning" else "error"
        hint = f" ({d.hint})" if d.hint else ""
        place = d.location or table.location
        subject = _NUMBERS.sub("#", d.message)  # two of one code are about different things
        yield Finding(d.code, level, table.table, subject, f"{d.text}{hint}", place)
