"""The plan screen, whole, as a person sees it."""

from dataclasses import replace

from unit.report.sample_plans import APPLIED, BROKEN, DONE, EVENTS, ORDERS, REFUSED, UNCHANGED, applied, group

from zlayout.errors import Diagnostic, Location
from zlayout.planner.model import (
    BytesRead,
    FilesAfter,
    Plan,
    QueryCost,
    Reason,
    SampleFacts,
    Status,
    TablePlan,
    WorkloadForecast,
)
from zlayout.planner.run_report import RunReport
from zlayout.report import html
from zlayout.report.formats import without_values
from zlayout.report.text import TextOptions, render
from zlayout.report.words import drift_line, last_line, sample_text, workload_lines

ORDERS_AT_120 = """\
zlayout 0.1.0  2 layouts

  ~ alter settings    -/+ rewrite files
  touched: files opened for one value, summed over partitions    floor: fewest possible

bronze.orders (delta, version 1843)                                                              layouts/orders.yaml:3:1
  ~   zorder.columns  [customer_id] -> [customer_id, order_date]
      # (3 unchanged settings hidden)
  -/+ rewrite         2 of 412 partitions, 1.17 TiB, 9,610 -> 1,230 files
      partitions      day=1; day=2
      because         layout changed
      touched         customer_id 9,610 -> 35.4 (floor 1)   order_date 9,610 -> 35.4 (floor 1)
      bytes read      customer_id 1 TiB -> ~1 GiB   order_date 1 TiB -> ~1 GiB
                      forecast from 120,000 sampled rows: 48 row groups of 40 files, 6 MiB read, seed 7
      storage         the replaced 1.17 TiB stay until VACUUM

Plan: 1 to alter, 1 to rewrite, 1 unchanged. Rewrites 1.17 TiB.
"""

EVENTS_AT_80 = """\
  ~ alter settings    -/+ rewrite files
  decay: only data changed

bronze.events (iceberg, snapshot 5)                       layouts/events.yaml:2:1
  ~   write.metadata.metrics.column.url  none -> full  (no min/max statistics on
                      url)
  ~   partition_by    [day(at)] -> [month(at)]
  -/+ rewrite         2 of 2 partitions, 1.17 TiB, 9,610 -> ~1,230 files
      partitions      west
      because         not laid out yet (1 partition), decayed (1 partition)
      decay           unclustered 23%, tolerance 10%
      decay           touched 1.90x, tolerance 1.50x
      storage         the replaced 1.17 TiB stay until snapshots expire

Plan: 1 to alter, 1 to rewrite. Rewrites 1.17 TiB.
"""


def test_a_plan_with_changes() -> None:
    plan = Plan("0.1.0", (ORDERS, UNCHANGED))
    assert render(plan, TextOptions(width=120), heading="zlayout 0.1.0  2 layouts") == ORDERS_AT_120


def test_tables_with_errors_come_last() -> None:
    broken = replace(ORDERS, table="a.first", status=Status.ERROR)
    refused = replace(ORDERS, table="b.second", status=Status.REFUSED)
    titles = [line for line in render(Plan("0.1.0", (broken, refused, ORDERS))).splitlines() if "(delta" in line]
    assert [title.split()[0] for title in titles] == [ORDERS.table, "b.second", "a.first"]


def test_after_apply_tables_that_failed_come_last() -> None:
    titles = [line.split()[0] for line in render(APPLIED).splitlines() if line.startswith("bronze.")]
    assert titles == [ORDERS.table, EVENTS.table]


def test_settings_partitioning_and_decay() -> None:
    assert render(Plan("0.1.0", (EVENTS,)), TextOptions(width=81)) == EVENTS_AT_80


def test_touched_takes_a_line_a_column_where_it_is_narrow() -> None:
    lines = render(Plan("0.1.0", (ORDERS,)), TextOptions(width=80)).splitlines()
    assert lines[10:12] == [
        "      touched         customer_id  9,610 -> 35.4 (floor 1)",
        "                      order_date   9,610 -> 35.4 (floor 1)",
    ]
    assert max(map(len, lines)) <= 80


