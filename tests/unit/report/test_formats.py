"""Every format: as a person last saw it, valid by its schema, harmless whatever a table is called."""

import json
import re
from dataclasses import replace
from html import escape
from pathlib import Path

import jsonschema
import pytest
from lxml import etree
from markdown_it import MarkdownIt
from prometheus_client.parser import text_string_to_metric_families
from unit.report import golden
from unit.report.sample_plans import APPLIED, BROKEN, DONE, EVENTS, HOSTILE, NOTHING, ORDERS, PLAN, UNCHANGED, applied

from zlayout.errors import Diagnostic
from zlayout.planner.model import Plan, Reason, RewriteGroup
from zlayout.planner.run_report import ResultStatus, RunReport
from zlayout.report import markdown, prometheus
from zlayout.report.findings import findings, fingerprint, render_github, render_junit, render_sarif
from zlayout.report.formats import REPORTERS, seen_from, without_values
from zlayout.report.words import RESULT_STATUSES, printable
from zlayout.spec.check import load_schema

FIXTURES = Path(__file__).parents[2] / "fixtures"
SARIF_SCHEMA = json.loads((FIXTURES / "sarif-schema-2.1.0.json").read_text())
JUNIT_SCHEMA = etree.XMLSchema(etree.parse(FIXTURES / "junit-10.xsd"))
ENDINGS = {
    "text": "txt",
    "json": "json",
    "markdown": "md",
    "github": "log",
    "sarif": "sarif",
    "junit": "xml",
    "prometheus": "prom",
}
PLANS = {"plan": PLAN, "nothing": NOTHING, "applied": APPLIED}
EVERY = pytest.mark.parametrize("plan", [*PLANS.values(), Plan("0.1.0", (HOSTILE,)), Plan("0.1.0", ())])


@pytest.mark.parametrize("format", [f for f in ENDINGS if f != "json"])  # the plan document has tests of its own
@pytest.mark.parametrize("name", PLANS)
def test_the_report_is_as_last_seen(name: str, format: str) -> None:
    golden.check(f"{name}.{ENDINGS[format]}", REPORTERS[format](PLANS[name]))


