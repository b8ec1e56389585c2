"""The engine versions that zlayout was tested with, and the packages of these versions."""

SPARK = "4.1.4"
SCALA = "2.13"
DELTA = "4.4.0"
ICEBERG = "1.12.0"
HADOOP = "3.4.2"  # the one in pyspark
AWS_SDK = "2.57.8"  # Iceberg needs its client apache5; S3A, which was built with 2.29, works with it
JAVA_MINIMUM = 17

# The versions of Spark that engine zlayout was tested with. `zlayout.formats.kernel.engine_check` requires them.
TESTED_SPARK = frozenset({SPARK})

DELTA_PACKAGE = f"io.delta:delta-spark_4.1_{SCALA}:{DELTA}"
ICEBERG_PACKAGE = f"org.apache.iceberg:iceberg-spark-runtime-4.1_{SCALA}:{ICEBERG}"
# The JDBC driver of each database that can hold an Iceberg catalog of type sql, by the dialect of its URI.
JDBC_PACKAGES = {
    "sqlite": "org.xerial:sqlite-jdbc:3.53.2.1",
    "postgresql": "org.postgresql:postgresql:42.7.8",
    "mysql": "com.mysql:mysql-connector-j:9.4.0",
}
# hadoop-aws declares a bundle of all AWS services, which has 642 MB. These modules are what S3A and S3FileIO need.
AWS_MODULES = ("s3", "s3-transfer-manager", "sts", "apache-client", "apache5-client", "kms", "dynamodb", "glue")
S3_PACKAGES = (
    f"org.apache.hadoop:hadoop-aws:{HADOOP}",
    *(f"software.amazon.awssdk:{module}:{AWS_SDK}" for module in AWS_MODULES),
)
# Spark has its own slf4j and Netty, and no client of these packages sends requests by Netty.
S3_EXCLUDED = ("software.amazon.awssdk:bundle", "software.amazon.awssdk:netty-nio-client", "org.slf4j:slf4j-api")
GCS_PACKAGES = ("com.google.cloud.bigdataoss:gcs-connector:hadoop3-2.2.28",)
ADLS_PACKAGES = (f"org.apache.hadoop:hadoop-azure:{HADOOP}",)
