"""Converts partition specs and partition values of an Iceberg table to the types of `zlayout.table.state`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from zlayout.table.python_values import far_date, far_time
from zlayout.table.state import Partition, PartitionField

if TYPE_CHECKING:
    from pyiceberg.partitioning import PartitionField as SpecField
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata

ORDINALS = frozenset({"year", "month", "day", "hour"})
_EPOCH = date(1970, 1, 1)
_EPOCH_TIME = datetime(1970, 1, 1)

_Convert = Callable[[Any], Any]


class PartitionReader:
    """Converts a spec id and the partition values of a manifest entry to a `Partition` without void fields."""

    def __init__(self, metadata: TableMetadata, schema: Schema) -> None:
        self._metadata = metadata
        self._schema = schema
        self._specs: dict[int, tuple[tuple[PartitionField, ...], tuple[tuple[int, _Convert], ...]]] = {}

    def partition(self, spec_id: int, raw: tuple[Any, ...]) -> Partition:
        fields, slots = self._spec(spec_id)
        return Partition(spec_id, fields, tuple(None if raw[i] is None else convert(raw[i]) for i, convert in slots))

    def _spec(self, spec_id: int) -> tuple[tuple[PartitionField, ...], tuple[tuple[int, _Convert], ...]]:
        if spec_id not in self._specs:
            spec = next(s for s in self._metadata.partition_specs if s.spec_id == spec_id)
            live = [(i, field) for i, field in enumerate(spec.fields) if str(field.transform) != "void"]
            fields = tuple(PartitionField(self._source_name(f), str(f.transform)) for _, f in live)
            self._specs[spec_id] = (fields, tuple((i, self._converter(f)) for i, f in live))
        return self._specs[spec_id]

    def _source_name(self, field: SpecField) -> str:
        """Return the current name of the source column, or its last name if it was dropped."""
        for schema in (self._schema, *reversed(self._metadata.schemas)):
            name = schema.find_column_name(field.source_id)
            if name is not None:
                return name
        return field.name

    def _converter(self, field: SpecField) -> _Convert:
        transform = str(field.transform)
        if transform in ORDINALS or transform.startswith("bucket"):
            return _as_is
        for schema in (self._schema, *reversed(self._metadata.schemas)):
            if schema.find_column_name(field.source_id) is not None:
                return _CONVERTERS.get(str(schema.find_type(field.source_id)), _as_is)
        return _as_is


def spec_fields(spec: PartitionSpec, schema: Schema) -> tuple[PartitionField, ...]:
    """Return the partition fields of a spec, without fields of transform void."""
    return tuple(
        PartitionField(schema.find_column_name(f.source_id) or f.name, str(f.transform))
        for f in spec.fields
        if str(f.transform) != "void"
    )


def transform_name(field: PartitionField) -> str:
    """Return the name of the field's transform without its argument: `bucket` for `bucket[16]`."""
    return field.transform.partition("[")[0]


def argument(field: PartitionField) -> int | None:
    """Return the argument of the field's transform, None if it has none: 16 for `bucket[16]`."""
    text = field.transform.partition("[")[2].rstrip("]")
    return int(text) if text else None


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


_CONVERTERS: dict[str, _Convert] = {"date": _date, "timestamp": _timestamp, "timestamptz": _timestamptz}
