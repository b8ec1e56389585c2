"""Moves Arrow tables to and from Spark, and numbers and texts of many items to and from Java objects by few calls.

PySpark has methods for Arrow tables since version 4.0. A call through py4j takes up to a millisecond. Numbers are
passed as arrays of 8 bytes each, big-endian, as Java's ByteBuffer reads them. Texts are joined by the character 0. A
call passes a limited number of texts and, unless a single one is longer, of characters: statistics of a wide table may
be a hundred kilobytes for each file.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zlayout.spark.jvm import jvm_of
from zlayout.table.state import Int64

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

SEPARATOR = "\0"  # no path, statistics or id contains it
ITEMS_PER_CALL = 2000
MAX_CHARACTERS = 16 * 2**20  # after which a call passes no further text
_TEXT = pa.string()


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


def to_bytes(numbers: Int64) -> bytes:
    return np.asarray(numbers, ">i8").tobytes()


def from_bytes(content: bytes) -> Int64:
    return np.frombuffer(content, ">i8").astype(np.int64)


def parts(lengths: Int64) -> Iterator[tuple[int, int]]:
    """Yield the first and the end position of the items of each call. lengths: int64[items], of their texts."""
    ends = np.cumsum(lengths)
    start = 0
    while start < len(ends):
        passed = ends[start] - lengths[start]
        end = int(np.searchsorted(ends, passed + MAX_CHARACTERS)) + 1
        end = min(end, start + ITEMS_PER_CALL, len(ends))
        yield start, end
        start = end


def texts(read: Callable[[int, int, int], str], count: int, kind: pa.DataType = _TEXT) -> pa.Array:
    """Return the texts of `count` items as an array of `kind`.

    read: returns the joined texts of the items from a position to another one, or fewer of them if they have more
        characters than the third argument, but at least one.
    """
    found, at = [pa.array([], kind)], 0
    while at < count:
        joined = pa.array([read(at, min(at + ITEMS_PER_CALL, count), MAX_CHARACTERS)], kind)
        found.append(pc.list_flatten(pc.split_pattern(joined, SEPARATOR)))
        at += len(found[-1])
    return pa.concat_arrays(found)