def test_without_a_sample_no_single_number_is_shown_that_is_not_known() -> None:
    read = BytesRead(2**40, None, 2**29, 2**40)
    ranges = tuple(replace(c, predicted=None, floor=None, low=1.0, high=615.0, bytes_read=read) for c in ORDERS.columns)
    vague = replace(ORDERS, columns=ranges, sample=None, files_after=FilesAfter(None, 2, 1230))
    lines = render(Plan("0.1.0", (vague,)), TextOptions(width=100)).splitlines()
    assert lines[6].endswith("9,610 -> 2..1,230 files")
    assert lines[9:12] == [
        "      touched         customer_id 9,610 -> 1..615   order_date 9,610 -> 1..615",
        "      bytes read      customer_id 1 TiB -> ~512 MiB..1 TiB   order_date 1 TiB -> ~512 MiB..1 TiB",
        "                      `zlayout plan --sample` narrows the forecast",
    ]
    open_end = replace(vague, status=Status.REFUSED, files_after=FilesAfter(None, 2, None))
    lines = render(Plan("0.1.0", (open_end,)), TextOptions(width=100)).splitlines()
    assert any(line.endswith("9,610 -> 2 or more files") for line in lines)
    assert not any("--sample" in line for line in lines), "a refused plan is not sampled"
    certain = replace(vague, columns=(replace(ranges[0], high=1.0),))
    lines = render(Plan("0.1.0", (certain,)), TextOptions(width=100)).splitlines()
    assert lines[9:11] == [
        "      touched         customer_id 9,610 -> 1",
        "      bytes read      customer_id 1 TiB -> ~512 MiB..1 TiB",
    ]


def test_the_number_of_row_groups_is_stated_if_files_have_several() -> None:
    facts = SampleFacts(1000, 12, 8, 2**20, 7, 28)
    assert sample_text(facts).endswith("seed 7; files have 3.5 row groups each")
    assert sample_text(replace(facts, row_groups_in_files=8)).endswith("seed 7")
    assert sample_text(replace(facts, row_groups_in_files=None)).endswith("seed 7")


def test_what_was_measured_stands_beside_the_prediction() -> None:
    assert "      measured        customer_id 35.2 (predicted 35.4)" in render(APPLIED)


def test_long_messages_are_wrapped_below_their_own_beginning_and_keep_their_words() -> None:
    message = "expected a table at /a/very/long/path/" + "x" * 90 + " and found none, as one can see"
    long = TablePlan("a.b", "delta", Location("x.yaml"), Status.ERROR, diagnostics=(Diagnostic("ZL110", message),))
    lines = render(Plan("0.1.0", (long,)), TextOptions(width=80)).splitlines()[1:-2]
    assert lines[0] == "      error: ZL110 expected a table at"
    assert lines[1].strip() == "/a/very/long/path/" + "x" * 90
    assert lines[2] == "             and found none, as one can see"


def test_partitions_are_named_in_the_order_of_their_numbers_and_counted_above_six() -> None:
    groups = [replace(group(f"day={n}"), partition_number=n) for n in (9, 1, 2, 3, 4, 5, 6, 7, 7)]
    many = Plan("0.1.0", (replace(ORDERS, actions=tuple(groups)),))
    assert "      partitions      day=1; day=2; day=3; day=4; day=5; day=6 and 2 more\n" in render(many)
    assert "day=6; day=7; day=9\n" in render(many, TextOptions(verbose=True))
    assert "partitions      partition 1; partition 2; partition 3;" in render(without_values(many))


def test_nothing_to_do_is_one_line() -> None:
    assert render(Plan("0.1.0", (UNCHANGED,))) == "No changes. 1 table laid out as declared.\n"


def test_verbose_lists_unchanged_tables_and_tolerated_decay() -> None:
    text = render(Plan("0.1.0", (EVENTS, UNCHANGED)), TextOptions(verbose=True))
    assert "bronze.small (delta)" in text
    assert "unchanged       3 files, 2.93 KiB" in text
    assert "small_files 5.0%, tolerance 20% (within)" in text


def test_refused_tables_are_shown_and_counted() -> None:
    text = render(Plan("0.1.0", (REFUSED,)))
    assert "      refused: ZL210 liquid clustering is on\n         hint: turn it off\n" in text
    assert text.endswith("\nPlan: 1 refused.\n")


def test_names_cannot_carry_escapes_or_turn_the_text_round() -> None:
    nasty = TablePlan("a\x1b[31m.b\u202e.c\nd", "delta", Location("x\x07.yaml"), Status.UNCHANGED)
    text = render(Plan("0.1.0", (nasty,)), TextOptions(verbose=True))
    assert not set(text) & {"\x1b", "\u202e", "\x07"}
    assert len(text.splitlines()) == 4


def test_style_is_asked_for_each_kind() -> None:
    kinds = set()

    def style(kind: str, text: str) -> str:
        kinds.add(kind)
        return text

    plain = render(Plan("0.1.0", (ORDERS, REFUSED)))
    assert render(Plan("0.1.0", (ORDERS, REFUSED)), TextOptions(style=style)) == plain
    assert {"title", "alter", "rewrite", "refused", "dim"} <= kinds


