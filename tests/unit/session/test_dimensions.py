"""Conditions on other tables in plans: they are read through the catalogs of the project, within limits."""

import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from deltalake import write_deltalake
from support.memory_format.backend import MemoryBackend
from support.memory_format.store import MemoryCatalog, MemoryTable
from support.projects import workload_project

import zlayout
from zlayout.advisor.joins import NotEvaluatedError
from zlayout.planner.model import TablePlan
from zlayout.report.text import TextOptions, render
from zlayout.session import workloads
from zlayout.spec.model import QUERY_ENGINES, KeySkipping, TableName
from zlayout.table.partition import PartitionField

ROWS, FILES, DAYS = 40_000, 20, 1000
LAYOUT = "version: 1\ntable: lake.db.orders\nzorder: {columns: [a, day]}\n"
JOIN = "SELECT count(*) FROM orders JOIN dates ON day = d_key WHERE"
QUERIES = f"{JOIN} d_month = 7;\n"


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MemoryBackend:
    """A fact of 20 files, each with the 50 days of one period, and a dimension of 1,000 days in months of 25 days."""
    random = np.random.default_rng(3)
    columns = {"a": random.integers(0, 1000, ROWS), "day": np.arange(ROWS) * DAYS // ROWS}
    rows = pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()})
    fact = MemoryTable(rows.schema)
    fact.append(rows, files=FILES)
    days = np.arange(DAYS)
    dates = pa.table({"d_key": pa.array(days, pa.int32()), "d_month": pa.array(days // 25, pa.int64())})
    dimension = MemoryTable(dates.schema)
    dimension.append(dates, files=2)
    backend = workload_project(tmp_path, monkeypatch, LAYOUT, fact, QUERIES)
    backend._catalog = MemoryCatalog({"db.orders": fact, "db.dates": dimension})
    use("trino")
    return backend


def use(engine: str) -> None:
    path = Path("zlayout.yaml")
    path.write_text(path.read_text().partition("workload:")[0] + f"workload: {{engine: {engine}}}\n")


def planned(queries: str = QUERIES) -> TablePlan:
    Path("workloads/orders.sql").write_text(queries)
    return zlayout.plan(zlayout.load_project(), sample=False).tables[0]


@pytest.mark.usefixtures("table")
def test_the_keys_of_the_dimension_skip_files() -> None:
    found = planned().workload
    assert found is not None
    assert (found.now.files, found.queries, found.through) == (1, 1, ("day = dates",))
    two = planned(f"{JOIN} d_month IN (0, 3)").workload
    # Days 0 to 24 and 75 to 99, which are one range of keys for the engine.
    assert two is not None
    assert two.now.files == 2
    plan = zlayout.plan(zlayout.load_project(), sample=False).document
    assert "through day = dates" in render(plan, TextOptions(width=120))


def test_inspect_uses_the_keys_too(table: MemoryBackend) -> None:
    list(table.execute(zlayout.plan(zlayout.load_project()).planned[0], lambda _: None))
    plan = planned().workload
    found = zlayout.inspect(zlayout.load_project(), "lake.db.orders").query_cost
    assert found is not None
    assert plan is not None
    assert found == plan.now
    assert found.files < FILES


def test_inspect_uses_the_keys_of_declared_partitions_as_a_plan_does(table: MemoryBackend) -> None:
    path = Path("layouts/orders.yaml")
    path.write_text(LAYOUT.replace(", day]", "]") + "files: {target_size: 32KiB}\n")
    list(table.execute(zlayout.plan(zlayout.load_project()).planned[0], lambda _: None))
    use("spark")
    path.write_text(path.read_text() + "partition_by: [day]\n")
    plan = planned(f"{QUERIES}SELECT * FROM orders WHERE a = 5;\n").workload
    assert plan is not None
    assert (plan.queries, plan.now.files) == (2, 10.5)  # one of 20 files, and all
    assert zlayout.inspect(zlayout.load_project(), "lake.db.orders").query_cost == plan.now


def test_a_dimension_may_be_in_a_catalog_without_layouts(root: Path) -> None:
    rows = pa.table({"a": pa.array(range(200), pa.int64())})
    for first in (0, 100):
        write_deltalake(str(root / "tables/db/facts"), rows.slice(first, 100), mode="append")
    keys = pa.table({"k": pa.array(range(200), pa.int64()), "half": pa.array(np.arange(200) // 100)})
    write_deltalake(str(root / "others/db/keys"), keys)
    path = Path("zlayout.yaml")
    catalogs = path.read_text() + "  more: {format: delta, type: path, warehouse: ./others}\n"
    path.write_text(catalogs + "workload: {engine: trino}\n")
    Path("layouts/facts.yaml").write_text("version: 1\ntable: lake.db.facts\nzorder: {columns: [a]}\n")
    Path("workloads").mkdir()
    Path("workloads/q.sql").write_text("SELECT * FROM lake.db.facts JOIN more.db.keys ON a = k WHERE half = 1;\n")
    found = next(t for t in zlayout.plan(zlayout.load_project()).tables if t.table == "lake.db.facts").workload
    assert found is not None
    assert (found.now.files, found.through) == (1, ("a = more.db.keys",))


@pytest.mark.usefixtures("table")
def test_open_spark_skips_no_files_by_the_keys_of_a_join() -> None:
    use("spark")
    assert planned().workload is None


def by_day(
    backend: MemoryBackend, first: int = 0, end: int = DAYS, transform: str = "identity", files: int = 1
) -> None:
    """Partition the fact by the day. It has days in steps of 25, one of each month, by default all 40 of them."""
    day = np.repeat(np.arange(first, end, 25), 10)
    rows = pa.table({"a": pa.array(np.arange(len(day))), "day": pa.array(day)})
    fact = MemoryTable(rows.schema)
    fact.set_partitioning((PartitionField("day", transform),))
    fact.append(rows, files=files)
    months = pa.table({"m": pa.array(np.arange(40)), "m_year": pa.array(np.arange(40) // 5)})
    other = MemoryTable(months.schema)
    other.append(months)
    dates = backend._catalog.load(("db", "dates"))
    backend._catalog = MemoryCatalog({"db.orders": fact, "db.dates": dates, "db.months": other})
    Path("layouts/orders.yaml").write_text(LAYOUT.replace(", day]", "]"))


@pytest.mark.parametrize(
    ("condition", "files"),
    [
        ("d_month = 7", 1),
        ("d_month IN (2, 15)", 2),  # each key is compared
        ("d_month < 10", 10),
        ("a < 50 AND d_month < 10", 5),
    ],
)
def test_open_spark_skips_partitions_by_the_keys_of_a_join(condition: str, files: int, table: MemoryBackend) -> None:
    by_day(table)
    use("spark")
    found = planned(f"{JOIN} {condition}").workload
    assert found is not None
    assert (found.now.files, found.through) == (files, ("day = dates",))


def test_ranges_of_keys_outside_of_the_table_are_merged_first(
    table: MemoryBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of six months, the fact has two. Between these, none is counted as read because of the others."""
    by_day(table, 400, 500)
    use("spark")
    monkeypatch.setattr(workloads, "MAX_RANGES", 4)
    query = f"{JOIN} d_month IN (0, 5, 16, 19, 30, 39)"
    assert planned(query).workload.now.files == 2
    assert planned(f"{JOIN} d_month IN (0, 39)").workload.now.files == 0
    monkeypatch.setattr(workloads, "_bounds_of", lambda *_: lambda _column: None)
    assert planned(query).workload.now.files == 4


@pytest.mark.parametrize(("month", "files"), [(19, 4), (20, 0)], ids=["in the last partition", "after it"])
def test_keys_after_the_last_row_are_in_its_partition(
    month: int, files: int, table: MemoryBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Days 400 to 474 are in the partition of days 400 to 499, which is read for month 19, although it has no row."""
    by_day(table, 400, 475, "truncate[100]", files=4)
    use("spark")
    monkeypatch.setattr(workloads, "MAX_RANGES", 2)
    assert planned(f"{JOIN} d_month IN (1, 3, 5, 30, {month})").workload.now.files == files


@pytest.mark.parametrize(
    "query",
    [
        QUERIES.replace("d_month = 7", "d_month IS NULL"),  # not a selective condition for Spark
        "SELECT count(*) FROM orders WHERE day = (SELECT d_key FROM dates WHERE d_key = 175)",  # no join
        QUERIES.replace(
            "WHERE d_month = 7", "JOIN months ON d_month = m WHERE d_month < 10 AND m_year = 1"
        ),  # joined to another table first
        QUERIES.replace("day = d_key", "a = d_key"),  # no partition column
    ],
)
def test_open_spark_skips_no_partitions_by_other_conditions(query: str, table: MemoryBackend) -> None:
    by_day(table)
    use("spark")
    assert planned(query).workload is None


def test_tables_are_not_read_for_queries_that_name_no_partition_column(
    table: MemoryBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_day(table)
    use("spark")
    seen: list[str] = []
    columns = workloads.OtherTables.columns
    monkeypatch.setattr(
        workloads.OtherTables, "columns", lambda self, names: columns(self, [seen.append(n) or n for n in names])
    )
    planned("SELECT count(*) FROM orders JOIN dates ON a = d_key WHERE d_month = 7")
    assert not seen
    planned()
    assert seen == ["dates"]


def test_open_spark_skips_no_partitions_by_a_table_that_it_may_not_broadcast(
    table: MemoryBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_day(table)
    use("spark")
    monkeypatch.setitem(QUERY_ENGINES, "spark", KeySkipping(partitions=True, max_bytes=10))
    assert planned().workload is None


@pytest.mark.parametrize(("files", "size", "skips"), [(20, 1, True), (21, 1, False), (1, 10**9, False)])
@pytest.mark.usefixtures("table")
def test_databricks_skips_files_of_large_tables_only(
    files: int, size: int, skips: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    use("databricks")
    assert planned().workload is None
    monkeypatch.setitem(QUERY_ENGINES, "databricks", KeySkipping(min_files=files, min_bytes=size))
    assert (planned().workload is not None) == skips


@pytest.mark.parametrize(
    ("queries", "limit"),
    [
        (QUERIES, "MAX_ROWS"),
        (QUERIES, "MAX_BYTES"),
        (QUERIES.replace("dates", "elsewhere.dates"), ""),
        (QUERIES.replace("orders", "db.orders"), ""),
        (QUERIES.replace("d_key", "unknown"), ""),
        (QUERIES.replace("d_month", "unknown"), ""),
    ],
)
@pytest.mark.usefixtures("table")
def test_what_cannot_be_read_is_no_condition(queries: str, limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if limit:
        monkeypatch.setattr(workloads, limit, 1)
    assert planned(queries).workload is None


class Silent:
    """A catalog that does not answer."""

    def __init__(self) -> None:
        self.asked = 0

    def observe(self, *_: object) -> None:
        self.asked += 1
        time.sleep(0.3)


@pytest.mark.usefixtures("table")
def test_a_catalog_that_does_not_answer_is_waited_for_once() -> None:
    far, project, silent = Silent(), zlayout.load_project(), set[str]()
    for name in ("x", "y"):
        table = TableName("lake", ("db",), name)
        others = workloads.OtherTables(table, {"far": far}, project, 0.05, silent)
        for other in ("far.db.x", "far.db.y"):
            with pytest.raises(NotEvaluatedError, match=f"^{other} cannot be read: "):
                others.rows(other, frozenset())
    assert far.asked == 1


def test_joined_tables_are_read_within_the_time_limit_of_the_command(
    table: MemoryBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = []

    def others(*arguments: Any) -> workloads.OtherTables:
        limits.append(arguments[3])
        return real(*arguments)

    real = workloads.OtherTables
    monkeypatch.setattr(workloads, "OtherTables", others)
    list(table.execute(zlayout.plan(zlayout.load_project(), timeout=7).planned[0], lambda _: None))
    zlayout.inspect(zlayout.load_project(), "lake.db.orders", timeout=8)
    assert limits == [7, 8]


def test_inspect_needs_no_export_of_the_workload(table: MemoryBackend) -> None:
    list(table.execute(zlayout.plan(zlayout.load_project()).planned[0], lambda _: None))
    path = Path("zlayout.yaml")
    path.write_text(path.read_text().replace("engine: trino", "engine: trino, exports: {dates: {files: none.parquet}}"))
    found = zlayout.inspect(zlayout.load_project(), "lake.db.orders")
    assert found.query_cost is None
    assert found.columns
