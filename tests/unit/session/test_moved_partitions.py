"""What queries open after a partitioning change is what a plan with a sample predicted, with rows that really move."""

import json
from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.memory_format.backend import MemoryBackend
from support.memory_format.store import MemoryCatalog, MemoryTable
from support.projects import workload_project

import zlayout
from zlayout.planner.model import TablePlan, WorkloadForecast
from zlayout.report.changes import reads
from zlayout.report.formats import REPORTERS
from zlayout.report.text import TextOptions, render
from zlayout.table.partition import PartitionField

ROWS, FILES, MONTHS = 24_000, 24, 12
FIRST = date(2001, 1, 1)
PROJECT = "version: 1\ncatalogs:\n  lake: {format: iceberg, type: sql, uri: 'sqlite:///cat.db', warehouse: ./ice}\n"
LAYOUT = "version: 1\ntable: lake.db.orders\nzorder: {columns: [item]}\nfiles: {target_size: SIZE}\nPARTITIONS"
JOIN = "SELECT count(*) FROM orders JOIN dates ON sold = d_date WHERE"
# By the keys of the joined table, Spark skips partitions only. `sold` in the last query is a condition on the column.
THROUGH = [f"{JOIN} d_moy = {month}" for month in (2, 5, 11)]
OWN = ["SELECT * FROM orders WHERE sold >= date '2001-03-01' AND sold < date '2001-04-01'"]
ITEM = ["SELECT * FROM orders WHERE item BETWEEN 100 AND 110"]
QUERIES = [*THROUGH, *OWN, *ITEM]
NULLS = "SELECT * FROM orders WHERE sold IS NULL"
OF_REGION = ["SELECT * FROM orders WHERE region = 2"]
REGION = PartitionField("region")
BY_MONTH, BY_DAY = (PartitionField("sold", name) for name in ("month", "day"))


def rows_of(days: int = 365, nulls: int = 0, seed: int = 3) -> pa.Table:
    random = np.random.default_rng(seed)
    day = random.integers(0, days, ROWS) + (FIRST - date(1970, 1, 1)).days
    sold = pa.array(day, pa.int32(), mask=np.arange(ROWS) < nulls).cast(pa.date32())
    return pa.table({"sold": sold, "item": random.integers(0, 1000, ROWS), "region": random.integers(0, 4, ROWS)})


def project(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    table: MemoryTable,
    partition_by: str | None,
    queries: Sequence[str] = QUERIES,
) -> MemoryBackend:
    size = table.rows().nbytes // FILES
    layout = LAYOUT.replace("SIZE", str(size)).replace("PARTITIONS", f"partition_by: [{partition_by}]\n")
    backend = workload_project(folder, monkeypatch, layout, table, ";\n".join(queries) + ";\n")
    Path("zlayout.yaml").write_text(PROJECT)
    days = [FIRST + timedelta(n) for n in range(365)]
    dates = pa.table({"d_date": pa.array(days), "d_moy": pa.array([day.month for day in days])})
    dimension = MemoryTable(dates.schema)
    dimension.append(dates)
    backend._catalog = MemoryCatalog({"db.orders": table, "db.dates": dimension})
    return backend


def table_of(rows: pa.Table, *fields: PartitionField, files: int = FILES) -> MemoryTable:
    table = MemoryTable(rows.schema)
    if fields:
        table.set_partitioning(fields)
    table.append(rows, files=files)
    return table


def planned() -> TablePlan:
    return zlayout.plan(zlayout.load_project(), sample=True).tables[0]


def predicted_and_after(backend: MemoryBackend) -> tuple[WorkloadForecast, WorkloadForecast]:
    """The forecast before apply, and what queries then open."""
    before = zlayout.plan(zlayout.load_project(), sample=True)
    list(backend.execute(before.planned[0], lambda _: None))
    after = zlayout.plan(zlayout.load_project(), sample=True).tables[0].workload
    assert before.tables[0].workload is not None
    assert after is not None
    return before.tables[0].workload, after


def check(found: WorkloadForecast, after: WorkloadForecast, rel: float = 0.1) -> None:
    assert found.predicted is not None
    assert found.predicted.files == pytest.approx(after.now.files, rel=rel)
    assert found.predicted.bytes == pytest.approx(after.now.bytes, rel=rel)
    assert found.low.files <= after.now.files <= found.high.files
    assert found.low.bytes <= after.now.bytes <= found.high.bytes
    assert found.floor.files <= after.now.files
    assert found.floor.bytes <= 1.01 * after.now.bytes  # in memory, the size of files depends on how rows are divided


