"""Converts schemas, partition specs, partition values and bounds of an Iceberg table to those of `zlayout.table`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyiceberg.partitioning import PartitionField as SpecField
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import (
    DecimalType,
    FixedType,
    IcebergType,
    ListType,
    MapType,
    NestedField,
    PrimitiveType,
    StructType,
)

from zlayout.table.partition_values import far_date, far_time
from zlayout.table.state import ColumnBounds, Int64, Partition, PartitionField
from zlayout.text import dotted, path_of

# The bounds of a column, decoded to typed Arrow arrays.
#
# The serialization is that of appendix D of the Iceberg spec: little-endian numbers of fixed width, UTF-8 strings, and
# decimals as the big-endian two's complement of the unscaled value in the minimum number of bytes. A file that was
# written before the type of its column was widened (int to long, float to double, date to timestamp) has bounds of the
# narrow type.


Bytes = Sequence[bytes | None]


def column_bounds(
    lower: Bytes, upper: Bytes, null_count: Int64, type_: pa.DataType, truncated_lengths: frozenset[int]
) -> ColumnBounds:
    """Decode the bounds of one column.

    Args:
        lower: The serialized lower bounds, None if missing.
        upper: The serialized upper bounds, None if missing.
        null_count: int64[files], -1 if unknown.
        truncated_lengths: The lengths of bounds that count as truncated, in characters, or in bytes for binary.
    """
    low, high = decode(lower, type_), decode(upper, type_)
    truncated = _truncated_mask(low, truncated_lengths) | _truncated_mask(high, truncated_lengths)
    return ColumnBounds(low, high, null_count, truncated)


def decode(values: Bytes, type_: pa.DataType) -> pa.Array:
    """Return the values as an array of `type_`. A value that is None or invalid for the type is null."""
    if pa.types.is_string(type_):
        return _strings(values)
    if pa.types.is_binary(type_):
        return pa.array(values, pa.binary())
    if pa.types.is_decimal(type_):
        return _decimals(values, type_)
    if pa.types.is_boolean(type_):
        return pa.array([None if v is None or len(v) != 1 else v != b"\x00" for v in values], pa.bool_())
    return _numbers(values, type_)


def _numbers(values: Bytes, type_: pa.DataType) -> pa.Array:
    width = type_.bit_width // 8
    found = _of_width(values, width, type_)
    if width == 8 and any(value is not None and len(value) == 4 for value in values):
        if pa.types.is_floating(type_):
            narrow = _of_width(values, 4, pa.float32()).cast(type_)
        elif pa.types.is_timestamp(type_):
            narrow = _of_width(values, 4, pa.date32()).cast(pa.timestamp(type_.unit), safe=False).view(type_)
        else:
            narrow = _of_width(values, 4, pa.int32()).cast(pa.int64()).view(type_)
        found = pc.coalesce(found, narrow)
    return found


def _of_width(values: Bytes, width: int, type_: pa.DataType) -> pa.Array:
    return pa.array([v if v is not None and len(v) == width else None for v in values], pa.binary(width)).view(type_)


def _decimals(values: Bytes, type_: pa.DataType) -> pa.Array:
    """Sign-extend each value to the 16 little-endian bytes of decimal128."""
    lengths = np.fromiter((-1 if v is None else len(v) for v in values), np.int64, len(values))
    valid = (lengths >= 1) & (lengths <= 16)
    words = np.zeros((len(values), 16), np.uint8)
    for length in {int(n) for n in np.unique(lengths[valid])}:
        rows = np.flatnonzero(lengths == length)
        raw = np.frombuffer(b"".join(values[i] or b"" for i in rows.tolist()), np.uint8).reshape(-1, length)
        words[rows] = np.where(raw[:, :1] >= 0x80, np.uint8(0xFF), np.uint8(0))
        words[rows, :length] = raw[:, ::-1]
    bitmap = pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())
    return pa.Array.from_buffers(type_, len(values), [bitmap, pa.py_buffer(words.tobytes())])


def _strings(values: Bytes) -> pa.Array:
    try:
        return pa.array(values, pa.binary()).cast(pa.string())
    except pa.ArrowInvalid:  # a writer truncated a bound within a character; such a bound counts as missing
        return pa.array([None if v is None else _text(v) for v in values], pa.string())


def _text(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def _truncated_mask(bounds: pa.Array, truncated_lengths: frozenset[int]) -> NDArray[np.bool_]:
    if pa.types.is_string(bounds.type):
        lengths = pc.utf8_length(bounds)
    elif pa.types.is_binary(bounds.type):
        lengths = pc.binary_length(bounds)
    else:
        return np.zeros(len(bounds), np.bool_)
    return np.isin(lengths.fill_null(-1).to_numpy(zero_copy_only=False), list(truncated_lengths))


# Types, columns and partitions.


# The transforms of dates and times. Their values are numbers of years, months, days or hours since 1970.
ORDINALS = frozenset({"year", "month", "day", "hour"})
_EPOCH = date(1970, 1, 1)
_EPOCH_TIME = datetime(1970, 1, 1)
_ARROW_TYPES = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", tz="UTC"),
    "timestamp_ns": pa.timestamp("ns"),
    "timestamptz_ns": pa.timestamp("ns", tz="UTC"),
    "string": pa.string(),
    "uuid": pa.binary(),
    "binary": pa.binary(),
}


def arrow_type(iceberg: IcebergType) -> tuple[pa.DataType, bool]:
    """Return the Arrow type of a column's bounds, and whether the type is orderable.

    uuid and fixed are converted to pa.binary(). Lists, maps, structs and all other types, which are converted to
    pa.null(), are not orderable.
    """
    match iceberg:
        case DecimalType():
            return pa.decimal128(iceberg.precision, iceberg.scale), True
        case FixedType():
            return pa.binary(), True
        case ListType():
            return pa.list_(arrow_type(iceberg.element_type)[0]), False
        case MapType():
            return pa.map_(arrow_type(iceberg.key_type)[0], arrow_type(iceberg.value_type)[0]), False
        case StructType():
            return pa.struct([(f.name, arrow_type(f.field_type)[0]) for f in iceberg.fields]), False
        case PrimitiveType() if str(iceberg) in _ARROW_TYPES:
            return _ARROW_TYPES[str(iceberg)], True
        case _:
            return pa.null(), False


def leaf_fields(fields: Iterable[NestedField], above: tuple[str, ...] = ()) -> Iterator[tuple[str, NestedField]]:
    """Yield name and field of each leaf column in schema order. Lists and maps are leaves."""
    for field in fields:
        path = (*above, field.name)
        if isinstance(field.field_type, StructType):
            yield from leaf_fields(field.field_type.fields, path)
        else:
            yield dotted(path), field


def leaf_names(schema: Schema) -> dict[int, str]:
    """Return the name of each leaf column by its field id."""
    return {field.field_id: name for name, field in leaf_fields(schema.fields)}


def iceberg_name(column: str) -> str:
    """Return the name by which Iceberg knows a column of a table state: it joins names with dots and quotes nothing.

    The names remain unique, because Iceberg rejects a schema with two columns of one such name.
    """
    return ".".join(path_of(column))


def mapped_names(table: Table) -> dict[str, int]:
    """Return the field ids of the names that columns have in files without field ids, from the table's name mapping.

    The names are dotted. A column that was renamed has several names. Without a name mapping, there are none.
    """
    mapping = table.name_mapping()
    if mapping is None:
        return {}
    return {name: field.field_id for name, field in mapping._field_by_name.items() if field.field_id is not None}


def schema_with(field_id: int, schema: Schema, metadata: TableMetadata) -> Schema | None:
    """Return `schema` if it has the field, else the newest schema of the table that has it; None if none has it."""
    every = (schema, *reversed(metadata.schemas))
    return next((known for known in every if known.find_column_name(field_id) is not None), None)


def spec_fields(spec: PartitionSpec, schema: Schema) -> tuple[PartitionField, ...]:
    """Return the partition fields of a spec, without fields of transform void."""
    names = leaf_names(schema)
    return tuple(
        PartitionField(names.get(f.source_id) or dotted([f.name]), str(f.transform)) for _, f in _live_fields(spec)
    )


def unpartitioned_specs(metadata: TableMetadata) -> frozenset[int]:
    """Return the ids of partition specs that only have fields of transform void, or no fields.

    Iceberg treats their files as unpartitioned: their equality deletes apply to data files of all specs. Tables of
    format version 1 keep a removed field with transform void.
    """
    return frozenset(spec.spec_id for spec in metadata.partition_specs if not _live_fields(spec))


def read_partitions(
    raw: Iterable[tuple[int, tuple[Any, ...]]], metadata: TableMetadata, schema: Schema
) -> tuple[Partition, ...]:
    """Return partitions without fields of transform void.

    The source of a field is the name of the column in `schema`, or its last name if the column was dropped.

    Args:
        raw: The ids of partition specs, with the partition values as manifest entries have them.
    """
    specs = {}
    for spec in metadata.partition_specs:
        live = [(i, f, schema_with(f.source_id, schema, metadata) or schema) for i, f in _live_fields(spec)]
        names = (leaf_names(known).get(f.source_id) or dotted([f.name]) for _, f, known in live)
        fields = tuple(PartitionField(name, str(f.transform)) for name, (_, f, _) in zip(names, live, strict=True))
        specs[spec.spec_id] = fields, [(i, _converter(f, known)) for i, f, known in live]
    found = []
    for spec_id, values in raw:
        fields, slots = specs[spec_id]
        own = tuple(None if values[i] is None else convert(values[i]) for i, convert in slots)
        found.append(Partition(spec_id, fields, own))
    return tuple(found)


def _live_fields(spec: PartitionSpec) -> list[tuple[int, SpecField]]:
    return [(i, field) for i, field in enumerate(spec.fields) if str(field.transform) != "void"]


def transform_name(field: PartitionField) -> str:
    """Return the name of the field's transform without its argument: `bucket` for `bucket[16]`."""
    return field.transform.partition("[")[0]


