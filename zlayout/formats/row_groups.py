"""Reads samples of Parquet files without a JVM, up to a limit in bytes.

`sample_row_groups` reads key columns of randomly chosen row groups. Consecutive files form strata, which all have about
the same number of rows. Row groups are read from all strata in turn, so that every part of a table that is clustered by
time or partition is represented. `read_stored_rows` reads the first rows of some row groups with all columns.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import compress
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from zlayout.table.samples import KeySample, RowGroups, StoredRows, column_sizes, summed
from zlayout.table.state import Column, ColumnBounds, FileTable, Int64

MAX_STRATA = 64
# Limits the requests: row groups are chosen from different files if possible, and the footer of each file needs one.
MAX_ROW_GROUPS = 512
READER_THREADS = 8
MAX_ROWS_PER_GROUP = 1 << 25  # equal values take no space in a file, but some bytes for each row after reading

# Chunks of consecutive rows with all columns. The number of rows is no power of two, as this is where the width of an
# index into a dictionary changes, and the files that chunks are laid out in do not have exactly as many rows.
CHUNK_ROWS, MIN_CHUNK_ROWS = 3_000, 500
MAX_CHUNKS, MAX_CHUNK_FILES = 48, 16
MAX_CHUNK_VALUES = 3_000_000  # of all chunks and columns, which are encoded for each layout
PAGE_ROWS = 20_000  # the rows of a page by default; no more rows are read of a file
READ_BUFFER = 2**18
# Long values that a dictionary repeats take much more memory than space in a file: they are read a few rows at a time.
MAX_CHUNK_BYTES, BATCH_ROWS = 2**25, 100
# Nanoseconds, by default, cannot have the years before 1677 and after 2262.
_INT96 = {"coerce_int96_timestamp_unit": "us"}


@dataclass(frozen=True, slots=True)
class KeyFiles:
    """Access to the data files of a table.

    Attributes:
        open: Opens a file, given its path as in the file table.
        leaf: Returns the path of names of a column in a file, given the dotted name of the column and the Arrow schema
            of the file; None if the file does not have the column.
        constant: Returns the value of a column that a file does not contain, for example a partition value, given the
            dotted name of the column and the index of the file in the file table.
        required: The names of columns that every file must have.
    """

    open: Callable[[str], pa.NativeFile]
    leaf: Callable[[str, pa.Schema], tuple[str, ...] | None]
    constant: Callable[[str, int], Any]
    required: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class _Read:
    """The key columns of one row group."""

    file: int  # the index in the file table
    keys: tuple[pa.Array, ...]  # the values of each key column
    rows: int
    bytes: int  # of the column chunks of the key columns
    number: int  # in the order of the random choice


def sample_row_groups(
    source: KeyFiles, files: FileTable, chosen: Int64, columns: Sequence[Column], max_bytes: int, seed: int
) -> KeySample:
    """Read key columns of row groups until their column chunks reach `max_bytes`, or until MAX_ROW_GROUPS are read.

    The last row groups that are read may exceed the limits.

    Args:
        source: Access to the files.
        files: The file table.
        chosen: int64, indices of the files to sample.
        columns: The key columns.
        max_bytes: The limit on the size of the column chunks, at least 1.
        seed: The seed of the random choice.

    Raises:
        OSError, pyarrow.ArrowException: If a file cannot be read.
    """
    random = np.random.default_rng(seed)
    reader = _Reader(source, files, tuple(columns))
    strata = [list(random.permutation(part)) for part in _strata(files, chosen)]
    turns = _turns(strata, reader, random)
    found: list[_Read] = []
    complete, used, size = False, 0, max_bytes
    with ThreadPoolExecutor(READER_THREADS) as pool:
        while used < max_bytes and len(found) < MAX_ROW_GROUPS:
            wanted = max(1, min(READER_THREADS, (max_bytes - used) // max(size, 1)))
            batch = [turn for _, turn in zip(range(wanted), turns, strict=False)]
            if not batch:
                complete = True
                break
            found += pool.map(lambda turn: reader.read(*turn), batch)
            used = sum(read.bytes for read in found)
            size = used // len(found)
        else:
            complete = next(turns, None) is None
    opened = sorted({read.file for read in found})
    sample = _joined(found, columns, used, seed, reader.footers(opened), complete=complete)
    return replace(sample, lacking=reader.lacking(opened))


def _strata(files: FileTable, chosen: Int64) -> list[Int64]:
    """Divide the chosen files, in the order of partition and index, into parts with about equally many live rows."""
    order = chosen[np.lexsort((chosen, files.partition[chosen]))]
    rows = np.cumsum(np.maximum(files.live_rows[order], 1))
    number = min(MAX_STRATA, len(order))
    stratum = np.minimum((rows - 1) * number // max(int(rows[-1]), 1), number - 1) if len(rows) else rows
    return [order[stratum == n] for n in range(number) if (stratum == n).any()]


def _turns(strata: list[list[int]], reader: _Reader, random: np.random.Generator) -> Iterator[tuple[int, int, int]]:
    """Yield each row group once, as (file, row group, number): one of each stratum, then another one of each, ..."""
    waiting = [(list(files), dict[int, list[int]]()) for files in strata]
    number = 0
    while waiting:
        for at in random.permutation(len(waiting)).tolist():
            files, groups = waiting[at]
            file = int(files.pop(0))
            if file not in groups:
                groups[file] = random.permutation(reader.number_of_row_groups(file)).tolist()
            if not groups[file]:
                continue
            yield file, groups[file].pop(), number
            number += 1
            if groups[file]:
                files.append(file)
        waiting = [one for one in waiting if one[0]]


def read_stored_rows(
    source: KeyFiles, files: FileTable, chosen: Int64, columns: Sequence[Column], max_bytes: int
) -> StoredRows | None:
    """Read the first rows of row groups of a few files, which are spread evenly over the chosen files.

    Args:
        source: Access to the files.
        files: The file table.
        chosen: int64, indices of the files to read.
        columns: The columns of `StoredRows.keys`. Those that a file does not contain are left out.
        max_bytes: The limit on the expected size of the pages that are read.

    Returns:
        The rows, of files with the same schema and codec; None if the pages of one file exceed the limit, or if the
        files have too few rows.

    Raises:
        OSError, pyarrow.ArrowException: If a file cannot be read.
    """
    order = chosen[np.lexsort((chosen, files.partition[chosen]))]
    order = order[files.rows[order] >= MIN_CHUNK_ROWS]
    if not len(order):
        return None
    reader = _Reader(source, files, tuple(columns))
    first = reader.stored_metadata(int(order[0]))
    most = min(MAX_CHUNK_FILES, len(order), max_bytes // max(_first_pages(first), 1))
    if not most or not first.num_row_groups:
        return None
    spread = order[(np.arange(most) * len(order)) // most].tolist()
    with ThreadPoolExecutor(READER_THREADS) as pool:
        metadata = dict(zip(spread, pool.map(reader.stored_metadata, spread), strict=True))
    kind = _kind(first)
    alike = [
        file
        for file, one in metadata.items()
        if one.num_row_groups and one.row_group(0).num_rows >= MIN_CHUNK_ROWS and _kind(one) == kind
    ]
    if not alike:
        return None
    rows = min(CHUNK_ROWS, *(metadata[file].row_group(0).num_rows for file in alike))
    number = min(MAX_CHUNKS, MAX_CHUNK_VALUES // (rows * max(first.num_columns, 1)))
    if number < 2:
        return None
    each = min(-(-number // len(alike)), PAGE_ROWS // rows)
    with ThreadPoolExecutor(READER_THREADS) as pool:
        read = list(pool.map(lambda file: reader.first_rows(file, rows * each), alike))
    same = [table.schema.equals(read[0][0].schema) for table, _ in read]
    alike, read = list(compress(alike, same)), list(compress(read, same))
    # The first chunk of each file, then the second one of each, because not all chunks may be used.
    places = [(n, at) for at in range(each) for n, (table, _) in enumerate(read) if len(table) >= rows * (at + 1)]
    places = places[:number]
    if not places:
        return None
    known = [name for name in (column.name for column in columns) if all(name in keys for _, keys in read)]
    return StoredRows(
        file=np.array([alike[n] for n, _ in places], np.int64),
        rows=tuple(read[n][0].slice(at * rows, rows) for n, at in places),
        keys={name: tuple(read[n][1][name].slice(at * rows, rows) for n, at in places) for name in known},
        stored=summed([column_sizes(metadata[file], [0]) for file in alike]),
        stored_rows=sum(metadata[file].row_group(0).num_rows for file in alike),
        codec=first.row_group(0).column(0).compression,
    )


def _plain(rows: pa.Table) -> pa.Table:
    """Return rows without the types that Arrow restores from its own metadata, not all of which it can reorder."""

    def plain(type_: pa.DataType) -> pa.DataType:
        if pa.types.is_dictionary(type_):
            return plain(type_.value_type)
        views = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
        return views.get(type_, type_)

    return rows.cast(pa.schema([field.with_type(plain(field.type)) for field in rows.schema]))


def _first_pages(metadata: pq.FileMetaData) -> int:
    """Return the expected size of the first pages of all columns of the first row group."""
    rows = metadata.row_group(0).num_rows if metadata.num_row_groups else 0
    sizes = column_sizes(metadata, range(min(metadata.num_row_groups, 1))).values()
    return int(sum(dictionary + data * min(1.0, PAGE_ROWS / max(rows, 1)) for dictionary, data in sizes))


def _kind(metadata: pq.FileMetaData) -> tuple[Any, ...]:
    """Return what files must have in common so that their rows can be encoded together."""
    group = metadata.row_group(0)
    return tuple(
        (chunk.path_in_schema, chunk.physical_type, chunk.compression)
        for chunk in map(group.column, range(group.num_columns))
    )


class _Reader:
    """Reads footers and row groups. The footer of each file is read once."""

    def __init__(self, source: KeyFiles, files: FileTable, columns: tuple[Column, ...]) -> None:
        self._source, self._files, self._columns = source, files, columns
        self._open: dict[int, pq.ParquetFile] = {}

    def number_of_row_groups(self, file: int) -> int:
        return int(self._parquet(file).metadata.num_row_groups)

    def footers(self, files: Sequence[int]) -> RowGroups:
        """Return all row groups of the files, with the bounds of the key columns."""
        found: dict[str, list[pq.Statistics | None]] = {column.name: [] for column in self._columns}
        file, rows, size = [], [], []
        for index in files:
            parquet = self._parquet(index)
            metadata, paths = parquet.metadata, self._paths(parquet)
            position = {metadata.schema.column(n).path: n for n in range(metadata.num_columns)}
            for group in map(metadata.row_group, range(metadata.num_row_groups)):
                file.append(index)
                rows.append(group.num_rows)
                size.append(group.total_byte_size)
                for name, statistics in found.items():
                    chunk = position.get(".".join(paths[name] or ()))
                    statistics.append(None if chunk is None else group.column(chunk).statistics)
        bounds = {column.name: _bounds(found[column.name], column.type) for column in self._columns}
        return RowGroups(np.array(file, np.int64), np.array(rows, np.int64), np.array(size, np.int64), bounds)

    def lacking(self, files: Sequence[int]) -> dict[str, int]:
        """Return the number of the files that lack each required column, if any does."""
        source = self._source
        found = dict.fromkeys(source.required, 0)
        for file in files:
            schema = self._parquet(file).schema_arrow
            for name in found:
                found[name] += source.leaf(name, schema) is None and source.constant(name, file) is None
        return {name: number for name, number in found.items() if number}

    def stored_metadata(self, file: int) -> pq.FileMetaData:
        """Return the footer. Several threads may call this for different files."""
        return self._parquet(file).metadata

    def first_rows(self, file: int, rows: int) -> tuple[pa.Table, dict[str, pa.Array]]:
        """Read the first rows of the first row group, at most `rows`, and the key columns that it contains.

        Fewer rows are read if they take more memory than MAX_CHUNK_BYTES.
        """
        opened = self._source.open(self._files.path[file].as_py())
        parquet = pq.ParquetFile(opened, metadata=self._parquet(file).metadata, buffer_size=READ_BUFFER, **_INT96)
        read, known, size = list[pa.RecordBatch](), 0, 0
        for batch in parquet.iter_batches(batch_size=BATCH_ROWS, row_groups=[0], use_threads=False):
            read.append(batch)
            known, size = known + len(batch), size + batch.nbytes
            if known >= rows or size > MAX_CHUNK_BYTES:
                break
        table = _plain(pa.Table.from_batches(read)).slice(0, rows).combine_chunks()
        paths = ((column, path) for column in self._columns if (path := self._paths(parquet)[column.name]))
        return table, {column.name: _typed(_leaf(table, path), column.type) for column, path in paths}

    def _paths(self, parquet: pq.ParquetFile) -> dict[str, tuple[str, ...] | None]:
        return {c.name: self._source.leaf(c.name, parquet.schema_arrow) for c in self._columns}

    def _parquet(self, file: int) -> pq.ParquetFile:
        if file not in self._open:
            self._open[file] = pq.ParquetFile(self._source.open(self._files.path[file].as_py()), **_INT96)
        return self._open[file]

    def read(self, file: int, group: int, number: int) -> _Read:
        """Read the key columns of one row group. Several threads may call this."""
        # The file is opened again, because threads must not share the position in one file object.
        opened = self._source.open(self._files.path[file].as_py())
        parquet = pq.ParquetFile(opened, metadata=self._parquet(file).metadata, **_INT96)
        paths = self._paths(parquet)
        wanted = [".".join(path) for path in paths.values() if path is not None]
        metadata = parquet.metadata.row_group(group)
        rows = int(metadata.num_rows)
        if rows > MAX_ROWS_PER_GROUP:
            name = self._files.path[file].as_py()
            raise pa.ArrowInvalid(f"a row group of {name} has {rows:,} rows, and zlayout reads {MAX_ROWS_PER_GROUP:,}")
        size = sum(
            metadata.column(n).total_compressed_size
            for n in range(metadata.num_columns)
            if metadata.column(n).path_in_schema in wanted
        )
        table = parquet.read_row_group(group, columns=wanted, use_threads=False) if wanted else None
        keys = []
        for column in self._columns:
            path = paths[column.name]
            if path is None or table is None:
                value = pa.scalar(self._source.constant(column.name, file), column.type)
                keys.append(pa.repeat(value, rows))
            else:
                keys.append(_typed(_leaf(table, path), column.type))
        return _Read(file, tuple(keys), rows, int(size), number)


def _bounds(statistics: Sequence[pq.Statistics | None], type_: pa.DataType) -> ColumnBounds:
    limits = [_limits(s, type_) for s in statistics]
    nulls = [s.null_count if s is not None and s.has_null_count else -1 for s in statistics]
    return ColumnBounds(
        pa.array([low for low, _ in limits], type_),
        pa.array([high for _, high in limits], type_),
        np.array(nulls, np.int64),
        np.zeros(len(nulls), bool),
    )


def _limits(statistics: pq.Statistics | None, type_: pa.DataType) -> tuple[Any, Any]:
    if statistics is None or not statistics.has_min_max:
        return None, None
    try:
        if statistics.physical_type in ("INT32", "INT64") and pa.types.is_decimal(type_):
            if (logical := statistics.logical_type).type != "DECIMAL":
                return None, None  # an integer, from before the type of the column was widened
            scale = json.loads(logical.to_json())["scale"]  # Arrow before version 23 does not apply it
            found: Iterable[Any] = (Decimal(raw).scaleb(-scale) for raw in (statistics.min_raw, statistics.max_raw))
        else:
            found = (statistics.min, statistics.max)
        low, high = (pa.scalar(value, type_) for value in found)
        return low, high
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return None, None


def _leaf(table: pa.Table, path: Sequence[str]) -> pa.Array:
    values = table.column(path[0])
    for name in path[1:]:
        values = pc.struct_field(values, name)
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def _typed(values: pa.Array, type_: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    return values if values.type == type_ else values.cast(type_, safe=False)


def _joined(
    found: Sequence[_Read], columns: Sequence[Column], used: int, seed: int, footers: RowGroups, *, complete: bool
) -> KeySample:
    keys = {
        column.name: pa.concat_arrays([pa.array([], column.type), *(read.keys[n] for read in found)])
        for n, column in enumerate(columns)
    }
    rows = np.array([read.rows for read in found], np.int64)
    return KeySample(
        keys=keys,
        file=np.repeat(np.array([read.file for read in found], np.int64), rows),
        row_group=np.repeat(np.array([read.number for read in found], np.int64), rows),
        row_groups=len(found),
        files=len({read.file for read in found}),
        bytes_read=used,
        seed=seed,
        complete=complete,
        footers=footers,
    )


def by_name(paths: Mapping[str, tuple[str, ...]]) -> Callable[[str, pa.Schema], tuple[str, ...] | None]:
    """Return a function for `KeyFiles.leaf` that finds columns by name.

    paths: the path of names of each column in data files, by its dotted name.
    """

    def leaf(column: str, schema: pa.Schema) -> tuple[str, ...] | None:
        fields: Any = schema
        for name in paths[column]:  # a file may have a struct without a field that was added to it later
            at = fields.get_field_index(name) if isinstance(fields, pa.Schema | pa.StructType) else -1
            if at < 0:
                return None
            fields = fields.field(at).type
        return paths[column]

    return leaf


def by_field_id(
    ids: Mapping[str, int], mapped: Mapping[str, int]
) -> Callable[[str, pa.Schema], tuple[str, ...] | None]:
    """Return a function for `KeyFiles.leaf` that finds columns by field id.

    Args:
        ids: The field id of each column, by its dotted name.
        mapped: The field id of each name that a column has in files without field ids, by its dotted name.
    """

    def leaf(column: str, schema: pa.Schema) -> tuple[str, ...] | None:
        fields = list(_fields(schema, ()))
        found = {id: path for id, path in fields if id is not None}
        if not found:
            found = {mapped[name]: path for _, path in fields if (name := ".".join(path)) in mapped}
        return found.get(ids[column])

    return leaf


def _fields(fields: Any, above: tuple[str, ...]) -> Iterator[tuple[int | None, tuple[str, ...]]]:
    """Yield the field id, None if it has none, and the path of names of each field below the path `above`."""
    for field in fields:
        path = (*above, field.name)
        id = (field.metadata or {}).get(b"PARQUET:field_id")
        yield None if id is None else int(id), path
        if pa.types.is_struct(field.type):
            yield from _fields(list(field.type), path)
