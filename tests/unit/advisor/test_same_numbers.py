"""`advise` and `plan --sample` predict the same for the same layout, table and sample, on real tables."""

from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyiceberg.catalog import load_catalog
from pyiceberg.expressions import LessThan
from support.projects import write_project

import zlayout
from zlayout.advisor import study as studied
from zlayout.advisor.model import Study
from zlayout.formats.delta.backend import DeltaBackend
from zlayout.planner.model import TablePlan
from zlayout.planner.written_size import size_ratios
from zlayout.session.advise import write_advice
from zlayout.session.sampling import SEED
from zlayout.table.state import TableState

ROWS, FILES = 24_000, 12
LAYOUT = """\
version: 1
table: lake.db.orders
zorder: {columns: [{name: part, weight: 2}, day, name]}
files: {target_size: 1GiB}
"""
# The third query has a column that the layout does not order, the fourth a value that does not occur, and the fifth
# needs bounds that are longer than writers keep.
QUERIES = """\
-- weight: 3
select * from orders where part = 777;
-- weight: 1
select * from orders where day between 10 and 19 and id > 100;
select * from orders where id = 4711;
select * from orders where part = 50001;
select * from orders where name >= 'a-prefix-of-more-than-thirty-two-characters-3';
select * from orders where some is null;
"""


