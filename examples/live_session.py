"""Plan and apply in a Spark session that already exists, such as the one of a notebook.

    python examples/live_session.py

Replace the session below by your own. zlayout uses its catalogs, master and configuration, and does not change it.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

import zlayout
from zlayout.spark import versions

PROJECT = """\
version: 1
catalogs:
  lake: {format: delta, warehouse: ./tables}
"""
LAYOUT = """\
version: 1
table: lake.sales.orders
zorder: {columns: [order_date, customer_id]}
files: {target_size: 256KiB}
"""


def main(spark: SparkSession, root: Path) -> zlayout.RunReport:
    """Create a project with one table, and lay out the table in the given session."""
    (root / "layouts").mkdir()
    (root / "zlayout.yaml").write_text(PROJECT)
    (root / "layouts" / "orders.yaml").write_text(LAYOUT)
    orders = spark.range(200_000).selectExpr(
        "id",
        "date_add(DATE '2026-01-01', CAST(hash(id) % 180 AS INT)) AS order_date",
        "hash(id, 1) AS customer_id",
    )
    orders.repartition(8).write.format("delta").save(str(root / "tables" / "sales" / "orders"))

    project = zlayout.load_project(root)
    plan = zlayout.plan(project)  # reads metadata only, and needs no Spark
    for table in plan.tables:
        print(f"{table.table}: {table.status}, {len(table.groups)} groups, {table.rewrite_bytes:,} bytes to rewrite")
    report = zlayout.apply(plan, spark=spark, on_event=show)
    for name, result in report.results.items():
        print(f"{name}: {result.outcome}, {result.files_removed} -> {result.files_added} files")
    return report


def show(event: zlayout.ApplyEvent) -> None:
    """Print what happens, for example to the log of a scheduler."""
    match event:
        case zlayout.TableStarted(table, run_id):
            print(f"{table}: run {run_id}")
        case zlayout.Progress(table, stage):
            print(f"{table}: {stage}")
        case zlayout.TableEvent(table, zlayout.Commit(kind, version)):
            print(f"{table}: commit {version} ({kind})")


def session() -> SparkSession:
    """A session with Delta Lake."""
    return (
        SparkSession.builder.master("local[2]")
        .config("spark.jars.packages", versions.installed().delta_package)
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, session() as spark:
        done = main(spark, Path(folder))
    sys.exit(1 if done.failed else 0)
