"""Plan files that somebody wrote: other tables, other versions, other types, things to draw that cannot be drawn."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hostile.asking import NoEngine, ask, escapes, refused
from hostile.mutants import NAMES, mutants
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from unit.report.sample_plans import APPLIED, HOSTILE, ORDERS, PLAN

from zlayout.errors import Refused, SpecError
from zlayout.planner import document
from zlayout.planner.model import Plan, Wait, WaitingGroups
from zlayout.planner.run_report import Boxes, Picture, RunReport, StripBin
from zlayout.report.formats import REPORTERS
from zlayout.table.external import MAX_MILLISECONDS

MANY = settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
BOXES = Boxes((0, 500, 0, 1000, 500, 1000, 0, 1000), 2)
PICTURE = Picture(("a", "b"), "p=1", BOXES, BOXES, (StripBin("p=1", 1, 2, 1, 3.0),), (("<= 1", 2),))
DRAWN = replace(ORDERS, table="drawn", size_histogram=(("<= 1/2", 3), ("> 2", 1)))
DOCUMENTS = [
    json.loads(document.to_json(p))
    for p in (
        PLAN,
        APPLIED,
        RunReport(
            Plan("0.1.0", (replace(HOSTILE, requirements=ORDERS.requirements), DRAWN)), pictures={"drawn": PICTURE}
        ),
    )
]
HOT = WaitingGroups(Wait.HOT, groups=1, files=1, bytes=1, partition_numbers=(1,), after=1_700_000_000_000)
TEXT = [name for name in REPORTERS if name != "html"]


@MANY
@given(st.integers(0, 2**32), st.sampled_from(DOCUMENTS))
def test_every_accepted_plan_can_be_shown_in_every_format(seed: int, original: dict[str, Any]) -> None:
    for mutant in mutants(original, seed, 15):
        text = json.dumps(mutant)
        if (error := refused(lambda text=text: document.from_json(text, "plan.json"), mutant)) is not None:
            assert isinstance(error, SpecError | Refused)
            continue
        plan = document.from_json(text, "plan.json")
        for name in TEXT:
            assert escapes(REPORTERS[name](plan)) == set()
        assert document.from_json(document.to_json(plan), "plan.json") == plan


@pytest.mark.parametrize("after", [MAX_MILLISECONDS + 1, 10**17, 2**63 - 1])
def test_a_time_that_is_no_date_is_refused(after: int) -> None:
    plan = json.loads(document.to_json(Plan("0.1.0", (replace(ORDERS, waiting=(HOT,)),))))
    assert "written after 2023-11-14" in REPORTERS["text"](document.from_json(json.dumps(plan), "plan.json"))
    plan["tables"][0]["waiting"][0]["after"] = after
    error = refused(lambda: document.from_json(json.dumps(plan), "plan.json"))
    assert "ZL041" in str(error)


@MANY
@given(st.lists(st.text(alphabet='{}[]",:0123456789eE.-+truefalsn\\u \n', max_size=80), max_size=10))
def test_noise_is_no_plan(texts: list[str]) -> None:
    for text in texts:
        assert refused(lambda text=text: document.from_json(text, "plan.json"), text) is not None


def test_a_page_is_drawn_of_every_accepted_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for mutant in mutants(DOCUMENTS[2], 5, 60):
        Path("plan.json").write_text(json.dumps(mutant))
        ask("show", "plan.json", "--report", "html=page.html", "--show-values", "--output", "json")


@pytest.mark.parametrize("label", NAMES)
def test_no_label_of_a_histogram_ends_the_process(label: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    plan = json.loads(json.dumps(DOCUMENTS[2]))
    plan["tables"][1]["size_histogram"] = [[label, 3], ["\ufffe\uffff", 2]]
    plan["pictures"][0]["picture"]["columns"] = [label, "\ufffe"]
    Path("plan.json").write_text(json.dumps(plan))
    answer = ask("show", "plan.json", "--report", "html=page.html")
    assert answer.code == 0


def test_apply_does_nothing_that_the_tables_own_plan_does_not_say(project: Path, no_engine: NoEngine) -> None:
    """A mutant that gets as far as Spark requires what the real plan requires, of the same table."""
    assert ask("plan", "--out", "real.json").code == 0
    real = json.loads(Path("real.json").read_text())
    log = sorted((project / "tables/db/orders").rglob("*"))
    reached = 0
    for mutant in mutants(real, 11, 250):
        Path("plan.json").write_text(json.dumps(mutant))
        before = no_engine.touched
        ask("apply", "plan.json", "--auto-approve")
        if no_engine.touched > before:
            reached += 1
            (table,) = mutant["tables"]
            assert (table["table"], table["requirements"]) == ("lake.db.orders", real["tables"][0]["requirements"])
    assert 0 < reached < 200
    assert sorted((project / "tables/db/orders").rglob("*")) == log


@pytest.mark.usefixtures("project")
def test_a_reviewed_plan_adds_nothing_to_the_tables_own_plan() -> None:
    """A mutant of a reviewed plan changes neither which table is planned nor what is done to it."""
    assert ask("plan", "--out", "real.json").code == 0
    (real,) = json.loads(Path("real.json").read_text())["tables"]
    Path("reviewed").mkdir()
    refused = 0
    for mutant in mutants(json.loads(Path("real.json").read_text()), 13, 150):
        Path("reviewed/1.json").write_text(json.dumps(mutant))
        assert ask("plan", "--reviewed", "reviewed", "--out", "plan.json").code == 0
        (table,) = json.loads(Path("plan.json").read_text())["tables"]
        warnings = [d["code"] for d in table["diagnostics"] if d["code"] == "ZL451"]
        refused += len(warnings)
        table["diagnostics"] = [d for d in table["diagnostics"] if d["code"] != "ZL451"]
        assert table == real
    assert 20 < refused < 150


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"table": "lake.db.other"}, "ZL045"),
        ({"table": "*"}, "ZL045"),
        ({"table": "tag:nightly"}, "ZL045"),
        ({"table": "path:*"}, "ZL045"),
        ({"table": "lake.db.orders/../../../etc"}, "ZL045"),
        ({"format": "iceberg", "path": "/etc/passwd"}, "ZL041"),
        ({"requirements": []}, "ZL041"),
        ({"requirements": None}, "ZL041"),
        ({"version": 0}, "ZL203"),
        ({"version": 10**6}, "ZL203"),
        ({"version": -5}, "ZL203"),
        ({"version": 2**64}, "ZL040"),
        ({"table_id": "another"}, "ZL203"),
        ({"layout_id": "0" * 16}, "ZL203"),
        ({"digest": "0" * 64}, "ZL203"),
        ({"schema": "x"}, "ZL203"),
        ({"files": -1}, "ZL041"),
        ({"files": 1e400}, "ZL040"),
    ],
)
@pytest.mark.usefixtures("project")
def test_a_plan_of_something_else_is_refused(change: dict[str, Any], code: str, no_engine: NoEngine) -> None:
    assert ask("plan", "--out", "plan.json").code == 0
    plan = json.loads(Path("plan.json").read_text())
    for key, value in change.items():
        table = plan["tables"][0]
        places = (table["requirements"], table["actions"][0], table)
        next((place for place in places if key in place and key not in ("files", "table")), table)[key] = value
    Path("plan.json").write_text(json.dumps(plan))
    answer = ask("apply", "plan.json", "--auto-approve")
    # a plan that is stale is shown as a plan is, one that is none is an error
    assert (answer.code, code in answer.out) == (3, True) if code == "ZL203" else (1, False)
    assert code in answer.out + answer.err
    assert no_engine.touched == 0


@pytest.mark.usefixtures("project")
def test_a_table_twice_is_no_plan(no_engine: NoEngine) -> None:
    assert ask("plan", "--out", "plan.json").code == 0
    plan = json.loads(Path("plan.json").read_text())
    plan["tables"] *= 2
    Path("plan.json").write_text(json.dumps(plan))
    assert "ZL041" in ask("apply", "plan.json", "--auto-approve").err
    assert no_engine.touched == 0
