"""Calls of Delta's internal methods through py4j.

Delta has no public method that replaces files with a conflict check on exactly these files. zlayout calls the methods
that Delta's own OPTIMIZE calls (`commands/OptimizeTableCommand.scala` of Delta 4.4.0). `zlayout.spark.versions` lists
the tested versions.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from importlib.resources import files as resources
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame, SparkSession

from zlayout.errors import EngineError, Refused
from zlayout.formats.delta.read.schema import STATS_COLUMNS, STRING_PREFIX, stats_columns_without
from zlayout.formats.kernel.commits import require_sizes
from zlayout.formats.kernel.execute import COMPILER, PLACEMENT, Internals
from zlayout.formats.kernel.outcome import java_causes
from zlayout.formats.undo import MAX_CONCURRENT_REQUESTS
from zlayout.spark.arrow import from_bytes, parts, texts, to_bytes
from zlayout.spark.java_errors import Py4JJavaError
from zlayout.spark.jvm import (
    CONDITIONAL_PUT,
    Calls,
    JavaClasses,
    java_list,
    java_object,
    jvm_of,
    scala_list,
    scala_map,
    scala_object,
    scala_seq,
    session_conf,
)
from zlayout.table.location import S3_SCHEMES
from zlayout.table.state import Int64

# Operations on many AddFiles at once, with few calls to the JVM for any number of files.
#
# A call through py4j takes up to a millisecond, and its result stays in the memory of Python. Several calls for each
# file would be too many. Therefore `AddFiles.java` does the work in the JVM. Positions and sizes are passed as arrays,
# and strings in large pieces.


_CLASS = "io.zlayout.delta.AddFiles"
_VECTORS_CLASS = "io.zlayout.delta.DeletionVectors"
_STRING = pa.string()
_IDENTITY_COUNTER = "delta.identity.highWaterMark"
# The methods that commits need, for the check of the session before any write.
_DELTA = "org.apache.spark.sql.delta"
INTERNALS = Internals(
    name="Delta",
    package=lambda release: release.delta_package,
    tested=frozenset({"3.3", "4.0", "4.2", "4.3", "4.4"}),
    marker="io.delta.package$",
    version=lambda jvm: getattr(getattr(jvm.io.delta, "package$"), "MODULE$").VERSION(),
    shared={
        f"{_DELTA}.DeltaLog": ("forTable/2", "update/3", "startTransaction/2", "dataPath/0"),
        f"{_DELTA}.Snapshot": ("allFiles/0", "version/0", "metadata/0", "protocol/0"),
        f"{_DELTA}.OptimisticTransaction": ("trackFilesRead/1", "commit/3", "snapshot/0", "metadata/0"),
        f"{_DELTA}.RowTracking$": ("addPreservedRowTrackingTagIfNotSet/2",),
        f"{_DELTA}.DeltaOperations$ComputeStats": ("new/1",),
    },
    engine={
        f"{_DELTA}.DeltaLog": ("createDataFrame/4", "newDeltaHadoopConf/0"),
        f"{_DELTA}.DummySnapshot": (),
        f"{_DELTA}.OptimisticTransaction": ("trackReadPredicates/3", "writeFiles/4", "registerSQLMetrics/2"),
        f"{_DELTA}.RowTracking$": ("preserveRowTrackingColumns/2", "isEnabled/2"),
        f"{_DELTA}.DeltaOperations$Optimize": ("new/5",),
        f"{_DELTA}.Snapshot": ("statsSchema/0",),
        f"{_DELTA}.skipping.clustering.ClusteredTableUtils$": ("isSupported/1",),
        f"{_DELTA}.skipping.clustering.ClusteringColumnInfo$": ("extractLogicalNames/1",),
        f"{_DELTA}.actions.Action$": ("fromJson/1",),
        f"{_DELTA}.actions.AddFile": (
            "path/0",
            "partitionValues/0",
            "size/0",
            "stats/0",
            "deletionVector/0",
            "json/0",
            "removeWithTimestamp/2",
            "absolutePath/1",
            "getDeletionVectorUniqueId/0",
        ),
        f"{_DELTA}.actions.DeletionVectorDescriptor": ("isOnDisk/0", "absolutePath/1"),
        # the compiler of `AddFiles.java`, and the JSON methods that it calls
        **COMPILER,
        "com.fasterxml.jackson.databind.ObjectMapper": ("readTree/1", "writeValueAsString/1"),
        "org.apache.spark.sql.execution.metric.SQLMetrics$": ("createMetric/2",),
        **PLACEMENT,
    },
)

# The further methods that `DeletionVectors.java` calls. Where one is missing, no rewrite is rebased.
_VECTORS: Calls = {
    f"{_DELTA}.storage.dv.HadoopFileSystemDVStore": (
        "new/1",
        "read/2",
        "createWriter/1",
        "generateFileNameInTable/3",
        "pathWithFileSystem/1",
    ),
    f"{_DELTA}.storage.dv.DeletionVectorStoreUtils$Writer": ("write/1", "close/0"),
    f"{_DELTA}.storage.dv.DeletionVectorStoreUtils$DVRangeDescriptor": ("offset/0",),
    f"{_DELTA}.deletionvectors.RoaringBitmapArray": (
        "add/1",
        "contains/1",
        "copy/0",
        "diff/1",
        "isEmpty/0",
        "toArray/0",
        "cardinality/0",
        "runOptimize/0",
        "serializeAsByteArray/1",
    ),
    f"{_DELTA}.deletionvectors.RoaringBitmapArrayFormat$": ("Portable/0",),
    f"{_DELTA}.DeltaLog": ("getCanonicalPathFunction/1",),
    f"{_DELTA}.actions.AddFile": ("baseRowId/0", "defaultRowCommitVersion/0"),
    f"{_DELTA}.actions.RemoveFile": ("path/0", "getDeletionVectorUniqueId/0"),
    f"{_DELTA}.actions.DeletionVectorDescriptor$": ("onDiskWithRelativePath/6",),
    f"{_DELTA}.commands.DeletionVectorUtils$": ("deletionVectorsWritable/2",),
}


class AddFiles:
    """Operations on lists of AddFile. In all methods, `files` is a java.util.List (py4j)."""

    def __init__(self, spark: SparkSession, log: Any) -> None:
        """Load the Java class, which is compiled once for each Spark application. log: the DeltaLog (py4j)."""
        self._spark = spark
        self._java = java_object(spark, _CLASS, _source("AddFiles.java"))
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

    def replaced(self, files: Any, at: Int64, others: Any) -> Any:
        """Return a copy of a list with the files of `others` at these positions. at: int64[others]."""
        return self._java.replaced(files, to_bytes(at), others)

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

    def after(self, files: Any, version: int, last: int) -> Any | None:
        """Return the files as the commits after a version left them, without a Spark job.

        Args:
            files: The files at the version.
            version: The version.
            last: The version after the last of these commits.

        Returns:
            The files in the same order, null for a file that is not live any more. None if one of them has another form
            of its path.
        """
        # in Delta before 4.1, the method lacks the parameter for the table of a catalog
        known = JavaClasses(self._spark.sparkContext).find(f"{_DELTA}.DeltaLog") or ()
        catalog = (scala_object(self._jvm.scala, "None"),) if "getChanges/4" in known else ()
        commits = self._log.getChanges(version + 1, *catalog, True)
        found = self._vectors.after(files, commits, version + 1, last, self._log.getCanonicalPathFunction(False))
        return found if len(found) == len(files) else None

    def missing(self, files: Any) -> NDArray[np.bool_]:
        """Return which files are null: bool[files]."""
        return from_bytes(self._vectors.missing(files)).astype(np.bool_)

    def same_ids(self, before: Any, after: Any) -> bool:
        """Return whether the rows of two lists of the same files have the same row ids and default commit versions.

        Files that are null in `after` are left out.
        """
        return bool(self._vectors.sameIds(before, after))

    def deleted_since(self, before: Any, after: Any) -> int:
        """Return how many more rows are deleted in `after`, summed over the files of which more rows are deleted.

        Of a file that is null in `after`, all rows are deleted.
        """
        return int(self._vectors.deletedSince(before, after))

    def newly_deleted(self, before: Any, after: Any) -> list[Int64] | None:
        """Compare the deletion vectors of two lists of the same files. Of a null in `after`, all rows are deleted.

        Returns:
            int64[rows] for each file, the ascending positions of the rows that are deleted in `after` only. None if a
            row is deleted in `before` only.
        """
        conf = self._log.newDeltaHadoopConf()
        numbers = from_bytes(
            self._vectors.newlyDeleted(before, after, self._log.dataPath(), conf, MAX_CONCURRENT_REQUESTS)
        )
        found, start = [], 0
        while start < len(numbers):
            count = int(numbers[start])
            if count < 0:
                return None
            found.append(numbers[start + 1 : start + 1 + count])
            start += 1 + count
        return found

    def marked(self, files: Any, positions: Sequence[Int64]) -> Any:
        """Return copies of the files from which further rows are deleted by deletion vectors, which are written.

        Args:
            files: The files, with the number of their rows in their statistics.
            positions: int64[rows] for each file, the positions of live rows.
        """
        numbers = [part for rows in positions for part in (np.array([len(rows)], np.int64), rows)]
        return self._vectors.marked(
            files, to_bytes(np.concatenate(numbers)), self._log.dataPath(), self._log.newDeltaHadoopConf()
        )

    @cached_property
    def _vectors(self) -> Any:
        return java_object(self._spark, _VECTORS_CLASS, _source("DeletionVectors.java"))

    def _stored(self, paths: Any) -> Int64:
        return from_bytes(self._java.stored(paths, self._log.newDeltaHadoopConf(), MAX_CONCURRENT_REQUESTS))

    def _texts(self, files: Any, field: str, type_: pa.DataType = _STRING) -> pa.Array:
        return texts(partial(self._java.texts, files, field), len(files), type_)


def _source(file: str) -> str:
    return resources(__package__).joinpath(file).read_text(encoding="utf-8")


def _definition(metadata: Any) -> Any:
    """Return the metadata without the counters of identity columns. metadata: an action (py4j)."""
    found = json.loads(metadata.json())["metaData"]
    found["schemaString"] = json.loads(
        found["schemaString"], object_hook=lambda fields: {k: v for k, v in fields.items() if k != _IDENTITY_COUNTER}
    )
    return found


# One table in one session.


# Timestamps are written in microseconds, because INT96 (Spark's default) has no bounds in footers and milliseconds lose
# digits. They are written in the proleptic Gregorian calendar, because the hybrid one would shift old dates. Partition
# values are written with a time zone, so that readers in all time zones read the same instants.
_EXACT_TIMES = {
    "spark.databricks.delta.write.utcTimestampPartitionValues": "true",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
}
# By default, Spark pads CHAR values when it reads them. Delta stores them unpadded, so a rewrite would change them.
_EXACT_STRINGS = {"spark.sql.readSideCharPadding": "false"}
# Before Delta 4.1, the length of string bounds was not a table property, but only a session configuration.
_STRING_PREFIX_OF_TABLE = {
    "org.apache.spark.sql.delta.stats.StatsCollectionUtils$": ("getDataSkippingStringPrefixLength/2",)
}
_STRING_PREFIX_OF_SESSION = "spark.databricks.io.skipping.stringPrefixLength"


def metadata_column(frame: DataFrame) -> Column:
    """Return the metadata column of a frame, even if the table itself has a column with the name `_metadata`."""
    internal: Any = frame._jdf
    return Column(internal.metadataColumn("_metadata"))


class DeltaJvm:
    """One Delta table, addressed by location, in one Spark session. `Any` is a py4j reference to a JVM object."""

    def __init__(self, spark: SparkSession, location: str) -> None:
        jvm = jvm_of(spark)
        self.spark = spark
        self.location = location
        self._jvm = jvm
        self._delta = jvm.org.apache.spark.sql.delta
        self.none = scala_object(jvm.scala, "None")
        self._classes = JavaClasses(spark.sparkContext)
        self._log = self._delta.DeltaLog.forTable(spark._jsparkSession, location)

    @cached_property
    def files(self) -> AddFiles:
        """The operations on many AddFiles at once."""
        return AddFiles(self.spark, self._log)

    def snapshot(self) -> Any:
        """Read the log again and return the newest snapshot."""
        return self._log.update(False, self.none, self.none)

    def snapshot_at(self, version: int) -> Any:
        """Return the snapshot of a version. In Delta before 4.1, the method lacks the last parameter."""
        known = self._classes.find("org.apache.spark.sql.delta.DeltaLog") or ()
        last = (False,) if "getSnapshotAt/5" in known else ()
        return self._log.getSnapshotAt(version, self.none, self.none, *last)

    def begin(self, snapshot: Any) -> Any:
        """Return an OptimisticTransaction that reads a snapshot. Later commits by other writers can be conflicts."""
        return self._log.startTransaction(self.none, self.some(snapshot))

    def some(self, value: Any) -> Any:
        return self._jvm.scala.Some(value)

    def seq(self, items: Iterable[Any]) -> Any:
        """See `zlayout.spark.jvm.scala_seq`."""
        return scala_seq(self._jvm, items)

    def live_files(self, snapshot: Any) -> Any:
        """Return all live AddFiles as a java.util.List."""
        return snapshot.allFiles().collectAsList()

    def all_files(self, snapshot: Any) -> DataFrame:
        """Return the live AddFiles as rows, with all of their statistics, some of which `filesForScan` would remove."""
        return DataFrame(snapshot.allFiles().toDF(), self.spark)

    def add_files(self, rows: DataFrame) -> Any:
        """Convert rows of `all_files` to a java.util.List of AddFile inside the JVM."""
        encoder = scala_object(self._delta.implicits, "package").addFileEncoder()
        return getattr(rows._jdf, "as")(encoder).collectAsList()

    def data_frame(self, snapshot: Any, adds: Any) -> DataFrame:
        """Return the live rows of a java.util.List of AddFile, with row ids and commit versions if rows are tracked."""
        with session_conf(self.spark, _EXACT_STRINGS):
            frame = self._log.createDataFrame(
                self._with_row_index(snapshot), self.seq(adds), False, self.some("Optimize")
            )
            return DataFrame(
                scala_object(self._delta, "RowTracking").preserveRowTrackingColumns(frame, snapshot), self.spark
            )

    def _with_row_index(self, snapshot: Any) -> Any:
        """Return a description of the table for which Delta's reader provides `_metadata.row_index`."""
        # The order of rows in new files depends on this field. Delta provides it only for tables with one of two
        # features (`metadataSchemaFields`), so the description of any other table declares deletion vectors.
        feature = scala_object(self._delta, "DeletionVectorsTableFeature")
        protocol, metadata = snapshot.protocol(), snapshot.metadata()
        if protocol.isFeatureSupported(feature) or self.tracks_rows(snapshot):
            return snapshot
        possible = scala_object(self._delta.actions, "Protocol").forTableFeature(feature)
        wider = self.some(protocol.merge(self.seq([possible])))
        return self._described(metadata, wider)

    def _described(self, metadata: Any, protocol: Any) -> Any:
        name = "org.apache.spark.sql.delta.DummySnapshot"
        # since Delta 4.4, there is a parameter for domain metadata
        domains = (self.none,) if "new/5" in (self._classes.find(name) or ()) else ()
        return self._delta.DummySnapshot(self._log.logPath(), self._log, metadata, *domains, protocol)

    def clustering(self, snapshot: Any) -> str | None:
        """Return the clustering columns as one string; None for a table without the feature clustering."""
        clustering = self._delta.skipping.clustering
        if not scala_object(clustering, "ClusteredTableUtils").isSupported(snapshot.protocol()):
            return None
        return str(scala_object(clustering, "ClusteringColumnInfo").extractLogicalNames(snapshot).toString())

    def tracks_rows(self, snapshot: Any) -> bool:
        """Return whether row tracking is enabled."""
        return bool(scala_object(self._delta, "RowTracking").isEnabled(snapshot.protocol(), snapshot.metadata()))

    def same_definition(self, before: Any, now: Any) -> bool:
        """Return whether two snapshots have the same metadata (schema, properties), protocol and clustering columns.

        The counters of identity columns, which change with each insert, are ignored, as in Delta's own check.
        """
        return (
            _definition(before.metadata()) == _definition(now.metadata())
            and bool(before.protocol().equals(now.protocol()))
            and self.clustering(before) == self.clustering(now)
        )

    def writes_vectors(self, snapshot: Any) -> bool:
        """Return whether a commit may add deletion vectors to files of the table."""
        if self._classes.missing(_VECTORS):
            return False
        utils = scala_object(self._delta.commands, "DeletionVectorUtils")
        return bool(utils.deletionVectorsWritable(snapshot.protocol(), snapshot.metadata()))

    def as_written(self, transaction: Any) -> Any:
        """Return a description of the table after the transaction, for reading its new files."""
        return self._described(transaction.metadata(), self.some(transaction.protocol()))

    def read_back(self, snapshot: Any, written: Any, like: Any) -> DataFrame:
        """Return the rows of new AddFiles with the columns of `data_frame`.

        With row tracking, the reader requires a base row id for every file, but new files get theirs in the commit.
        Therefore they are read with the base row id of `like`. It has no effect, because the files contain row ids.

        Args:
            snapshot: A snapshot, or the result of `as_written`.
            written: The new AddFiles, a java.util.List.
            like: Any AddFile of the snapshot.
        """
        if like.baseRowId().isDefined():
            known = json.loads(like.json())["add"]
            kept = {name: known[name] for name in ("baseRowId", "defaultRowCommitVersion") if name in known}
            written = self.files.changed(written, pa.array([json.dumps(kept)]), np.zeros(len(written), np.int64))
        return self.data_frame(snapshot, written)

    def write_files(self, transaction: Any, frame: DataFrame) -> Any:
        """Write a frame with Delta's own writer, without a commit. Returns the new AddFiles, a java.util.List.

        As for OPTIMIZE, Delta neither shuffles the rows before the write nor compacts files after the commit.
        """
        with session_conf(self.spark, _EXACT_TIMES | self._string_prefix_conf(transaction.metadata())):
            written = transaction.writeFiles(frame._jdf, self.none, True, self.seq([]))
        return scala_list(self._jvm, written)

    def stats_schema(self, snapshot: Any) -> str:
        """Return the schema of the files' statistics, with physical names, as the JSON of a Spark struct."""
        return str(snapshot.statsSchema().json())

    def schema(self, snapshot: Any) -> str:
        """Return the table's schema as JSON, as in the log."""
        return str(snapshot.metadata().schemaString())

    def string_prefix(self, snapshot: Any) -> int:
        """Return the length in UTF-16 units to which the table's writers truncate string bounds."""
        if conf := self._string_prefix_conf(snapshot.metadata()):
            return int(conf[_STRING_PREFIX_OF_SESSION])
        utils = scala_object(self._delta.stats, "StatsCollectionUtils")
        return int(utils.getDataSkippingStringPrefixLength(self.spark._jsparkSession, snapshot.metadata()))

    def _string_prefix_conf(self, metadata: Any) -> dict[str, str]:
        if self.knows_string_prefix:
            return {}
        declared = metadata.configuration().get(STRING_PREFIX)
        of_session = str(self.spark.conf.get(_STRING_PREFIX_OF_SESSION, "32"))
        return {_STRING_PREFIX_OF_SESSION: str(declared.get()) if declared.isDefined() else of_session}

    @property
    def knows_string_prefix(self) -> bool:
        """Whether Delta supports the table property for the length of string bounds."""
        return not self._classes.missing(_STRING_PREFIX_OF_TABLE)

    def register_metrics(self, transaction: Any, metrics: Mapping[str, int]) -> None:
        """Set the operation metrics of the transaction's commit. Delta drops metrics that the operation lacks."""
        spark = self.spark._jsparkSession
        sql_metrics = scala_object(self._jvm.org.apache.spark.sql.execution.metric, "SQLMetrics")
        created = {name: sql_metrics.createMetric(spark.sparkContext(), name) for name in metrics}
        for name, value in metrics.items():
            created[name].set(value)
        transaction.registerSQLMetrics(spark, scala_map(self._jvm, created))

    def commit(self, transaction: Any, actions: Any, operation: Any, tags: Mapping[str, str]) -> int:
        """Commit a Scala Seq of actions and return the version. After a conflict, the commit is not retried."""
        kept = scala_object(self._delta, "RowTracking").addPreservedRowTrackingTagIfNotSet(
            transaction.snapshot(), scala_map(self._jvm, tags)
        )
        return int(transaction.commit(actions, operation, kept))

    def base_uri(self) -> str:
        """Return the table's location as a URI in Hadoop's form."""
        return str(self._log.dataPath().toUri().toString())

    def log_folder(self) -> Any:
        """Return the folder of the log, an org.apache.hadoop.fs.Path."""
        return self._log.logPath()

    def log_store(self, path: Any) -> Any:
        """Return the log store that writes commits to a path, without Delta's wrappers."""
        store = self._log.store()
        if str(store.getClass().getSimpleName()) == "DelegatingLogStore":
            store = store.getDelegate(path)
        return store.logStoreImpl() if str(store.getClass().getSimpleName()) == "LogStoreAdaptor" else store

    def hadoop_conf(self) -> Any:
        return self._log.newDeltaHadoopConf()

    def require_files(self, files: Any) -> None:
        """Check that new files and their deletion vectors are on storage. files: new AddFiles, a java.util.List.

        Raises:
            EngineError: ZL316, also if a file has another size.
        """
        require_sizes(self.files.paths(files), self.files.sizes(files), self.files.stored(files))
        if missing := self.files.missing_vectors(files):
            raise EngineError.of(
                "ZL316",
                "the deletion vectors of new files are missing on storage",
                detail=missing[0],
                hint="stop what removes files of this table (VACUUM without retention), then run again; these groups "
                "were not committed",
            )

    def change_partition_columns(self, transaction: Any, columns: Sequence[str]) -> None:
        """Replace the partition columns in the transaction's metadata. Call this before the transaction writes.

        Delta accepts no partition column in the list of the columns with statistics, so the list loses them.
        """
        old = transaction.metadata()
        conf, listed = old.configuration(), old.configuration().get(STATS_COLUMNS)
        if listed.isDefined():
            left = stats_columns_without(str(listed.get()), columns)
            conf = conf.updated(STATS_COLUMNS, left) if left else getattr(conf, "$minus")(STATS_COLUMNS)
        named = old.id(), old.name(), old.description(), old.format(), old.schemaString()
        new = old.copy(*named, self.seq(columns), conf, old.createdTime())
        transaction.updateMetadata(new, False)

    def overwrite(self, columns: Iterable[str]) -> Any:
        """Return the operation of an overwrite, the only one with which Delta allows other partition columns."""
        mode = self._jvm.org.apache.spark.sql.SaveMode.Overwrite
        partition_by, yes, no = self.some(self.seq(columns)), self.some(True), self.none
        name = "DeltaOperations$Write"
        # The class has four fields in Delta 4.0 and earlier. Later versions append further fields.
        fields = (mode, partition_by, no, no, no, yes, no, no, no)
        made = self._classes.find(f"org.apache.spark.sql.delta.{name}") or ()
        count = max(n for n in range(4, len(fields) + 1) if f"new/{n}" in made)
        return getattr(self._delta, name)(*fields[:count])

    def compute_stats(self) -> Any:
        """Return the operation for changing AddFiles of live files. With any other, Delta counts the files twice."""
        return getattr(self._delta, "DeltaOperations$ComputeStats")(self.seq([]))

    def optimize(self, columns: Iterable[str]) -> Any:
        """Return the operation OPTIMIZE. columns: the z-order columns that the history shows."""
        return getattr(self._delta, "DeltaOperations$Optimize")(
            self.seq([]), self.seq(columns), False, self.none, False
        )


