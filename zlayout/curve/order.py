"""The total order of every column type: null, then the values, then NaN; -0.0 equals 0.0; strings by UTF-8 bytes.

All curves use ordinals in this order, and so do not depend on the type of a column. Spark has the same order of values,
so that a threshold has the same meaning there. Only a comparison with null must be written as `c IS NULL OR c < v`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zlayout.curve.tree import Int64
from zlayout.table.axis import axis_and_ranks

NULL = -1


@dataclass(frozen=True, slots=True)
class Ranked:
    """The n values of one column as ordinals.

    Attributes:
        ordinals: int64[n], the index of each value in `distinct`, -1 for null.
        distinct: The distinct values without null, ascending.
    """

    ordinals: Int64
    distinct: pa.Array


def rank(values: pa.Array | pa.ChunkedArray) -> Ranked:
    """Rank the values: equal values have the same ordinal, and a < b exactly if ordinal(a) < ordinal(b).

    Raises:
        TableError: ZL109 for a type without an order (lists, structs, maps, intervals).
    """
    flat = _canonical(values)
    ordered = flat.is_valid().to_numpy(zero_copy_only=False)
    nan = np.zeros(len(flat), bool)
    if pa.types.is_floating(flat.type):
        nan = pc.fill_null(pc.is_nan(flat), False).to_numpy(zero_copy_only=False)
        ordered = ordered & ~nan
    axis, ranks = axis_and_ranks(flat.filter(pa.array(ordered)))
    ordinals = np.full(len(flat), NULL, np.int64)
    ordinals[ordered] = ranks
    ordinals[nan] = len(axis)
    example = np.zeros(len(axis) + int(nan.any()), np.int64)
    example[ordinals[ordinals >= 0]] = np.flatnonzero(ordinals >= 0)
    return Ranked(ordinals, flat.take(pa.array(example)))


def ordinals_among(distinct: pa.Array, values: pa.Array | pa.ChunkedArray) -> Int64:
    """int64[n]: the index of the last element of `distinct` that is <= each value, -1 for null and if there is none.

    `value < distinct[k]` is equivalent to `index < k`.

    Args:
        distinct: distinct values, ascending.
        values: n values, which need not occur in `distinct`.
    """
    flat = _canonical(values)
    joint = rank(pa.concat_arrays([_canonical(distinct).cast(flat.type), flat])).ordinals
    return np.searchsorted(joint[: len(distinct)], joint[len(distinct) :], side="right").astype(np.int64) - 1


def _canonical(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Convert to one array of a type that `pyarrow.Array.take` supports, with equal representations of equal values."""
    flat = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if pa.types.is_dictionary(flat.type):
        return _canonical(flat.dictionary_decode())
    if pa.types.is_float16(flat.type):
        flat = flat.cast(pa.float32())
    if pa.types.is_floating(flat.type):
        # 0.0 + -0.0 is 0.0
        return pc.if_else(pc.is_nan(flat), pa.scalar(float("nan"), flat.type), pc.add(flat, pa.scalar(0.0, flat.type)))
    if pa.types.is_decimal32(flat.type) or pa.types.is_decimal64(flat.type):
        return flat.cast(pa.decimal128(flat.type.precision, flat.type.scale))
    if pa.types.is_string_view(flat.type):
        return flat.cast(pa.large_string())
    return flat.cast(pa.large_binary()) if pa.types.is_binary_view(flat.type) else flat
