"""Tables that are rewritten at the same time in one Spark session."""

import threading
import time
from dataclasses import replace
from itertools import product
from typing import Any

from pyspark.sql import SparkSession
from support.builders import make_layout, make_spec

import zlayout
from zlayout.spark.session import LiveRuntime, SparkRuntime, WorkerRuntime
from zlayout.spec.model import Project, TableName

ROWS = 6_000


def rows_of(spark: SparkSession, project: Project, table: TableName) -> list[Any]:
    if project.catalogs[table.catalog].format == "delta":
        frame = spark.read.format("delta").load(str(project.root / "delta" / "db" / table.name))
    else:
        frame = spark.table(str(table))
    return sorted(frame.collect())


def test_each_table_gets_its_own_layout(spark: SparkSession, project: Project) -> None:
    """Both engines set configuration of the session, which differs between these tables."""
    specs = []
    for number, (catalog, engine) in enumerate(product(("lake", "ice"), ("zlayout", "native"))):
        table = TableName(catalog, ("db",), f"together_{number}")
        rows = spark.range(0, ROWS, 1, 4).selectExpr(f"id + {number} AS id", "hash(id) AS a", "uuid() AS padding")
        if catalog == "lake":
            rows.write.format("delta").save(str(project.root / "delta" / "db" / table.name))
        else:
            rows.writeTo(str(table)).using("iceberg").create()
        size = (number + 1) * 40 * 1024
        specs.append(make_spec(make_layout("a", curve="zorder", target_size=size, engine=engine), table))
    declared = replace(project, layouts=tuple(specs))
    before = [rows_of(spark, project, spec.table) for spec in specs]
    plan = zlayout.plan(declared)
    report = zlayout.apply(plan, spark, concurrent_tables=4)
    assert {result.outcome for result in report.results.values()} == {"as_declared"}, report.results
    assert [rows_of(spark, project, spec.table) for spec in specs] == before
    after = zlayout.plan(declared)
    assert not after.has_changes
    written = {p.spec.table: {r.layout_id for r in p.state.files.layouts} for p in after.planned if p.state is not None}
    assert written == {spec.table: {spec.layout.layout_id} for spec in specs}


def test_jobs_of_a_worker_are_cancelled_and_those_of_others_are_not(spark: SparkSession, project: Project) -> None:
    base: SparkRuntime = LiveRuntime(project, spark)
    starting, errors = threading.Lock(), dict[str, str]()

    def sleep(worker: WorkerRuntime, name: str) -> None:
        try:
            worker.session.sparkContext.parallelize([1], 1).map(lambda _: time.sleep(8)).collect()
            errors[name] = ""
        except Exception as error:
            errors[name] = str(error)

    with base:
        workers = [WorkerRuntime(project, base, f"worker-{number}", starting) for number in range(2)]
        base.workers, workers[0].cancellable = tuple(workers), True
        threads = [threading.Thread(target=sleep, args=(w, str(n))) for n, w in enumerate(workers)]
        for thread in threads:
            thread.start()
        while threads[0].is_alive():
            assert base.cancel()
            time.sleep(0.2)
        threads[1].join()
        for worker in workers:
            worker.stop()
    assert "cancelled" in errors["0"]
    assert errors["1"] == ""


def test_no_clone_is_left_in_the_session(spark: SparkSession, project: Project) -> None:
    context: Any = spark.sparkContext
    listeners = context._jsc.sc().listenerBus().listeners().size()
    specs = []
    for number in range(2):
        table = TableName("lake", ("db",), f"left_{number}")
        rows = spark.range(0, ROWS, 1, 4).selectExpr("id", "hash(id) AS a")
        rows.write.format("delta").save(str(project.root / "delta" / "db" / table.name))
        specs.append(make_spec(make_layout("a", target_size=20 * 1024), table))
    plan = zlayout.plan(replace(project, layouts=tuple(specs)))
    zlayout.apply(plan, spark, concurrent_tables=2)
    # fewer, if a session of an earlier test was collected meanwhile
    assert context._jsc.sc().listenerBus().listeners().size() <= listeners
