"""The journey from an event log of Spark: advice, plan, apply, and what DuckDB then reads, beside the prediction."""

from pathlib import Path

import pytest
from spark.event_logs import event_log
from spark.subjects import SparkSubject
from spark.test_partition_pruning import make_project, sibling
from support.projects import Cli, cli
from unit.session.test_duckdb_reads import files_read

import zlayout
from zlayout.planner.model import Status
from zlayout.session.advise import write_advice

__all__ = ["cli"]

ROWS, FILES, MONTHS, DAYS, ITEMS = 240_000, 24, 24, 730, 1000
FIRST_KEY = 2_450_816  # of the dimension, as TPC-DS numbers days
MONTH = """select sum(s.price) from {sales} s join {dates} d on s.sold_date_sk = d.d_date_sk
where d.d_year = {year} and d.d_moy = {month}"""
ITEM = "select sum(s.price) from {sales} s where s.item between {item} and {last}"


def make_star(table: SparkSubject) -> str:
    """Make a fact in arrival order, and its dimension of days, whose name is returned."""
    spark, kind, dates = table.spark, table.catalog.format, sibling(table, "dates")
    day = "date_add(date'2001-01-01', cast(id as int))"
    spark.sql(
        f"create table {dates} using {kind} as select id + {FIRST_KEY} d_date_sk, {day} d_date, year({day}) d_year, "
        f"month({day}) d_moy from range({DAYS})"
    )
    spark.sql(f"create table {table} (id bigint, sold_date_sk bigint, item bigint, price double) using {kind}")
    rows = spark.range(0, ROWS, 1, FILES).selectExpr(
        "id",
        f"pmod(xxhash64(id), {DAYS}) + {FIRST_KEY} sold_date_sk",
        f"pmod(xxhash64(id, 7), {ITEMS}) item",
        "rand(3) price",
    )
    table.append(rows)  # type: ignore[attr-defined]
    return dates


def queries(sales: str, dates: str) -> list[str]:
    """Queries for ten months through the dimension, and for five ranges of items."""
    months = [(2001 + number // 12, number % 12 + 1) for number in range(1, MONTHS, 5)] * 2
    of_month = [MONTH.format(sales=sales, dates=dates, year=year, month=month) for year, month in months]
    items = range(50, ITEMS, 200)
    return [*of_month, *(ITEM.format(sales=sales, item=item, last=item + 30) for item in items)]


def paths_of(table: SparkSubject, name: str) -> list[str]:
    """The paths of the live files of a table, which has rows in each of them."""
    column = "_metadata.file_path" if table.catalog.format == "delta" else "_file"
    found = table.sql(f"select distinct {column} p from {name}").collect()
    return [row.p.removeprefix("file://").removeprefix("file:") for row in found]


def check(table: SparkSubject, cli: Cli, folder: Path) -> None:
    """Take the way of a new user, and compare the prediction with what DuckDB reads."""
    dates, name = make_star(table), str(table.name)
    make_project(table, folder, FILES, workload={"engine": "duckdb"})
    asked = queries(str(table), dates)
    with event_log(table.spark, folder / "log", "zstd", rolling=True):
        for query in asked:
            table.sql(query).collect()
    cli("workload", "import", str(folder / "log"))
    study = zlayout.advise(zlayout.load_project(), name, (), spark=table.spark)
    assert study.best is not None
    assert {column.name for column in study.best.layout.columns} == {"sold_date_sk", "item"}
    assert sum(query.weight for query in study.queries) == len(asked)
    assert write_advice(zlayout.load_project(), study) == Path("layouts/sales.yaml")

    plan = zlayout.plan(zlayout.load_project(), name, sample=True)
    forecast = plan.tables[0].workload
    assert plan.tables[0].status is Status.CHANGES
    assert forecast is not None
    assert forecast.through[0].startswith("sold_date_sk = ")
    predicted = study.best.costs
    assert forecast.predicted is not None
    assert forecast.predicted.files == pytest.approx(predicted.mean_files, rel=0.1)
    rows = table.rows("count(*), sum(id), sum(item)")
    zlayout.apply(plan, table.spark)
    assert table.rows("count(*), sum(id), sum(item)") == rows
    (after,) = zlayout.plan(zlayout.load_project(), name).tables
    assert after.status is Status.UNCHANGED
    assert after.workload is not None

    tables = {"sales": paths_of(table, str(table)), "dates": paths_of(table, dates)}
    assert len(tables["sales"]) == pytest.approx(study.best.files, abs=1)
    read = files_read(tables, "sales", queries("sales", "dates"))
    files = sum(map(len, read)) / len(read)
    size = sum(Path(path).stat().st_size for paths in read for path in paths) / len(read)
    assert files < 0.3 * study.now.mean_files
    assert files == pytest.approx(predicted.mean_files, rel=0.1)
    assert files == pytest.approx(after.workload.now.files, rel=0.05)
    for cost in (predicted.mean_files, predicted.mean_bytes), (forecast.predicted.files, forecast.predicted.bytes):
        assert size == pytest.approx(cost[1], rel=0.1)
        # Ordered columns take fewer bytes: files of the present size would be 6 % larger.
        assert size / files == pytest.approx(cost[1] / cost[0], rel=0.03)
    assert forecast.low is not None
    assert forecast.high is not None
    assert forecast.low.bytes < size < forecast.high.bytes


@pytest.mark.long
@pytest.mark.parametrize("format", ["iceberg", "delta"])
def test_the_advice_from_an_event_log_is_what_duckdb_reads(
    format: str, request: pytest.FixtureRequest, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    check(request.getfixturevalue(format), cli, tmp_path)
