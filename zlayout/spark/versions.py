"""The engine versions that zlayout works with, and the packages of these versions."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path

JAVA_MINIMUM = 17
AWS_SDK_1 = "1.12.797"  # for S3A before Hadoop 3.4
AWS_SDK = "2.57.8"  # Iceberg needs its client apache5; S3A, which was built with 2.29, works with it

# The versions of pyspark with which the tests were run, with the jars of pyspark itself (docs/support.md). On other
# versions, a self-test determines whether engine zlayout is used (`rewrite.engine.failed_self_test`).
TESTED_SPARK = frozenset({"3.5.9", "4.0.5", "4.1.1", "4.1.4", "4.2.0"})


@dataclass(frozen=True, slots=True)
class Release:
    """What zlayout requests from Maven for one minor version of Spark.

    Attributes:
        spark: The minor version, such as 4.1.
        iceberg: The version of Iceberg, None if no Iceberg has a runtime for this Spark.
        hadoop: The version of Hadoop in Spark's distribution.
        scala: The minor version of Scala in the jars of pyspark.
    """

    spark: str
    delta: str
    iceberg: str | None
    hadoop: str
    scala: str = "2.13"

    @property
    def delta_package(self) -> str:
        # A version of Delta before 4.1 is for one version of Spark, which the name of the package does not contain.
        of_spark = "" if numbers(self.delta) < (4, 1) else f"{self.spark}_"
        return f"io.delta:delta-spark_{of_spark}{self.scala}:{self.delta}"

    @property
    def iceberg_package(self) -> str | None:
        if self.iceberg is None:
            return None
        return f"org.apache.iceberg:iceberg-spark-runtime-{self.spark}_{self.scala}:{self.iceberg}"

    @property
    def s3_packages(self) -> tuple[str, ...]:
        packages = [f"software.amazon.awssdk:{module}:{AWS_SDK}" for module in AWS_MODULES]
        if numbers(self.hadoop) < (3, 4):
            packages += [f"com.amazonaws:aws-java-sdk-{module}:{AWS_SDK_1}" for module in AWS_MODULES_1]
        return f"org.apache.hadoop:hadoop-aws:{self.hadoop}", *packages

    @property
    def adls_packages(self) -> tuple[str, ...]:
        return (f"org.apache.hadoop:hadoop-azure:{self.hadoop}",)


# From the oldest to the newest.
RELEASES = (
    Release("3.5", "3.3.2", "1.11.0", "3.3.4", "2.12"),
    Release("4.0", "4.4.0", "1.11.0", "3.4.1"),
    Release("4.1", "4.4.0", "1.12.0", "3.4.2"),
    Release("4.2", "4.4.0", None, "3.5.0"),
)
NEWEST = next(release for release in reversed(RELEASES) if release.iceberg)  # that both formats work with

# The JDBC driver of each database that can hold an Iceberg catalog of type sql, by the dialect of its URI.
JDBC_PACKAGES = {
    "sqlite": "org.xerial:sqlite-jdbc:3.53.2.1",
    "postgresql": "org.postgresql:postgresql:42.7.8",
    "mysql": "com.mysql:mysql-connector-j:9.4.0",
}
# hadoop-aws depends on a bundle of all AWS services, which has 642 MB. S3A and S3FileIO need only these modules.
AWS_MODULES = ("s3", "s3-transfer-manager", "sts", "apache-client", "apache5-client", "kms", "dynamodb", "glue")
AWS_MODULES_1 = ("s3", "sts", "dynamodb")
# hadoop3-2.2.28 depends on gcsio 2.2.28, which is not in Maven Central, so Spark would not start.
GCS_PACKAGES = ("com.google.cloud.bigdataoss:gcs-connector:hadoop3-2.2.25",)


@cache
def installed() -> Release:
    """Return the release for the installed pyspark; `NEWEST` if pyspark is not installed, or its version is unknown."""
    from importlib import metadata  # imported here because it parses mail: a fiftieth of the time of a small plan

    try:
        release = release_of(metadata.version("pyspark")) or NEWEST
    except metadata.PackageNotFoundError:
        return NEWEST
    return replace(release, scala=scala_of(spark_home()) or release.scala)


def spark_home() -> Path:
    """Return the folder with Spark's scripts and jars: `SPARK_HOME`, or the one that belongs to pyspark.

    pyspark itself first searches the folder above the working directory, which can be a checkout of somebody else.
    """
    if given := os.environ.get("SPARK_HOME"):
        return Path(given)
    spec = find_spec("pyspark")
    package = Path(spec.origin).parent if spec and spec.origin else Path()
    # The first one exists if pyspark was installed with PYSPARK_HADOOP_VERSION, the last one in a checkout of Spark.
    homes = (package / "spark-distribution", package, package.parent.parent)
    return next((home for home in homes if (home / "bin/spark-submit").is_file()), package)


def scala_of(home: Path) -> str | None:
    """Return the minor version of Scala in a Spark distribution, None if it has no jars. Spark 3.5 has two builds."""
    jar = next(home.glob("jars/scala-library-*.jar"), None)
    return minor(jar.stem.rpartition("-")[2]) if jar else None


def release_of(spark: str) -> Release | None:
    """Return the release for a version of Spark, None if it is unknown."""
    return next((release for release in RELEASES if release.spark == minor(spark)), None)


def numbers(version: str) -> tuple[int, int]:
    """Return the first two numbers of a version, to compare versions."""
    first, second = minor(version).split(".")
    return int(first), int(second)


def minor(version: str) -> str:
    """Return the first two numbers of a version, so that 4.1.3-amzn-0 becomes 4.1."""
    return ".".join(version.split(".")[:2])
