"""Decides which Delta tables zlayout refuses to rewrite, and which layout settings OPTIMIZE does not support."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from zlayout.errors import Diagnostic, Refused
from zlayout.spec.model import CLUSTERING_CURVE, Layout
from zlayout.table.state import FileTable, PartitionField, TableState
from zlayout.text import path_of, plural

# Table features whose rules Delta's transaction follows by itself when it replaces files by others with the same rows.
# Any other feature may have rules that zlayout would violate, so a table with such a feature is refused.
SAFE = frozenset(
    {
        "allowColumnDefaults",
        "appendOnly",
        "changeDataFeed",
        "checkConstraints",
        "checkpointProtection",
        "columnMapping",
        "deletionVectors",
        "domainMetadata",
        "generatedColumns",
        "icebergCompatV1",
        "icebergCompatV2",
        "identityColumns",
        "inCommitTimestamp",
        "inCommitTimestamp-preview",
        "invariants",
        "materializePartitionColumns",
        "rowTracking",
        "timestampNtz",
        "typeWidening",
        "typeWidening-preview",
        "v2Checkpoint",
        "vacuumProtocolCheck",
        "variantShredding",
        "variantShredding-preview",
        "variantType",
        "variantType-preview",
    }
)
CATALOG_OWNED = frozenset(
    {"catalogManaged", "catalogOwned", "catalogOwned-preview", "coordinatedCommits", "coordinatedCommits-preview"}
)
CLUSTERING = "clustering"

_ICEBERG_COMPAT = tuple(f"delta.enableIcebergCompatV{version}" for version in (1, 2, 3))

# The properties that need a table feature in the protocol. Delta refuses to rewrite a table without it. Other writers
# set such a property alone.
_NEEDED_BY = {
    "delta.enableRowTracking": "rowTracking",
    "delta.enableInCommitTimestamps": "inCommitTimestamp",
    "delta.enableTypeWidening": "typeWidening",
    "delta.enableChangeDataFeed": "changeDataFeed",
    "delta.enableDeletionVectors": "deletionVectors",
    "delta.enableIcebergCompatV1": "icebergCompatV1",
    "delta.enableIcebergCompatV2": "icebergCompatV2",
}
CONSTRAINT = "delta.constraints."

# Table features that writer versions below 7 imply. Writer version 7 and reader version 3 list features by name.
_IMPLIED = (
    (2, ("appendOnly", "invariants")),
    (3, ("checkConstraints",)),
    (4, ("changeDataFeed", "generatedColumns")),
    (5, ("columnMapping",)),
    (6, ("identityColumns",)),
)


def table_features(
    writer_version: int, reader_features: list[str] | None, writer_features: list[str] | None
) -> frozenset[str]:
    """Return the names of all table features of a protocol, including those that an old writer version implies."""
    listed = {*(reader_features or ()), *(writer_features or ())}
    if writer_version < 7:
        listed |= {name for version, names in _IMPLIED if version <= writer_version for name in names}
    return frozenset(listed)


def can_rebase(features: frozenset[str], properties: Mapping[str, str]) -> bool:
    """Return whether other writers write deletion vectors, and equal rows can be recognized: see `TableState`."""
    name = "delta.enableDeletionVectors"
    writes_vectors = _NEEDED_BY[name] in features and properties.get(name, "").lower() == "true"
    return writes_vectors and not any(feature.startswith("variantType") for feature in features)


def refusals(features: frozenset[str], properties: Mapping[str, str]) -> Iterator[Diagnostic]:
    """Yield the reasons why zlayout must not rewrite the table, none if it may."""
    if owned_by := catalog_owned(features, properties):
        yield _refused(
            "ZL212",
            f"the table's catalog owns its commits ({', '.join(sorted(owned_by))}), so the log may be incomplete",
            "use the catalog's own maintenance for this table, or drop the feature",
        )
    if unknown := sorted(features - SAFE - {CLUSTERING} - CATALOG_OWNED):
        yield _refused(
            "ZL213",
            f"the table has features that this version of zlayout does not support: {', '.join(unknown)}",
            "run ALTER TABLE ... DROP FEATURE, or use a version of zlayout that supports them",
        )

    if missing := sorted(_needed(properties) - {name.removesuffix("-preview") for name in features}):
        yield _refused(
            "ZL244",
            f"Delta refuses to rewrite the table, because its properties need {', '.join(missing)} in its protocol",
            "add the features with the program that set the properties (delta-rs: DeltaTable.alter.add_feature), or "
            "remove the properties with it",
        )


def _needed(properties: Mapping[str, str]) -> set[str]:
    found = {_NEEDED_BY[name] for name, value in properties.items() if name in _NEEDED_BY and value.lower() == "true"}
    found |= {"checkConstraints" for name in properties if name.startswith(CONSTRAINT)}
    found |= {"v2Checkpoint"} if properties.get("delta.checkpointPolicy", "").lower() == "v2" else set()
    found |= {"columnMapping"} if properties.get("delta.columnMapping.mode", "none").lower() != "none" else set()
    return found


def catalog_owned(features: frozenset[str], properties: Mapping[str, str]) -> frozenset[str]:
    """Return the table features or properties by which the table's catalog owns its commits, empty if it does not."""
    return features & CATALOG_OWNED or frozenset(k for k in properties if k.startswith("delta.coordinatedCommits."))


def require_own_commits(state: TableState) -> None:
    """Check that the log has all commits of the table, so that Spark can read it by its location.

    Raises:
        Refused: ZL212, if the catalog of the table owns its commits.
    """
    if owned_by := catalog_owned(state.features, state.properties):
        owned = f"the table's catalog owns its commits ({', '.join(sorted(owned_by))})"
        message = f"{state.table}: {owned}, so Spark can read it only by its name in that catalog"
        raise Refused.of("ZL212", message, hint="use the catalog's own tools for this table")