def test_drift_closes_with_a_line_of_its_own() -> None:
    tables = (ORDERS, UNCHANGED, REFUSED)
    text = render(RunReport(Plan("0.1.0", tables), drift=True), TextOptions(width=80))
    assert text.splitlines()[-2:] == [
        "Drift: 2 of 3 tables are not as declared. `zlayout apply` would rewrite 1.17",
        "TiB.",
    ]
    assert drift_line(Plan("0.1.0", (UNCHANGED,))) == "No drift. 1 table laid out as declared."
    failed = replace(UNCHANGED, status=Status.ERROR)
    assert drift_line(Plan("0.1.0", (UNCHANGED, failed))) == (
        "Drift is not known: 1 table could not be planned. 1 table laid out as declared."
    )


def test_a_first_layout_says_how() -> None:
    first = replace(ORDERS, drift=(), actions=tuple(replace(g, reason=Reason.NOT_LAID_OUT) for g in ORDERS.groups))
    lines = render(Plan("0.1.0", (replace(first, partitions=1),))).splitlines()
    assert lines[0] == "  + first layout    -/+ rewrite files"
    assert lines[1] == "  touched: files opened for one value    floor: fewest possible    kd: k-d tree"
    assert "  +   layout          kd by [a]" in lines
    cut = replace(first, settings=tuple((k, "workload" if k == "zorder.curve" else v) for k, v in first.settings))
    assert "curve workload: files end at constants of queries" in render(Plan("0.1.0", (cut,))).splitlines()[2]


def test_the_legend_has_the_signs_and_terms_of_the_plan_alone() -> None:
    first = replace(ORDERS, drift=(), actions=tuple(replace(g, reason=Reason.NOT_LAID_OUT) for g in ORDERS.groups))
    altered = replace(EVENTS, actions=EVENTS.actions[:1], decay=())
    assert render(Plan("0.1.0", (altered,))).splitlines()[:2] == ["  ~ alter settings", ""]
    lines = render(Plan("0.1.0", (EVENTS, first)), TextOptions(width=80)).splitlines()
    assert lines[:4] == [
        "  + first layout    ~ alter settings    -/+ rewrite files",
        "  touched: files opened for one value, summed over partitions",
        "  floor: fewest possible    decay: only data changed    kd: k-d tree",
        "",
    ]
    one = render(Plan("0.1.0", (EVENTS, first)), TextOptions(width=140)).splitlines()[1]
    assert one == (
        "  touched: files opened for one value, summed over partitions    floor: fewest possible    "
        "decay: only data changed    kd: k-d tree"
    )


def test_tables_that_apply_could_not_do_are_in_its_last_line() -> None:
    planned = replace(ORDERS, table="lake.sales.later", status=Status.CHANGES)
    plan = replace(APPLIED, plan=replace(APPLIED.plan, tables=(*APPLIED.plan.tables, BROKEN, REFUSED, planned)))
    last = last_line(plan)
    assert last.startswith("Applied: 1 as declared, 1 failed, 1 not begun, 1 refused, 1 with errors. Wrote ")
    figures = html.render(plan).partition('<ul class="counts">')[2].partition("</ul>")[0]
    assert "not begun" in figures
    assert "with errors" in figures


def test_a_result_says_how_the_table_and_its_storage_grew() -> None:
    grown = replace(DONE, bytes_removed=2**39, bytes_added=2**40)
    shown = " ".join(render(applied(grown)).split())
    assert "9,610 -> 1,228 files, 512 GiB -> 1 TiB written; run" in shown
    assert "storage grew by 1 TiB; the replaced 512 GiB stay until VACUUM" in shown
    assert "storage" not in render(applied(DONE))


def test_a_result_says_how_to_undo_it() -> None:
    command = "zlayout rollback lake.db.t --run 1f"
    shown = " ".join(render(applied(replace(DONE, rollback=command))).split())
    assert f"roll back {command}" in shown
    assert "roll back" not in render(applied(DONE))


def test_measured_bytes_stand_beside_measured_files() -> None:
    columns = (replace(DONE.columns[0], bytes_read=2**30),)
    assert "measured        customer_id 35.2 (predicted 35.4), 1 GiB" in render(applied(replace(DONE, columns=columns)))


def test_one_file_is_no_files() -> None:
    small = replace(ORDERS, files_after=FilesAfter(1, 1, 1), columns=())
    assert "9,610 -> 1 file\n" in render(Plan("0.1.0", (small,)))


def test_only_the_first_files_of_a_workload_are_named() -> None:
    sources = tuple(f"{name}.sql" for name in "abcde")
    workload = WorkloadForecast(sources=sources, queries=7, share=1.0, now=QueryCost(2.0, 1024))
    assert list(workload_lines(replace(UNCHANGED, workload=workload)))[1].startswith(
        "7 queries of a.sql, b.sql, c.sql and 2 more; "
    )
