"""Moves Arrow tables to and from Spark, and columns of numbers and strings to and from Java, with few calls.

PySpark has public methods for Arrow tables since version 4.0. A call through py4j takes up to a millisecond, so one
call transfers many values. Numbers are transferred as one byte array, with 8 big-endian bytes for each number, as
Java's ByteBuffer reads them. Strings are joined by the character 0. The number of strings and of characters in a call
is limited, because the statistics of one file of a wide table may have a hundred kilobytes. A single string may exceed
the limit of characters.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from zlayout.spark.jvm import jvm_of
from zlayout.table.state import Int64

SEPARATOR = "\0"  # no path, statistics or id contains it
ITEMS_PER_CALL = 2000
MAX_CHARACTERS = 16 * 2**20  # a call that has reached this number takes no further string
_STRING = pa.string()


def to_arrow(frame: DataFrame) -> pa.Table:
    """Return the rows of a frame, collected to the driver."""
    collect = getattr(type(frame), "toArrow", None)
    if collect is not None:
        return collect(frame)
    internal: Any = frame
    batches = internal._collect_as_arrow()
    return pa.Table.from_batches(batches, None if batches else to_arrow_schema(frame.schema))


def from_arrow(session: SparkSession, table: pa.Table, schema: StructType | None = None) -> DataFrame:
    """Return a frame with the rows of a table.

    Args:
        session: The session of the frame.
        table: The rows.
        schema: The schema of the frame. Default: the schema of the table.
    """
    if hasattr(DataFrame, "toArrow"):
        return session.createDataFrame(table, schema) if schema else session.createDataFrame(table)
    python: Any = jvm_of(session).org.apache.spark.sql.api.python.PythonSQLUtils
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "rows.arrows")
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        batches = python.readArrowStreamFromFile(str(path))
        frame_schema = schema or from_arrow_schema(table.schema, prefer_timestamp_ntz=True)
        return DataFrame(python.toDataFrame(batches, frame_schema.json(), session._jsparkSession), session)


def to_bytes(numbers: Int64) -> bytes:
    """Encode int64[n] as 8 big-endian bytes for each number."""
    return np.asarray(numbers, ">i8").tobytes()


def from_bytes(content: bytes) -> Int64:
    """Decode the result of `to_bytes` as int64[n]."""
    return np.frombuffer(content, ">i8").astype(np.int64)


def parts(lengths: Int64) -> Iterator[tuple[int, int]]:
    """Divide strings among calls: yield the position of the first string, and that after the last, of each call.

    lengths: int64[strings], the number of characters of each string.
    """
    ends = np.cumsum(lengths)
    start = 0
    while start < len(ends):
        passed = ends[start] - lengths[start]
        end = int(np.searchsorted(ends, passed + MAX_CHARACTERS)) + 1
        end = min(end, start + ITEMS_PER_CALL, len(ends))
        yield start, end
        start = end


def texts(read: Callable[[int, int, int], str], count: int, type: pa.DataType = _STRING) -> pa.Array:
    """Read `count` strings from Java with as few calls as the limits allow.

    Args:
        read: A function of the position of the first string, the position after the last string, and a limit of
            characters. It returns the joined strings. If they have more characters than the limit, it may return fewer
            strings, but at least one.
        count: The number of strings.
        type: The Arrow type of the result.

    Returns:
        An array of `count` strings.
    """
    found, at = [pa.array([], type)], 0
    while at < count:
        joined = pa.array([read(at, min(at + ITEMS_PER_CALL, count), MAX_CHARACTERS)], type)
        found.append(pc.list_flatten(pc.split_pattern(joined, SEPARATOR)))
        at += len(found[-1])
    return pa.concat_arrays(found)