def rows_of(seed: int = 0) -> pa.Table:
    rng = np.random.default_rng(seed)
    part, day = rng.integers(0, 5_000, ROWS), rng.integers(0, 365, ROWS)
    name = [f"a-prefix-of-more-than-thirty-two-characters-{v % 50:02}" for v in part.tolist()]
    some = pa.array(rng.integers(0, 9, ROWS), mask=day < 40)
    region = pa.array(["east", "north", "west"]).take(pa.array((rng.random(ROWS) * 1.7).astype(np.int64) + day // 300))
    return pa.table(
        {"id": np.arange(ROWS), "part": part, "day": day, "name": name, "some": some, "region": region.fill_null("x")}
    )


def delta(folder: Path, rows: pa.Table, *partition_by: str) -> None:
    for at in range(FILES):
        part = rows.slice(at * ROWS // FILES, ROWS // FILES)
        write_deltalake(str(folder / "tables/db/orders"), part, mode="append", partition_by=list(partition_by) or None)


def iceberg(folder: Path, rows: pa.Table, *partition_by: str) -> None:
    project = folder / "zlayout.yaml"
    ice = "{format: iceberg, type: sql, uri: 'sqlite:///cat.db', warehouse: ./ice}"
    project.write_text(f"version: 1\ncatalogs:\n  lake: {ice}\n")
    (folder / "ice").mkdir()
    catalog = load_catalog("lake", type="sql", uri=f"sqlite:///{folder}/cat.db", warehouse=f"file://{folder}/ice")
    catalog.create_namespace("db")
    table = catalog.create_table("db.orders", rows.schema)
    for column in partition_by:
        with table.update_spec() as update:
            update.add_identity(column)
    for at in range(FILES):
        table.append(rows.slice(at * ROWS // FILES, ROWS // FILES))
    table.delete(LessThan("id", 10))


FORMATS = {"delta": delta, "iceberg": iceberg}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_project(tmp_path, monkeypatch, LAYOUT)
    (tmp_path / "workloads").mkdir()
    (tmp_path / "workloads" / "orders.sql").write_text(QUERIES)
    return tmp_path


def both(monkeypatch: pytest.MonkeyPatch, files: int, max_bytes: int = 2**24) -> tuple[TablePlan, Study]:
    """The plan and the advice from the same sample, for a layout of about this number of files."""
    set_files(files)
    monkeypatch.setattr("zlayout.session.session.SAMPLE_BYTES", max_bytes)
    plan = zlayout.plan(zlayout.load_project(), sample=True)
    return plan.tables[0], advised(monkeypatch, max_bytes)


def set_files(files: int) -> None:
    size = zlayout.plan(zlayout.load_project(), sample=False).tables[0].rewrite_bytes
    path = Path("layouts/orders.yaml")
    path.write_text(path.read_text().replace("1GiB", str(size // files)))


def advised(monkeypatch: pytest.MonkeyPatch, max_bytes: int = 2**24) -> Study:
    """The advice from the sample of a plan."""

    def draw(backend: Any, table: Any, state: TableState, columns: Any, _rows: int, _seed: int) -> Any:
        return backend.sample_keys(table, state, np.arange(len(state.files)), columns, max_bytes, SEED)

    monkeypatch.setattr("zlayout.session.advise.draw_sample", draw)
    monkeypatch.setattr("zlayout.session.sampling.SMALL_BYTES", 0)
    return zlayout.advise(zlayout.load_project(), "lake.db.orders", ())


@pytest.mark.parametrize(
    ("format", "files", "max_bytes", "keys"),
    [
        ("iceberg", 24, 2**24, ("region",)),
        ("delta", 24, 90_000, ()),
        ("delta", 5, 2**24, ()),
        pytest.param("delta", 24, 2**24, ("region",), marks=pytest.mark.long),
        pytest.param("iceberg", 24, 90_000, (), marks=pytest.mark.long),
        pytest.param("iceberg", 5, 2**24, (), marks=pytest.mark.long),
        pytest.param("delta", 24, 2**24, (), marks=pytest.mark.long),
        pytest.param("iceberg", 24, 2**24, (), marks=pytest.mark.long),
    ],
)
def test_advise_and_plan_predict_the_same(
    format: str, files: int, max_bytes: int, keys: tuple[str, ...], project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    FORMATS[format](project, rows_of(), *keys)
    plan, study = both(monkeypatch, files, max_bytes)
    declared, planned = study.declared, plan.workload
    assert plan.files_after.predicted == declared.files
    if max_bytes == 2**24:  # else the plan has another sample for these numbers
        assert {c.column: c.predicted for c in plan.columns} == pytest.approx(declared.touched)
    assert planned.predicted.files == pytest.approx(declared.costs.mean_files)
    assert planned.predicted.bytes == pytest.approx(declared.costs.mean_bytes, abs=5)  # sizes of files are rounded
    # At most what a query opens in a known layout, of which the study has more.
    assert study.floor.mean_files <= planned.floor.files * (1 + 1e-9)
    assert planned.floor.files == pytest.approx(study.floor.mean_files, rel=0.2)
    assert planned.floor.bytes <= planned.low.bytes
    if planned.better is not None:
        assert planned.better.declared.files == planned.predicted.files
        assert planned.better.declared.bytes == pytest.approx(planned.predicted.bytes, abs=5)


def test_advice_without_partitions_names_the_queries_that_a_plan_leaves_out(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    delta(project, rows_of())
    path = Path("zlayout.yaml")
    path.write_text(path.read_text() + "workload: {engine: spark}\n")
    days = np.arange(365)
    write_deltalake(str(project / "tables/db/months"), pa.table({"d_day": days, "d_month": days // 30}))
    through = [f"select * from orders join months on day = d_day where d_month = {month};" for month in range(12)]
    items = [f"select * from orders where part between {first} and {first + 99};" for first in range(0, 5000, 1000)]
    Path("workloads/orders.sql").write_text("\n".join([*through, *items]))
    plan, study = both(monkeypatch, 24)
    assert (plan.workload.queries, len(study.queries)) == (5, 17)
    (note,) = (note for note in study.notes if "through joins" in note)
    assert note.endswith(
        "but Spark skips only partitions by them: day = months. Without partitions, 12 of 17 queries read every file."
    )


def test_a_plan_predicts_the_advised_partitions(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, days = rows_of(), np.arange(365)
    iceberg(project, rows)
    path = Path("zlayout.yaml")
    path.write_text(path.read_text() + "workload: {engine: spark}\n")
    catalog = load_catalog("lake", type="sql", uri=f"sqlite:///{project}/cat.db", warehouse=f"file://{project}/ice")
    months = pa.table({"d_day": days, "d_month": days // 30})
    catalog.create_table("db.months", months.schema).append(months)
    through = [f"select * from orders join months on day = d_day where d_month = {month};" for month in range(12)]
    items = [f"select * from orders where part between {first} and {first + 99};" for first in range(0, 5000, 1000)]
    Path("workloads/orders.sql").write_text("\n".join([*through, *items]))
    set_files(24)
    study = advised(monkeypatch)
    assert study.best is not None
    assert [str(field) for field in study.best.partition_by or ()] == ["truncate(30, day)"]
    assert study.now.mean_files == FILES
    before = Path("layouts/orders.yaml").read_text()
    write_advice(zlayout.load_project(), study)
    plan = zlayout.plan(zlayout.load_project(), sample=True).tables[0]
    planned = plan.workload
    assert plan.partitioning is not None
    assert planned.now.files == FILES
    assert planned.predicted.files == pytest.approx(study.best.costs.mean_files)
    assert planned.predicted.bytes == pytest.approx(study.best.costs.mean_bytes, abs=5)
    assert planned.floor.files <= planned.predicted.files < FILES / 2
    # The price of the order is that of the order in partitions, and not in the whole table.
    without_partitions = lambda rewrite, stored: size_ratios(replace(rewrite, fields=()), stored)  # noqa: E731
    monkeypatch.setattr(studied, "size_ratios", without_partitions)
    Path("layouts/orders.yaml").write_text(before)
    other = advised(monkeypatch)
    assert other.best.costs.mean_bytes != pytest.approx(study.best.costs.mean_bytes, rel=0.01)


@pytest.mark.parametrize(("files", "error"), [(FILES, 0.06), (FILES // 4, 0.13), (4 * FILES, 0.21)])
def test_the_range_of_bytes_is_wider_if_the_size_of_new_files_is_unknown(
    project: Path, monkeypatch: pytest.MonkeyPatch, files: int, error: float
) -> None:
    delta(project, rows_of())
    set_files(files)
    known = zlayout.plan(zlayout.load_project(), sample=True).tables[0].workload
    monkeypatch.setattr(DeltaBackend, "stored_rows", Mock(side_effect=OSError("no route to host")))
    unknown = zlayout.plan(zlayout.load_project(), sample=True).tables[0].workload
    assert unknown.predicted.files == known.predicted.files
    assert (unknown.low.files, unknown.high.files) == (known.low.files, known.high.files)
    of_files = 1 - known.low.files / known.predicted.files
    for forecast, more in ((known, error), (unknown, 0.21)):
        below, above = (abs(1 - end.bytes / forecast.predicted.bytes) for end in (forecast.low, forecast.high))
        assert below == pytest.approx(above, abs=0.001)
        assert below == pytest.approx(of_files + more, abs=0.002)
    assert known.predicted.bytes < 0.97 * unknown.predicted.bytes, "ordered columns take fewer bytes"


def test_the_range_of_bytes_is_wider_with_cuts(project: Path) -> None:
    delta(project, rows_of())
    set_files(FILES)
    layout = Path("layouts/orders.yaml")
    cut = "zorder: {columns: [part, day, name], curve: workload, cuts: [part < 2500]}"
    layout.write_text("\n".join(cut if line.startswith("zorder") else line for line in layout.read_text().splitlines()))
    found = zlayout.plan(zlayout.load_project(), sample=True).tables[0].workload
    of_bytes, of_files = (
        1 - low / at for low, at in ((found.low.bytes, found.predicted.bytes), (found.low.files, found.predicted.files))
    )
    assert of_bytes == pytest.approx(of_files + 0.12, abs=0.002)
