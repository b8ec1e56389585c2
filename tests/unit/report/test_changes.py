"""The reports of what a pull request changes, on plain data."""

from dataclasses import replace

import pytest
from unit.report.sample_fleet import sample_fleet
from unit.report.sample_plans import EVENTS, ORDERS, REFUSED, UNCHANGED

from zlayout.errors import Diagnostic
from zlayout.planner.model import Changes, LayoutChange, Plan, RemovedLayout, SettingDrift, TablePlan
from zlayout.report import changes, html, markdown, text
from zlayout.report.findings import render_github, render_junit
from zlayout.report.formats import seen_from, without_values
from zlayout.report.words import state

BASE = "0123456789abcdef0123456789abcdef01234567"


def changed(table: TablePlan, *settings: tuple[str, object, object], **fields: object) -> TablePlan:
    drift = tuple(SettingDrift(*setting, table.location) for setting in settings)
    return replace(table, change=LayoutChange(False, drift, **fields))  # type: ignore[arg-type]


COLUMNS = ("zorder.columns", ["a"], ["a", "b"])


def plan_of(*tables: TablePlan, removed: int = 0, unchanged: int = 0) -> Plan:
    gone = tuple(RemovedLayout(f"lake.old.t{number:03}", ORDERS.location) for number in range(removed))
    return Plan("0.1.0", tables, changes=Changes("origin/main", BASE, gone, unchanged))


@pytest.mark.parametrize("settings", ["equal", "each its own"])
def test_a_comment_of_300_tables_stays_below_the_limits(settings: str) -> None:
    tables = [
        changed(
            replace(table, table=f"lake.a_rather_long_namespace_of_a_team.{'x' * 60}_{number}"),
            ("where", None, "country = 'DE' AND " + "y" * 5000),
            ("tags", [], ["tag"] if settings == "equal" else [f"tag{number}"]),
        )
        for number, table in enumerate(sample_fleet(300).plan.tables)
    ]
    plan = plan_of(*tables, removed=300)
    comment = markdown.render(plan)
    assert len(comment.encode()) <= markdown.MAX_BYTES < 65_536
    assert "300 layouts changed, 300 tables no longer managed" in comment
    assert "and 280 more. zlayout neither" in comment
    assert comment.count("\n#### ") <= markdown.MAX_TABLES
    assert ("and 280 tables more" in comment) == (settings == "equal")
    assert ("And 290 tables more: " in comment) == (settings != "equal")
    worst = max(tables, key=lambda table: table.rewrite_bytes)
    assert comment.index(worst.table) < comment.index("tables more")
    page = html.render(plan)
    assert all(table.table in page for table in tables)
    assert all(one.table in page for one in plan.changes.removed)  # type: ignore[union-attr]
    summary = markdown.render(plan, 1_000_000, None)
    assert len(summary.encode()) <= 1_000_000
    assert markdown.render(plan, 3000).count("\n#### ") < comment.count("\n#### ")
    assert len(markdown.render(plan, 10_000).encode()) <= 10_000


def test_what_the_owner_changed_is_no_drift() -> None:
    assert state(ORDERS) == "drift"
    assert state(changed(ORDERS, COLUMNS)) == "changed"
    assert state(replace(ORDERS, change=LayoutChange(True, ()))) == "new layout"
    plan = plan_of(changed(ORDERS, COLUMNS), UNCHANGED)
    assert "drift" not in render_github(plan)
    assert render_github(plan).startswith("::notice file=layouts/orders.yaml,title=bronze.orders%3A layout-changed")
    assert 'failures="0"' in render_junit(plan)
    assert "drift" not in markdown.render(plan)
    assert ">drift<" not in html.render(plan)
    assert ">changed<" in html.render(plan)


def test_time_and_price_are_those_of_the_last_runs() -> None:
    timed = changed(ORDERS, COLUMNS, seconds=90.0, cost=0.25)
    assert "That takes about 2 min and costs 0.25 at the speed of the last runs." in changes.effect([timed])
    assert changes.time_text(timed) == "about 2 min, 0.25"
    both = changes.effect([timed, changed(EVENTS, COLUMNS)])
    assert "about 2 min and costs 0.25 at the speed of the last runs, without 1 table that no run" in both
    assert "unknown before the first apply" in changes.effect([changed(EVENTS, COLUMNS)])


def test_a_column_that_is_dropped_and_refusals_are_to_be_checked() -> None:
    dropped = changed(ORDERS, ("zorder.columns", ["a", {"name": "gone", "weight": 2.0}], ["a"]))
    found = changes.problems(plan_of(dropped, changed(REFUSED, COLUMNS), EVENTS))
    assert [problem.severity for problem, _ in found] == ["refused", "warning"]
    assert found[-1][0].text().startswith("no longer in zorder.columns: gone.")
    assert "1 table cannot be changed." in changes.effect([changed(REFUSED, COLUMNS)])
    noted = replace(UNCHANGED, diagnostics=(Diagnostic("ZL441", "fits in one file", "note"),))
    assert changes.problems(plan_of(changed(noted, COLUMNS))) == []


def test_the_backlog_is_one_line() -> None:
    plan = plan_of(changed(ORDERS, COLUMNS), EVENTS, UNCHANGED)
    assert "\nBacklog: 1 of 2 other tables not as declared: 1 drift.\n" in markdown.render(plan)
    assert EVENTS.table not in markdown.render(plan)
    assert EVENTS.table in html.render(plan)
    alone = markdown.render(plan_of(changed(ORDERS, COLUMNS), unchanged=12))
    assert "\nNot part of this plan: 12 layouts that did not change.\n" in alone


def test_values_of_catalogs_are_not_shown() -> None:
    plan = plan_of(changed(ORDERS, catalog=("uri", "properties")))
    assert "| `catalogs.bronze.uri` |  | `another value` |" in markdown.render(plan)


def test_other_reports_name_what_is_gone() -> None:
    plan = plan_of(removed=1)
    assert "no longer managed: lake.old.t000 (layouts/orders.yaml:3:1)" in text.render(plan)
    assert "title=lake.old.t000%3A layout-removed" in render_github(plan)
    assert "This plan has nothing to apply after the merge." in markdown.render(plan)
    moved = markdown.render(seen_from(without_values(plan), "sub"))
    assert "`sub/layouts/orders.yaml:3:1`" in moved
