"""The internal calls into Delta 4.4.0 that zlayout makes, through py4j.

Delta has no public way to replace files with a conflict check on exactly these files. The calls are those of its
own OPTIMIZE (`commands/OptimizeTableCommand.scala`); `zlayout.spark.versions` names the tested versions.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from zlayout.formats.kernel.new_files import require_files
from zlayout.spark.jvm import jvm_of, session_conf
from zlayout.spark.scala import scala_map, scala_object, scala_seq

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


# INT96, the default, has no bounds in footers; milliseconds would cut values, and the old calendar would shift them.
# Other readers would read partition values without a zone as other times.
_EXACT_TIMES = {
    "spark.databricks.delta.write.utcTimestampPartitionValues": "true",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
}


# Spark pads CHAR values when it reads them, but Delta stores them unpadded: a rewrite would change them.
_EXACT_TEXT = {"spark.sql.readSideCharPadding": "false"}


class DeltaJvm:
    """One Delta table by path in one Spark session. Values of type Any are py4j references to Scala objects."""

    def __init__(self, spark: SparkSession, location: str) -> None:
        jvm = jvm_of(spark)
        self.spark = spark
        self.location = location
        self._jvm = jvm
        self._delta = jvm.org.apache.spark.sql.delta
        self.none = scala_object(jvm.scala, "None")
        self._log = self._delta.DeltaLog.forTable(spark._jsparkSession, location)

    def snapshot(self) -> Any:
        """Return the newest snapshot, read afresh."""
        return self._log.update(False, self.none, self.none)

    def begin(self, snapshot: Any) -> Any:
        """Return an OptimisticTransaction pinned to a snapshot: every later commit is checked for conflicts with it."""
        return self._log.startTransaction(self.none, self._jvm.scala.Some(snapshot))

    def some(self, value: Any) -> Any:
        return self._jvm.scala.Some(value)

    def seq(self, items: Iterable[Any]) -> Any:
        """Return a Scala Seq of a Python iterable or of a Java list, which stays in the JVM."""
        return scala_seq(self._jvm, items)

    def map(self, items: Mapping[str, str]) -> Any:
        """A Scala Map[String, String]."""
        return scala_map(self._jvm, items)

    def whole(self, snapshot: Any) -> Any:
        """Return all live AddFiles as a java.util.List."""
        return snapshot.allFiles().collectAsList()

    def all_files(self, snapshot: Any) -> DataFrame:
        """Return the live AddFiles as rows, with complete statistics (`filesForScan` would trim them)."""
        from pyspark.sql import DataFrame

        return DataFrame(snapshot.allFiles().toDF(), self.spark)

    def add_files(self, rows: DataFrame) -> Any:
        """Return rows of `all_files` as a java.util.List of AddFile, with no Python object per file."""
        encoder = scala_object(self._delta.implicits, "package").addFileEncoder()
        return getattr(rows._jdf, "as")(encoder).collectAsList()

    def data_frame(self, snapshot: Any, adds: Any) -> DataFrame:
        """Return the live rows of a Scala Seq of AddFile, with row ids and row commit versions if they are tracked."""
        from pyspark.sql import DataFrame

        with session_conf(self.spark, _EXACT_TEXT):
            frame = self._log.createDataFrame(self._with_row_index(snapshot), adds, False, self.some("Optimize"))
            return DataFrame(
                scala_object(self._delta, "RowTracking").preserveRowTrackingColumns(frame, snapshot), self.spark
            )

    def _with_row_index(self, snapshot: Any) -> Any:
        """A description of the same table whose reader has `_metadata.row_index`.

        A stable order of rows needs that field. Delta hides it if neither deletion vectors nor row tracking need it
        (`metadataSchemaFields`), so the description of such a table declares that deletion vectors are possible.
        """
        feature = scala_object(self._delta, "DeletionVectorsTableFeature")
        protocol, metadata = snapshot.protocol(), snapshot.metadata()
        if protocol.isFeatureSupported(feature) or self._tracks_rows(snapshot):
            return snapshot
        possible = scala_object(self._delta.actions, "Protocol").forTableFeature(feature)
        wider = self.some(protocol.merge(self.seq([possible])))
        return self._delta.DummySnapshot(self._log.logPath(), self._log, metadata, self.none, wider)

    def _tracks_rows(self, snapshot: Any) -> bool:
        return bool(scala_object(self._delta, "RowTracking").isEnabled(snapshot.protocol(), snapshot.metadata()))

    def rows_got_ids(self, transaction: Any) -> bool:
        """Return whether the table tracks rows by now, and did not in the transaction's snapshot."""
        return not self._tracks_rows(transaction.snapshot()) and self._tracks_rows(self.snapshot())

    def as_written(self, transaction: Any) -> Any:
        """Return a description of the table as the transaction will leave it, for reading its new files."""
        metadata, protocol = transaction.metadata(), self.some(transaction.protocol())
        return self._delta.DummySnapshot(self._log.logPath(), self._log, metadata, self.none, protocol)

    def read_back(self, snapshot: Any, written: Iterable[Any], like: Any) -> DataFrame:
        """Return the rows of new AddFiles with the columns of `data_frame`. like: any AddFile of the snapshot.

        With row tracking every file needs a base row id, which new files get only in the commit. Any base row id is
        correct here, since the preserved row ids are stored in the file itself.
        """
        files = list(written)
        if like.baseRowId().isDefined():
            known = json.loads(like.json())["add"]
            kept = {name: known[name] for name in ("baseRowId", "defaultRowCommitVersion") if name in known}
            files = [self.changed(file, **kept) for file in files]
        return self.data_frame(snapshot, self.seq(files))

    def changed(self, file: Any, tags: Mapping[str, str] | None = None, **fields: object) -> Any:
        """Return a copy of an AddFile with more tags and with these fields of the log's JSON (`stats`, ...)."""
        action = json.loads(file.json())
        if tags:
            fields["tags"] = {**(action["add"].get("tags") or {}), **tags}
        action["add"].update(fields)
        return scala_object(self._delta.actions, "Action").fromJson(json.dumps(action))

    def write_files(self, transaction: Any, frame: DataFrame, *, optimize: bool) -> list[Any]:
        """Write through Delta's own writer, and return the new AddFiles, not committed yet."""
        with session_conf(self.spark, _EXACT_TIMES):
            written = transaction.writeFiles(frame._jdf, self.none, optimize, self.seq([]))
        return [written.apply(at) for at in range(written.size())]

    def stats_schema(self, snapshot: Any) -> str:
        """Return the schema of the files' statistics, by physical names, as the JSON of a Spark struct."""
        return str(snapshot.statsSchema().json())

    def schema(self, snapshot: Any) -> str:
        """Return the table's schema as the JSON in the log."""
        return str(snapshot.metadata().schemaString())

    def string_prefix(self, snapshot: Any) -> int:
        """Return how many characters of a string bound the table keeps."""
        utils = scala_object(self._delta.stats, "StatsCollectionUtils")
        return int(utils.getDataSkippingStringPrefixLength(self.spark._jsparkSession, snapshot.metadata()))

    def commit(self, transaction: Any, actions: Any, operation: Any, tags: Mapping[str, str]) -> int:
        """Commit a Scala Seq of actions, and return the version. It is never retried past a conflict."""
        kept = scala_object(self._delta, "RowTracking").addPreservedRowTrackingTagIfNotSet(
            transaction.snapshot(), self.map(tags)
        )
        return int(transaction.commit(actions, operation, kept))

    def base_uri(self) -> str:
        """Return the table's folder as a URI qualified by Hadoop."""
        return str(self._log.dataPath().toUri().toString())

    def require_files(self, files: Iterable[Any]) -> None:
        """Check that each new AddFile is on storage with its size. Raises EngineError ZL316."""
        sizes, paths = {}, {}
        for file in files:
            name = str(file.path())
            sizes[name], paths[name] = int(file.size()), file.absolutePath(self._log)
        conf = self._log.newDeltaHadoopConf()

        def stored(name: str) -> int | None:
            path = paths[name]
            storage = path.getFileSystem(conf)
            return int(storage.getFileStatus(path).getLen()) if storage.exists(path) else None

        require_files(sizes, stored)

    def change_partition_columns(self, transaction: Any, columns: Iterable[str]) -> None:
        """Replace the partition columns in the transaction's metadata, before it writes anything."""
        old = transaction.metadata()
        new = old.copy(
            old.id(),
            old.name(),
            old.description(),
            old.format(),
            old.schemaString(),
            self.seq(columns),
            old.configuration(),
            old.createdTime(),
        )
        transaction.updateMetadata(new, False)

    def overwrite(self, columns: Iterable[str]) -> Any:
        """Return the operation of an overwrite, the only one that Delta lets change the partition columns."""
        mode = self._jvm.org.apache.spark.sql.SaveMode.Overwrite
        partition_by, yes, no = self.some(self.seq(columns)), self.some(True), self.none
        return getattr(self._delta, "DeltaOperations$Write")(mode, partition_by, no, no, no, yes, no, no, no)

    def compute_stats(self) -> Any:
        """Return the operation for changing the records of live files; any other would count them twice."""
        return getattr(self._delta, "DeltaOperations$ComputeStats")(self.seq([]))

    def optimize(self, columns: Iterable[str]) -> Any:
        return getattr(self._delta, "DeltaOperations$Optimize")(
            self.seq([]), self.seq(columns), False, self.none, False
        )
