"""Decodes the serialized bounds of a column to typed Arrow arrays.

The serialization is that of appendix D of the Iceberg spec: little-endian numbers of fixed width, UTF-8 strings, and
decimals as the big-endian two's complement of the unscaled value in the minimum number of bytes. A file that was
written before the type of its column was widened (int to long, float to double, date to timestamp) has bounds of the
narrow type.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zlayout.table.state import ColumnBounds, Int64

_UNITS_PER_DAY = {"us": 86_400 * 10**6, "ns": 86_400 * 10**9}

Bytes = Sequence[bytes | None]


def column_bounds(
    lower: Bytes, upper: Bytes, null_count: Int64, type_: pa.DataType, truncated_lengths: frozenset[int]
) -> ColumnBounds:
    """Decode the bounds of one column.

    Args:
        lower: The serialized lower bounds, None if missing.
        upper: The serialized upper bounds, None if missing.
        null_count: int64[files], -1 if unknown.
        truncated_lengths: The lengths of bounds that count as truncated, in characters, or in bytes for binary.
    """
    low, high = decode(lower, type_), decode(upper, type_)
    truncated = _truncated_mask(low, truncated_lengths) | _truncated_mask(high, truncated_lengths)
    return ColumnBounds(low, high, null_count, truncated)


def decode(values: Bytes, type_: pa.DataType) -> pa.Array:
    """Return the values as an array of `type_`. A value that is None or invalid for the type is null."""
    if pa.types.is_string(type_):
        return _strings(values)
    if pa.types.is_binary(type_):
        return pa.array(values, pa.binary())
    if pa.types.is_decimal(type_):
        return _decimals(values, type_)
    if pa.types.is_boolean(type_):
        return pa.array([None if v is None or len(v) != 1 else v != b"\x00" for v in values], pa.bool_())
    return _numbers(values, type_)


def _numbers(values: Bytes, type_: pa.DataType) -> pa.Array:
    width = type_.bit_width // 8
    lengths = _lengths(values)
    valid = (lengths == width) | ((lengths == 4) & (width == 8))
    numbers = np.zeros(len(values), f"<f{width}" if pa.types.is_floating(type_) else f"<i{width}")
    for length in {int(n) for n in np.unique(lengths[valid])}:
        rows = np.flatnonzero(lengths == length)
        raw = np.frombuffer(b"".join(values[i] or b"" for i in rows.tolist()), f"<{numbers.dtype.kind}{length}")
        promoted = length < width and pa.types.is_timestamp(type_)
        numbers[rows] = raw.astype(numbers.dtype) * _UNITS_PER_DAY[type_.unit] if promoted else raw
    mask = ~valid
    storage = pa.array(numbers, mask=mask)
    return storage if storage.type == type_ else storage.view(type_)


def _decimals(values: Bytes, type_: pa.DataType) -> pa.Array:
    """Sign-extend each value to the 16 little-endian bytes of decimal128."""
    lengths = _lengths(values)
    valid = (lengths >= 1) & (lengths <= 16)
    words = np.zeros((len(values), 16), np.uint8)
    for length in {int(n) for n in np.unique(lengths[valid])}:
        rows = np.flatnonzero(lengths == length)
        raw = np.frombuffer(b"".join(values[i] or b"" for i in rows.tolist()), np.uint8).reshape(-1, length)
        words[rows] = np.where(raw[:, :1] >= 0x80, np.uint8(0xFF), np.uint8(0))
        words[rows, :length] = raw[:, ::-1]
    bitmap = pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())
    return pa.Array.from_buffers(type_, len(values), [bitmap, pa.py_buffer(words.tobytes())])


def _strings(values: Bytes) -> pa.Array:
    try:
        return pa.array(values, pa.binary()).cast(pa.string())
    except pa.ArrowInvalid:  # a writer truncated a bound within a character; such a bound counts as missing
        return pa.array([None if v is None else _text(v) for v in values], pa.string())


def _text(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def _lengths(values: Bytes) -> Int64:
    return np.fromiter((-1 if v is None else len(v) for v in values), np.int64, len(values))


def _truncated_mask(bounds: pa.Array, truncated_lengths: frozenset[int]) -> NDArray[np.bool_]:
    if pa.types.is_string(bounds.type):
        lengths = pc.utf8_length(bounds)
    elif pa.types.is_binary(bounds.type):
        lengths = pc.binary_length(bounds)
    else:
        return np.zeros(len(bounds), np.bool_)
    return np.isin(lengths.fill_null(-1).to_numpy(zero_copy_only=False), list(truncated_lengths))
