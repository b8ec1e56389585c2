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


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition that has files.

    spec_id, fields: the partition spec that its files were written with. values: the results of the transforms as
    Python values (str, int, bool, Decimal, date, datetime, bytes, None). For year, month, day and hour they are
    Iceberg's ordinals (int), counted from 1970.
    """

    spec_id: int
    fields: tuple[PartitionField, ...]
    values: tuple[Any, ...]