def behind_catalog(version: int) -> Diagnostic:
    """Return ZL418. version: the newest version in the log of a table whose catalog owns the commits."""
    return Diagnostic(
        "ZL418",
        f"measured at version {version}, the newest one in the log; the table's catalog may have later commits",
        "warning",
        "compare the version with the history in the catalog; the numbers do not include changes by later commits",
    )


def partition_refusals(fields: Sequence[PartitionField], state: TableState) -> Iterator[Diagnostic]:
    """Yield the reasons why the partitioning of the table must not change to these fields, none if it may."""
    enabled = {name for name, value in state.properties.items() if value.lower() == "true"}
    if CLUSTERING in state.features:
        yield _refused(
            "ZL211",
            "partition_by cannot change, because a table with the feature clustering is never partitioned",
            "remove partition_by, or copy the table into one that was made without CLUSTER BY",
        )
    if "delta.appendOnly" in enabled:
        yield _refused(
            "ZL214",
            "partition_by cannot change while delta.appendOnly is true, because every file would be removed",
            "run ALTER TABLE ... SET TBLPROPERTIES ('delta.appendOnly' = 'false') first, or keep the partitioning",
        )
    if "identityColumns" in state.features:
        yield _refused(
            "ZL215",
            "partition_by cannot change on a table with identity columns, because their counters would change",
            "keep the partitioning, or copy the table into a new one",
        )
    compatible = [name for name in _ICEBERG_COMPAT if name in enabled]
    if state.partition_fields and compatible:
        yield _refused(
            "ZL219",
            f"partition_by cannot change while {compatible[0]} is true, because Delta does not allow it",
            "keep the partitioning, or copy the table into a new one",
        )

    for name in (field.source for field in fields if field.source in state.files.bounds):
        lower = state.files.bounds[name].lower
        empty = pc.fill_null(pc.equal(lower, ""), False) if pa.types.is_string(lower.type) else pa.array([], pa.bool_())
        # the row with the lower bound of a file without deleted rows is live
        if count := int(empty.filter(pa.array(state.files.deleted[: len(empty)] == 0)).true_count):
            have = "has" if count == 1 else "have"
            yield _refused(
                "ZL217",
                f"{plural(count, 'file')} {have} an empty string in {name}, which Delta stores as null in a partition "
                "column",
                "keep the partitioning, or UPDATE these rows first",
            )


def _refused(code: str, message: str, hint: str) -> Diagnostic:
    return Diagnostic(code, message, "refused", hint)


# The layout settings that OPTIMIZE does not support.


_FEW_VALUES = 64  # up to this number of values, Delta's range ids differ only in their lowest 6 bits
_USE_ZLAYOUT = "use engine: zlayout"


def native_diagnostics(layout: Layout, state: TableState) -> tuple[Diagnostic, ...]:
    """Return ZL401 for each layout setting that OPTIMIZE does not support."""
    return tuple(Diagnostic("ZL401", message, "note", hint) for message, hint in _unsupported(layout, state))


def native_refusals(state: TableState) -> tuple[Diagnostic, ...]:
    """Return ZL223 if OPTIMIZE cannot select the partitions of the table."""
    dotted = [field.source for field in state.partition_fields if "." in path_of(field.source)[0]]
    if not dotted:
        return ()
    message = f"Delta's OPTIMIZE ignores conditions on the partition column {dotted[0]}, whose name contains a dot"
    return (Diagnostic("ZL223", message, "refused", "use engine zlayout"),)


def _unsupported(layout: Layout, state: TableState) -> Iterator[tuple[str, str]]:
    clustered, several = bool(state.clustering), len(layout.columns) > 1
    if not layout.orders and not clustered:
        # OPTIMIZE without ZORDER BY never rewrites a single file, even if most of its rows are deleted.
        yield "deleted rows stay: engine native without zorder combines small files only", _USE_ZLAYOUT
        return
    by, curve = ("liquid clustering", CLUSTERING_CURVE) if clustered else ("Delta's OPTIMIZE", "zorder")
    if layout.curve != curve and several:
        hint = f"declare zorder.curve: {curve}" if clustered else _USE_ZLAYOUT
        yield f"zorder.curve {layout.curve} is not supported by {by}, which uses {curve}", hint
    if any(column.weight != 1.0 for column in layout.columns):
        yield f"weights in zorder.columns are ignored by {by}", "remove the weights" if clustered else _USE_ZLAYOUT
    if layout.noise:
        yield "zorder.noise is rand() without a seed in Delta's OPTIMIZE, so runs differ", "set zorder.noise to false"
    for column in layout.columns if several and not clustered else ():
        if _few_values(state.files, column.name):
            yield (
                f"column {column.name} has at most {_FEW_VALUES} values, for which Delta's OPTIMIZE uses only the "
                "lowest bits: file skipping by it will hardly improve",
                _USE_ZLAYOUT,
            )


def _few_values(files: FileTable, name: str) -> bool:
    bounds = files.bounds.get(name)
    if bounds is None or not len(files):
        return False
    is_date = pa.types.is_date32(bounds.lower.type)
    if not is_date and not pa.types.is_integer(bounds.lower.type):
        return False
    integer = pa.int32() if is_date else pa.int64()
    low, high = pc.min(bounds.lower.cast(integer)).as_py(), pc.max(bounds.upper.cast(integer)).as_py()
    return low is not None and high is not None and high - low < _FEW_VALUES