@EVERY
def test_sarif_fits_the_official_schema(plan: Plan | RunReport) -> None:
    log = json.loads(render_sarif(plan))
    jsonschema.Draft4Validator(SARIF_SCHEMA, format_checker=jsonschema.FormatChecker()).validate(log)
    (run,) = log["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert [rules[r["ruleIndex"]] for r in run["results"]] == [r["ruleId"] for r in run["results"]]
    prints = [r["partialFingerprints"]["zlayoutFinding/v1"] for r in run["results"]]
    assert len(set(prints)) == len(prints)


def test_a_fingerprint_stays_when_numbers_and_lines_move_and_goes_with_its_subject() -> None:
    moved = replace(ORDERS, location=replace(ORDERS.location, line=9), actions=ORDERS.groups[:1])
    other = replace(ORDERS, drift=(replace(ORDERS.drift[0], key="zorder.curve"),))
    before, after, elsewhere = ({fingerprint(f) for f in findings(Plan("0.1.0", (t,)))} for t in (ORDERS, moved, other))
    assert before == after
    assert not before & elsewhere


def test_fingerprints_of_two_notes_with_one_code_differ_and_stay_when_their_numbers_move() -> None:
    def prints(*messages: str) -> list[str]:
        notes = tuple(Diagnostic("ZL406", message, "note") for message in messages)
        return [fingerprint(f) for f in findings(Plan("0.1.0", (replace(NOTHING.tables[0], diagnostics=notes),)))]

    first, second = prints("bounds of url are cut in 1,204 files", "bounds of c2 are cut in 7 files")
    assert first != second
    assert prints("bounds of url are cut in 9 files", "bounds of c2 are cut in 1.5 files") == [first, second]
    assert prints("bounds of c3 are cut in 7 files") != [second]


@EVERY
def test_junit_fits_its_schema_and_counts_right(plan: Plan | RunReport) -> None:
    tree = etree.fromstring(render_junit(plan).encode())
    JUNIT_SCHEMA.assertValid(tree)
    suite = tree.find("testsuite")
    assert int(suite.get("tests", "")) == len(suite.findall("testcase")) == len(RunReport.of(plan).plan.tables)
    assert int(suite.get("failures", "")) == len(suite.findall("testcase/failure"))
    assert int(suite.get("errors", "")) == len(suite.findall("testcase/error"))


@EVERY
def test_prometheus_reads_the_metrics_as_they_were_meant(plan: Plan | RunReport) -> None:
    report = RunReport.of(plan)
    families = {f.name: f.samples for f in text_string_to_metric_families(prometheus.render(plan))}
    assert sum(sample.value for sample in families["zlayout_tables"]) == len(report.plan.tables)
    found = {s.labels["table"]: s.value for s in families["zlayout_table_not_as_declared"]}
    assert found == {printable(t.table): float(report.is_open(t)) for t in report.plan.tables}
    touched = {(s.labels["table"], s.labels["column"]): s.value for s in families["zlayout_table_touched_files"]}
    read = [t for t in report.plan.tables if t.files]
    assert touched == {(printable(t.table), printable(c.column)): c.touched for t in read for c in t.columns}
    assert {s.labels["table"] for s in families["zlayout_table_bytes"]} == {printable(t.table) for t in read}
    removed = {s.labels["table"]: s.value for s in families["zlayout_table_files_removed"]}
    assert removed == {printable(name): result.files_removed for name, result in report.results.items()}


def test_junit_tells_failures_from_errors() -> None:
    tree = etree.fromstring(render_junit(PLAN).encode())
    kinds = {case.get("name"): [child.tag for child in case] for case in tree.iter("testcase")}
    assert kinds == {
        "bronze.events": ["failure"],
        "bronze.orders": ["failure"],
        "bronze.small": [],
        "gold.missing": ["error"],
        "gold.clustered": ["failure"],
    }


def test_annotations_are_at_most_ten_worst_first_and_one_line_each() -> None:
    lines = render_github(PLAN).splitlines()
    assert [line.split("%3A ")[1].split(",")[0] for line in lines[:3]] == ["ZL210", "ZL110", "partitioning-drift"]
    assert lines[1].startswith("::error file=layouts/missing.yaml,title=gold.missing%3A ZL110,line=2,col=1::")
    many = Plan("0.1.0", tuple(replace(ORDERS, table=f"t{n:02}") for n in range(30)))
    lines = render_github(many).splitlines()
    assert len(lines) == 11
    assert lines[-1] == "::notice title=zlayout::20 more findings in the full report"


def test_among_equals_the_table_with_most_to_rewrite_comes_first() -> None:
    small = replace(ORDERS, table="aaa", actions=ORDERS.groups[:1])
    assert [f.table for f in findings(Plan("0.1.0", (small, ORDERS)))] == ["bronze.orders", "aaa"]


def test_a_workflow_command_cannot_be_smuggled_in() -> None:
    for line in render_github(Plan("0.1.0", (HOSTILE,))).splitlines():
        command, properties, _ = re.fullmatch(r"::(\w+) ((?:\w+=[^:,]*,?)+)::(.*)", line).groups()  # type: ignore[union-attr]
        assert command in ("error", "notice")
        assert [p.partition("=")[0] for p in properties.split(",")] == ["file", "title", "line", "col"]


def test_markdown_leaves_out_whole_tables_and_says_how_many() -> None:
    many = Plan("0.1.0", tuple(replace(ORDERS, table=f"table{n:04}") for n in range(500)))
    text = markdown.render(many, max_tables=None)
    assert 50_000 < len(text.encode()) <= markdown.MAX_BYTES
    assert text.count("<details>") == text.count("</details>") == len(re.findall(r"^\| `table", text, re.MULTILINE))
    left = re.search(r"^And (\d+) tables more: \1 drift\.", text, re.MULTILINE)
    assert int(left[1]) + text.count("<details>") == 500
    assert text.startswith(markdown.MARKER)


def test_a_comment_has_the_ten_worst_tables_and_counts_the_others_by_state() -> None:
    decayed = replace(EVENTS, actions=EVENTS.groups[1:])
    first = replace(ORDERS, drift=(), actions=tuple(replace(g, reason=Reason.NOT_LAID_OUT) for g in ORDERS.groups))
    many = [replace(t, table=f"{t.table}{n}") for n in range(5) for t in (ORDERS, decayed, first)]
    text = markdown.render(Plan("0.1.0", (*many, BROKEN)))
    rows = re.findall(r"^\| `(\S+)`", text, re.MULTILINE)
    assert len(rows) == text.count("<details>") == 10
    assert rows[0] == BROKEN.table
    assert "\nAnd 6 tables more: 1 first layout, 5 decay. The text and the HTML report show all.\n" in text


def test_markdown_of_a_hostile_table_renders_no_element_of_its_own() -> None:
    html = MarkdownIt("gfm-like", {"linkify": False}).render(markdown.render(Plan("0.1.0", (HOSTILE,))))
    assert set(re.findall(r"<(\w+)", html)) <= {
        *("details", "summary", "h3", "p", "table", "thead", "tbody", "tr", "th", "td", "code", "pre")
    }
    assert html.count("<td>") == 7
    assert f"<td><code>{escape(printable(HOSTILE.table), quote=False)}</code></td>" in html


@pytest.mark.parametrize("format", ENDINGS)
def test_no_control_or_bidi_character_comes_through(format: str) -> None:
    text = REPORTERS[format](Plan("0.1.0", (HOSTILE,)))
    if format == "json":
        assert "\x1b" not in text
        return
    assert not set(text) & {"\x1b", "\u202e"}


@pytest.mark.parametrize("format", sorted(REPORTERS))
def test_values_of_rows_are_in_no_report_unless_asked_for(format: str) -> None:
    secret = replace(
        EVENTS, actions=(RewriteGroup("g", "name=Secret Person", 1, 1, 1, 1, Reason.DECAYED, "d"),), partitions=2
    )
    plan = Plan("0.1.0", (secret, UNCHANGED))
    assert "Secret" not in REPORTERS[format](without_values(plan))
    if format == "json":
        assert "Secret" in REPORTERS[format](plan)


def test_every_place_moves_below_the_folder_and_absolute_ones_stay() -> None:
    told = (Diagnostic("ZL403", "a note", "note", location=ORDERS.location),)
    failed = replace(ORDERS, table="failed")
    plan = Plan("0.1.0", (EVENTS, replace(ORDERS, diagnostics=told), failed))
    moved = seen_from(RunReport(plan, {"failed": replace(DONE, problems=told)}), "data/lake")
    paths = re.findall(r'"path": "([^"]*)"', REPORTERS["json"](moved))
    assert len(paths) == 7
    assert all(path.startswith("data/lake/layouts/") for path in paths)
    elsewhere = replace(UNCHANGED, location=replace(UNCHANGED.location, path="/x/y.yaml"))
    assert seen_from(Plan("0.1.0", (elsewhere,)), "data").plan.tables == (elsewhere,)
    up = replace(UNCHANGED, location=replace(UNCHANGED.location, path="../y.yaml"))
    assert seen_from(Plan("0.1.0", (up,)), "data").plan.tables[0].location.path == "y.yaml"
    assert seen_from(APPLIED, "") is APPLIED


@pytest.mark.parametrize("outcome", RESULT_STATUSES)
def test_every_outcome_fits_the_schema_and_a_spent_budget_is_no_failure(outcome: ResultStatus) -> None:
    plan = applied(replace(DONE, outcome=outcome))
    jsonschema.Draft202012Validator(load_schema("plan")).validate(json.loads(REPORTERS["json"](plan)))
    fine = outcome in ("as_declared", "within_budget", "out_of_time", "hot", "as_planned")
    assert ("<failure" in render_junit(plan) or "<error" in render_junit(plan)) is not fine
    assert bool(render_github(plan)) is not fine


@EVERY
def test_the_json_report_fits_the_schema_without_values_too(plan: Plan | RunReport) -> None:
    jsonschema.Draft202012Validator(load_schema("plan")).validate(json.loads(REPORTERS["json"](without_values(plan))))


@pytest.mark.parametrize("form", sorted(REPORTERS))
def test_what_an_engine_said_of_partitions_is_told_only_with_values(form: str) -> None:
    """A conflict of Delta's names the partition that another commit changed."""
    problem = Diagnostic("ZL321", "another commit won", detail="deleted data in the partition [email=ann@example.com]")
    result = replace(DONE, outcome=ResultStatus.FAILED, problems=(problem,))
    plan = applied(result, replace(ORDERS, diagnostics=(problem,)))
    told, shown = (REPORTERS[form](p) for p in (without_values(plan), plan))
    assert "ann@example.com" not in told
    has_texts = form != "prometheus"
    assert ("ann@example.com" in shown) is has_texts
    assert ("another commit won" in told) is has_texts
