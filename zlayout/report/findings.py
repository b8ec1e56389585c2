"""The findings of a report, and the formats that list them: annotations of GitHub, SARIF 2.1.0 and JUnit XML.

In JUnit XML, a table is a test case. It fails if the table is not as declared, and has an error if the table could not
be planned or its run failed. A plan of what `changed:REV` selects passes.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal
from urllib.parse import quote
from xml.etree import ElementTree

from zlayout.errors import Diagnostic, Location
from zlayout.planner.model import Plan, Status, TablePlan
from zlayout.planner.run_report import ResultStatus, RunReport
from zlayout.report.text import TextOptions, render_table
from zlayout.report.words import (
    RESULT_STATUSES,
    altered,
    decay_text,
    drift_text,
    printable,
    reasons_text,
    rewrite_text,
    shown_decay,
)
from zlayout.text import json_text, plural

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


# Annotations of GitHub.


# GitHub shows at most this many errors of one step.
MAX_ANNOTATIONS = 10
_COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}


def render_github(shown: Plan | RunReport) -> str:
    """Render one annotation for each finding, at most MAX_ANNOTATIONS, and a notice with the number of the others."""
    found = findings(shown)
    lines = [_command(f) for f in found[:MAX_ANNOTATIONS]]
    if (rest := len(found) - MAX_ANNOTATIONS) > 0:
        lines.append(f"::notice title=zlayout::{plural(rest, 'more finding')} in the full report")
    return "".join(f"{line}\n" for line in lines)


def _command(finding: Finding) -> str:
    location = finding.location
    parts = {"file": printable(location.path), "title": f"{finding.table}: {finding.rule}"}
    if location.line:
        parts |= {"line": str(location.line), "col": str(location.column)}
    properties = ",".join(f"{key}={_property(value)}" for key, value in parts.items())
    # Drift is what the check is for, so it is shown as an error; the warnings of a plan are not.
    command = "error" if finding.rule in RULES else _COMMANDS[finding.level]
    return f"::{command} {properties}::{_data(finding.message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


# SARIF.


SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def render_sarif(shown: Plan | RunReport) -> str:
    """Render one run with a result per finding. The fingerprint of a finding is the same in later runs."""
    report = RunReport.of(shown)
    found = findings(report)
    codes = sorted({f.rule for f in found} - set(RULES))
    rules = [*RULES, *codes]
    driver = {
        "name": "zlayout",
        "semanticVersion": report.plan.zlayout_version,
        "rules": [_rule(rule) for rule in rules],
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(f, rules.index(f.rule)) for f in found],
    }
    return json_text({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}) + "\n"


def _rule(rule: str) -> dict[str, Any]:
    text = {**RULES, **CHANGES}.get(rule, f"zlayout error {rule}: see docs/errors.md for its meaning and its fix.")
    return {"id": rule, "shortDescription": {"text": text}}


def _result(finding: Finding, rule_index: int) -> dict[str, Any]:
    location = finding.location
    physical: dict[str, Any] = {"artifactLocation": {"uri": quote(location.path.replace("\\", "/"))}}
    if location.line:
        physical["region"] = {"startLine": location.line, "startColumn": max(location.column, 1)}
    return {
        "ruleId": finding.rule,
        "ruleIndex": rule_index,
        "level": finding.level,
        "message": {"text": f"{finding.table}: {finding.message}"},
        "locations": [
            {
                "physicalLocation": physical,
                "logicalLocations": [{"fullyQualifiedName": finding.table, "kind": "table"}],
            }
        ],
        "partialFingerprints": {"zlayoutFinding/v1": fingerprint(finding)},
    }


def fingerprint(finding: Finding) -> str:
    """Return a hash (32 hexadecimal digits) of rule, table, subject and path. It is the same in later runs."""
    parts = "\0".join((finding.rule, finding.table, finding.subject, finding.location.path))
    return hashlib.sha256(parts.encode()).hexdigest()[:32]


# JUnit XML.


# Characters that XML 1.0 cannot contain, even if escaped.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render_junit(shown: Plan | RunReport) -> str:
    """Render one test suite in the format that Jenkins and GitLab read (junit-10.xsd)."""
    report = RunReport.of(shown)
    plan = report.plan
    broken = [t for t in plan.tables if report.is_open(t) and _broken(t, report)]
    counts = {
        "tests": str(len(plan.tables)),
        "failures": str(sum(_is_problem(t, report) for t in plan.tables) - len(broken)),
        "errors": str(len(broken)),
    }
    named = {"name": "zlayout drift" if report.drift else "zlayout", **counts}
    root = ElementTree.Element("testsuites", named)
    suite = ElementTree.SubElement(root, "testsuite", named)
    for table in plan.tables:
        _case(suite, table, report)
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


def _case(suite: ElementTree.Element, table: TablePlan, report: RunReport) -> None:
    attributes = {"name": table.table, "classname": table.location.path}
    case = ElementTree.SubElement(suite, "testcase", {k: _xml(printable(v)) for k, v in attributes.items()})
    if not _is_problem(table, report):
        return
    found = of_table(table, report)
    problem = ElementTree.SubElement(
        case,
        "error" if _broken(table, report) else "failure",
        {"type": _xml(found[0].rule if found else table.status), "message": _xml(found[0].message if found else "")},
    )
    problem.text = _xml(render_table(table, report.results.get(table.table), TextOptions(verbose=True)))


def _is_problem(table: TablePlan, report: RunReport) -> bool:
    """Return whether a table is not as declared, unless the plan does what the owner of its layout changed."""
    planned = table.change is not None and table.status is Status.CHANGES and table.table not in report.results
    return report.is_open(table) and not planned


def _broken(table: TablePlan, report: RunReport) -> bool:
    result = report.results.get(table.table)
    return table.status is Status.ERROR or (
        result is not None and result.outcome in (ResultStatus.FAILED, ResultStatus.UNKNOWN)
    )


def _xml(text: str) -> str:
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)
