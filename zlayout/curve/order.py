"""One total order for every column type: null, then the values, then NaN; -0.0 equals 0.0; strings by UTF-8 bytes.

All curves work on ordinals in this order, so none of them knows what a string or a decimal is. Spark orders the
same way (`null < v` has to be said as `c IS NULL OR c < v`), so a cut found here means the same there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zlayout.errors import TableError

Int64 = NDArray[np.int64]
NULL = -1


@dataclass(frozen=True, slots=True)
class Ranked:
    """ordinals: int64[n], the rank of each value among `distinct`, -1 for null. distinct: sorted, no nulls."""

    ordinals: Int64
    distinct: pa.Array


def rank(values: pa.Array | pa.ChunkedArray) -> Ranked:
    """Dense ordinals of `values`: equal values share one, and a < b exactly when ordinal(a) < ordinal(b).

    Raises TableError ZL109 for a type that has no order (lists, structs, maps, intervals).
    """
    encoded = _comparable(values).dictionary_encode()
    try:
        order = pc.array_sort_indices(encoded.dictionary).to_numpy().astype(np.int64)
    except pa.ArrowNotImplementedError as error:
        raise _no_order(encoded.type.value_type) from error
    # The dictionary of an array of nulls may hold the null itself.
    valid = encoded.dictionary.is_valid().to_numpy(zero_copy_only=False)
    order = order[valid[order]]
    ordinal_of = np.full(len(encoded.dictionary) + 1, NULL, np.int64)
    ordinal_of[order] = np.arange(len(order))
    index = pc.fill_null(encoded.indices, len(encoded.dictionary)).to_numpy().astype(np.int64)
    return Ranked(ordinal_of[index], encoded.dictionary.take(pa.array(order)))


def ordinals_among(distinct: pa.Array, values: pa.Array | pa.ChunkedArray) -> Int64:
    """int64[n]: for each value the index of the last of `distinct` (sorted, unique) that is <= it, else -1.

    Values need not occur in `distinct`: `value < distinct[k]` holds exactly when the result is < k. Nulls give -1.
    """
    flat = _comparable(values)
    joint = rank(pa.concat_arrays([_comparable(distinct).cast(flat.type), flat])).ordinals
    return np.searchsorted(joint[: len(distinct)], joint[len(distinct) :], side="right").astype(np.int64) - 1


def _comparable(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The values as one array of a type that Arrow can both encode and sort, in the same order."""
    flat = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if pa.types.is_dictionary(flat.type):
        return _comparable(flat.dictionary_decode())
    if pa.types.is_nested(flat.type) or pa.types.is_interval(flat.type):
        raise _no_order(flat.type)
    if pa.types.is_float16(flat.type):
        flat = flat.cast(pa.float32())
    if pa.types.is_floating(flat.type):
        # 0.0 + -0.0 is 0.0, and NaN has many bit patterns, which encoding would keep apart
        return pc.if_else(pc.is_nan(flat), pa.scalar(float("nan"), flat.type), pc.add(flat, pa.scalar(0.0, flat.type)))
    if pa.types.is_decimal32(flat.type) or pa.types.is_decimal64(flat.type):
        return flat.cast(pa.decimal128(flat.type.precision, flat.type.scale))
    if pa.types.is_string_view(flat.type):
        return flat.cast(pa.large_string())
    if pa.types.is_binary_view(flat.type):
        return flat.cast(pa.large_binary())
    return flat


def _no_order(kind: pa.DataType) -> Exception:
    return TableError.of(
        "ZL109",
        f"expected a column of an orderable type, found {kind}",
        hint="choose a number, string, binary, date, timestamp or boolean column for zorder.columns",
    )
