"""A sample of the key columns of a table, with the file and the row group of each sampled row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from zlayout.table.state import ColumnBounds, Int64


class NotParquetError(ValueError):
    """The files are not Parquet files, so that they have no row groups. format: that of the files."""

    def __init__(self, format: str) -> None:
        super().__init__(f"only Parquet files can be sampled, found {format} files")


@dataclass(frozen=True, slots=True)
class RowGroups:
    """The G row groups of some files, as the footers of the files describe them.

    Attributes:
        file: int64[G], the index of the file of each row group in the file table.
        rows: int64[G], the number of rows.
        bytes: int64[G], the uncompressed size of all columns.
        bounds: By dotted name of a column. They have the type of its file bounds, and are null where the footer has no
            usable statistics.
    """

    file: Int64
    rows: Int64
    bytes: Int64
    bounds: Mapping[str, ColumnBounds]

    def __len__(self) -> int:
        return len(self.file)


@dataclass(frozen=True, slots=True)
class RowGroupSample:
    """The n rows of randomly chosen row groups.

    Attributes:
        keys: By dotted name of a column, an array of length n of the type of its bounds.
        file: int64[n], the index of the file of each row in the file table.
        row_group: int64[n], a number that identifies the row group of each row among those that were read.
        row_groups: The number of row groups that were read.
        files: The number of files that they are in.
        bytes_read: The size of the column chunks that were read.
        seed: The seed of the random choice.
        complete: Whether every row group of every file to sample was read.
        footers: All row groups of the files of which a row group was read.
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
