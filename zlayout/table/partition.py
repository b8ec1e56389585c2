"""Partition fields and partitions; a module of its own, so that reading specs needs neither numpy nor pyarrow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class PartitionField:
    """A transform of a source column; Delta has only `identity`.

    transform: Iceberg's name: identity, year, month, day, hour, void, bucket[n], truncate[n].
    """

    source: str
    transform: str = "identity"

    def __str__(self) -> str:
        if self.transform == "identity":
            return self.source
        name, _, argument = self.transform.partition("[")
        return f"{name}({argument.rstrip(']')}, {self.source})" if argument else f"{name}({self.source})"


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition that has files: the partition spec that its files were written with, and the values of its fields.

    values: the results of the transforms as Python values (str, int, bool, Decimal, date, datetime, bytes, None);
    for year, month, day and hour they are Iceberg's ordinals (int) counted from 1970.
    """

    spec_id: int
    fields: tuple[PartitionField, ...]
    values: tuple[Any, ...]
