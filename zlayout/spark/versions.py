"""The engine versions that zlayout was tested with, and the packages of these versions."""

SPARK = "4.1.4"
SCALA = "2.13"
DELTA = "4.4.0"
ICEBERG = "1.12.0"
SQLITE_JDBC = "3.53.2.1"
JAVA_MINIMUM = 17

# The versions of Spark that engine zlayout was tested with. `zlayout.formats.kernel.engine_check` requires them.
TESTED_SPARK = frozenset({SPARK})

DELTA_PACKAGE = f"io.delta:delta-spark_4.1_{SCALA}:{DELTA}"
ICEBERG_PACKAGE = f"org.apache.iceberg:iceberg-spark-runtime-4.1_{SCALA}:{ICEBERG}"
SQLITE_PACKAGE = f"org.xerial:sqlite-jdbc:{SQLITE_JDBC}"
