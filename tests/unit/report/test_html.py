"""The HTML page without a browser: complete, self-contained, harmless."""

import base64
import hashlib
import re
import sys
import zlib
from dataclasses import replace

import pytest
from lxml import html as parser
from unit.report.sample_plans import APPLIED, DONE, EVIL, HOSTILE, ORDERS, PLAN, UNCHANGED

from zlayout.errors import SpecError
from zlayout.planner.model import Plan, Reason, TablePlan
from zlayout.planner.run_report import Boxes, Picture, RunReport, StripBin, Trend
from zlayout.report.formats import check_available, without_values
from zlayout.report.html import render
from zlayout.report.words import printable as without_controls

BOXES = Boxes((0, 1000, 0, 1000, 0, 1000, 0, 900), 9610)
STRIP = (StripBin("day=1", 1, 4805, 4805, 9.5), StripBin("day=2 to day=9", 8, 4805, 0, 1.0))
PICTURE = Picture(
    columns=("customer_id", "order_date"),
    partition="day=1",
    before=BOXES,
    after=Boxes((0, 500, 0, 1000, 500, 1000, 0, 1000), 1230, coarse=True),
    strip=STRIP,
    sizes_after=(("<= 1", 1230),),
)
DRAWN = replace(ORDERS, size_histogram=(("<= 1/16", 9610), ("<= 1", 0)))


def drawn(*tables: TablePlan, picture: Picture = PICTURE) -> RunReport:
    """A plan of these tables, the first one drawn."""
    return RunReport(Plan("0.1.0", tables), pictures={tables[0].table: picture})


def page(plan: Plan | RunReport) -> parser.HtmlElement:
    return parser.document_fromstring(render(plan))


def test_every_table_has_a_row_and_a_section() -> None:
    tree = page(PLAN)
    names = [t.table for t in PLAN.tables]
    assert [a.text_content() for a in tree.xpath("//table[@id='overview']/tbody//a")] == names
    assert [h.text.strip() for h in tree.xpath("//section/h2")] == names
    ids = tree.xpath("//@id")
    assert len(set(ids)) == len(ids)
    assert {a.get("href") for a in tree.xpath("//table[@id='overview']/tbody//a")} == {
        f"#{section.get('id')}" for section in tree.xpath("//section")
    }


def test_the_policy_allows_just_the_style_and_the_script_of_the_page() -> None:
    tree = page(PLAN)
    (policy,) = tree.xpath("//meta[@http-equiv='Content-Security-Policy']/@content")
    for kind in ("style", "script"):
        (text,) = tree.xpath(f"//{kind}/text()")
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'; ")
    assert not tree.xpath("//@style")
    assert not tree.xpath("//*[@onclick or @onload or @onerror]")


def test_it_names_nothing_to_load() -> None:
    text = render(drawn(DRAWN, HOSTILE))
    assert not parser.document_fromstring(text).xpath("//link | //img | //iframe | //object | //@src")
    assert set(re.findall(r"https?://[^\s\"'<]+", text)) == {"http://www.w3.org/2000/svg"}


def test_a_name_is_text_wherever_it_stands() -> None:
    text = render(drawn(HOSTILE, picture=replace(PICTURE, columns=(EVIL, EVIL), partition=EVIL)))
    tree = parser.document_fromstring(text)
    assert len(tree.xpath("//script")) == 1
    assert "<script>alert" not in text
    assert not set(text) & {"\x1b", "\u202e"}


def test_what_was_sampled_is_said() -> None:
    captions = [f.text_content() for f in page(drawn(DRAWN)).xpath("//figcaption")]
    assert captions[0].startswith("a sample of 2 of 9,610 files of day=1; ")
    assert captions[1].startswith("2 boxes for about 1,230 files of day=1; ")
    assert "about 615 neighbouring files" in captions[1]


def test_a_slider_is_between_maps_that_a_sample_or_a_measurement_gives() -> None:
    """A map that is drawn from bounds alone is an illustration, and is no promise."""
    tree = page(drawn(DRAWN, picture=replace(PICTURE, sampled=True)))
    (figure,) = tree.xpath("//figure[@class='map compare']")
    assert [h.text for h in figure.xpath(".//h4")] == ["Files before", "Files after, from the sample"]
    assert len(figure.xpath(".//*[@role='img'][@aria-label]/*[local-name()='svg']")) == 2
    (slider,) = figure.xpath(".//label[@hidden]/input[@type='range']")
    assert (slider.get("min"), slider.get("max"), slider.get("value")) == ("0", "100", "50")
    (caption,) = figure.xpath("figcaption")
    assert caption.text.startswith(
        "Before: a sample of 2 of 9,610 files of day=1. After: 2 boxes for about 1,230 files"
    )
    tree = page(drawn(DRAWN))
    assert not tree.xpath("//input[@type='range']")
    assert [h.text for h in tree.xpath("//figure[@class='map']/h3")] == ["Files before", "Files after, an illustration"]
    assert "zlayout plan --sample" in tree.xpath("//figure[@class='map']/figcaption")[1].text


