"""Which types a partition transform can be applied to ("Partition Transforms" of the Iceberg specification)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zlayout.table.partition import PartitionField

if TYPE_CHECKING:
    import pyarrow as pa

_WHOLE, _TEXT = ("int32", "int64", "decimal"), ("string", "binary")
_NESTED = ("list", "struct", "map", "null")  # null: a type of Delta that has no order
_TAKES = {
    "year": ("date", "timestamp"),
    "month": ("date", "timestamp"),
    "day": ("date", "timestamp"),
    "hour": ("timestamp",),
    "truncate": (*_WHOLE, *_TEXT),
    "bucket": (*_WHOLE, *_TEXT, "date", "time"),
}


def takes(field: PartitionField, type: pa.DataType) -> bool:
    """Whether the transform of the field can be applied to a column of this type."""
    name, kind = field.transform.partition("[")[0], str(type)
    return not kind.startswith(_NESTED) if name == "identity" else kind.startswith(_TAKES[name])
