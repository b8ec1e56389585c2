"""Names that would do harm in a terminal, HTML, XML, Markdown, JSON or a workflow command, in every place of a plan."""

import dataclasses
import html.parser
import json
from typing import Any
from xml.etree import ElementTree

import markdown_it
import pytest
from hostile.asking import COMMAND, ask, broken_promises_count, escapes
from hostile.mutants import NAMES
from reliability import count
from unit.report.sample_plans import APPLIED, HOSTILE, ORDERS, PLAN

from zlayout.planner import document
from zlayout.planner.model import Changes, LayoutChange, Plan, RemovedLayout, SettingDrift
from zlayout.planner.run_report import RunReport
from zlayout.report import html as page
from zlayout.report.formats import REPORTERS
from zlayout.report.text import TextOptions, render

ANY = dataclasses.replace(HOSTILE, requirements=ORDERS.requirements)
BODY = document.to_json(dataclasses.replace(APPLIED, plan=Plan("0.1.0", (*PLAN.tables, *APPLIED.plan.tables, ANY))))
CHANGED = dataclasses.replace(
    ORDERS, change=LayoutChange(False, (SettingDrift("zorder.columns", ["a"], ["b"], ORDERS.location),), ("uri",))
)
NEW = dataclasses.replace(ANY, change=LayoutChange(True, (SettingDrift("where", None, "a = 1", None),)))
PULL_REQUEST = document.to_json(
    Plan(
        "0.1.0",
        (CHANGED, NEW, *PLAN.tables),
        diagnostics=ORDERS.diagnostics,
        changes=Changes("main", "0" * 40, (RemovedLayout("a", ORDERS.location, "b"),), 7),
    )
)
FREE = {f.name for f in dataclasses.fields(Plan)} | {"status", "severity", "outcome", "measure", "kind", "reason"}


def plan_of(name: str, body: str = BODY) -> RunReport:
    """A plan in which every text that can be anything is this one."""
    return _plan_of(name, json.loads(body))


def _plan_of(name: str, body: Any) -> RunReport:
    body |= {key: _named(body[key], name, 0) for key in ("changes", "diagnostics") if key in body}
    numbers = {table["table"]: n for n, table in enumerate(body["tables"])}
    body["tables"] = [_named(t, name, n) for n, t in enumerate(body["tables"])]
    body["results"] = [_named(r, name, numbers[r["table"]]) for r in body["results"]]
    return document.from_json(json.dumps(body), "plan.json")


def _named(node: Any, name: str, number: int, key: str = "") -> Any:
    if isinstance(node, dict):
        return {k: _named(v, name, number, k) for k, v in node.items()}
    if isinstance(node, list):
        return [_named(v, name, number, key) for v in node]
    return f"{name}{number}" if isinstance(node, str) and key not in FREE else node


@pytest.mark.parametrize("name", [n for n in NAMES if len(n) < 500])
@pytest.mark.parametrize("body", [BODY, PULL_REQUEST], ids=["run", "pull request"])
def test_every_format_holds_any_name(name: str, body: str) -> None:
    plan = plan_of(name, body)
    with broken_promises_count():
        for format in REPORTERS:
            if format == "html":
                continue
            count("bad_inputs")
            assert escapes(REPORTERS[format](plan)) == set(), format
            assert not COMMAND.search(REPORTERS[format](plan)), format
        json.loads(REPORTERS["json"](plan))
        json.loads(REPORTERS["sarif"](plan))
        ElementTree.fromstring(REPORTERS["junit"](plan).encode())
        for line in REPORTERS["github"](plan).splitlines():
            assert line.startswith(("::error ", "::notice "))
        assert escapes(render(plan, TextOptions(verbose=True), heading=name)) == set()
        assert_inert(markdown_it.MarkdownIt("gfm-like", {"linkify": False}).parse(REPORTERS["markdown"](plan)))


def assert_inert(tokens: list[Any]) -> None:
    """Names are in code; the only HTML is ours."""
    for token in tokens:
        if token.type in ("html_block", "html_inline"):
            inner = (
                token.content.replace("<br>", "")
                .replace("<details>", "")
                .replace("</details>", "")
                .replace("<summary>", "")
            )
            assert "<" not in inner.replace("</summary>", "").replace("<!-- zlayout-report -->", ""), token.content
        assert token.type not in ("link_open", "image"), token.content
        assert_inert(token.children or [])


class Page(html.parser.HTMLParser):
    """Elements and attributes of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: dict[str, int] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements[tag] = self.elements.get(tag, 0) + 1
        for name, value in attrs:
            assert not name.startswith("on"), (name, value)
            assert name not in ("src", "srcdoc", "action", "formaction"), (name, value)
            assert name != "href" or (value or "").startswith("#"), (name, value)


@pytest.mark.parametrize("name", [n for n in NAMES if len(n) < 500][::4])
@pytest.mark.parametrize("body", [BODY, PULL_REQUEST], ids=["run", "pull request"])
def test_a_page_holds_any_name(name: str, body: str) -> None:
    count("bad_inputs")
    with broken_promises_count():
        text = page.render(plan_of(name, body))
        assert escapes(text) <= {"\t"}
        assert not COMMAND.search(text)
        read = Page()
        read.feed(text)
        assert read.elements["script"] == read.elements["style"] == 1
        assert {"img", "iframe", "object", "form", "base", "link"} & set(read.elements) == set()


def test_the_terminal_gets_no_escape_of_a_plan_file(tmp_path: Any) -> None:
    for number, name in enumerate(NAMES):
        path = tmp_path / f"{number}.json"
        path.write_text(document.to_json(plan_of(name)))
        ask("show", str(path), "-v", "--color", "never")
        ask("show", str(path), "--report", "github=-", "--show-values")
        ask("show", str(path), "--output", "json")
