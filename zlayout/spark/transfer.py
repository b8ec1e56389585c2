"""Passes numbers and texts of many items to and from Java objects by few calls.

A call through py4j takes up to a millisecond. Numbers are passed as arrays of 8 bytes each, big-endian, as Java's
ByteBuffer reads them. Texts are joined by the character 0. A call passes a limited number of texts and, unless a single
one is longer, of characters: statistics of a wide table may be a hundred kilobytes for each file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zlayout.table.state import Int64

SEPARATOR = "\0"  # no path, statistics or id contains it
ITEMS_PER_CALL = 2000
MAX_CHARACTERS = 16 * 2**20  # after which a call passes no further text
_TEXT = pa.string()


def to_bytes(numbers: Int64) -> bytes:
    return np.asarray(numbers, ">i8").tobytes()


def from_bytes(content: bytes) -> Int64:
    return np.frombuffer(content, ">i8").astype(np.int64)


def parts(lengths: Int64) -> Iterator[tuple[int, int]]:
    """Yield the first and the end position of the items of each call. lengths: int64[items], of their texts."""
    ends = np.cumsum(lengths)
    start = 0
    while start < len(ends):
        passed = ends[start] - lengths[start]
        end = int(np.searchsorted(ends, passed + MAX_CHARACTERS)) + 1
        end = min(end, start + ITEMS_PER_CALL, len(ends))
        yield start, end
        start = end


def texts(read: Callable[[int, int, int], str], count: int, kind: pa.DataType = _TEXT) -> pa.Array:
    """Return the texts of `count` items as an array of `kind`.

    read: returns the joined texts of the items from a position to another one, or fewer of them if they have more
        characters than the third argument, but at least one.
    """
    found, at = [pa.array([], kind)], 0
    while at < count:
        joined = pa.array([read(at, min(at + ITEMS_PER_CALL, count), MAX_CHARACTERS)], kind)
        found.append(pc.list_flatten(pc.split_pattern(joined, SEPARATOR)))
        at += len(found[-1])
    return pa.concat_arrays(found)
