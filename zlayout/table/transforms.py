"""Partition transforms of sampled values, to count the partitions that a partitioning would have."""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

EPOCH_YEAR = 1970
_MICROSECONDS_PER_HOUR = 3_600_000_000


def transformed(values: pa.Array, transform: str) -> pa.Array:
    """Return the partition value of each value, in the form of `Partition.values`.

    The hash for buckets is not Iceberg's. It distributes values as evenly, but assigns them to other buckets.

    Args:
        values: the values of the source column, which may be null.
        transform: as in `PartitionField`.

    Raises:
        ValueError: for an unknown transform.
    """
    name, _, argument = transform.partition("[")
    width = int(argument.rstrip("]")) if argument else 0
    match name:
        case "identity":
            return values
        case "void":
            return pa.nulls(len(values), pa.int32())
        case "year":
            return pc.subtract(pc.year(values), EPOCH_YEAR)
        case "month":
            years = pc.subtract(pc.year(values), EPOCH_YEAR)
            return pc.add(pc.multiply(years, 12), pc.subtract(pc.month(values), 1))
        case "day":
            return values.cast(pa.date32(), safe=False).cast(pa.int32())
        case "hour":
            hours = np.floor_divide(_microseconds(values).fill_null(0).to_numpy(), _MICROSECONDS_PER_HOUR)
            return pa.array(hours, mask=_nulls(values))
        case "truncate":
            return _truncated(values, width)
        case "bucket":
            return _buckets(values, width)
    raise ValueError(f"expected a partition transform, found {transform!r}")


def _microseconds(values: pa.Array) -> pa.Array:
    if pa.types.is_timestamp(values.type):
        return values.cast(pa.timestamp("us", values.type.tz), safe=False).cast(pa.int64())
    return values.cast(pa.timestamp("us")).cast(pa.int64())


def _nulls(values: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return np.asarray(values.is_null().to_numpy(zero_copy_only=False), bool)


def _truncated(values: pa.Array, width: int) -> pa.Array:
    if pa.types.is_integer(values.type):
        numbers = values.fill_null(0).to_numpy()
        return pa.array(numbers - numbers % width, values.type, mask=_nulls(values))
    if pa.types.is_binary(values.type):
        return pc.binary_slice(values, 0, width)
    if pa.types.is_decimal(values.type):
        step = width * 10.0**-values.type.scale
        numbers = values.cast(pa.float64()).fill_null(0).to_numpy()
        return pa.array(np.floor(numbers / step) * step, mask=_nulls(values))
    return pc.utf8_slice_codeunits(values, 0, width)


def _buckets(values: pa.Array, count: int) -> pa.Array:
    encoded = values.dictionary_encode()
    digests = (hashlib.blake2b(repr(value).encode(), digest_size=6) for value in encoded.dictionary.to_pylist())
    of_value = [int.from_bytes(digest.digest(), "big") % count for digest in digests]
    return pa.array(of_value, pa.int32()).take(encoded.indices) if of_value else pa.nulls(len(values), pa.int32())
