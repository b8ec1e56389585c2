"""What the queries of a project's workload open, in plans: now, after apply and at least."""

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from support.memory_format.backend import MemoryBackend
from support.memory_format.store import MemoryTable
from support.projects import workload_project

import zlayout
from zlayout.errors import SpecError
from zlayout.formats.base import RunCost, RunMetrics
from zlayout.planner.model import TablePlan, WorkloadForecast
from zlayout.report.html import render as html
from zlayout.report.text import TextOptions, render

ROWS, FILES = 40_000, 20
LAYOUT = """\
version: 1
table: lake.db.orders
zorder: {columns: [a, b]}
files: {target_size: SIZE}
"""
QUERIES = """\
-- weight: 3
SELECT * FROM orders WHERE a = 500;
SELECT count(*) FROM db.orders WHERE time >= 2000 AND time < 2100;
SELECT * FROM other WHERE a = 5;
"""


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MemoryBackend:
    """A project with a table of 20 files, one after the other in time, and a workload of two queries on it."""
    random = np.random.default_rng(3)
    columns = {"a": random.integers(0, 1000, ROWS), "b": random.integers(0, 1000, ROWS), "time": np.arange(ROWS)}
    rows = pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()})
    memory = MemoryTable(rows.schema)
    memory.append(rows, files=FILES)
    layout = LAYOUT.replace("SIZE", str(rows.nbytes // FILES))
    return workload_project(tmp_path, monkeypatch, layout, memory, QUERIES)


def planned(*, sample: bool = False) -> TablePlan:
    return zlayout.plan(zlayout.load_project(), sample=sample).tables[0]


def forecast(*, sample: bool = False) -> WorkloadForecast:
    found = planned(sample=sample).workload
    assert found is not None
    return found


@pytest.mark.usefixtures("table")
def test_the_present_cost_is_the_weighted_mean_of_the_files_that_bounds_do_not_exclude() -> None:
    found = forecast()
    # Every file has the value 500 of a, and the times 2000 to 2099 are the first of the second of 20 files.
    assert found.now.files == (3 * 20 + 1 * 1) / 4
    assert (found.sources, found.queries, found.share) == (("workloads/orders.sql",), 2, 1.0)
    assert found.predicted is None
    assert found.floor is None


def test_the_cost_after_apply_is_as_a_sample_predicted(table: MemoryBackend) -> None:
    before = zlayout.plan(zlayout.load_project(), sample=True)
    found, one = before.tables[0].workload, before.planned[0]
    assert found.floor is not None
    list(table.execute(one, lambda _: None))
    then = forecast(sample=True)
    assert then.now.files == pytest.approx(found.predicted.files, rel=0.15)
    assert then.now.bytes == pytest.approx(found.predicted.bytes, rel=0.15)
    # By hand, because a forecast that cut the files by the time too would be close: 7.4 files.
    assert found.predicted.files == pytest.approx(8, rel=0.03)
    # A query on a opens one of 5 slices of 4 files. Neither z-order column helps a query on the time: it opens all.
    assert then.now.files == (3 * 4 + 1 * 20) / 4
    assert then.predicted == then.now
    assert found.floor.files == pytest.approx(1, abs=0.01)


def test_queries_with_conditions_on_the_same_columns_are_one_group(table: MemoryBackend) -> None:
    before = zlayout.plan(zlayout.load_project(), sample=True)
    found, one = before.tables[0].workload, before.planned[0]
    assert found is not None
    assert [(group.columns, group.queries, group.share) for group in found.groups] == [
        (("a",), 1, 0.75),
        (("time",), 1, 0.25),
    ]
    assert [group.now.files for group in found.groups] == [20, 1]
    after = [group.predicted.files for group in found.groups if group.predicted]
    assert after == pytest.approx([4, 20], rel=0.03)
    assert [group.predicted for group in forecast().groups] == [None, None], "only a sample tells"
    page = html(before.document)
    assert "Queries of the workload" in page
    assert not re.findall(r'<th scope="col"[^>]*>(?!<button)', page), "the page's script sorts by every column"
    assert page.count('fill="var(--after)"/></svg>') == 2, "a bar for the forecast of each group"
    list(table.execute(one, lambda _: None))
    assert [group.predicted == group.now for group in forecast().groups] == [True, True], "nothing is rewritten"


@pytest.mark.usefixtures("table")
def test_text_shows_the_cost_and_what_a_sample_would_add() -> None:
    text = zlayout.plan(zlayout.load_project(), sample=False).document
    lines = render(text, TextOptions(width=120))
    assert "workload        15.2 files, " in lines
    assert "2 queries of workloads/orders.sql; --sample predicts what they open after apply" in lines
    assert "--sample predicts" not in render(zlayout.plan(zlayout.load_project(), sample=True).document)


def test_the_plan_states_when_the_rewrite_has_paid_back(table: MemoryBackend) -> None:
    path = Path("workloads/orders.sql")
    path.write_text("-- days: 2\n" + path.read_text())
    plan = zlayout.plan(zlayout.load_project(), sample=True).document
    lines = render(plan, TextOptions(width=200))
    size = sum(g.bytes for g in plan.tables[0].groups)
    found = plan.tables[0].workload
    saved = found.now.bytes - found.predicted.bytes
    # 4 executions in 2 days
    assert (found.payback.rewrite_bytes, found.payback.saved_per_day) == (size, 2 * saved)
    assert found.payback.days == pytest.approx(2 * size / (2 * saved))
    assert "time unknown until the first apply" in lines
    # The size of new files is unknown, because files in memory are not encoded: the range of bytes exceeds 20 %.
    early, late = (found.payback.days * saved / (found.now.bytes - end.bytes) for end in (found.low, found.high))
    assert f"paid back after {early:.1f}..{late:.1f} days" in lines
    memory = table._catalog.load(("db", "orders"))
    memory.last_run = RunMetrics("run", 1, (), RunCost(10 * size, 300.0))
    project = Path("zlayout.yaml")
    project.write_text(project.read_text() + "prices: {scan_per_tib: 5, compute_per_hour: 12}\n")
    plan = zlayout.plan(zlayout.load_project(), sample=True).document
    found = plan.tables[0].workload
    assert found.payback.seconds == pytest.approx(30)
    assert found.payback.cost == pytest.approx(0.1)
    assert found.payback.worth_per_day == pytest.approx(5 * 2 * saved / 2**40)
    lines = render(plan, TextOptions(width=200))
    assert "about 30 s for 0.10" in lines


def test_inspect_has_the_cost_beside_the_prediction(table: MemoryBackend) -> None:
    plan = zlayout.plan(zlayout.load_project(), sample=True)
    one, found = plan.planned[0], plan.tables[0].workload
    assert one.plan.workload.predicted == found.predicted
    assert zlayout.inspect(zlayout.load_project(), "lake.db.orders").query_cost is None  # it is not laid out
    list(table.execute(one, lambda _: None))
    # By hand, as above: three queries on a, of weight 3, open 4 files each, and the query on the time opens 20.
    now = zlayout.inspect(zlayout.load_project(), "lake.db.orders").query_cost
    assert now.files == (3 * 4 + 1 * 20) / 4


@pytest.mark.usefixtures("table")
def test_a_layout_may_name_its_workload() -> None:
    path = Path("layouts/orders.yaml")
    Path("workloads/more.csv").write_text("query,count\nSELECT 1 FROM orders WHERE b < 0,2\n")
    path.write_text(path.read_text() + "workload: workloads/*.csv\n")
    found = forecast()
    assert (found.sources, found.now.files) == (("workloads/more.csv",), 0.0)
    path.write_text(path.read_text().replace("*.csv", "none.sql"))
    with pytest.raises(SpecError, match=r"file 'workloads/none\.sql' does not exist") as error:
        planned()
    assert error.value.diagnostics[0].location == zlayout.Location("layouts/orders.yaml", 5, 1)


@pytest.mark.usefixtures("table")
def test_a_table_that_no_query_reads_has_no_forecast() -> None:
    Path("workloads/orders.sql").write_text("SELECT * FROM other WHERE a = 5")
    assert planned().workload is None


def test_a_failure_to_read_is_a_warning(table: MemoryBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    observe = table.observe

    def fail(name: object, columns: object, version: int | None = None) -> object:
        if version is not None:
            raise OSError("no route to host")
        return observe(name, columns, version)  # type: ignore[arg-type]

    monkeypatch.setattr(table, "observe", fail)
    found = planned()
    assert found.workload is None
    assert found.groups
    assert [d.code for d in found.diagnostics if d.severity == "warning"] == ["ZL414"]


@pytest.mark.usefixtures("table")
def test_an_invalid_workload_stops_the_plan() -> None:
    Path("workloads/orders.sql").write_text("-- weight: none\nSELECT 1")
    with pytest.raises(SpecError) as error:
        planned()
    assert error.value.diagnostics[0].code == "ZL071"


@pytest.mark.usefixtures("table")
def test_queries_that_cannot_be_read_are_named_in_the_plan() -> None:
    assert "ZL434" not in [d.code for d in planned().diagnostics]
    with Path("workloads/orders.sql").open("a") as file:
        file.write("\nSELEC * FRM orders WHERE a = 1;\nDELETE FROM elsewhere;\n")
    (note,) = (d for d in planned().diagnostics if d.code == "ZL434")
    assert note.severity == "note"
    assert note.message.startswith("2 queries of the workload cannot be read: orders.sql:")
    assert "(not Spark SQL that can be parsed)" in note.message
    assert "(not a query)" in note.message
