"""The HTML report in real headless Chromium: nothing loaded, nothing logged, sorted, switched, accessible, printed."""

import os
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, expect, sync_playwright
from unit.report.sample_fleet import sample_fleet, sample_trend
from unit.report.sample_plans import BROKEN, DONE, EVENTS, HOSTILE, ORDERS, REFUSED, UNCHANGED
from unit.report.test_html import DRAWN, PICTURE, drawn

from zlayout.planner.model import Changes, LayoutChange, Plan, RemovedLayout, SettingDrift
from zlayout.planner.run_report import RunReport
from zlayout.report.html import render

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium here; .ci/run installs it"),
    # Playwright's own event loop is closed when the interpreter ends, after pytest looks for leaks.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
EVIL = replace(HOSTILE, size_histogram=DRAWN.size_histogram)
APPLIED = replace(ORDERS, table="bronze.done")
PLAN = RunReport(
    Plan("0.1.0", (EVIL, EVENTS, DRAWN, UNCHANGED, APPLIED, BROKEN, REFUSED)),
    results={APPLIED.table: DONE},
    pictures={EVIL.table: PICTURE, DRAWN.table: replace(PICTURE, sampled=True)},
    trends={table.table: sample_trend(table, random.Random(1)) for table in (EVIL, DRAWN, APPLIED)},
)
LIGHT, DARK, NARROW = (1200, "light"), (1200, "dark"), (400, "light")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture
def show(browser: Browser, tmp_path: Path) -> Iterator[Callable[..., Page]]:
    """Opens a plan's page; at the end, nothing may have been logged or asked for but the page itself."""
    trouble: list[str] = []
    pages = []

    def opened(plan: RunReport | str = PLAN, width: int = 1200, scheme: str = "light", scripts: bool = True) -> Page:
        file = tmp_path / "report.html"
        file.write_text(plan if isinstance(plan, str) else render(plan), encoding="utf-8")
        page = browser.new_page(
            viewport={"width": width, "height": 900}, color_scheme=scheme, java_script_enabled=scripts
        )

        def asked(request: Request) -> None:
            if request.url != file.as_uri():
                trouble.append(f"request: {request.url}")

        def said(message: ConsoleMessage) -> None:
            trouble.append(f"console: {message.text}")

        page.on("request", asked)
        page.on("console", said)
        page.on("pageerror", lambda error: trouble.append(f"error: {error}"))
        page.on("dialog", lambda dialog: (trouble.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.goto(file.as_uri())
        pages.append(page)
        return page

    yield opened
    for page in pages:
        page.close()
    assert trouble == []


def names(page: Page) -> list[str]:
    return page.locator("#overview tbody th").all_inner_texts()


def test_it_sorts_by_every_column_and_back(show: Callable[..., Page]) -> None:
    page = show()
    order = names(page)
    page.get_by_role("button", name="Rewrites").click()
    assert page.locator("#overview thead th[aria-sort]").all_inner_texts() == ["Rewrites"]
    column = page.locator("#overview thead th").all_inner_texts().index("Rewrites") + 1
    cells = page.locator(f"#overview tbody tr td:nth-child({column})")
    values = cells.evaluate_all("cells => cells.map(c => +c.dataset.sort)")
    assert values == sorted(values, reverse=True)
    assert values[0] > values[-1]
    page.get_by_role("button", name="Rewrites").click()
    assert page.locator("#overview thead th[aria-sort=ascending]").count() == 1
    page.get_by_role("button", name="Table", exact=True).click()
    assert sorted(names(page)) == sorted(order)
    assert names(page)[-1] == "gold.missing"


def test_one_table_is_shown_and_others_are_a_key_away(show: Callable[..., Page]) -> None:
    page = show()
    assert page.locator("section:visible").count() == 1
    page.get_by_role("link", name="bronze.orders").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#overview [aria-current=true]")).to_have_text("bronze.orders")
    assert page.locator("section:visible h2").inner_text().startswith("bronze.orders")
    assert page.evaluate("document.activeElement.id") == page.locator("section:visible").get_attribute("id")
    page.get_by_role("button", name="Show all").click()
    assert page.locator("section:visible").count() == len(PLAN.plan.tables)


def test_everything_can_be_reached_with_the_tab_key(show: Callable[..., Page]) -> None:
    page = show(drawn(DRAWN))
    seen = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        seen.add(page.evaluate("document.activeElement.textContent.trim().slice(0, 30)"))
    assert {"Skip to the tables", "Table", "Declared in", "bronze.orders", "2 rectangles as a table"} <= seen


def test_a_name_that_is_a_script_or_an_escape_does_nothing(show: Callable[..., Page]) -> None:
    page = show(drawn(EVIL))
    assert "<script>alert(1)</script>" in page.locator("h2:visible").last.inner_text()
    assert page.locator("script").count() == 1
    assert page.locator("body script").count() == 1


def test_a_script_that_is_not_the_pages_own_is_not_run(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "tampered.html"
    file.write_text(render(PLAN).replace("</body>", "<script>document.title = 'run'</script></body>"))
    page = browser.new_page()
    page.goto(file.as_uri())
    assert page.title() == "zlayout: result of apply"
    page.close()


@pytest.mark.parametrize(("width", "scheme"), [LIGHT, DARK, NARROW])
def test_axe_finds_nothing(show: Callable[..., Page], width: int, scheme: str) -> None:
    page = show(width=width, scheme=scheme)
    if page.locator("#all").is_visible():
        page.locator("#all").click()
    for details in page.locator("details summary").all():
        details.click()
    # The page's own policy stops no script that the debugger evaluates.
    results = Axe().run(page)
    assert len(results.response["passes"]) > 20
    assert [(v["id"], v["nodes"][0]["html"]) for v in results.response["violations"]] == []


@pytest.mark.parametrize("width", [400, 800, 1153, 1200])
def test_the_page_never_scrolls_sideways(show: Callable[..., Page], width: int) -> None:
    page = show(width=width)
    page.locator("#all").click()
    for details in page.locator("details summary").all():
        details.click()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    # nor does a table in it
    boxes = page.locator("div.scroll")
    assert boxes.count() > 10
    assert boxes.evaluate_all("boxes => boxes.filter(b => b.scrollWidth > b.clientWidth).map(b => b.ariaLabel)") == []
    shown = "cells => cells.map(c => [c.textContent.trim(), getComputedStyle(c, '::before').content])"
    cells = dict(page.locator("#overview tbody tr").last.locator("td").evaluate_all(shown))
    assert (cells["0"] == '"Files"') == (width < 1153)


def test_without_scripts_and_on_paper_every_table_is_there(show: Callable[..., Page]) -> None:
    assert show(scripts=False).locator("section:visible").count() == len(PLAN.plan.tables)
    page = show()
    page.emulate_media(media="print")
    assert page.locator("section:visible").count() == len(PLAN.plan.tables)
    assert page.locator("#all").is_hidden()


def test_dark_is_dark(show: Callable[..., Page]) -> None:
    for scheme, low, high in (("light", 200, 256), ("dark", 0, 60)):
        page = show(scheme=scheme)
        color = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert all(low <= int(part) < high for part in color[4:-1].split(","))
        fill = page.locator("figure.map path[fill^='var']").first.evaluate("e => getComputedStyle(e).fill")
        assert fill.startswith("rgb(")


def test_pictures_are_drawn_at_five_thousand_files(show: Callable[..., Page]) -> None:
    many = replace(PICTURE, before=replace(PICTURE.before, positions=tuple(range(1000)) * 2, files=5000))
    page = show(drawn(DRAWN, picture=many))
    figure = page.locator("figure.map").first
    assert "a sample of 500 of 5,000 files" in figure.inner_text()
    assert figure.locator("path[fill^='var']").count() == 500
    box = figure.locator("svg").bounding_box()
    assert box["width"] > 200
    assert box["height"] > 200


SAMPLED = drawn(DRAWN, picture=replace(PICTURE, sampled=True))


def test_a_slider_moves_between_the_maps_by_keys(show: Callable[..., Page]) -> None:
    page = show(SAMPLED)
    slider = page.get_by_role("slider", name="Before and after")
    sides = [page.locator(f".maps .{side} [role=img]") for side in ("before", "after")]
    boxes = [side.bounding_box() for side in sides]
    assert boxes[0] == boxes[1], "one lies on the other"

    def shown() -> list[str]:
        return [side.evaluate("e => getComputedStyle(e).clipPath") for side in sides]

    assert shown() == ["inset(0px 50% 0px 0px)", "inset(0px 0px 0px 50%)"]
    slider.focus()
    page.keyboard.press("ArrowLeft")
    assert shown() == ["inset(0px 51% 0px 0px)", "inset(0px 0px 0px 49%)"]
    assert slider.get_attribute("aria-valuetext") == "before on the left 49%, after on the rest"
    page.keyboard.press("Home")
    assert shown() == ["inset(0px 100% 0px 0px)", "inset(0px 0px 0px 0%)"]


@pytest.mark.parametrize("how", ["no script", "paper"])
def test_without_a_slider_the_maps_stand_one_above_the_other(show: Callable[..., Page], how: str) -> None:
    page = show(SAMPLED, scripts=how == "paper")
    if how == "paper":
        page.emulate_media(media="print")
    assert page.get_by_role("slider").count() == 0
    before, after = (page.locator(f".maps .{side} [role=img]") for side in ("before", "after"))
    upper, lower = before.bounding_box(), after.bounding_box()
    assert upper["y"] + upper["height"] <= lower["y"]
    assert [e.evaluate("e => getComputedStyle(e).clipPath") for e in (before, after)] == ["none", "none"]


FLEET = sample_fleet()


@pytest.fixture(scope="module")
def fleet_page() -> str:
    return render(FLEET)


def visible_names(page: Page) -> list[str]:
    return page.locator("#overview tbody tr:visible th").all_inner_texts()


def test_the_page_of_a_fleet_opens_the_details_of_one_table_on_demand(
    show: Callable[..., Page], fleet_page: str
) -> None:
    page = show(fleet_page)
    assert page.locator("section.table").count() == 0
    first = page.locator(".worst a").nth(7)
    name = first.inner_text()
    first.click()
    expect(page.locator("section.table h2")).to_contain_text(name)
    assert page.evaluate("document.activeElement.id") == page.locator("section.table").get_attribute("id")
    last = FLEET.plan.tables[-1].table
    page.get_by_role("searchbox", name="Search").fill(last[-5:].upper())
    page.get_by_role("link", name=last, exact=True).click()
    expect(page.locator("section.table h2")).to_contain_text(last)
    assert page.locator("section.table").count() == 1


def test_details_that_are_expanded_on_demand_have_a_slider(show: Callable[..., Page], fleet_page: str) -> None:
    page = show(fleet_page)
    page.locator(f'#overview a:text-is("{next(iter(FLEET.pictures))}")').click()
    slider = page.get_by_role("slider", name="Before and after")
    slider.fill("20")
    assert "20%" in page.locator(".maps .after [role=img]").evaluate("e => getComputedStyle(e).clipPath")
    assert len(fleet_page.encode()) < 3_000_000


def test_a_tile_of_the_map_opens_its_table(show: Callable[..., Page], fleet_page: str) -> None:
    page = show(fleet_page)
    tile = page.locator(".treemap path").nth(25)
    name = tile.locator("title").text_content()
    tile.dispatch_event("click")
    expect(page.locator("section.table h2")).to_contain_text(name.split(":", maxsplit=1)[0])


def test_a_fleet_is_searched_filtered_and_sorted(show: Callable[..., Page], fleet_page: str) -> None:
    page = show(fleet_page)
    output = page.locator("#shown")
    expect(output).to_have_text("1,000 of 1,000 tables, 100 shown")
    assert len(visible_names(page)) == 100
    page.get_by_label("State").select_option("refused")
    expect(output).to_have_text("10 of 1,000 tables")
    assert len(visible_names(page)) == 10
    assert page.locator(".treemap path.out").count() == 990
    page.get_by_label("State").select_option("")
    page.get_by_role("button", name="Rewrites").click()
    largest = max(FLEET.plan.tables, key=lambda t: t.rewrite_bytes)
    assert visible_names(page)[0] == largest.table
    page.get_by_role("button", name="Show the others").click()
    assert len(visible_names(page)) == 1000


def test_axe_finds_nothing_on_the_page_of_a_fleet(show: Callable[..., Page], fleet_page: str) -> None:
    page = show(fleet_page, width=400, scheme="dark")
    page.locator(".worst a").last.click()
    expect(page.locator("section.table")).to_have_count(1)
    results = Axe().run(page)
    assert [(v["id"], v["nodes"][0]["html"]) for v in results.response["violations"]] == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 400


def test_without_scripts_every_table_of_a_fleet_has_its_row(show: Callable[..., Page], fleet_page: str) -> None:
    assert len(visible_names(show(fleet_page, scripts=False))) == 1000


@pytest.mark.parametrize(("width", "scheme"), [LIGHT, DARK, NARROW])
def test_what_a_pull_request_changes_is_first_and_fits(show: Callable[..., Page], width: int, scheme: str) -> None:
    settings = (SettingDrift("zorder.columns", ["a"], ["a", "b"], None), SettingDrift("where", None, "x" * 500, None))
    tables = [replace(table, change=LayoutChange(False, settings)) for table in (EVIL, EVENTS, REFUSED)]
    gone = tuple(RemovedLayout(f"lake.{'long' * 30}.t{number}", ORDERS.location) for number in range(3))
    page = show(RunReport(Plan("0.1.0", tuple(tables), changes=Changes("main", "0" * 40, gone))), width, scheme)
    assert page.locator("main h2").first.inner_text() == "What changes: 3 layouts changed, 3 tables no longer managed"
    assert page.locator("section.changed").evaluate("one => one.scrollWidth <= one.clientWidth")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    results = Axe().run(page)
    assert [(v["id"], v["nodes"][0]["html"]) for v in results.response["violations"]] == []
    page.get_by_role("link", name=EVENTS.table).first.click()
    assert page.url.endswith("#table-2")