@pytest.mark.parametrize(
    ("before", "declared", "files", "queries"),
    [
        ((), "month(sold)", 24, [*QUERIES, NULLS]),
        ((BY_DAY,), "month(sold)", 1, [*QUERIES, NULLS]),
        ((BY_MONTH,), "day(sold)", 2, [*QUERIES, NULLS]),
        ((REGION,), "month(sold)", 6, [*QUERIES, NULLS]),
        ((BY_MONTH,), "month(sold), region", 2, [*QUERIES, NULLS]),
        # Without a partition field of `sold`, conditions through the join do not count.
        ((BY_MONTH,), "", 2, [*OWN, *ITEM, NULLS]),
        ((BY_MONTH,), "region", 2, [*OWN, *ITEM, NULLS]),
        ((REGION, BY_MONTH), "region", 1, [*OWN, *ITEM, *OF_REGION]),
    ],
)
def test_the_forecast_of_a_partitioning_change_is_what_queries_then_open(
    before: tuple[PartitionField, ...],
    declared: str,
    files: int,
    queries: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = table_of(rows_of(nulls=500), *before, files=files)
    backend = project(tmp_path, monkeypatch, table, declared, queries)
    check(*predicted_and_after(backend))
    assert zlayout.plan(zlayout.load_project(), sample=True).tables[0].status == "unchanged"


def test_rows_move_to_partitions_that_have_files_without_such_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each month has a file with the items 0 to 9. Files that are not partitioned yet have the others."""
    rows = rows_of()
    table = table_of(rows.filter(pc.field("item") < 10), BY_MONTH, files=1)
    table.append(rows.filter(pc.field("item") >= 10), files=FILES, spec_id=0)
    found, after = predicted_and_after(project(tmp_path, monkeypatch, table, "month(sold)", ITEM))
    check(found, after)
    assert after.now.files == pytest.approx(MONTHS, rel=0.1)


def test_bounds_of_a_column_that_no_longer_partitions_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = rows_of()
    region = pa.array(rows["item"].to_numpy() // 250)  # the order by item is an order by region too
    table = table_of(rows.set_column(2, "region", region), REGION, files=6)
    found, after = predicted_and_after(project(tmp_path, monkeypatch, table, "", OF_REGION))
    check(found, after)
    assert found.predicted.files == pytest.approx(FILES / 4, abs=1)


def test_the_floor_is_that_of_the_new_partitions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project(tmp_path, monkeypatch, table_of(rows_of(), BY_DAY, files=1), "month(sold)", OF_REGION)
    found = planned().workload
    assert found.predicted.files == pytest.approx(FILES, abs=1)
    assert found.floor.files == MONTHS  # half of the two files of each month have a region


def test_files_of_an_older_partitioning_that_stay_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A budget leaves half of the files where they are, which Spark cannot skip by keys."""
    backend = project(tmp_path, monkeypatch, table_of(rows_of()), "month(sold)", THROUGH)
    options = {"sample": True, "max_rewrite_bytes": backend._catalog.load(("db", "orders")).rows().nbytes // 2}
    before = zlayout.plan(zlayout.load_project(), **options)
    list(backend.execute(before.planned[0], lambda _: None))
    found, after = before.tables[0].workload, zlayout.plan(zlayout.load_project(), **options).tables[0].workload
    check(found, after)
    assert FILES / 2 < found.predicted.files < FILES


@pytest.mark.parametrize(("queries", "known"), [(ITEM, True), ([*ITEM, *OF_REGION], False)])
def test_conditions_on_a_column_of_buckets_have_no_forecast(
    queries: list[str], known: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project(tmp_path, monkeypatch, table_of(rows_of()), "'bucket(4, region)'", queries)
    table = planned()
    found = table.workload
    assert (found.predicted is not None, found.payback is not None) == (known, known)
    assert any(then.endswith("→ unknown") for _, then, _ in reads(table)) != known


def test_the_number_of_files_is_a_range_if_it_depends_on_rounding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four partitions of 1.5 files, each of which may become one file or two."""
    project(tmp_path, monkeypatch, table_of(rows_of()), "region", [*ITEM, *OF_REGION])
    found = planned().workload
    assert found.high.files - found.predicted.files == pytest.approx(0.05 * found.predicted.files)
    path = Path("layouts/orders.yaml")
    size = int(path.read_text().partition("target_size: ")[2].partition("}")[0])
    path.write_text(path.read_text().replace(str(size), str(4 * size)))
    found = planned().workload
    assert found.low.files <= 4.2 / 2 < 7.8 / 2 <= found.high.files
    assert found.high.bytes < 1.4 * found.predicted.bytes


def test_reports_state_what_queries_open_after_rows_move(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project(tmp_path, monkeypatch, table_of(rows_of()), "month(sold)")
    plan = zlayout.plan(zlayout.load_project(), sample=True)
    found = plan.tables[0].workload
    assert found.payback.queries == pytest.approx(
        2 * plan.tables[0].rewrite_bytes / (found.now.bytes - found.predicted.bytes)
    )
    assert found.better is None
    for width in (80, 120):
        lines = render(plan.document, TextOptions(width=width)).splitlines()
        assert max(map(len, lines)) <= width
        text = " ".join(" ".join(lines).split())
        assert "workload 24 files, 469 KiB a query -> 4 files, ~57.6 KiB..98 KiB (floor 4 files, 57.6 KiB)" in text
        assert "paid back after 2.4 queries" in text
    assert "24 files, 469 KiB a query -> 4 files" in REPORTERS["markdown"](plan.document)
    assert ("workload", "24 files, 469 KiB → 4 files, 77.8 KiB", "") in reads(plan.tables[0])
    assert "24 files, 469 KiB a query -&gt; 4 files" in REPORTERS["html"](plan.document)
    assert json.loads(REPORTERS["json"](plan.document))["tables"][0]["workload"]["predicted"]["files"] == 4
