"""Shuffles each row to the Spark partition whose number is in a column, in every version of Spark."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame

from zlayout.rewrite.constants import Constants

_SEED = 42  # of Spark's hash partitioning


def hash_of_ints(values: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return the hash by which Spark shuffles an int column: Murmur3 (x86, 32 bits) of its 4 bytes, with Spark's seed.

    values: int32[n]. Returns int32[n].
    """
    with np.errstate(over="ignore"):
        mixed = values.astype(np.uint32) * np.uint32(0xCC9E2D51)
        mixed = _rotated(mixed, 15) * np.uint32(0x1B873593)
        found = _rotated(np.uint32(_SEED) ^ mixed, 13) * np.uint32(5) + np.uint32(0xE6546B64)
        found ^= np.uint32(4)  # the length in bytes
        found = (found ^ (found >> np.uint32(16))) * np.uint32(0x85EBCA6B)
        found = (found ^ (found >> np.uint32(13))) * np.uint32(0xC2B2AE35)
        return (found ^ (found >> np.uint32(16))).astype(np.int32)


def keys_of_partitions(count: int) -> NDArray[np.int32]:
    """Return, for each of `count` partitions, an int that Spark's hash partitioning sends to this partition.

    The search tries about `count` * (ln `count` + 1) ints.

    Returns:
        int32[count], the smallest such ints >= 0.
    """
    keys = np.full(count, -1, np.int32)
    start, step = 0, max(1024, 4 * count)
    while (keys < 0).any():
        tried = np.arange(start, start + step, dtype=np.int32)
        at = hash_of_ints(tried) % count  # not negative, as Spark's pmod
        first, where = np.unique(at, return_index=True)
        missing = keys[first] < 0
        keys[first[missing]] = tried[where[missing]]
        start += step
    return keys


def to_partitions(frame: DataFrame, count: int, partition: Column) -> DataFrame:
    """Shuffle each row to the Spark partition whose number is in the column `partition` (int).

    Since version 4.1, Spark can shuffle by such a number. Earlier versions always apply their hash function. For
    them, each row gets an int that the hash function sends to this partition. The result is the same.
    """
    if hasattr(DataFrame, "repartitionById"):
        return frame.repartitionById(count, partition)
    return by_hash(frame, count, partition)


def by_hash(frame: DataFrame, count: int, partition: Column) -> DataFrame:
    """Shuffle as `to_partitions` does, through Spark's hash function."""
    keys = Constants(frame.sparkSession, {"key": pa.array(keys_of_partitions(count))})
    return frame.repartition(count, keys.at("key", partition))


def _rotated(values: NDArray[np.uint32], bits: int) -> NDArray[np.uint32]:
    return (values << np.uint32(bits)) | (values >> np.uint32(32 - bits))
