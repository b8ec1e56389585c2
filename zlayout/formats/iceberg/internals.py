"""The methods of Iceberg's jar whose existence is checked before any write, because versions of Iceberg differ."""

from __future__ import annotations

from collections.abc import Mapping

from zlayout.formats.kernel.engine_check import COMPILER, PLACEMENT, Internals

_ICEBERG = "org.apache.iceberg"


def _methods(by_class: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    return {f"{_ICEBERG}.{name}": tuple(methods.split()) for name, methods in by_class.items()}


_SHARED = {
    "spark.Spark3Util": "catalogAndIdentifier/2 toIcebergTable/1",
    "spark.actions.SparkActions": "get/1 rewriteDataFiles/1",
    "Transaction": "updateProperties/0 commitTransaction/0",
    "TableMetadataParser": "toJson/1",
}
_ENGINE = {
    "spark.SparkTableCache": "get/0 add/2 remove/1",
    "spark.ScanTaskSetManager": "get/0 stageTasks/3 removeTasks/2",
    "spark.FileRewriteCoordinator": "get/0 fetchNewFiles/2 clearRewrite/2",
    "RewriteFiles": "validateFromSnapshot/1 dataSequenceNumber/1 addFile/1 deleteFile/1 toBranch/1",
    "util.SnapshotUtil": "isAncestorOf/3",
    # the methods that `ContentFiles.java` calls, against which it is compiled
    "ContentFile": "location/0 recordCount/0 fileSizeInBytes/0 nullValueCounts/0 lowerBounds/0 upperBounds/0 "
    "dataSequenceNumber/0 fileSequenceNumber/0 copyWithoutStats/0",
    "DeleteFile": "contentOffset/0",
    "GenericDataFile": "copy/0 setFirstRowId/1 setDataSequenceNumber/1 setFileSequenceNumber/1",
    "FileScanTask": "file/0 deletes/0",
    "BaseFileScanTask": "new/5",
    "ContentFileParser": "toJson/2",
    "util.ContentFileUtil": "isDV/1 isFileScoped/1",
    "util.Tasks": "range/1",
    "util.Tasks$Builder": "executeWith/1 stopOnFailure/0 run/1",
    "io.InputFile": "exists/0 getLength/0",
}
INTERNALS = Internals(
    name="Iceberg",
    package=lambda release: release.iceberg_package,
    tested=frozenset({"1.10", "1.11", "1.12"}),
    marker=f"{_ICEBERG}.IcebergBuild",
    version=lambda jvm: jvm.org.apache.iceberg.IcebergBuild.version(),
    shared=_methods(_SHARED),
    engine={**_methods(_ENGINE), **COMPILER, **PLACEMENT},
    # Iceberg recognizes staged files by one of these (see `write.staging`). With neither, a write would append them.
    either=(
        _methods({"spark.source.SparkRewriteTable": ""}),
        _methods({"spark.SparkReadConf": "scanTaskSetId/0", "spark.SparkWriteConf": "rewrittenFileSetId/0"}),
    ),
)
