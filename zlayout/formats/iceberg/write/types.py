"""Refuses tables with columns that the Iceberg and Spark of a session do not read."""

from __future__ import annotations

from typing import Any

from zlayout.errors import EngineError, Refused
from zlayout.formats.iceberg.write.jvm import IcebergJvm, java_errors
from zlayout.spec.model import TableName


def require_types(jvm: IcebergJvm, name: TableName) -> None:
    """Check that Spark has a type for each column. Older versions read fewer types than those that a plan allows.

    Raises:
        Refused: ZL227, with the columns.
    """
    schema = jvm.load(name).schema()
    if _has_spark_type(jvm, schema):
        return
    unread = [f"{c.name()} ({c.type().toString()})" for c in schema.columns() if not _has_spark_type(jvm, c.type())]
    raise Refused.of(
        "ZL227",
        f"the Iceberg {jvm.iceberg.IcebergBuild.version()} of this session cannot read these columns of {name}: "
        f"{', '.join(unread)}",
        hint="use Spark 4.1 with Iceberg 1.12, or rewrite the table with the engine that writes it",
    )


def _has_spark_type(jvm: IcebergJvm, of: Any) -> bool:
    """Return whether Iceberg can convert a Java schema or type to a type of Spark."""
    try:
        with java_errors("converting a type"):
            jvm.iceberg.spark.SparkSchemaUtil.convert(of)
    except EngineError:
        return False
    return True
