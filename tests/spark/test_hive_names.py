"""What a Spark session with Hive support stores in a metastore, and zlayout on these tables by name."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from contract import OPTIONS
from spark.named import metastore_client
from support.builders import make_layout, make_spec
from support.metastore_tables import hive_table
from support.runs import apply_planned

from zlayout.formats.delta.backend import DeltaBackend
from zlayout.session.plan import plan_table
from zlayout.spark.session import SparkRuntime, packages
from zlayout.spec.model import Project, TableName

# Spark with Hive support needs a process of its own, because the session of the other tests has none.
CREATE = """
import sys
from pyspark.sql import SparkSession
uri, folder, packages = sys.argv[1:]
spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.jars.packages", packages)
    .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    .config("spark.hadoop.hive.metastore.uris", uri)
    .config("spark.sql.warehouse.dir", f"file:{folder}/warehouse")
    .config("spark.ui.enabled", "false")
    .config("spark.databricks.delta.snapshotPartitions", "1")
    .config("spark.sql.shuffle.partitions", "1")
    .enableHiveSupport()
    .getOrCreate()
)
spark.sql("create database sales")
rows = spark.range(2000).selectExpr("id", "hash(id) a").repartition(4)
rows.write.format("delta").saveAsTable("sales.managed")
rows.write.format("delta").save(f"{folder}/raw orders")
spark.sql(f"create table sales.external using delta location '{folder}/raw orders'")
rows.limit(1).write.format("parquet").saveAsTable("sales.other")
spark.sql("create view sales.view as select * from sales.managed")
spark.stop()
"""


@pytest.mark.long
def test_tables_of_spark_are_planned_and_applied_by_name(
    project: Project, runtime: SparkRuntime, metastore: str, tmp_path: Path
) -> None:
    named = ",".join(packages([project.catalogs["lake"]]))
    script = tmp_path / "create.py"
    script.write_text(CREATE)
    subprocess.run(
        [sys.executable, str(script), metastore, str(tmp_path), named],
        check=True,
        env={key: value for key, value in os.environ.items() if not key.startswith("PYSPARK")},
        timeout=500,
    )
    client = metastore_client(metastore)
    for name, managed, place in (
        ("managed", True, f"file:{tmp_path}/warehouse/sales.db/managed"),
        ("external", False, f"file:{tmp_path}/raw orders"),
    ):
        stored, expected = client.get_table("sales", name), hive_table("sales", name, place, managed=managed)
        assert stored.tableType == expected.tableType
        assert stored.sd.serdeInfo.parameters == expected.sd.serdeInfo.parameters
        assert expected.parameters.items() <= stored.parameters.items()
        assert stored.sd.location.endswith("-__PLACEHOLDER__") is not managed

    backend = DeltaBackend(project.catalogs["hlake"], runtime)
    listed = {one.table.name: one.problem for one in backend.list_tables(TableName("hlake", ("sales",), "*"))}
    problems = {name: problem.diagnostics[0].message for name, problem in listed.items() if problem is not None}
    assert sorted(listed) == ["external", "managed", "other", "view"]
    assert problems == {
        "other": "expected a Delta table for hlake.sales.other in catalog hlake, found a table of format parquet",
        "view": "expected a Delta table for hlake.sales.view in catalog hlake, found a view",
    }
    for name in ("managed", "external"):
        spec = make_spec(make_layout("a", target_size=4096), TableName("hlake", ("sales",), name))
        applied = apply_planned(plan_table(spec, backend, OPTIONS), backend)
        assert applied.error is None
        assert [commit.kind for commit in applied.commits] == ["rewrite"]
        assert plan_table(spec, backend, OPTIONS).plan.status == "unchanged"