def argument(field: PartitionField) -> int | None:
    """Return the argument of the field's transform, None if it has none: 16 for `bucket[16]`."""
    text = field.transform.partition("[")[2].rstrip("]")
    return int(text) if text else None


def _converter(field: SpecField, schema: Schema) -> Callable[[Any], Any]:
    transform = str(field.transform)
    if transform in ORDINALS or transform.startswith("bucket") or schema.find_column_name(field.source_id) is None:
        return _as_is
    return _CONVERTERS.get(str(schema.find_type(field.source_id)), _as_is)


def _as_is(value: Any) -> Any:
    return str(value) if isinstance(value, UUID) else value


def _date(days: Any) -> Any:
    try:
        return days if isinstance(days, date) else _EPOCH + timedelta(days=days)
    except OverflowError:
        return far_date(days)


def _timestamp(micros: Any) -> Any:
    try:
        return _EPOCH_TIME + timedelta(microseconds=micros)
    except OverflowError:
        return far_time(micros, utc=False)


def _timestamptz(micros: Any) -> Any:
    try:
        return (_EPOCH_TIME + timedelta(microseconds=micros)).replace(tzinfo=UTC)
    except OverflowError:
        return far_time(micros, utc=True)


_CONVERTERS: dict[str, Callable[[Any], Any]] = {"date": _date, "timestamp": _timestamp, "timestamptz": _timestamptz}
