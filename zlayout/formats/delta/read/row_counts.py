"""Completes the row counts of files that were written without statistics."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pa_fs
import pyarrow.parquet as pq

from zlayout.errors import Diagnostic
from zlayout.table.state import Int64

# Reading a footer takes one or two requests. If more files than this have no row count, row counts are estimated.
_MAX_FOOTERS = 64


def complete_row_counts(
    storage: pa_fs.FileSystem, path: pa.Array, num_records: pa.ChunkedArray, sizes: Int64
) -> tuple[Int64, tuple[Diagnostic, ...]]:
    """Complete the row counts that the log lacks, from Parquet footers or, for many files, from file sizes.

    Args:
        storage: The file system, rooted at the table.
        path: string[files], the paths as in the log.
        num_records: int64[files], the row counts in the log, null if missing.
        sizes: int64[files], the file sizes in bytes.

    Returns:
        int64[files], the row counts, and a note ZL411 if some are estimates.
    """
    rows = pc.fill_null(num_records, -1).to_numpy().astype(np.int64)
    unknown = np.flatnonzero(rows < 0)
    if not len(unknown):
        return rows, ()
    rows = rows.copy()
    if len(unknown) <= _MAX_FOOTERS:
        names = path.take(pa.array(unknown)).to_pylist()
        with ThreadPoolExecutor(8) as pool:
            rows[unknown] = list(pool.map(lambda name: _footer_rows(storage, name), names))
        unknown = np.flatnonzero(rows < 0)
    if not len(unknown):
        return rows, ()
    known = rows >= 0
    rows_per_byte = rows[known].sum() / max(int(sizes[known].sum()), 1) if known.any() else 0.01
    rows[unknown] = np.maximum(1, np.rint(sizes[unknown] * rows_per_byte)).astype(np.int64)
    note = Diagnostic(
        "ZL411",
        f"{len(unknown)} of {len(rows)} files have no row count in the log; it is estimated from the file size",
        "note",
        "run zlayout apply, which writes statistics for the files that it rewrites",
    )
    return rows, (note,)


def _footer_rows(storage: pa_fs.FileSystem, name: str) -> int:
    """Return the row count in a footer, -1 if the file is outside of the table's location or cannot be read."""
    if ":/" in name or name.startswith("/"):
        return -1
    try:
        with storage.open_input_file(unquote(name)) as source:
            return int(pq.ParquetFile(source).metadata.num_rows)
    except (OSError, pa.ArrowException):
        return -1
