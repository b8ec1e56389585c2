"""Write the report as JUnit XML.

A table is a test case. It fails if the table is not as declared, and has an error if the table could not be planned or
its run failed. A plan of what `changed:REV` selects passes.
"""

from __future__ import annotations

import re
from xml.etree import ElementTree

from zlayout.planner.model import Plan, Status, TablePlan
from zlayout.planner.run_report import ResultStatus, RunReport
from zlayout.report.findings import of_table
from zlayout.report.text import TextOptions, render_table
from zlayout.report.words import printable

# Characters that XML 1.0 cannot contain, even if escaped.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(shown: Plan | RunReport) -> str:
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
