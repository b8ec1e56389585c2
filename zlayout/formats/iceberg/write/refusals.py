"""Refuses tables that the session's Iceberg cannot read, or whose row ids or sequence numbers it reads wrongly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame

from zlayout.errors import EngineError, Refused
from zlayout.formats.iceberg.write.jvm import IcebergJvm, java_errors
from zlayout.spark import versions
from zlayout.spark.jvm import has_class
from zlayout.spec.model import TableName

ROW_ID = "_row_id"  # a column of staged files in tables of format version 3
_ONLY_SINCE_SPARK_4_1 = "org.apache.iceberg.spark.source.SparkRewriteTable"


def require_types(jvm: IcebergJvm, name: TableName) -> None:
    """Check that Iceberg can convert the type of each column to a type of Spark.

    Old versions of Iceberg can convert fewer types than a plan allows.

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
    try:
        with java_errors("converting a type"):
            jvm.iceberg.spark.SparkSchemaUtil.convert(of)
    except EngineError:
        return False
    return True


def require_row_ids_of_orc(jvm: IcebergJvm, table: TableName) -> None:
    """Check that Iceberg can read the row ids of ORC files.

    Raises:
        Refused: ZL228, for Spark 4.0 and earlier.
    """
    # before, both readers of Iceberg give all rows of an ORC file the same row id, which a rewrite would store
    if not has_class(jvm.root, _ONLY_SINCE_SPARK_4_1):
        message = f"{table} has row ids and ORC files, whose row ids Iceberg for this version of Spark cannot read"
        hint = "use Spark 4.1, or set write.format.default to parquet and rewrite the ORC files with Spark 4.1"
        raise Refused.of("ZL228", message, hint=hint)


def require_row_id_column(name: object, snapshot: Any, frame: DataFrame) -> None:
    """Check that staged files are read with their row ids, which a rewrite would lose otherwise.

    Args:
        name: The name for messages.
        snapshot: The Java snapshot of the files.
        frame: The staged files.

    Raises:
        Refused: ZL228.
    """
    if snapshot.firstRowId() is not None and ROW_ID not in frame.columns:
        raise Refused.of("ZL228", f"Iceberg reads {name} without its row ids", hint="use Spark 4.1")


def require_sequence_numbers(jvm: IcebergJvm, name: TableName, table: Any, tasks: Callable[[], Any]) -> None:
    """Check that Iceberg reads the right sequence number for the last update of each row.

    Rows without a stored number inherit the data sequence number of their file. Before version 1.12, Iceberg uses the
    file sequence number instead. The two differ in files of an earlier rewrite. This has no effect if the table
    had row ids at that time, because the rewrite then stored the numbers of the rows.

    Args:
        name: The name for messages.
        table: The Java table.
        tasks: Returns the Java scan tasks of the files. It is called only if their numbers are needed.

    Raises:
        Refused: ZL228, if the two numbers of a file differ, and no known snapshot shows that the table had row ids when
            the file was added. An unknown file sequence number (-1) counts as different.
    """
    found = versions.minor(str(jvm.iceberg.IcebergBuild.version()))
    if versions.numbers(found) >= (1, 12):
        return
    with_row_ids = [int(each.sequenceNumber()) for each in table.snapshots() if each.firstRowId() is not None]
    if not with_row_ids:
        return
    files = jvm.content.files(tasks())
    added, of_rows = (jvm.content.numbers(files, field) for field in ("file sequence number", "data sequence number"))
    if ((added != of_rows) & (added < min(with_row_ids))).any():
        message = (
            f"{name} has files that were rewritten before it had row ids; Iceberg {found} would change the sequence "
            "numbers of their rows"
        )
        raise Refused.of("ZL228", message, hint="use Iceberg 1.12 with Spark 4.1")
