"""The text of `zlayout history`, and the small lines of HTML pages."""

import pytest
from lxml import etree
from support.records import make_record

from zlayout.history_records import ColumnRecord, Command, DecayRecord, Growth, RecordState, touched_trend
from zlayout.planner.run_report import Trend
from zlayout.report import html as charts
from zlayout.report.text import growth_text, render_history, sparkline

TEXT = """\
lake.db.t  3 records, 2026-03-01 to 2026-03-03, times in UTC

  time              command  state          files  rewritten  a               b
  2026-03-01 03:00  drift    first layout  12,345             120 (4)
  2026-03-02 03:00  apply    as declared       10      2 KiB  120 -> 4.2 (4)  9 -> 3
  2026-03-03 03:00  drift    decay             11             6               4

  columns: touched before -> measured (predicted)

  a  █▁▁  touched 4.2..120, floor 2
  b   ▁█  touched 3..4

  touched 1.20x of 1.50x, growing: past the tolerance in about 5 to 8 days (12 records since the last rewrite)
"""


def test_a_history_is_a_table_lines_and_what_grows() -> None:
    records = [
        make_record(0, state=RecordState.FIRST_LAYOUT, files=12345, columns=(ColumnRecord("a", 120, 2.0, 4.0),)),
        make_record(
            1,
            command=Command.APPLY,
            rewrite_bytes=2048,
            columns=(ColumnRecord("a", 120, None, 4.0, 4.2), ColumnRecord("b", 9.0, measured=3.0)),
        ),
        make_record(
            2,
            state=RecordState.DECAY,
            files=11,
            rewrite_bytes=4096,
            columns=(ColumnRecord("a", 6.0), ColumnRecord("b", 4.0)),
            decay=(DecayRecord("touched", 1.2, 1.5),),
        ),
    ]
    growing = [Growth("touched", 1.2, 1.5, 0.05, (4.6, 8.2), 12)]
    text = render_history("lake.db.t", records, touched_trend(records), growing)
    assert text == TEXT


@pytest.mark.parametrize(
    ("days", "text"),
    [((0.2, 0.9), "a day"), ((0.2, 1.2), "1 day"), ((5.6, 6.4), "6 days"), ((0.3, 2.2), "1 to 2 days")],
)
def test_days_are_a_range_unless_both_ends_are_equal(days: tuple[float, float], text: str) -> None:
    growth = Growth("unclustered", 0.07, 0.1, 0.01, days, 5)
    assert f"in about {text} (5 records" in growth_text(growth)


def test_names_are_printable() -> None:
    records = [make_record(columns=(ColumnRecord("a\x1b[31m\u202e", 1.0),))]
    text = render_history("t\x1b", records, touched_trend(records), [])
    assert "\x1b" not in text
    assert "\u202e" not in text


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ([], ""),
        ([None], ""),
        ([3.0, 3.0], "▁▁"),
        ([0.0, None, 7.0, 3.0], "▁ █▄"),
        ([10.0, 0.0], "█▁"),
        ([3.0, 3.001, 2.999], "▁▁▁"),
        ([1234.2, 1233.9], "▁▁"),
        ([0.01, 0.02], "▁▁"),
        ([1000.0, 1007.2], "▁█"),
    ],
)
def test_bars_go_from_the_lowest_to_the_highest_value(values: list[float | None], line: str) -> None:
    assert sparkline(values) == line


DAY = 86400.0
TREND = Trend((0.0, DAY, 2 * DAY), {"a": (4.0, None, 8.0), "b": (2.0, 2.0, 2.0)})


def test_a_line_goes_from_the_first_to_the_last_record_that_knows_the_column() -> None:
    line = charts.sparkline(TREND, "a")
    assert (line["alt"], line["growth"]) == ("Touched of a from 4 to 8 over 2 days, 2 records", 2.0)
    path, circle = etree.fromstring(str(line["svg"]))
    assert path.get("d") == "M3 19L93 3"  # from the lower left to the upper right, inside of the margin
    assert (circle.get("cx"), circle.get("cy")) == ("93", "3")


def test_a_constant_is_a_line_in_the_middle() -> None:
    line = charts.sparkline(TREND, "b")
    assert etree.fromstring(str(line["svg"]))[0].get("d") == "M3 11L48 11L93 11"


def test_without_two_values_there_is_no_line() -> None:
    one = Trend((0.0, DAY), {"a": (4.0, None)})
    assert charts.sparkline(one, "a") is None
    assert charts.sparkline(TREND, "c") is None
    assert charts.sparkline(None, "a") is None


def test_a_table_shows_the_column_that_grew_most() -> None:
    line = charts.steepest(TREND)
    assert line["alt"].startswith("Touched of a ")
    assert charts.steepest(None) is None