def test_partitions_are_numbered_unless_values_are_shown() -> None:
    plan = drawn(DRAWN)
    assert "day=2 to day=9" in render(plan)
    hidden = render(without_values(plan))
    assert "day=" not in hidden
    assert "partitions 2 to 9" in hidden


def test_after_an_apply_the_measured_boxes_take_the_place_of_the_predicted() -> None:
    done = replace(drawn(DRAWN), results={DRAWN.table: replace(DONE, boxes=Boxes((0, 10, 0, 10), 1))})
    titles = [h.text for h in page(done).xpath("//figure[@class='map compare']//h4")]
    assert titles == ["Files before", "Files after, measured"]
    cells = page(done).xpath("//table[@id='overview']/tbody/tr/td")
    assert [c.text_content() for c in cells[2:6]] == ["9,610", "1,228", "9,610", "35.2"]
    beside = page(done).xpath("//td/small/text()")
    assert beside == ["predicted 35.4", "predicted ~1 GiB"]
    planned = page(drawn(DRAWN)).xpath("//table[@id='overview']/tbody/tr/td")
    assert [c.text_content() for c in planned[2:6]] == ["9,610", "1,230", "9,610", "35.4"]
    tree = page(APPLIED)
    assert [li.text_content() for li in tree.xpath("//header//li")] == ["3 tables", "1 as declared", "1 failed"]
    assert tree.xpath("//title/text()") == ["zlayout: result of apply"]
    assert "ZL305" in tree.text_content()


def test_without_its_packages_the_way_out_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(SpecError, match=r"ZL062 .*jinja2.*zlayout\[report\]"):
        check_available("html")
    check_available("sarif")


def test_a_histogram_has_its_labels() -> None:
    texts = page(drawn(DRAWN)).xpath("//*[local-name()='svg']//*[local-name()='text']/text()")
    assert {"≤1"} <= set(texts)
    assert not [t for t in texts if "?" in t]


def test_a_first_layout_says_how() -> None:
    first = replace(DRAWN, drift=(), actions=tuple(replace(g, reason=Reason.NOT_LAID_OUT) for g in DRAWN.groups))
    assert "First layout: kd by [a]." in page(Plan("0.1.0", (first,))).text_content()


def test_trends_are_lines_in_the_overview_and_in_the_details() -> None:
    column = ORDERS.columns[1].column
    trend = Trend((0.0, 864e3), {column: (4.0, 8.0)})
    tree = page(without_values(RunReport(Plan("0.1.0", (ORDERS, UNCHANGED)), trends={ORDERS.table: trend})))
    text = f"Touched of {column} from 4 to 8 over 10 days, 2 records"
    heads = [head.text_content() for head in tree.xpath("//table[@id='overview']/thead//th")]
    (cell,) = tree.xpath("//table[@id='overview']//td[.//*[local-name()='svg']]")
    assert heads[cell.getparent().index(cell)] == "Trend"
    assert (cell.get("data-sort"), cell[0].get("aria-label")) == ("2.0", text)
    (detail,) = tree.xpath("//section//tr//span[@role='img']")
    assert detail.get("aria-label") == text
    assert detail.getparent().getparent()[0].text_content() == column
    for row in tree.xpath("//table[@id='overview']//tr"):
        assert len(row) == len(heads)


def test_without_a_history_there_is_no_column_of_trends() -> None:
    assert "Trend" not in render(PLAN)


def test_the_page_of_a_thousand_tables_is_small_and_complete() -> None:
    from unit.report.sample_fleet import sample_fleet

    shown = sample_fleet()
    text = render(shown)
    assert len(text) <= 3_000_000
    tree = parser.document_fromstring(text)
    rows = [a.text_content() for a in tree.xpath("//table[@id='overview']/tbody//a")]
    assert sorted(rows) == sorted(without_controls(t.table) for t in shown.plan.tables)
    packed = tree.xpath("//script[@type='text/plain']/text()")
    details = "".join(zlib.decompress(base64.b64decode(chunk)).decode() for chunk in packed)
    sections = parser.fromstring(f"<div>{details}</div>").xpath("./section/h2")
    assert [h.text.strip() for h in sections] == rows
    assert len(tree.xpath("//figure[@class='treemap']//*[local-name()='path']")) == len(rows)
    assert "<script>alert" not in text + details
    worst = [li.text_content() for li in tree.xpath("//ol[@class='worst']/li")]
    assert len(worst) == 10
    assert sum("ZL110" in item for item in worst) == 5


def test_the_page_of_twenty_tables_has_their_details_as_they_are() -> None:
    from unit.report.sample_fleet import sample_fleet

    tree = page(sample_fleet(20))
    assert len(tree.xpath("//section[@class='table']")) == 20
    assert not tree.xpath("//script[@type='text/plain'] | //figure[@class='treemap'] | //form")
