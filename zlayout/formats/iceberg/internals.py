"""The methods that zlayout calls in Iceberg's jar, for the check before any write."""

from __future__ import annotations

from zlayout.formats.kernel.engine_check import COMPILER, PLACEMENT, Internals

_ICEBERG = "org.apache.iceberg"
INTERNALS = Internals(
    name="Iceberg",
    package=lambda release: release.iceberg_package,
    tested=frozenset({"1.10", "1.11", "1.12"}),
    marker=f"{_ICEBERG}.IcebergBuild",
    version=lambda jvm: jvm.org.apache.iceberg.IcebergBuild.version(),
    shared={
        f"{_ICEBERG}.spark.Spark3Util": ("loadIcebergTable/2",),
        f"{_ICEBERG}.spark.actions.SparkActions": ("get/1", "rewriteDataFiles/1"),
        f"{_ICEBERG}.Transaction": ("updateProperties/0", "commitTransaction/0"),
        f"{_ICEBERG}.TableMetadataParser": ("toJson/1",),
    },
    engine={
        f"{_ICEBERG}.spark.SparkTableCache": ("get/0", "add/2", "remove/1"),
        f"{_ICEBERG}.spark.ScanTaskSetManager": ("get/0", "stageTasks/3", "removeTasks/2"),
        f"{_ICEBERG}.spark.FileRewriteCoordinator": ("get/0", "fetchNewFiles/2", "clearRewrite/2"),
        f"{_ICEBERG}.RewriteFiles": (
            "validateFromSnapshot/1",
            "dataSequenceNumber/1",
            "addFile/1",
            "deleteFile/1",
            "toBranch/1",
        ),
        f"{_ICEBERG}.util.SnapshotUtil": ("isAncestorOf/3",),
        # what `ContentFiles.java` uses and is compiled by
        f"{_ICEBERG}.ContentFile": (
            "location/0",
            "recordCount/0",
            "fileSizeInBytes/0",
            "nullValueCounts/0",
            "lowerBounds/0",
            "upperBounds/0",
            "dataSequenceNumber/0",
            "fileSequenceNumber/0",
            "copyWithoutStats/0",
        ),
        f"{_ICEBERG}.DeleteFile": ("contentOffset/0",),
        f"{_ICEBERG}.GenericDataFile": (
            "copy/0",
            "setFirstRowId/1",
            "setDataSequenceNumber/1",
            "setFileSequenceNumber/1",
        ),
        f"{_ICEBERG}.FileScanTask": ("file/0", "deletes/0"),
        f"{_ICEBERG}.BaseFileScanTask": ("new/5",),
        f"{_ICEBERG}.ContentFileParser": ("toJson/2",),
        f"{_ICEBERG}.util.ContentFileUtil": ("isDV/1", "isFileScoped/1"),
        f"{_ICEBERG}.util.Tasks": ("range/1",),
        f"{_ICEBERG}.util.Tasks$Builder": ("executeWith/1", "stopOnFailure/0", "run/1"),
        f"{_ICEBERG}.io.InputFile": ("exists/0", "getLength/0"),
        **COMPILER,
        **PLACEMENT,
    },
    # How staged files are known: see `write.staging`. Without either, a write would append to the table.
    either=(
        {f"{_ICEBERG}.spark.source.SparkRewriteTable": ()},
        {
            f"{_ICEBERG}.spark.SparkReadConf": ("scanTaskSetId/0",),
            f"{_ICEBERG}.spark.SparkWriteConf": ("rewrittenFileSetId/0",),
        },
    ),
)
