"""Converts partitions to Iceberg expressions, and determines which partitions such an expression selects."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date, datetime
from decimal import Decimal
from math import isnan
from typing import TYPE_CHECKING, Any

from zlayout.formats.iceberg.read.schema import argument, transform_name
from zlayout.table.state import Partition, PartitionField

if TYPE_CHECKING:
    from zlayout.formats.iceberg.write.jvm import IcebergJvm


def selected(partition: Partition, chosen: Iterable[Partition]) -> bool:
    """Return whether `partition_filter(chosen)` selects the files of `partition`.

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
    """Return the indexes of all `partitions` that `partition_filter(chosen)` selects."""
    exact = {(p.fields, p.values) for p in chosen}
    # a chosen partition with the same fields as a partition selects it only if the values are equal too
    others = {fields: [p for p in chosen if p.fields != fields] for fields in {p.fields for p in chosen}}
    return [
        index
        for index, p in enumerate(partitions)
        if (p.fields, p.values) in exact or selected(p, others.get(p.fields, chosen))
    ]


def changes_partition_spec(partitions: Iterable[Partition], spec_id: int) -> bool:
    """Return whether a rewrite into partition spec `spec_id` changes the spec of some partitions.

    An equality delete applies to files of its own spec and partition, or to all files if its spec has no fields. If
    rows move to files of another spec, other equality deletes apply to them. Therefore the new files must not keep the
    data sequence number of the old files. With a new number, Iceberg reports a concurrent delete of the old spec as a
    conflict, and a concurrent delete of the new spec does not apply to the new files.
    """
    return any(partition.spec_id != spec_id for partition in partitions)


def partition_filter(jvm: IcebergJvm, chosen: Sequence[Partition]) -> Any:
    """Return an Iceberg expression that selects the files of these partitions. See `selected` for other files."""
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
    """Return the positions of the fields without transforms of an identity field, whose condition is redundant."""
    # Iceberg (1.12) would compare the result of the transform with the plain value.
    plain = {f.source for f in fields if f.transform == "identity"}
    return [i for i, f in enumerate(fields) if f.transform == "identity" or f.source not in plain]


def _one_field(jvm: IcebergJvm, field: PartitionField, values: list[Any]) -> list[Any]:
    make = jvm.iceberg.expressions.Expressions
    key = term(jvm, field)
    comparable = [v for v in values if v is not None and not _is_nan(v)]
    parts = [_equal(jvm, key, v) for v in values if v is None or _is_nan(v)]
    if comparable:
        parts.append(getattr(make, "in")(key, jvm.list([_java_value(jvm, v) for v in comparable])))
    return parts


def _all_equal(jvm: IcebergJvm, keys: list[tuple[PartitionField, Any]]) -> Any:
    make = jvm.iceberg.expressions.Expressions
    whole = make.alwaysTrue()
    for field, value in keys:
        whole = getattr(make, "and")(whole, _equal(jvm, term(jvm, field), value))
    return whole


def _equal(jvm: IcebergJvm, key: Any, value: Any) -> Any:
    """Return an expression for the equality of a term and a partition value. Iceberg has no literals for NaN."""
    make = jvm.iceberg.expressions.Expressions
    if value is None:
        return make.isNull(key)
    return make.isNaN(key) if _is_nan(value) else make.equal(key, _java_value(jvm, value))


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and isnan(value)


def _any_of(make: Any, parts: list[Any]) -> Any:
    """Return the OR of all parts as a balanced tree, so that the depth is logarithmic in the number of partitions."""
    if not parts:
        return make.alwaysFalse()
    while len(parts) > 1:
        pairs = [parts[i : i + 2] for i in range(0, len(parts), 2)]
        parts = [getattr(make, "or")(*pair) if len(pair) == 2 else pair[0] for pair in pairs]
    return parts[0]


def term(jvm: IcebergJvm, field: PartitionField) -> Any:
    """Return a partition field as an Iceberg term: a reference to its source, or a transform of it."""
    name, width = transform_name(field), argument(field)
    make = getattr(jvm.iceberg.expressions.Expressions, "ref" if name == "identity" else name)
    return make(field.source) if width is None else make(field.source, width)


def _java_value(jvm: IcebergJvm, value: Any) -> Any:
    """Return a literal that Iceberg can convert to the column's type. It parses dates and decimals from strings."""
    if isinstance(value, (date, datetime, Decimal)):
        return value.isoformat() if isinstance(value, date) else str(value)
    return jvm.java.nio.ByteBuffer.wrap(value) if isinstance(value, bytes) else value


def _same(a: Any, b: Any) -> bool:
    """Return whether two partition values are equal, as in a comparison of tuples: NaN equals only the same object."""
    return a is b or a == b
