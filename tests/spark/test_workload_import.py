"""A scan report that Iceberg itself makes becomes a query of a workload."""

from pathlib import Path

from pyspark.sql import SparkSession

import zlayout
from zlayout.spec.model import Project, TableName


def test_a_scan_report_of_iceberg(
    spark: SparkSession, project: Project, iceberg_table: TableName, tmp_path: Path
) -> None:
    spark.sql(f"CREATE TABLE {iceberg_table} (id BIGINT, city STRING) USING iceberg")
    spark.sql(f"INSERT INTO {iceberg_table} VALUES (4711, 'a-secret'), (2, 'b')")
    jvm = spark._jvm
    iceberg = jvm.org.apache.iceberg
    table = iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, str(iceberg_table))
    conditions = iceberg.expressions.Expressions
    reporter = iceberg.metrics.InMemoryMetricsReporter()
    condition = getattr(conditions, "and")(conditions.equal("city", "a-secret"), conditions.lessThan("id", 4711))
    table.newScan().metricsReporter(reporter).filter(condition).planFiles().close()
    report = iceberg.metrics.ScanReportParser.toJson(reporter.scanReport())
    Path(tmp_path / "reports.json").write_text(f"{report}\n{report}\n")
    assert "a-secret" not in report  # Iceberg leaves values out
    found = zlayout.import_workload(project, [tmp_path / "reports.json"])
    name = "`.`".join(iceberg_table.identifier)
    catalog = f"`{iceberg_table.catalog}`."
    expected = f"-- weight: 2\nSELECT * FROM {catalog}`{name}` WHERE (`city` = ? AND `id` < ?);\n"
    assert found.text == expected
    assert found.problems == ()
