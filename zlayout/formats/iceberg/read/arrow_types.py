"""Converts Iceberg types to Arrow types, and lists the leaf columns of a schema with their dotted names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.types import IcebergType, NestedField

_BY_NAME = {
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
    from pyiceberg.types import DecimalType, FixedType, ListType, MapType, PrimitiveType, StructType

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
        case PrimitiveType() if str(iceberg) in _BY_NAME:
            return _BY_NAME[str(iceberg)], True
        case _:
            return pa.null(), False


def leaf_fields(schema: Schema) -> Iterator[tuple[str, NestedField]]:
    """Yield dotted name and field of each leaf column in schema order. Lists and maps are leaves."""
    yield from _leaves("", schema.fields)


def _leaves(prefix: str, fields: tuple[NestedField, ...]) -> Iterator[tuple[str, NestedField]]:
    from pyiceberg.types import StructType

    for field in fields:
        name = f"{prefix}{field.name}"
        if isinstance(field.field_type, StructType):
            yield from _leaves(f"{name}.", field.field_type.fields)
        else:
            yield name, field
