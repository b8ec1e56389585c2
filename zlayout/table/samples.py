"""Samples of the rows of a table: their key columns, and consecutive rows with all columns.

Rows with all columns are read to estimate the size of these rows in another order.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from zlayout.table.state import ColumnBounds, Float64, Int64


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
class KeySample:
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
        lacking: The number of these files that lack a required column, by its name; only columns that some lack.
        by_row: Whether live rows were drawn independently of each other instead of row groups. `row_group` then has a
            number for each row, and `footers` is empty.
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
    lacking: Mapping[str, int] = field(default_factory=dict)
    by_row: bool = False

    def __len__(self) -> int:
        return len(self.file)


def rows_drawn(keys: Mapping[str, pa.Array], file: Int64, seed: int, *, complete: bool) -> KeySample:
    """Return a sample of live rows that were drawn independently. The arguments are those of `KeySample`."""
    nothing = np.zeros(0, np.int64)
    return KeySample(
        keys=keys,
        file=file,
        row_group=np.arange(len(file)),
        row_groups=len(file),
        files=len(np.unique(file)),
        bytes_read=0,
        seed=seed,
        complete=complete,
        footers=RowGroups(nothing, nothing, nothing, {}),
        by_row=True,
    )


def errors_of_shares(codes: Int64, weights: Float64, row_group: Int64) -> Float64:
    """Return the standard error of the share of each value, if row groups are drawn instead of rows: float64[k].

    It is that of a ratio of two sums over row groups. It is infinity if there is only one.

    Args:
        codes: int64[m], the value of each row, as a number below k.
        weights: float64[m], the number of rows that each row represents.
        row_group: int64[m], the row group of each row.
    """
    _, group = np.unique(row_group, return_inverse=True)
    size = np.bincount(group, weights)
    count, total = len(size), float(size.sum())
    share = np.bincount(codes, weights) / total
    if count < 2:
        return np.full(len(share), np.inf)
    pairs, at = np.unique(codes.astype(np.int64) * count + group, return_inverse=True)
    value, rows = pairs // count, np.bincount(at, weights)
    # The sum over row groups of (rows with the value - share * rows)^2. Most row groups have no row with the value.
    present = np.bincount(value, rows * (rows - 2 * share[value] * size[pairs % count]), len(share))
    squares = np.maximum(present + share**2 * float((size**2).sum()), 0.0)
    errors: Float64 = np.sqrt(squares * count / (count - 1)) / total
    return errors


# Stored rows.


Sizes = Mapping[str, Float64]
"""By path of a column in a file, float64[2]: the compressed bytes of its dictionary pages, and of its data pages."""


@dataclass(frozen=True, slots=True)
class StoredRows:
    """k chunks of consecutive rows, which all have the same number of rows.

    Attributes:
        file: int64[k], the index of the file of each chunk in the file table.
        rows: The rows of each chunk, with all columns as the files have them.
        keys: By dotted name of a column of the table, its values in each chunk, of the type of its bounds.
        stored: The sizes in the row groups that the chunks are from.
        stored_rows: The number of rows of these row groups.
        codec: The codec of these row groups.
    """

    file: Int64
    rows: tuple[pa.Table, ...]
    keys: Mapping[str, tuple[pa.Array, ...]]
    stored: Sizes
    stored_rows: int
    codec: str

    def encoded(self, rows: pa.Table) -> Sizes:
        """Return the sizes of rows as a row group of their own, with dictionaries for the columns that have them."""
        sink = pa.BufferOutputStream()
        dictionaries = [name for name, size in self.stored.items() if size[0]]
        options = {"write_statistics": False, "row_group_size": max(len(rows), 1), "store_schema": False}
        codec = "NONE" if self.codec == "UNCOMPRESSED" else self.codec  # footers and the writer have different names
        pq.write_table(rows, sink, compression=codec, use_dictionary=dictionaries, **options)
        return column_sizes(pq.read_metadata(pa.BufferReader(sink.getvalue())), [0])


def column_sizes(metadata: pq.FileMetaData, groups: Collection[int]) -> Sizes:
    """Return the sizes of the columns in some row groups, from the footer of a file."""
    found = dict[str, Float64]()
    for row_group in map(metadata.row_group, groups):
        for number in range(row_group.num_columns):
            chunk, size = row_group.column(number), row_group.column(number).total_compressed_size
            before_data = chunk.data_page_offset - chunk.dictionary_page_offset if chunk.has_dictionary_page else 0
            dictionary = min(max(before_data, 0), size)
            found[chunk.path_in_schema] = total(found.get(chunk.path_in_schema), dictionary, size - dictionary)
    return found


def total(size: Float64 | None, dictionary: float, data: float) -> Float64:
    """Add the bytes of dictionary pages and of data pages to a size of a column."""
    added = np.array([dictionary, data], np.float64)
    return added if size is None else size + added


def summed(each: Collection[Sizes]) -> Sizes:
    """Return the sums of the sizes by column."""
    found = dict[str, Float64]()
    for sizes in each:
        for name, size in sizes.items():
            found[name] = total(found.get(name), *size)
    return found
