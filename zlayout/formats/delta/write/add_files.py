"""Operations on many AddFiles at once, so that there are few calls to the JVM for any number of files.

A call through py4j takes up to a millisecond, and its result stays in the memory of Python. Several calls for each file
would be too many. Therefore `AddFiles.java` does the work in the JVM. Positions and sizes are passed as arrays, and
strings in large pieces.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from importlib.resources import files as resources
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zlayout.formats.stored_files import MAX_CONCURRENT_REQUESTS
from zlayout.spark.arrow import from_bytes, parts, texts, to_bytes
from zlayout.spark.classes import java_object
from zlayout.spark.jvm import jvm_of
from zlayout.table.state import Int64

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CLASS = "io.zlayout.delta.AddFiles"
_STRING = pa.string()


class AddFiles:
    """Operations on lists of AddFile. In all methods, `files` is a java.util.List (py4j)."""

    def __init__(self, spark: SparkSession, log: Any) -> None:
        """Load the Java class, which is compiled once for each Spark application. log: the DeltaLog (py4j)."""
        source = resources(__package__).joinpath("AddFiles.java").read_text(encoding="utf-8")
        self._java = java_object(spark, _CLASS, source)
        self._jvm = jvm_of(spark)
        self._log = log

    def paths(self, files: Any) -> pa.Array:
        """Return string[files], the paths as in the log."""
        return self._texts(files, "path")

    def vectors(self, files: Any) -> pa.Array:
        """Return string[files], the unique ids of the deletion vectors as in `FileTable.version_key`, '' for none."""
        return self._texts(files, "vector")

    def stats(self, files: Any) -> pa.Array:
        """Return large_string[files], the statistics as JSON, '' for none. Those of wide tables are long."""
        return self._texts(files, "stats", pa.large_string())

    def sizes(self, files: Any) -> Int64:
        """Return int64[files], the sizes in bytes as in the AddFiles."""
        return from_bytes(self._java.sizes(files))

    def select(self, files: Any, at: Int64) -> Any:
        """Return a list of the files at these positions. at: int64."""
        return self._java.select(files, to_bytes(at))

    def joined(self, lists: Sequence[Any]) -> Any:
        """Return a list of all files of several lists."""
        whole = self._jvm.java.util.ArrayList()
        for files in lists:
            whole.addAll(files)
        return whole

    def partitioned_as(self, files: Any, others: Any, owner: Int64) -> bool:
        """Return whether every file n has the same partition values in the log as the file owner[n] of `others`."""
        return bool(self._java.partitionedAs(files, others, to_bytes(owner)))

    def changed(self, files: Any, changes: pa.Array, owner: Int64) -> Any:
        """Return a list of copies of the files.

        Args:
            changes: string[changes], JSON objects that contain fields of AddFiles with their new values. File tags are
                added to the file tags that a file has.
            owner: int64[files], the position of each file's change in `changes`.

        Raises:
            ValueError: If `owner` does not have one item per file.
        """
        result = self._jvm.java.util.ArrayList()
        if len(files) != len(owner):
            raise ValueError(f"{len(files)} files have {len(owner)} owners")
        lengths = pc.binary_length(changes).cast(pa.int64()).to_numpy(zero_copy_only=False)
        for start, end in parts(lengths[owner]):
            used, numbers = np.unique(owner[start:end], return_inverse=True)
            lines = "\n".join(changes.take(pa.array(used)).to_pylist())
            self._java.change(files.subList(start, end), to_bytes(numbers), lines, result)
        return result

    def replacing(self, added: Any, removed: Any, timestamp: int, *, data_change: bool) -> Any:
        """Return the list of actions that add AddFiles and remove others. timestamp: in milliseconds since 1970."""
        return self._java.replacing(added, removed, timestamp, data_change)

    def stored(self, files: Any) -> Int64:
        """Return int64[files], the sizes of the files on storage, -1 for a file that does not exist."""
        return self._stored(self._java.locations(files, self._log))

    def missing_vectors(self, files: Any) -> list[str]:
        """Return the paths of the files that should contain the deletion vectors of the AddFiles and do not exist."""
        paths = self._java.vectorLocations(files, self._log.dataPath())
        missing = self._java.select(paths, to_bytes(np.flatnonzero(self._stored(paths) < 0)))
        return [str(path) for path in missing]

    def _stored(self, paths: Any) -> Int64:
        return from_bytes(self._java.stored(paths, self._log.newDeltaHadoopConf(), MAX_CONCURRENT_REQUESTS))

    def _texts(self, files: Any, field: str, type_: pa.DataType = _STRING) -> pa.Array:
        return texts(partial(self._java.texts, files, field), len(files), type_)
