"""Partition fields and partitions. The module imports neither numpy nor pyarrow, so that specs are read quickly."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class PartitionField:
    """A source column and a transform of it.

    Attributes:
        source: The dotted name of the column.
        transform: Iceberg's name of the transform: identity, year, month, day, hour, void, bucket[n] or truncate[n].
            Delta has only identity.
    """

    source: str
    transform: str = "identity"

    def __str__(self) -> str:
        if self.transform == "identity":
            return self.source
        name, _, argument = self.transform.partition("[")
        return f"{name}({argument.rstrip(']')}, {self.source})" if argument else f"{name}({self.source})"


def source_columns(fields: Iterable[PartitionField]) -> tuple[str, ...]:
    """Return the source columns of the fields, without those of `void`, which give every row the same value."""
    return tuple(field.source for field in fields if field.transform != "void")


class FarTime(str):
    """A date or time outside of the years 1 to 9999, which Python has no value for, as a string in ISO 8601.

    The year has a sign, as in `+10000-01-01`. Such a value is not compared with other values.
    """

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition that has files.

    Attributes:
        spec_id: The id of the partition spec that its files were written with.
        fields: The fields of this partition spec.
        values: For each field the result of its transform as a Python value (str, int, bool, Decimal, date, datetime,
            FarTime, bytes or None). For year, month, day and hour it is Iceberg's ordinal (int), counted from 1970.
    """

    spec_id: int
    fields: tuple[PartitionField, ...]
    values: tuple[Any, ...]
