"""The methods of Delta and Spark that commits need, for the check of the session before any write."""

from __future__ import annotations

from zlayout.formats.kernel.engine_check import COMPILER, PLACEMENT, Internals

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
