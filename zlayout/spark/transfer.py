"""Passes numbers and texts of many items to and from Java objects by few calls.

A call through py4j takes up to a millisecond. Numbers are passed as arrays of 8 bytes each, big-endian, as Java's
ByteBuffer reads them. Texts are joined by the character 0, for a limited number of items at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zlayout.table.state import Int64

SEPARATOR = "\0"  # no path, statistics or id contains it
# A call passes texts of this number of items: statistics of a wide table may be tens of kilobytes for each file.
ITEMS_PER_CALL = 2000
_TEXT = pa.string()


def to_bytes(numbers: Int64) -> bytes:
    return np.asarray(numbers, ">i8").tobytes()


def from_bytes(content: bytes) -> Int64:
    return np.frombuffer(content, ">i8").astype(np.int64)


def parts(count: int) -> Iterator[tuple[int, int]]:
    """Yield the first and the end position of the items of each call."""
    for start in range(0, count, ITEMS_PER_CALL):
        yield start, min(start + ITEMS_PER_CALL, count)


def texts(read: Callable[[int, int], str], count: int, kind: pa.DataType = _TEXT) -> pa.Array:
    """Return the texts of `count` items as an array of `kind`. read: returns the joined texts of some of them."""
    found = [pc.list_flatten(pc.split_pattern(pa.array([read(*part)], kind), SEPARATOR)) for part in parts(count)]
    return pa.concat_arrays([pa.array([], kind), *found])
