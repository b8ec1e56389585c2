"""An exact fingerprint of rows as a multiset: the count and the sum of a 64-bit hash of each row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Observation

ROWS, HASH = "zlayout_rows", "zlayout_hash"
_UNHASHABLE = ("map<", "variant", "interval")


@dataclass(frozen=True, slots=True)
class Content:
    """Rows and the sum of their hashes; equal for equal multisets, whatever the order."""

    rows: int
    hash: int


def observed(frame: DataFrame, name: str) -> tuple[DataFrame, Observation]:
    """`frame` that also counts and hashes its rows as they flow by; `content_of` reads the outcome afterwards."""
    from pyspark.sql import Observation

    observation = Observation(name)
    return frame.observe(observation, *_aggregates(frame)), observation


def content_of(observation: Observation) -> Content:
    """What was seen; blocks until the query that it is part of has run."""
    return _content(observation.get)


def content(frame: DataFrame) -> Content:
    """Count and hash by a query of its own."""
    return _content(frame.agg(*_aggregates(frame)).collect()[0].asDict())


def _content(values: dict[str, Any]) -> Content:
    return Content(int(values[ROWS]), int(values[HASH] or 0))


def _aggregates(frame: DataFrame) -> list[Column]:
    """Sums in decimal(38,0): a sum of longs overflows, and XOR would hide rows that are there twice."""
    from pyspark.sql import functions as f

    hashed = f.xxhash64(*(_hashable(frame, field.name) for field in frame.schema.fields))
    return [f.count(f.lit(1)).alias(ROWS), f.sum(hashed.cast("decimal(38,0)")).alias(HASH)]


def _hashable(frame: DataFrame, name: str) -> Column:
    """A column as xxhash64 takes it: maps and variants, which it refuses, as their JSON text."""
    from pyspark.sql import functions as f

    column = f.col("`" + name.replace("`", "``") + "`")
    kind = frame.schema[name].dataType.simpleString()
    if any(word in kind for word in _UNHASHABLE):
        return f.to_json(f.struct(column), {"ignoreNullFields": "false"})
    return column
