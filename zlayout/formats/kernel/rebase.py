"""Finds rows that another writer has deleted from replaced files in the new files, which contain the same rows.

A table is a multiset of rows, so that to delete any equal copy of a row is to delete the row.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from zlayout.table.state import Int64


def match(deleted_group: Int64, deleted: pa.Array, found_group: Int64, found: pa.Array) -> Int64 | None:
    """Choose one of the found rows for each deleted row. If a row was deleted k times, k equal rows are chosen.

    Args:
        deleted_group: int64[deleted], the group of each deleted row.
        deleted: string[deleted], the digest of each deleted row. Equal rows have equal digests.
        found_group: int64[found], the group of each row that may be chosen.
        found: string[found], the digests of these rows.

    Returns:
        int64[deleted], the ascending positions of the chosen rows among the found ones. Of several equal rows of a
        group, the first ones are chosen. None if a deleted row has no equal row in its group that is left for it.
    """
    digests = pa.concat_arrays([deleted.cast(pa.string()), found.cast(pa.string())]).dictionary_encode()
    rows = np.stack([np.concatenate([deleted_group, found_group]), np.asarray(digests.indices, np.int64)])
    key = np.unique(rows, axis=1, return_inverse=True)[1].reshape(-1)
    wanted, of_found = key[: len(deleted)], key[len(deleted) :]
    count = np.bincount(wanted, minlength=int(key.max(initial=-1)) + 1)
    order = np.argsort(of_found, kind="stable")
    ordered = of_found[order]
    rank = np.arange(len(ordered)) - np.searchsorted(ordered, ordered)
    chosen = np.sort(order[rank < count[ordered]])
    return chosen if len(chosen) == len(deleted) else None
