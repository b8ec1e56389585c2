"""Write the report as GitHub workflow commands: annotations on lines of the YAML files, worst first."""

from __future__ import annotations

from zlayout.message_text import plural
from zlayout.planner.model import Plan
from zlayout.planner.run_report import RunReport
from zlayout.report.findings import RULES, Finding, findings
from zlayout.report.words import printable

# GitHub shows at most this many errors of one step.
MAX_ANNOTATIONS = 10
_COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}


def render(shown: Plan | RunReport) -> str:
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
