"""The few internal calls into Delta 4.4.0 that zlayout makes, through py4j; nothing else may touch the JVM.

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


# INT96, the default, has no bounds in footers; milliseconds would cut values, and an old calendar would shift them.
# Partition values without their zone would be other times to other readers.
_TIME_AS_IT_IS = {
    "spark.databricks.delta.write.utcTimestampPartitionValues": "true",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
}


# Spark pads CHAR values as it reads; Delta stores them as they came, so that padded ones would be others.
_TEXT_AS_IT_IS = {"spark.sql.readSideCharPadding": "false"}


class DeltaJvm:
    """One Delta table by path in one Spark session. What it returns as Any are py4j references to Scala objects."""

    def __init__(self, spark: SparkSession, location: str) -> None:
        jvm = jvm_of(spark)
        self.spark = spark
        self.location = location
        self._jvm = jvm
        self._delta = jvm.org.apache.spark.sql.delta
        self.none = scala_object(jvm.scala, "None")
        self._log = self._delta.DeltaLog.forTable(spark._jsparkSession, location)

    def snapshot(self) -> Any:
        """The newest snapshot, read afresh."""
        return self._log.update(False, self.none, self.none)

    def begin(self, snapshot: Any) -> Any:
        """An OptimisticTransaction pinned to `snapshot`: every later commit is checked for conflicts with it."""
        return self._log.startTransaction(self.none, self._jvm.scala.Some(snapshot))

    def some(self, value: Any) -> Any:
        return self._jvm.scala.Some(value)

    def seq(self, items: Iterable[Any]) -> Any:
        """A Scala Seq of a Python iterable or of a Java list (which stays in the JVM)."""
        return scala_seq(self._jvm, items)

    def map(self, items: Mapping[str, str]) -> Any:
        """A Scala Map[String, String]."""
        return scala_map(self._jvm, items)

    def whole(self, snapshot: Any) -> Any:
        """All live AddFiles as a java.util.List."""
        return snapshot.allFiles().collectAsList()

    def all_files(self, snapshot: Any) -> DataFrame:
        """The live AddFiles with their whole statistics, as rows (`filesForScan` would trim them)."""
        from pyspark.sql import DataFrame

        return DataFrame(snapshot.allFiles().toDF(), self.spark)

    def add_files(self, rows: DataFrame) -> Any:
        """Rows of `all_files`, changed or not, as a java.util.List of AddFile; no Python object for each file."""
        encoder = scala_object(self._delta.implicits, "package").addFileEncoder()
        return getattr(rows._jdf, "as")(encoder).collectAsList()

    def data_frame(self, snapshot: Any, adds: Any) -> DataFrame:
        """The live rows of a Scala Seq of AddFile, with row ids and row commit versions where they are tracked."""
        from pyspark.sql import DataFrame

        with session_conf(self.spark, _TEXT_AS_IT_IS):
            frame = self._log.createDataFrame(self._with_row_index(snapshot), adds, False, self.some("Optimize"))
            return DataFrame(
                scala_object(self._delta, "RowTracking").preserveRowTrackingColumns(frame, snapshot), self.spark
            )

    def _with_row_index(self, snapshot: Any) -> Any:
        """A description of the same table whose reader has `_metadata.row_index`.

        Delta hides that field where neither deletion vectors nor row tracking need it (`metadataSchemaFields`), and
        a stable order of rows needs it. For such a table the reader is told that deletion vectors are possible.
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
        """Whether the table tracks rows by now, where it did not in the transaction's snapshot."""
        return not self._tracks_rows(transaction.snapshot()) and self._tracks_rows(self.snapshot())

    def as_written(self, transaction: Any) -> Any:
        """A description of the table as the transaction will make it, to read its new files by."""
        metadata, protocol = transaction.metadata(), self.some(transaction.protocol())
        return self._delta.DummySnapshot(self._log.logPath(), self._log, metadata, self.none, protocol)

    def read_back(self, snapshot: Any, written: Iterable[Any], like: Any) -> DataFrame:
        """The rows of new AddFiles with the columns of `data_frame`. like: any AddFile of the snapshot.

        With row tracking every file needs a base row id, which new files get in the commit only; any will do, since
        the row ids that were kept stand in the file itself.
        """
        files = list(written)
        if like.baseRowId().isDefined():
            known = json.loads(like.json())["add"]
            kept = {name: known[name] for name in ("baseRowId", "defaultRowCommitVersion") if name in known}
            files = [self.changed(file, **kept) for file in files]
        return self.data_frame(snapshot, self.seq(files))

    def changed(self, file: Any, tags: Mapping[str, str] | None = None, **fields: object) -> Any:
        """An AddFile like this one, but with more tags and with these fields of the log's JSON (`stats`, ...)."""
        action = json.loads(file.json())
        if tags:
            fields["tags"] = {**(action["add"].get("tags") or {}), **tags}
        action["add"].update(fields)
        return scala_object(self._delta.actions, "Action").fromJson(json.dumps(action))

    def write_files(self, transaction: Any, frame: DataFrame, *, optimize: bool) -> list[Any]:
        """Write through Delta's own writer; the new AddFiles, not yet committed."""
        with session_conf(self.spark, _TIME_AS_IT_IS):
            written = transaction.writeFiles(frame._jdf, self.none, optimize, self.seq([]))
        return [written.apply(at) for at in range(written.size())]

    def stats_schema(self, snapshot: Any) -> str:
        """What statistics the table's files have, by physical names: the JSON of a Spark struct."""
        return str(snapshot.statsSchema().json())

    def schema(self, snapshot: Any) -> str:
        """The table's schema as JSON, as it stands in the log."""
        return str(snapshot.metadata().schemaString())

    def string_prefix(self, snapshot: Any) -> int:
        """How many characters the table keeps of a string bound."""
        utils = scala_object(self._delta.stats, "StatsCollectionUtils")
        return int(utils.getDataSkippingStringPrefixLength(self.spark._jsparkSession, snapshot.metadata()))

    def commit(self, transaction: Any, actions: Any, operation: Any, tags: Mapping[str, str]) -> int:
        """Commit a Scala Seq of actions; never retried past a conflict. Returns the version."""
        kept = scala_object(self._delta, "RowTracking").addPreservedRowTrackingTagIfNotSet(
            transaction.snapshot(), self.map(tags)
        )
        return int(transaction.commit(actions, operation, kept))

    def base_uri(self) -> str:
        """The table's folder as a URI, as Hadoop qualifies it."""
        return str(self._log.dataPath().toUri().toString())

    def require_files(self, files: Iterable[Any]) -> None:
        """Raise EngineError ZL316 unless each new AddFile is on storage with its size."""
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
        """Give the transaction the same metadata with other partition columns; before it writes anything."""
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
        """The operation of an overwrite that changes the partition columns: the one that Delta lets do so."""
        mode = self._jvm.org.apache.spark.sql.SaveMode.Overwrite
        partition_by, yes, no = self.some(self.seq(columns)), self.some(True), self.none
        return getattr(self._delta, "DeltaOperations$Write")(mode, partition_by, no, no, no, yes, no, no, no)

    def compute_stats(self) -> Any:
        """The operation for changing what the log says of live files; any other would count them twice."""
        return getattr(self._delta, "DeltaOperations$ComputeStats")(self.seq([]))

    def optimize(self, columns: Iterable[str]) -> Any:
        return getattr(self._delta, "DeltaOperations$Optimize")(
            self.seq([]), self.seq(columns), False, self.none, False
        )
