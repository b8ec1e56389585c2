"""Plans and drift reports state that a layout no longer fits the workload, if another one reads much less."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from support.memory_format.backend import MemoryBackend
from support.memory_format.store import MemoryTable
from support.projects import workload_project

import zlayout
from zlayout.advisor import query_costs
from zlayout.advisor.model import Costs, TableQuery
from zlayout.cli.main import run
from zlayout.planner.model import TablePlan
from zlayout.planner.simulation import Drawn

ROWS, FILES = 40_000, 20
LAYOUT = """\
version: 1
table: lake.db.orders
zorder: {columns: [COLUMNS]}
files: {target_size: SIZE}
"""


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MemoryBackend:
    """A project with a table of 20 files laid out by a and b, of which the queries filter on c."""
    random = np.random.default_rng(3)
    rows = pa.table({name: pa.array(random.integers(0, 1000, ROWS), pa.int64()) for name in "abc"})
    memory = MemoryTable(rows.schema)
    memory.append(rows, files=FILES)
    layout = LAYOUT.replace("SIZE", str(rows.nbytes // FILES)).replace("COLUMNS", "a, b")
    backend = workload_project(tmp_path, monkeypatch, layout, memory, "")
    ask("c")
    lay_out(backend)
    return backend


def ask(*columns: str) -> None:
    queries = [f"SELECT * FROM orders WHERE {name} = {value};" for name in columns for value in (5, 500, 900)]
    Path("workloads/orders.sql").write_text("\n".join(queries))


def declare(columns: str) -> None:
    path = Path("layouts/orders.yaml")
    text = path.read_text().splitlines()
    path.write_text("\n".join([*text[:2], f"zorder: {{columns: [{columns}]}}", *text[3:], ""]))


def lay_out(backend: MemoryBackend) -> None:
    one = zlayout.plan(zlayout.load_project()).planned[0]
    list(backend.execute(one, lambda _: None))


def planned(*, sample: bool = True) -> TablePlan:
    return zlayout.plan(zlayout.load_project(), sample=sample).tables[0]


@pytest.mark.usefixtures("table")
def test_the_warning_names_the_saving_and_the_change_of_the_layout_file() -> None:
    found = planned()
    better = found.workload.better
    # By hand: a file of 2,000 of 40,000 rows by c alone has 50 of the 1,000 values, and every file by a and b has all.
    assert (better.columns, better.declared.files) == (("c",), 20)
    assert better.cost.files == pytest.approx(1, abs=0.4)
    warning = next(d for d in found.diagnostics if d.code == "ZL446")
    assert (warning.severity, warning.location) == ("warning", zlayout.Location("layouts/orders.yaml", 3, 1))
    assert "with c (linear)" in warning.message or "with c (kd)" in warning.message
    assert f"declare `{better.yaml}`, or run `zlayout advise lake.db.orders --write`" == warning.hint
    assert not found.fits
    assert found.as_declared  # the table is laid out as declared: the declaration is what no longer fits


@pytest.mark.usefixtures("table")
def test_the_floor_is_not_above_the_layout_that_is_proposed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the rows that a query needs filled more files than they are in."""
    lowest = query_costs.lowest

    def too_many(queries: Sequence[TableQuery], drawn: Drawn) -> Costs:
        found = lowest(queries, drawn)
        return replace(found, files=found.files + 6)

    monkeypatch.setattr(query_costs, "lowest", too_many)
    found = planned().workload
    assert found.floor.files <= found.better.cost.files < 2


def test_the_declared_change_ends_the_warning(table: MemoryBackend) -> None:
    found = planned().workload
    path = Path("layouts/orders.yaml")
    text = path.read_text().splitlines()
    path.write_text("\n".join([*text[:2], found.better.yaml, *text[3:], ""]))
    assert planned().fits
    lay_out(table)
    after = planned().workload
    assert after.better is None
    assert after.now.bytes == pytest.approx(found.better.cost.bytes, rel=0.15)


@pytest.mark.usefixtures("table")
def test_a_saving_within_the_tolerance_is_accepted() -> None:
    path = Path("layouts/orders.yaml")
    path.write_text(path.read_text() + "tolerance: {workload: 97%}\n")
    assert planned().fits
    path.write_text(path.read_text().replace("97%", "50%"))
    assert not planned().fits


@pytest.mark.usefixtures("table")
def test_a_layout_that_fits_is_not_reported() -> None:
    ask("a", "b")
    found = planned()
    assert found.workload is not None
    assert found.fits
    assert [d.code for d in found.diagnostics if d.severity == "warning"] == []


@pytest.mark.usefixtures("table")
def test_a_layout_that_reads_more_than_the_present_files_is_not_proposed() -> None:
    """A rewrite would make 5 files of 20, and queries would read more, in the declared layout and in any other one."""
    ask("a", "a", "b")
    path = Path("layouts/orders.yaml")
    larger = [*path.read_text().splitlines()[:3], f"files: {{target_size: {ROWS * 24 // 5}}}"]
    path.write_text("\n".join([*larger, "tolerance: {workload: 1%}", ""]))
    found = planned().workload
    assert found.now.files < 6
    assert found.better is None


@pytest.mark.usefixtures("table")
def test_nothing_is_claimed_without_a_sample() -> None:
    assert planned(sample=False).fits
    assert zlayout.drift(zlayout.load_project()).unfit == ()


@pytest.mark.usefixtures("table")
def test_nothing_is_claimed_from_few_rows_per_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zlayout.advisor.query_costs.MIN_ROWS_PER_FILE", ROWS // FILES + 1)
    assert planned().fits
    monkeypatch.setattr("zlayout.advisor.query_costs.MIN_ROWS_PER_FILE", ROWS // FILES - 10)
    assert not planned().fits


@pytest.mark.usefixtures("table")
def test_drift_exits_as_for_other_drift_and_names_the_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert zlayout.drift(zlayout.load_project(), sample=True).unfit[0].table == "lake.db.orders"
    assert run(["drift"]) == 0
    capsys.readouterr()
    assert run(["drift", "--sample"]) == 2
    shown = " ".join(capsys.readouterr().out.split())
    assert "ZL446 the layout no longer fits the workload" in shown
    assert "No drift. 1 table laid out as declared. 1 layout no longer fits the workload." in shown


@pytest.mark.usefixtures("table")
def test_a_saved_plan_is_reviewed_without_its_workload_files(tmp_path: Path) -> None:
    declare("a, c")
    plan = zlayout.plan(zlayout.load_project(), sample=True)
    assert plan.has_changes
    zlayout.write_plan(plan, tmp_path / "plan.json")
    Path("workloads/orders.sql").write_text("-- weight: none\nSELECT 1")
    reviewed = zlayout.read_plan(zlayout.load_project(), tmp_path / "plan.json")
    assert reviewed.tables[0].workload == plan.tables[0].workload
    assert reviewed.has_changes
