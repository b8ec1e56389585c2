"""Determines the features of an Iceberg table, and which tables and which partitionings zlayout refuses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from zlayout.errors import Diagnostic
from zlayout.formats.iceberg.read.manifests import EQUALITY_DELETES, DataColumns
from zlayout.formats.iceberg.read.metrics_config import PREFIX
from zlayout.formats.iceberg.read.schema import ORDINALS, argument, transform_name
from zlayout.message_text import plural
from zlayout.table.state import PartitionField, TableState

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata

_VARIANT = "variant"
# The types that Iceberg's Spark module (1.12 for Spark 4.1) reads. Spark knows few coordinate reference systems.
_IN_SPARK = re.compile(
    r"boolean|int|long|float|double|decimal\(.*\)|date|timestamp|timestamptz|string|uuid|fixed\[.*\]|binary|variant|unknown|"
    r"geometry(\((OGC:CRS84|EPSG:3857|SRID:0)\))?|geography(\(OGC:CRS84(, ?spherical)?\))?"
)
# `MetadataColumns` of Iceberg 1.12. A rewrite reads `_file` and `_pos`.
_METADATA_COLUMNS = ("_file", "_pos", "_deleted", "_spec_id", "_partition", "_row_id", "_last_updated_sequence_number")


def features(metadata: TableMetadata, data: DataColumns) -> frozenset[str]:
    """Return the table features: the format version, row lineage, columns of type variant, and the types of files.

    The types of files are those of the delete files, and of data files that are not Parquet files.
    """
    found = {f"format-version={metadata.format_version}"}
    if metadata.format_version >= 3:
        found.add("row-lineage")
    if any(type_ == _VARIANT for _, type_ in _types(metadata.schema())):
        found.add(_VARIANT)
    for delete in data.deletes:
        if delete.content == EQUALITY_DELETES:
            found.add("equality-deletes")
        else:
            found.add("deletion-vectors" if delete.vector else "position-deletes")
    found.update(f"{name.lower()}-files" for name in data.formats if name != "PARQUET")
    return frozenset(found)


def partition_refusals(fields: Sequence[PartitionField], state: TableState) -> tuple[Diagnostic, ...]:
    """Return ZL226 for each new partition field that Iceberg rejects.

    Iceberg rejects a second new time field of the same column, and a field that would have the name of a column.
    """
    found: list[Diagnostic] = []
    times: dict[str, PartitionField] = {}
    for field in fields:
        if field in state.partition_fields:
            continue
        if field.transform in ORDINALS and (other := times.setdefault(field.source, field)) != field:
            message = f"partition_by has {other} and {field}, but Iceberg can add only one time field per column"
            found.append(Diagnostic("ZL226", message, "refused", "keep the finer one, which implies the other"))
        if field.transform != "identity" and state.column(name := spec_name(field)) is not None:
            message = f"partition_by has {field}, which Iceberg would name {name}, but a column has this name"
            found.append(Diagnostic("ZL226", message, "refused", "rename the column, or use another partition key"))
    return tuple(found)


def spec_name(field: PartitionField) -> str:
    """Return the name that Iceberg gives to a new partition field."""
    name, width = transform_name(field), argument(field)
    if name == "identity":
        return field.source
    suffix = "trunc" if name == "truncate" else name
    return f"{field.source}_{suffix}" if width is None else f"{field.source}_{suffix}_{width}"


def needs_row_reader(state: TableState) -> bool:
    """Return whether the table must be read without Iceberg's vectorized reader.

    The vectorized reader (Iceberg 1.12) cannot read shredded variants, and variants in lists and maps.
    """
    return _VARIANT in state.features or has_row_ids_in_orc(state)


def has_names_in_two_cases(state: TableState) -> bool:
    """Return whether names of columns differ only in letter case. Spark then must compare names exactly."""
    parts = [column.name.split(".") for column in state.columns]
    paths = {".".join(names[:count]) for names in parts for count in range(1, len(names) + 1)}
    return len({path.lower() for path in paths}) < len(paths)


def has_row_ids_in_orc(state: TableState) -> bool:
    """Return whether files have row ids that the vectorized reader of ORC files (Iceberg 1.12) reads wrongly.

    It gives all rows of a file the same row id. The write format counts too, because new files may be read back.
    """
    orc = "orc-files" in state.features or state.properties.get("write.format.default", "").lower() == "orc"
    return orc and "row-lineage" in state.features


def refusals(metadata: TableMetadata, data: DataColumns) -> tuple[Diagnostic, ...]:
    """Return ZL221 for encryption, ZL222 for Avro as write format, and ZL227 for columns that Spark cannot read.

    Also ZL240 for data files that the table lists twice, and ZL241 for properties with which Iceberg commits nothing.

    Branches, tags, equality deletes and `write.wap.enabled` are supported, because a rewrite reads whole files with
    their deletes and commits to one branch. A table may have ORC as write format, because ORC files have bounds. Every
    file is rewritten in the write format of the table.
    """
    found = []
    if data.encrypted or "encryption.key-id" in metadata.properties:
        message = "the table is encrypted, and zlayout does not have its keys"
        found.append(("ZL221", message, "rewrite the table with the engine that has the keys"))
    if metadata.properties.get("write.format.default", "parquet").lower() == "avro":
        hint = "set write.format.default to parquet; zlayout then rewrites the Avro files as Parquet"
        found.append(("ZL222", "the table writes Avro files, which have no bounds", hint))
    # pyiceberg puts coordinate reference systems into quotation marks
    types = (each for each in _types(metadata.schema()) if not _IN_SPARK.fullmatch(each[1].replace("'", "")))
    if unread := [f"{name} ({type_})" for name, type_ in types]:
        message = f"Iceberg's Spark module cannot read columns of these types: {', '.join(unread)}"
        found.append(("ZL227", message, "rewrite the table with the engine that writes it"))
    if reserved := [f.name for f in metadata.schema().fields if f.name.lower() in _METADATA_COLUMNS]:
        message = f"Iceberg's Spark module cannot read columns with names of metadata columns: {', '.join(reserved)}"
        found.append(("ZL227", message, "rename them by ALTER TABLE ... RENAME COLUMN, which changes no files"))
    if twice := len(data.path) - len(set(data.path)):
        extra = plural(twice, "entry")
        message = f"data files are in the table more than once ({extra} too many), and so are their rows"
        hint = "replace the rows by INSERT OVERWRITE; Iceberg cannot commit a rewrite of such files"
        found.append(("ZL240", message, hint))
    if unknown := sorted(_metrics_of_other_columns(metadata)):
        message = f"properties with metrics of columns that the table does not have: {', '.join(unknown)}"
        hint = "remove them by ALTER TABLE ... UNSET TBLPROPERTIES; until then, Iceberg refuses to set other properties"
        found.append(("ZL241", message, hint))
    return tuple(Diagnostic(code, message, "refused", hint) for code, message, hint in found)


def _metrics_of_other_columns(metadata: TableMetadata) -> Iterator[str]:
    """`MetricsConfig.validateReferencedColumns` rejects them. pyiceberg (0.12) leaves them if it removes the column."""
    from pyiceberg.schema import index_by_name

    names = index_by_name(metadata.schema())
    prefix = f"{PREFIX}column."
    yield from (key for key in metadata.properties if key.startswith(prefix) and key.removeprefix(prefix) not in names)


def _types(schema: Schema) -> list[tuple[str, str]]:
    """Return the dotted name and the type of each field of a primitive type, including those in lists and maps."""
    from pyiceberg.schema import index_by_id

    leaves = {at: field for at, field in index_by_id(schema).items() if field.field_type.is_primitive}
    return [(schema.find_column_name(at) or field.name, str(field.field_type)) for at, field in leaves.items()]
