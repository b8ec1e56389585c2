"""Filters on partitions as Iceberg expressions, and which partitions such a filter selects."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from zlayout.formats.iceberg.read.partitions import argument, transform_name
from zlayout.table.state import Partition, PartitionField

if TYPE_CHECKING:
    from zlayout.formats.iceberg.write.jvm import IcebergJvm


def selected(partition: Partition, chosen: Iterable[Partition]) -> bool:
    """Return whether `partition_filter(chosen)` selects the files of `partition`.

    Iceberg projects a predicate on a transform onto the partition fields with that source and transform, and selects
    everything if a spec has no such field. So a partition of another spec is not selected only if a shared field
    differs.
    """
    own = dict(zip(partition.fields, partition.values, strict=True))
    for other in chosen:
        pairs = zip(other.fields, other.values, strict=True)
        if all(f not in own or _same(own[f], v) for f, v in pairs):
            return True
    return False


def also_selected(partitions: Sequence[Partition], chosen: Sequence[Partition]) -> list[int]:
    """Return the indexes of the `partitions` that a filter on the `chosen` ones selects, chosen or not."""
    exact = {(p.fields, p.values) for p in chosen}
    specs = {p.fields for p in chosen}
    found = []
    for index, partition in enumerate(partitions):
        same_fields = [p for p in chosen if p.fields != partition.fields] if len(specs) > 1 else []
        others = same_fields if partition.fields in specs else chosen
        if (partition.fields, partition.values) in exact or selected(partition, others):
            found.append(index)
    return found


def leaves_deletes_behind(partitions: Iterable[Partition], spec_id: int) -> bool:
    """Return whether other equality deletes apply to rows of these partitions once they are in files of spec `spec_id`.

    An equality delete applies to the files of its own spec and partition, and to all files if that spec has no fields.
    So the new files must not keep the old sequence number: a concurrent delete of the old spec would seem to apply to
    them, and one of the new spec would apply that did not before. Without the old number, the first is a conflict to
    Iceberg, and the new files are newer than the second.
    """
    return any(partition.spec_id != spec_id for partition in partitions)


def partition_filter(jvm: IcebergJvm, chosen: Sequence[Partition]) -> Any:
    """Return an Iceberg expression that is true for the files of these partitions."""
    make = jvm.iceberg.expressions.Expressions
    by_fields: dict[tuple[PartitionField, ...], list[tuple[Any, ...]]] = {}
    for partition in chosen:
        by_fields.setdefault(partition.fields, []).append(partition.values)
    return _any_of(make, [_for_spec(jvm, fields, rows) for fields, rows in by_fields.items()])


def _for_spec(jvm: IcebergJvm, fields: tuple[PartitionField, ...], rows: list[tuple[Any, ...]]) -> Any:
    make = jvm.iceberg.expressions.Expressions
    if not fields:
        return make.alwaysTrue()
    needed = _without_derived(fields)
    if len(needed) == 1:
        return _any_of(make, _one_field(jvm, fields[needed[0]], list({row[needed[0]]: None for row in rows})))
    return _any_of(make, [_all_equal(jvm, [(fields[i], row[i]) for i in needed]) for row in rows])


def _without_derived(fields: tuple[PartitionField, ...]) -> list[int]:
    """Positions of the fields that are not transforms of a column which is itself a partition key.

    They are redundant beside such a key, and Iceberg (1.12) compares a transform's result with the plain value.
    """
    plain = {f.source for f in fields if f.transform == "identity"}
    return [i for i, f in enumerate(fields) if f.transform == "identity" or f.source not in plain]


def _one_field(jvm: IcebergJvm, field: PartitionField, values: list[Any]) -> list[Any]:
    make = jvm.iceberg.expressions.Expressions
    key = term(jvm, field)
    parts = [make.isNull(key)] if None in values else []
    present = [_java_value(jvm, v) for v in values if v is not None]
    if present:
        parts.append(getattr(make, "in")(key, jvm.list(present)))
    return parts


def _all_equal(jvm: IcebergJvm, keys: list[tuple[PartitionField, Any]]) -> Any:
    make = jvm.iceberg.expressions.Expressions
    whole = make.alwaysTrue()
    for field, value in keys:
        key = term(jvm, field)
        test = make.isNull(key) if value is None else make.equal(key, _java_value(jvm, value))
        whole = getattr(make, "and")(whole, test)
    return whole


def _any_of(make: Any, parts: list[Any]) -> Any:
    """The OR of all parts as a balanced tree, so that thousands of partitions do not nest thousands deep."""
    if not parts:
        return make.alwaysFalse()
    while len(parts) > 1:
        pairs = [parts[i : i + 2] for i in range(0, len(parts), 2)]
        parts = [getattr(make, "or")(*pair) if len(pair) == 2 else pair[0] for pair in pairs]
    return parts[0]


def term(jvm: IcebergJvm, field: PartitionField) -> Any:
    """Return the field's transform as an Iceberg term."""
    name, width = transform_name(field), argument(field)
    make = getattr(jvm.iceberg.expressions.Expressions, "ref" if name == "identity" else name)
    return make(field.source) if width is None else make(field.source, width)


def _java_value(jvm: IcebergJvm, value: Any) -> Any:
    """A literal that Iceberg converts to the column's type; it parses dates, times, decimals and uuids from text."""
    if isinstance(value, (date, datetime, Decimal)):
        return value.isoformat() if isinstance(value, date) else str(value)
    return jvm.java.nio.ByteBuffer.wrap(value) if isinstance(value, bytes) else value


def _same(a: Any, b: Any) -> bool:
    return a is b or a == b
