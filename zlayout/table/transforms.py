"""Partition transforms of sampled values, to count the partitions that a partitioning would have."""

from __future__ import annotations

import hashlib
from decimal import Context, Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

EPOCH_YEAR = 1970
_MAX_DIGITS = 76  # of Arrow's decimals
_WIDE = Context(prec=_MAX_DIGITS + 4)


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
            return pc.hours_between(pa.scalar(0, values.type), values)
        case "truncate":
            return _truncated(values, width)
        case "bucket":
            return _buckets(values, width)
    raise ValueError(f"expected a partition transform, found {transform!r}")


def _truncated(values: pa.Array, width: int) -> pa.Array:
    if pa.types.is_integer(values.type):
        numbers = values.fill_null(0).to_numpy()
        nulls = np.asarray(values.is_null().to_numpy(zero_copy_only=False), bool)
        return pa.array(numbers - numbers % width, values.type, mask=nulls)
    if pa.types.is_binary(values.type):
        return pc.binary_slice(values, 0, width)
    if pa.types.is_decimal(values.type):
        scale, encoded = values.type.scale, values.dictionary_encode()
        unscaled = (int(value.scaleb(scale, _WIDE)) for value in encoded.dictionary.to_pylist())
        lower = [Decimal(number - number % width).scaleb(-scale, _WIDE) for number in unscaled]
        # A negative number may become one with more digits: width -100 is the lower end of -1.
        return pa.array(lower, pa.decimal256(_MAX_DIGITS, scale)).take(encoded.indices)
    return pc.utf8_slice_codeunits(values, 0, width)


def _buckets(values: pa.Array, count: int) -> pa.Array:
    encoded = values.dictionary_encode()
    digests = (hashlib.blake2b(repr(value).encode(), digest_size=6) for value in encoded.dictionary.to_pylist())
    of_value = [int.from_bytes(digest.digest(), "big") % count for digest in digests]
    return pa.array(of_value, pa.int32()).take(encoded.indices) if of_value else pa.nulls(len(values), pa.int32())
