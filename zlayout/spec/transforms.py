"""The types that each partition transform can be applied to ("Partition Transforms" of the Iceberg specification)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zlayout.table.partition import PartitionField

if TYPE_CHECKING:
    import pyarrow as pa

_WHOLE, _TEXT = ("int32", "int64", "decimal"), ("string", "binary")
_WITHOUT_ORDER = ("list", "struct", "map", "null")  # null is used for types without an order
_TYPES = {
    "year": ("date", "timestamp"),
    "month": ("date", "timestamp"),
    "day": ("date", "timestamp"),
    "hour": ("timestamp",),
    "truncate": (*_WHOLE, *_TEXT),
    "bucket": (*_WHOLE, *_TEXT, "date", "time"),
}


def applies_to(field: PartitionField, type: pa.DataType) -> bool:
    """Whether the transform of the field can be applied to a column of this type."""
    transform, name = field.transform.partition("[")[0], str(type)
    return not name.startswith(_WITHOUT_ORDER) if transform == "identity" else name.startswith(_TYPES[transform])
