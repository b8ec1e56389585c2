"""A sample of the key columns of a table, with the file and the row group of each row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from zlayout.table.state import ColumnBounds, Int64


class NotParquetError(ValueError):
    """The files have no row groups that can be sampled."""

    def __init__(self, kind: str) -> None:
        super().__init__(f"only Parquet files can be sampled, found {kind} files")


@dataclass(frozen=True, slots=True)
class RowGroups:
    """The G row groups of some files, as stated in the footers.

    file: int64[G], the index of each one's file in the file table. rows: int64[G]. bytes: int64[G], not compressed.
    bounds: by dotted name of a column, of the type of its file bounds; null where the footer has no usable statistics.
    """

    file: Int64
    rows: Int64
    bytes: Int64
    bounds: Mapping[str, ColumnBounds]

    def __len__(self) -> int:
        return len(self.file)


@dataclass(frozen=True, slots=True)
class RowGroupSample:
    """The rows of randomly chosen row groups.

    keys: by dotted name of a column, each of length n, of the type of its bounds. file: int64[n], the index of each
    row's file in the file table. row_group: int64[n], a number of each row's row group. bytes_read: the size of the
    column chunks that were read. seed: of the random choice. complete: whether every row group of the files was read.
    footers: all row groups of the files that were read.
    """

    keys: Mapping[str, pa.Array]
    file: Int64
    row_group: Int64
    row_groups: int
    files: int
    bytes_read: int
    seed: int
    complete: bool
    footers: RowGroups

    def __len__(self) -> int:
        return len(self.file)
