"""Moves Arrow tables to and from Spark. PySpark has methods for it since version 4.0."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from zlayout.spark.jvm import jvm_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


def to_arrow(frame: DataFrame) -> pa.Table:
    """Collect the rows of a frame."""
    from pyspark.sql.pandas.types import to_arrow_schema

    collect = getattr(type(frame), "toArrow", None)
    if collect is not None:
        return collect(frame)
    internal: Any = frame
    batches = internal._collect_as_arrow()
    return pa.Table.from_batches(batches, None if batches else to_arrow_schema(frame.schema))


def from_arrow(session: SparkSession, table: pa.Table, schema: StructType | None = None) -> DataFrame:
    """Return a frame of the rows of a table. schema: the schema of the frame, by default that of the table."""
    from pyspark.sql import DataFrame
    from pyspark.sql.pandas.types import from_arrow_schema

    if hasattr(DataFrame, "toArrow"):
        whole: Any = table
        return session.createDataFrame(whole, schema) if schema else session.createDataFrame(whole)
    python: Any = jvm_of(session).org.apache.spark.sql.api.python.PythonSQLUtils
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "rows.arrows")
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        batches = python.readArrowStreamFromFile(str(path))
        kind = schema or from_arrow_schema(table.schema, prefer_timestamp_ntz=True)
        return DataFrame(python.toDataFrame(batches, kind.json(), session._jsparkSession), session)
