"""VACUUM as tests need it."""

from pyspark.sql import SparkSession

from zlayout.spark.jvm import session_conf

_SETTINGS = {
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
    "spark.databricks.delta.vacuum.parallelDelete.enabled": "true",  # one job, not one for each Spark partition
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",  # 10,000 tasks by default
}


def vacuum(spark: SparkSession, table: str) -> None:
    """Remove every file of a Delta table that its log does not have. table: its name in SQL."""
    with session_conf(spark, _SETTINGS):
        spark.sql(f"VACUUM {table} RETAIN 0 HOURS").collect()
