"""Partition fields and partitions. This module imports neither numpy nor pyarrow, so that specs are read quickly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class PartitionField:
    """A source column and a transform of it. Delta has only `identity`.

    transform: Iceberg's name: identity, year, month, day, hour, void, bucket[n] or truncate[n].
    """

    source: str
    transform: str = "identity"

    def __str__(self) -> str:
        if self.transform == "identity":
            return self.source
        name, _, argument = self.transform.partition("[")
        return f"{name}({argument.rstrip(']')}, {self.source})" if argument else f"{name}({self.source})"


class FarTime(str):
    """A date or time outside of the years 1 to 9999, which Python has no value for, in the form of ISO 8601.

    The year has a sign, as in `+10000-01-01`. Such a value is not compared with others.
    """

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition that has files.

    spec_id, fields: the partition spec that its files were written with. values: the results of the transforms as
    Python values (str, int, bool, Decimal, date, datetime, FarTime, bytes, None). For year, month, day and hour they
    are Iceberg's ordinals (int), counted from 1970.
    """

    spec_id: int
    fields: tuple[PartitionField, ...]
    values: tuple[Any, ...]
