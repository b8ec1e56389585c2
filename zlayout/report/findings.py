"""List the findings of a report, for GitHub annotations, SARIF and JUnit."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from zlayout.errors import Diagnostic, Location
from zlayout.planner.model import Plan, Status, TablePlan
from zlayout.planner.run_report import RunReport
from zlayout.report.phrases import altered, decay_text, drift_text, reasons_text, rewrite_text, shown_decay
from zlayout.report.words import RESULT_STATUSES, printable

Level = Literal["error", "warning", "note"]
_NUMBERS = re.compile(r"(?<!\w)\d[\d.,]*")
PROJECT = "project"  # instead of a table, in findings that concern no single table
LEVELS: tuple[Level, ...] = ("error", "warning", "note")

# Rule ids must not change: code scanning and dashboards identify findings by them.
RULES: Mapping[str, str] = {
    "layout-drift": "A declared setting differs from the setting of the table.",
    "not-laid-out": "The table was never laid out as declared.",
    "layout-decay": "A decay measure exceeds its tolerance.",
    "partitioning-drift": "The partitioning of the table differs from the declared partitioning.",
    "clustering-drift": "The clustering columns of the table differ from the declared z-order columns.",
    "table-property": "A table property prevents the declared layout from taking effect.",
    "not-applied": "The table is not as declared after apply.",
}
# Rules of findings that are no problems: what a plan of `changed:REV` is about.
CHANGES: Mapping[str, str] = {
    "layout-changed": "The layout differs from that at another revision of the project.",
    "layout-removed": "The table had a layout at another revision of the project, and has none now.",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem of one table. Its text is one line without control characters.

    Attributes:
        rule: A key of RULES, or an error code.
        subject: The setting, measure or property. Rule, table, subject and path identify the finding in later runs.
        location: The location in the YAML file.
    """

    rule: str
    level: Level
    table: str
    subject: str
    message: str
    location: Location


def findings(shown: Plan | RunReport) -> tuple[Finding, ...]:
    """Return all findings, sorted by level, then by the bytes to rewrite of the table (most first), then by table."""
    report = RunReport.of(shown)
    tables = sorted(report.plan.tables, key=lambda t: (-t.rewrite_bytes, t.table))
    found = [f for table in tables for f in of_table(table, report)]
    found += map(_safe, _diagnostics(PROJECT, Location("zlayout.yaml"), report.plan.diagnostics))
    for one in report.plan.changes.removed if report.plan.changes else ():
        text = "the table has no layout any more: zlayout does not change or report it, and its files stay"
        found.append(_safe(Finding("layout-removed", "note", one.table, "layout", text, Location("zlayout.yaml"))))
    return tuple(sorted(found, key=lambda f: LEVELS.index(f.level)))


def of_table(table: TablePlan, report: RunReport) -> tuple[Finding, ...]:
    """Return the findings of one table. A table that is as declared has only notes.

    After apply, the findings are the problems of the run, or one finding that the table is not as declared.
    """
    result, found = report.results.get(table.table), list[Finding]()
    if result is None:
        found += _diagnostics(table.table, table.location, table.diagnostics)
        found += _changes(table)
    elif report.is_open(table):
        text = f"run {result.run_id}: {RESULT_STATUSES[result.outcome]}"
        found += _diagnostics(table.table, table.location, result.problems)
        found = found or [Finding("not-applied", "error", table.table, "run", text, table.location)]
    return tuple(map(_safe, found))


def _safe(finding: Finding) -> Finding:
    """Sanitize the text of a finding, since a plan file may contain any text."""
    rule, table, subject, message = map(printable, (finding.rule, finding.table, finding.subject, finding.message))
    location = replace(finding.location, path=printable(finding.location.path))
    return Finding(rule, finding.level, table, subject, message, location)


def _changes(table: TablePlan) -> Iterator[Finding]:
    def finding(rule: str, subject: str, message: str, location: Location | None) -> Finding:
        return Finding(rule, "warning", table.table, subject, f"{message}{cost}", location or table.location)

    if table.status not in (Status.CHANGES, Status.REFUSED):
        return
    groups = table.groups
    cost = f" (rewrites {rewrite_text(table)})" if groups else ""
    if table.change is not None:
        for one in table.change.settings:
            text = f"{one.key}: {drift_text(one)}{cost}"
            yield Finding("layout-changed", "note", table.table, one.key, text, one.location or table.location)
        return
    partitioning, properties = [], []
    for name, before, after, why, location in altered(table):
        if why:
            text = f"expected {name} = {after}, found {before}: {why}"
            properties.append(finding("table-property", name, text, None))
        elif name == "partition_by":
            text = f"expected partition_by {after}, found {before}"
            partitioning.append(finding("partitioning-drift", name, text, location))
        else:
            text = f"expected CLUSTER BY {after}, found {before}"
            partitioning.append(finding("clustering-drift", "cluster_by", text, location))
    drift = [
        finding("layout-drift", d.key, f"declared {d.key} differs: {drift_text(d)}", d.location) for d in table.drift
    ]
    exceeded = shown_decay(table, verbose=False)
    decayed = [finding("layout-decay", decay.measure, decay_text(decay), None) for decay in exceeded]
    found = [*partitioning, *drift, *decayed, *properties]
    if groups and not found:
        rule = "not-laid-out" if table.is_first else "layout-drift"
        found = [finding(rule, "files", f"reason: {reasons_text(groups)}", None)]
    yield from found


def _diagnostics(table: str, location: Location, diagnostics: tuple[Diagnostic, ...]) -> Iterator[Finding]:
    for d in diagnostics:
        level: Level = "error" if d.severity == "refused" else d.severity
        # distinguishes findings with the same code, and does not change if only a number in the message changes
        subject = _NUMBERS.sub("#", d.message)
        message = f"{d.text} ({d.hint})" if d.hint else d.text
        yield Finding(d.code, level, table, subject, message, d.location or location)
