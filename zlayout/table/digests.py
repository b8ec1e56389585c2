"""Digests of sets of files. A digest does not depend on the order in which the files are given."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zlayout.table.order import Values, byte_order, order_of
from zlayout.table.state import MAX_THREADS, FileTable, Int64, identity_columns, pieces, side_by_side

# Number of files that are hashed as one block. Another number would change every digest.
FILES_PER_BLOCK = 1 << 16


def digests_of(parts: Sequence[FileTable]) -> list[str]:
    """The digest of each part, as 64 hexadecimal digits. It depends on path and version_key of each of its files."""
    if len(parts) == 1:
        return [_digest_alone(parts[0])]
    batches = [parts[at::MAX_THREADS] for at in range(MAX_THREADS)]
    digests = [""] * len(parts)
    for at, found in enumerate(side_by_side(_digests, batches, sum(map(len, parts)))):
        digests[at::MAX_THREADS] = found
    return digests


def _digests(parts: Sequence[FileTable]) -> list[str]:
    columns, order = _in_order(parts)  # together, which is faster for many small parts
    numbers = [len(part) for part in parts]
    values = _taken(columns, order[order_of(np.repeat(np.arange(len(parts)), numbers)[order])])
    return [
        _of_blocks(stop - start, [_block(values, *cut) for cut in pieces(start, stop, FILES_PER_BLOCK)])
        for start, stop in pairwise([0, *np.cumsum(numbers).tolist()])
    ]


def _digest_alone(part: FileTable) -> str:
    columns, order = _in_order((part,))

    def block(cut: tuple[int, int]) -> bytes:
        start, stop = cut
        return _block(_taken(columns, order[start:stop]), 0, stop - start)

    return _of_blocks(len(part), side_by_side(block, pieces(0, len(part), FILES_PER_BLOCK), len(part)))


def _in_order(parts: Sequence[FileTable]) -> tuple[list[pa.Array], Int64]:
    columns = identity_columns(parts)
    found = byte_order(columns[0])
    if found.fresh.all():
        return columns, found.order
    both = pa.table({"path": columns[0], "version_key": columns[1]})
    order = pc.sort_indices(both, [("path", "ascending"), ("version_key", "ascending")])
    return columns, order.to_numpy().astype(np.int64)


def _taken(columns: Sequence[pa.Array], order: Int64) -> list[Values]:
    return [Values.of(column.take(pa.array(order))) for column in columns]


def _block(columns: Sequence[Values], start: int, stop: int) -> bytes:
    digest = hashlib.sha256()
    for values in columns:
        digest.update(_as_bytes(values.lengths[start:stop]))
        digest.update(values.between(start, stop))
    return digest.digest()


def _of_blocks(number: int, blocks: Iterable[bytes]) -> str:
    return hashlib.sha256(_as_bytes(np.array([number])) + b"".join(blocks)).hexdigest()


def _as_bytes(numbers: Int64) -> bytes:
    return numbers.astype("<i8").tobytes()
