"""Write the report as SARIF 2.1.0, for code scanning."""

from __future__ import annotations

import hashlib
from typing import Any
from urllib.parse import quote

from zlayout.message_text import json_text
from zlayout.planner.model import Plan
from zlayout.planner.run_report import RunReport
from zlayout.report.findings import CHANGES, RULES, Finding, findings

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def render(shown: Plan | RunReport) -> str:
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
