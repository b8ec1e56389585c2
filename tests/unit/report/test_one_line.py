"""One line for each table, and those in full that need attention."""

import re
from dataclasses import replace

from unit.report.sample_plans import NOTHING, ORDERS

from zlayout.errors import Diagnostic
from zlayout.planner.model import Plan, Status, Wait, WaitingGroups
from zlayout.planner.run_report import RunReport
from zlayout.report import html
from zlayout.report.text import TextOptions, render
from zlayout.report.words import last_line, table_lines, worst_first

BROKEN = replace(
    ORDERS, table="z.broken", status=Status.ERROR, actions=(), diagnostics=(Diagnostic("ZL110", "no table"),)
)
FINE = replace(NOTHING.tables[0], table="a.fine")


def test_what_needs_attention_comes_first() -> None:
    lines = [line for _, line in table_lines(worst_first((FINE, ORDERS, BROKEN)), 120)]
    assert [line.split()[0] for line in lines] == ["z.broken", ORDERS.table, "a.fine"]
    assert "ZL110 no table" in lines[0]
    assert "as declared" in lines[2]


def test_the_largest_rewrite_comes_first() -> None:
    groups = tuple(replace(action, bytes=1) for action in ORDERS.groups)
    small = replace(ORDERS, table="a.small", actions=groups)
    assert [line.split()[0] for _, line in table_lines(worst_first((small, ORDERS)), 120)] == [ORDERS.table, "a.small"]


def test_tables_for_which_the_budget_leaves_nothing_are_deferred_and_counted() -> None:
    left = WaitingGroups(Wait.BUDGET, groups=1, files=2, bytes=3, budget=1)
    deferred = replace(ORDERS, table="a.deferred", actions=(), waiting=(left,))
    lines = render(Plan("0.1.0", (ORDERS, deferred)), TextOptions(summary=True)).splitlines()
    assert lines[0].split()[:2] == ["a.deferred", "deferred"]
    assert lines[-1].startswith("Plan: 1 to alter, 1 to rewrite, 1 deferred.")


def test_the_counts_of_the_page_are_those_of_the_last_line() -> None:
    left = WaitingGroups(Wait.BUDGET, groups=1, files=2, bytes=3, budget=1)
    deferred = replace(ORDERS, table="a.deferred", actions=(), waiting=(left,))
    plan = Plan("0.1.0", (ORDERS, deferred, BROKEN, FINE))
    figures = html.render(RunReport(plan)).partition('<ul class="counts">')[2].partition("</ul>")[0]
    found = [" ".join(re.sub("<.*?>", " ", item).split()) for item in re.findall("<li.*?</li>", figures, re.S)]
    assert found == ["4 tables", "1 to alter", "1 to rewrite", "1 deferred", "1 unchanged", "1 failed"]
    assert last_line(plan).startswith(f"Plan: {', '.join(found[1:])}.")


def test_lines_fit_the_terminal() -> None:
    long = replace(ORDERS, table="lake." + "n" * 200)
    for width in (80, 120):
        assert all(len(line) <= width for _, line in table_lines((long, ORDERS, BROKEN), width))


def test_the_summary_has_one_line_for_each_table_and_the_last_line() -> None:
    lines = render(Plan("0.1.0", (FINE, ORDERS, BROKEN)), TextOptions(summary=True)).splitlines()
    assert [line.split()[0] for line in lines[:3]] == ["a.fine", ORDERS.table, "z.broken"]
    assert lines[3] == ""
    assert lines[4].startswith("Plan: ")
    assert len(lines) == 5


def test_of_many_tables_the_worst_are_shown_in_full_and_the_rest_in_a_line_or_counted() -> None:
    tables = tuple(replace(ORDERS, table=f"lake.t{number:03}") for number in range(130))
    plan = Plan("0.1.0", (*tables, replace(BROKEN, table="lake.z"), *(replace(FINE, table=f"m{n}") for n in range(9))))
    lines = render(plan, TextOptions(width=80)).splitlines()
    named = [line.split()[0] for line in lines if line.startswith(("lake.", "  lake."))]
    assert named == [*(t.table for t in tables[118::-1]), "lake.z"]
    assert [line[:8] for line in lines].count("lake.t00") == 10
    assert "  11 tables not listed: 11 drift" in lines
    assert "  -v shows all tables in full; --summary shows one line for each" in lines


def test_all_tables_are_in_the_text_that_was_asked_for_and_that_of_few_tables() -> None:
    for count, verbose in ((20, False), (130, True)):
        tables = tuple(replace(ORDERS, table=f"lake.t{number:03}") for number in range(count))
        lines = render(Plan("0.1.0", tables), TextOptions(verbose=verbose)).splitlines()
        assert [line.split()[0] for line in lines if line.startswith("lake.")] == [t.table for t in tables]
        assert not [line for line in lines if "more:" in line or "-v shows" in line]
