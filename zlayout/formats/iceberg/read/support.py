"""Determines the features of an Iceberg table, the metrics of its columns, and what zlayout refuses.

`features` returns the table features, `refusals` why a table must not be rewritten, `partition_refusals` which
partition fields Iceberg rejects, `native_diagnostics` which layout settings engine native does not support, and
`MetricsConfig` the columns whose bounds are stored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema, index_by_id, index_by_name
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.sorting import SortOrder
from pyiceberg.transforms import UnknownTransform
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from zlayout.errors import Diagnostic
from zlayout.formats.iceberg.read.manifests import EQUALITY_DELETES, DataColumns
from zlayout.formats.iceberg.read.schema import ORDINALS, argument, iceberg_name, transform_name
from zlayout.spec.model import Layout
from zlayout.table.state import LONG_BOUND, Partition, PartitionField, TableState
from zlayout.text import path_of, plural

# The columns for which Iceberg's writers store bounds, and how they truncate them (`MetricsConfig`).
#
# `write.metadata.metrics.default` applies to all columns. If it is not set, only the first 100 leaf columns of a
# schema have metrics (`write.metadata.metrics.max-inferred-column-defaults`). Columns of the table's sort order whose
# transform preserves the order have bounds in both cases. `write.metadata.metrics.column.<name>` overrides all this
# for one column.


PREFIX = "write.metadata.metrics."
DEFAULT_LENGTH = 16  # characters
DEFAULT_MAX_COLUMNS = 100
_TRUNCATE = re.compile(r"truncate\((\d+)\)")


@dataclass(frozen=True, slots=True)
class MetricsMode:
    """Whether writers store the bounds of a column, and the length to which they truncate them, None for no limit."""

    bounds: bool
    length: int | None = None


DEFAULT = MetricsMode(True, DEFAULT_LENGTH)
NO_BOUNDS = MetricsMode(False)


def parse_mode(text: str, default: MetricsMode) -> MetricsMode:
    """Parse `none`, `counts`, `full` or `truncate(n)`. Returns the default for an invalid mode, as Iceberg does."""
    word = text.strip().lower()
    match = _TRUNCATE.fullmatch(word)
    if match and int(match[1]) > 0:
        return MetricsMode(True, int(match[1]))
    return {"none": NO_BOUNDS, "counts": NO_BOUNDS, "full": MetricsMode(True)}.get(word, default)


class MetricsConfig:
    """Determines the metrics mode of each column from the table properties."""

    def __init__(self, properties: Mapping[str, str], schema: Schema, order: SortOrder) -> None:
        self._properties = properties
        self._schema = schema
        self._default = parse_mode(properties.get(PREFIX + "default", ""), DEFAULT)
        declared = properties.get(PREFIX + "max-inferred-column-defaults", "")
        limit = int(declared) if declared.strip().isdecimal() else DEFAULT_MAX_COLUMNS
        first = frozenset(islice(_level_order(schema.as_struct()), limit))
        self._inferred = None if PREFIX + "default" in properties else first
        self._sorted = {field.source_id for field in order.fields if field.transform.preserves_order}

    def mode(self, field_id: int) -> MetricsMode:
        """Return the metrics mode of a leaf column."""
        default = self._default
        if self._inferred is not None and field_id not in self._inferred:
            default = NO_BOUNDS
        if field_id in self._sorted and not default.bounds:
            default = DEFAULT
        return parse_mode(self._properties.get(self._property(field_id), ""), default)

    def enable(self, field_id: int, *, long: bool = False) -> tuple[tuple[str, str], ...]:
        """Return the properties with which writers store bounds of a column, of LONG_BOUND characters if `long`."""
        return ((self._property(field_id), f"truncate({LONG_BOUND if long else DEFAULT_LENGTH})"),)

    def lengthen(self, field_id: int) -> tuple[tuple[str, str], ...]:
        """Return the properties for bounds of LONG_BOUND characters, empty if bounds are at least as long."""
        length = self.mode(field_id).length
        return () if length is None or length >= LONG_BOUND else self.enable(field_id, long=True)

    def _property(self, field_id: int) -> str:
        return f"{PREFIX}column.{self._schema.find_column_name(field_id)}"


def truncated_lengths(mode: MetricsMode) -> frozenset[int]:
    """Return the lengths that truncated bounds may have.

    If the declared length is greater than the default, files that were written earlier may have the default length.
    """
    if mode.length is None or mode.length > DEFAULT_LENGTH:
        return frozenset({DEFAULT_LENGTH} | ({mode.length} if mode.length else set()))
    return frozenset({mode.length})


def _level_order(struct: StructType) -> Iterator[int]:
    """Yield the ids of leaf columns. The columns of a struct come before those of nested structs."""
    for field in struct.fields:
        if field.field_type.is_primitive:
            yield field.field_id
    for field in struct.fields:
        match field.field_type:
            case StructType() as inner:
                yield from _level_order(inner)
            case ListType() as inner:
                yield from _members((inner.element_id, inner.element_type))
            case MapType() as inner:
                yield from _members((inner.key_id, inner.key_type), (inner.value_id, inner.value_type))


def _members(*members: tuple[int, IcebergType]) -> Iterator[int]:
    # The element of a list, and key and value of a map, count like the fields of a struct.
    yield from _level_order(StructType(*(NestedField(i, f"f{i}", type_, required=False) for i, type_ in members)))


# The features of a table, and what is refused.


_VARIANT = "variant"
EMPTY_MAIN = "main-without-snapshot"
# The types that Iceberg's Spark module (1.12 for Spark 4.1) reads. Spark knows few coordinate reference systems.
_IN_SPARK = re.compile(
    r"boolean|int|long|float|double|decimal\(.*\)|date|timestamp|timestamptz|string|uuid|fixed\[.*\]|binary|variant|unknown|"
    r"geometry(\((OGC:CRS84|EPSG:3857|SRID:0)\))?|geography(\(OGC:CRS84(, ?spherical)?\))?"
)
# `MetadataColumns` of Iceberg 1.12. A rewrite reads `_file` and `_pos`.
_METADATA_COLUMNS = ("_file", "_pos", "_deleted", "_spec_id", "_partition", "_row_id", "_last_updated_sequence_number")
# The only property of `TableProperties` in Iceberg 1.12 that names a class.
LOCATION_PROVIDER = "write.location-provider.impl"


def can_rebase(metadata: TableMetadata) -> bool:
    """Return whether other writers write deletes by position, and equal rows can be recognized: see `TableState`."""
    modes = (metadata.properties.get(f"write.{change}.mode", "") for change in ("delete", "update", "merge"))
    merges_on_read = metadata.format_version > 1 and all(mode.lower() == "merge-on-read" for mode in modes)
    return merges_on_read and not any(type_ == _VARIANT for _, type_ in _types(metadata.schema()))


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
    names = {iceberg_name(column.name) for column in state.columns}
    for field in fields:
        if field in state.partition_fields:
            continue
        if field.transform in ORDINALS and (other := times.setdefault(field.source, field)) != field:
            message = f"partition_by has {other} and {field}, but Iceberg can add only one time field per column"
            found.append(Diagnostic("ZL226", message, "refused", "keep the finer one, which implies the other"))
        if field.transform != "identity" and (name := spec_name(field)) in names:
            message = f"partition_by has {field}, which Iceberg would name {name}, but a column has this name"
            found.append(Diagnostic("ZL226", message, "refused", "rename the column, or use another partition key"))
    return tuple(found)


def spec_name(field: PartitionField) -> str:
    """Return the name that Iceberg gives to a new partition field."""
    name, width, source = transform_name(field), argument(field), iceberg_name(field.source)
    if name == "identity":
        return source
    suffix = "trunc" if name == "truncate" else name
    return f"{source}_{suffix}" if width is None else f"{source}_{suffix}_{width}"


def needs_row_reader(state: TableState) -> bool:
    """Return whether the table must be read without Iceberg's vectorized reader.

    The vectorized reader (Iceberg 1.12) cannot read shredded variants, and variants in lists and maps.
    """
    return _VARIANT in state.features or has_row_ids_in_orc(state)


def empty_main(table: str) -> Diagnostic:
    message = f"{table}: rewrite_data_files does nothing while main has no snapshot, so engine native cannot be used"
    return Diagnostic("ZL229", message, "refused", "use engine zlayout, or commit to main first")


def unreadable_row_ids(table: str) -> Diagnostic:
    """Return the refusal of a table of which `has_row_ids_in_orc` is true, for Spark before version 4.1."""
    message = f"{table} has row ids and ORC files, whose row ids Iceberg for this version of Spark cannot read"
    hint = "use Spark 4.1, or set write.format.default to parquet and rewrite the ORC files with Spark 4.1"
    return Diagnostic("ZL228", message, "refused", hint)


def has_names_in_two_cases(state: TableState) -> bool:
    """Return whether names of columns differ only in letter case. Spark then must compare names exactly."""
    parts = [path_of(column.name) for column in state.columns]
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

    Also ZL240 for data files that the table lists twice, ZL241 for properties with which Iceberg commits nothing, ZL243
    for a class that Iceberg would load, and ZL246 for partition transforms that Iceberg does not know.

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
    if transforms := [*_unknown_transforms(metadata)]:
        message = f"Iceberg cannot write to partitions with transforms that it does not know: {', '.join(transforms)}"
        found.append(("ZL246", message, "rewrite the table with the engine that writes it"))
    return (*(Diagnostic(*each[:2], "refused", each[2]) for each in found), *class_refusals(metadata.properties))


def class_refusals(properties: Mapping[str, str]) -> tuple[Diagnostic, ...]:
    """Return ZL243 if table properties name a class that Iceberg for Java loads when it reads or writes files."""
    if LOCATION_PROVIDER not in properties:
        return ()
    message = f"property {LOCATION_PROVIDER} names a Java class, which zlayout does not let a table choose"
    hint = "remove the property, or rewrite the table with the engine that has the class"
    return (Diagnostic("ZL243", message, "refused", hint),)


def _unknown_transforms(metadata: TableMetadata) -> Iterator[str]:
    for field in metadata.spec().fields:
        if isinstance(field.transform, UnknownTransform):
            source = metadata.schema().find_column_name(field.source_id) or field.source_id
            yield f"{field.name} by {field.transform._transform}({source})"


def _metrics_of_other_columns(metadata: TableMetadata) -> Iterator[str]:
    """`MetricsConfig.validateReferencedColumns` rejects them. pyiceberg (0.12) leaves them if it removes the column."""
    names = index_by_name(metadata.schema())
    prefix = f"{PREFIX}column."
    yield from (key for key in metadata.properties if key.startswith(prefix) and key.removeprefix(prefix) not in names)


def _types(schema: Schema) -> list[tuple[str, str]]:
    leaves = {at: field for at, field in index_by_id(schema).items() if field.field_type.is_primitive}
    return [(schema.find_column_name(at) or field.name, str(field.field_type)) for at, field in leaves.items()]


# What engine native, the action of `rewrite_data_files`, does not support.


CURVES = frozenset({"zorder", "hilbert", "linear"})
DEFAULT_RANGE_IDS = 1000


def native_diagnostics(layout: Layout) -> tuple[Diagnostic, ...]:
    """Return ZL401 for each layout setting that `rewrite_data_files` does not support."""
    if not layout.orders:  # see `unordered_columns`
        return ()
    other_ids = layout.range_ids != DEFAULT_RANGE_IDS and layout.curve != "linear"
    weighs = any(c.weight != 1.0 for c in layout.columns)
    unsupported = (
        (layout.curve not in CURVES, f"zorder.curve {layout.curve}: it uses zorder instead"),
        (other_ids, f"zorder.range_ids {layout.range_ids}: it interleaves the bytes of the values"),
        (layout.noise, "zorder.noise true: it keeps equal keys together"),
        (weighs, "weights of zorder.columns: it gives every column the same weight"),
        (not layout.sort_within, "files.sort_within false: it always sorts within files"),
    )
    return tuple(
        Diagnostic("ZL401", f"engine native on Iceberg does not support {what}", "note", "use engine zlayout")
        for declared, what in unsupported
        if declared
    )


def unordered_columns(layout: Layout, state: TableState) -> list[Diagnostic]:
    """Return ZL223 for each column that the curve cannot order, and for a layout without z-order columns.

    Curve `linear` is a sort, which can order every column.
    """
    found: list[Diagnostic] = []
    if not layout.orders:
        message = "engine native on Iceberg is not supported without zorder"
        found.append(Diagnostic("ZL223", message, "refused", "use engine zlayout, which combines small files"))
    if layout.curve == "linear":
        return found
    for zorder in layout.columns:
        column = state.column(zorder.name)
        if column is None:
            continue
        path = path_of(column.name)
        why = "which is a decimal" if str(column.type).startswith("decimal") else "which is nested" if path[1:] else ""
        why = why or ("whose name contains a dot" if "." in path[0] else "")
        if why:
            message = f"Iceberg's own {native_order(layout)} cannot order by {column.name}, {why}"
            found.append(Diagnostic("ZL223", message, "refused", "use engine zlayout, or curve linear"))
    return found


def native_order(layout: Layout) -> str:
    return {"linear": "sort", "hilbert": "hilbert"}.get(layout.curve, "zorder")


def selected(partition: Partition, chosen: Iterable[Partition]) -> bool:
    """Return whether `partition_filter(chosen)` of engine native selects the files of `partition`.

    Iceberg evaluates a condition on a transform by the partition field with the same source and transform. If a spec
    has no such field, Iceberg assumes that the condition is true. Therefore a partition of another spec is selected
    unless one of the shared fields has another value.
    """
    own = dict(zip(partition.fields, partition.values, strict=True))
    for other in chosen:
        pairs = zip(other.fields, other.values, strict=True)
        if all(f not in own or _same(own[f], v) for f, v in pairs):
            return True
    return False


def also_selected(partitions: Sequence[Partition], chosen: Sequence[Partition]) -> list[int]:
    """Return the indexes of all `partitions` that `partition_filter(chosen)` of engine native selects."""
    exact = {(p.fields, p.values) for p in chosen}
    # a chosen partition with the same fields as a partition selects it only if the values are equal too
    others = {fields: [p for p in chosen if p.fields != fields] for fields in {p.fields for p in chosen}}
    return [
        index
        for index, p in enumerate(partitions)
        if (p.fields, p.values) in exact or selected(p, others.get(p.fields, chosen))
    ]


def _same(a: Any, b: Any) -> bool:
    """Return whether two partition values are equal, as in a comparison of tuples: NaN equals only the same object."""
    return a is b or a == b


def outside_files(state: TableState, chosen: Sequence[Partition], planned: pa.Array) -> Iterator[Diagnostic]:
    """Yield ZL224 if the filter of engine native also selects files that are not planned.

    Args:
        state: The observed table.
        chosen: The partitions that are planned.
        planned: string[files], the paths of the planned files.
    """
    inside = pa.array(np.isin(state.files.partition, also_selected(state.files.partitions, chosen)))
    known = pc.is_in(state.files.path, planned.cast(state.files.path.type))
    if outside := pc.sum(pc.and_not(inside, known)).as_py():
        message = f"engine native rewrites whole partitions, and {outside} files in them are not part of this work"
        hint = "use engine zlayout, or plan all files of these partitions and of older partition specs"
        yield Diagnostic("ZL224", message, "refused", hint)
