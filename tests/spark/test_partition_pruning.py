"""Open Spark skips partitions by the keys of a join: from its event log to a partitioning, and what it then reads."""

import json
from pathlib import Path
from typing import Any

import pytest
from spark.event_logs import event_log
from spark.subjects import SparkSubject
from support.projects import Cli, cli

import zlayout
from zlayout.advisor.model import Study
from zlayout.planner.model import Status, WorkloadForecast
from zlayout.session.advise import write_advice

__all__ = ["cli"]

ROWS, FILES, MONTHS, DAYS, ITEMS = 96_000, 48, 24, 730, 1000
# By format the key of the fact, the key of the dimension, and the partitioning that is expected.
KEYS = {"iceberg": ("sold", "d_date", "month(sold)"), "delta": ("month_sk", "d_month_sk", "month_sk")}
LAYOUT = "version: 1\ntable: {table}\nfiles: {{target_size: {size}B}}\n"


def sibling(table: SparkSubject, name: str) -> str:
    """The name in SQL of another table beside `table`."""
    return f"{table}_{name}" if "`" not in str(table) else f"{str(table)[:-1]}_{name}`"


def make_star(table: SparkSubject) -> str:
    """Make a fact in arrival order, and its dimension, whose name is returned: of days, or of months on Delta."""
    spark, kind, dates = table.spark, table.catalog.format, sibling(table, "dates")
    day, month = "date_add(date'2001-01-01', cast({0} as int))", "(year({0}) - 2001) * 12 + month({0}) + 100"
    one = day.format("id")
    columns = f"{one} d_date, year({one}) d_year, month({one}) d_moy, {month.format(one)} d_month_sk"
    every = f"select {columns} from range({DAYS})"
    rows = every if kind == "iceberg" else f"select distinct d_year, d_moy, d_month_sk from ({every})"
    spark.sql(f"create table {dates} using {kind} as {rows}")
    spark.sql(f"create table {table} (id bigint, sold date, month_sk int, item bigint, price double) using {kind}")
    sold = day.format(f"pmod(xxhash64(id), {DAYS})")
    table.append(  # type: ignore[attr-defined]
        spark.range(0, ROWS, 1, FILES).selectExpr(
            "id",
            f"{sold} sold",
            f"{month.format(sold)} month_sk",
            f"pmod(xxhash64(id, 7), {ITEMS}) item",
            "rand(3) price",
        )
    )
    return dates


def make_project(table: SparkSubject, folder: Path, files: int, **settings: Any) -> None:
    """Write a project with an empty layout of the table, whose files have the size of its `files` files."""
    catalog = {"format": table.catalog.format, "type": table.catalog.type, **table.catalog.options}
    project = {"version": 1, "catalogs": {table.catalog.name: catalog}, **settings}
    (folder / "zlayout.yaml").write_text(json.dumps(project))
    (folder / "layouts").mkdir()
    size = int(table.observe().files.bytes.sum()) // files
    (folder / "layouts/sales.yaml").write_text(LAYOUT.format(table=table.name, size=size))


def make_queries(table: SparkSubject, dates: str) -> list[str]:
    """Queries for months, a quarter and two single months through the dimension, and for ranges of items."""
    own, key, _ = KEYS[table.catalog.format]
    join = f"select sum(s.price) from {table} s join {dates} d on s.{own} = d.{key} where"
    months = [f"d.d_year = {2001 + n // 12} and d.d_moy = {n % 12 + 1}" for n in range(0, MONTHS, 2)]
    others = ["d.d_year = 2002 and d.d_moy <= 3", "d.d_year = 2001 and d.d_moy in (2, 9)"]
    items = [f"select sum(price) from {table} where item between {n} and {n + 5}" for n in range(100, ITEMS, 300)]
    return [*(f"{join} {condition}" for condition in (*months, *others)), *items]


def files_read(table: SparkSubject, queries: list[str]) -> list[int]:
    """The number of files of the fact that Spark reads for each query: numFiles of Delta, splits of Iceberg."""
    table.spark.conf.set("spark.sql.adaptive.enabled", "false")
    found = []
    try:
        for query in queries:
            frame = table.sql(query)
            frame.collect()
            leaves: Any = frame._jdf.queryExecution().executedPlan().collectLeaves()
            scans = [leaves.apply(at) for at in range(leaves.size())]
            (fact,) = [scan for scan in scans if "price" in scan.output().mkString(",")]
            metrics = fact.metrics()
            found.append(int(metrics.apply("numFiles" if metrics.contains("numFiles") else "numSplits").value()))
    finally:
        table.spark.conf.unset("spark.sql.adaptive.enabled")
    return found


def journey(
    table: SparkSubject, cli: Cli, folder: Path
) -> tuple[Study, WorkloadForecast, WorkloadForecast, list[int], list[int]]:
    """Return the advice, and the forecasts and the files that Spark reads, each before and after it is applied."""
    dates, name = make_star(table), str(table.name)
    make_project(table, folder, FILES)
    queries = make_queries(table, dates)
    with event_log(table.spark, folder / "log", "zstd", rolling=True):
        before = files_read(table, queries)
    cli("workload", "import", "--keep-values", str(folder / "log"))
    study = zlayout.advise(zlayout.load_project(), name, (), spark=table.spark)
    assert study.best is not None
    assert [str(field) for field in study.best.partition_by or ()] == [KEYS[table.catalog.format][2]]
    assert study.now.files.tolist() == [FILES] * len(queries)
    assert write_advice(zlayout.load_project(), study) == Path("layouts/sales.yaml")

    rows = table.rows("count(*), sum(id), sum(item)")
    plan = zlayout.plan(zlayout.load_project(), name, allow_full_rewrite=True, sample=True)
    zlayout.apply(plan, table.spark)
    assert table.rows("count(*), sum(id), sum(item)") == rows
    (after,) = zlayout.plan(zlayout.load_project(), name, sample=True).tables
    assert after.status is Status.UNCHANGED
    assert after.workload is not None
    planned = plan.tables[0].workload
    assert planned is not None
    return study, planned, after.workload, before, files_read(table, queries)


def check(table: SparkSubject, cli: Cli, folder: Path) -> None:
    study, planned, then, before, after = journey(table, cli, folder)
    assert before == [FILES] * len(before)
    measured = sum(after) / len(after)
    assert study.best is not None
    assert measured == pytest.approx(study.best.costs.mean_files, rel=0.1)
    assert measured == pytest.approx(then.now.files, rel=0.02)  # by the values and bounds that the table then has
    assert measured < 0.3 * FILES
    assert planned.predicted is not None
    assert planned.low is not None
    assert planned.high is not None
    assert planned.now.files == FILES
    assert measured == pytest.approx(planned.predicted.files, rel=0.1)
    assert planned.low.files <= measured <= planned.high.files
    assert then.now.bytes == pytest.approx(planned.predicted.bytes, rel=0.1)
    assert planned.low.bytes <= then.now.bytes <= planned.high.bytes


@pytest.mark.parametrize("format", ["iceberg", pytest.param("delta", marks=pytest.mark.long)])
def test_spark_reads_the_predicted_partitions(
    format: str, request: pytest.FixtureRequest, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    check(request.getfixturevalue(format), cli, tmp_path)