# Makes commits to Delta tables on S3 exclusive: no commit can replace the commit of another writer.
#
# S3 has no rename, so a commit is a PUT of the commit file. It is exclusive if it has the condition that the file does
# not exist (`If-None-Match: *`), which `ConditionalPutLogStore` sends, or if DynamoDB decides who commits. For HDFS,
# GCS and ADLS, Delta uses exclusive operations of these stores by default.


_BY_DYNAMODB = "io.delta.storage.S3DynamoDBLogStore"
_EXISTS = "java.nio.file.FileAlreadyExistsException"
# The errors by which S3A reports that S3A or the object store does not support the condition.
_UNSUPPORTED = frozenset(
    {
        "java.lang.IllegalArgumentException",
        "org.apache.hadoop.fs.PathIOException",
        "org.apache.hadoop.fs.s3a.AWSUnsupportedFeatureException",
    }
)


def require_exclusive_commits(delta: DeltaJvm, location: str, table: str) -> None:
    """Check before the first write that no commit to a table can replace a commit of another writer.

    If commits to S3 are conditional PUTs, this writes a temporary file to the log folder and deletes it.

    Raises:
        Refused: ZL220, if a commit could be replaced.
    """
    scheme = urlsplit(location).scheme.lower()
    if scheme not in S3_SCHEMES:
        return
    folder = delta.log_folder()
    store = delta.log_store(folder)
    name = str(store.getClass().getName())
    other = f"set spark.delta.logStore.{scheme}.impl to {_BY_DYNAMODB} in all writers"
    if name not in (CONDITIONAL_PUT, _BY_DYNAMODB):
        raise _refusal(
            table,
            f"the session writes commits by {name}",
            f"let zlayout start a session of Spark 4.1 or newer, or {other}",
        )
    if name == CONDITIONAL_PUT and (reason := _not_exclusive(delta, store, folder)):
        hint = f"use Hadoop 3.4.2 or newer and a store that supports If-None-Match, or {other}"
        raise _refusal(table, reason, hint)


def _not_exclusive(delta: DeltaJvm, store: Any, folder: Any) -> str:
    """Return the reason why a file that exists could be created again; empty if it cannot be."""
    jvm, conf = jvm_of(delta.spark), delta.hadoop_conf()
    file = jvm.org.apache.hadoop.fs.Path(folder, f".zlayout-{uuid.uuid4().hex}.tmp")
    try:
        for _ in range(2):  # the second PUT must fail, and so must a repetition of the first one by S3A
            store.write(file, java_list(jvm, ["{}"]).iterator(), False, conf)
    except Py4JJavaError as error:
        names = {str(cause.getClass().getName()) for cause in java_causes(error)}
        if _EXISTS in names:
            return ""
        if names & _UNSUPPORTED:
            return f"conditional PUTs are not supported ({sorted(names & _UNSUPPORTED)[0]})"
        raise
    finally:
        with suppress(Py4JJavaError):  # without permission to delete, a hidden file remains, which no reader reads
            file.getFileSystem(conf).delete(file, False)
    return "the object store ignores the condition of a conditional PUT"


def _refusal(table: str, reason: str, hint: str) -> Refused:
    return Refused.of("ZL220", f"{table}: a commit could replace the commit of another writer: {reason}", hint=hint)
