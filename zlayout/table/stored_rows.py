"""Consecutive rows of data files with all columns, by which the size of these rows in another order is estimated."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from zlayout.table.state import Float64, Int64

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
