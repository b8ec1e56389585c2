"""Reads key columns of randomly chosen row groups of Parquet files, without a JVM and limited in bytes.

Files are divided into strata of consecutive files with equal numbers of rows. Row groups are read from all strata in
turn, so that every part of a table that is clustered by time or partition is represented.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from zlayout.table.key_sample import RowGroups, RowGroupSample
from zlayout.table.state import Column, ColumnBounds, FileTable, Int64

MAX_STRATA = 64
# Every file that is opened costs a request for its footer.
MAX_ROW_GROUPS = 512
READER_THREADS = 8


@dataclass(frozen=True, slots=True)
class KeyFiles:
    """Access to the data files of a table.

    Attributes:
        open: Opens the file with a path as in the file table.
        leaf: Finds a column in the Arrow schema of a file. Returns the path of names, None if the file has no such
            column.
        constant: Returns the value of a column that a file does not contain, from its index in the file table.
    """

    open: Callable[[str], pa.NativeFile]
    leaf: Callable[[str, pa.Schema], tuple[str, ...] | None]
    constant: Callable[[str, int], Any]


@dataclass(frozen=True, slots=True)
class _Read:
    """The key columns of one row group, and the size of the column chunks."""

    file: int
    keys: tuple[pa.Array, ...]
    rows: int
    bytes: int
    number: int


def sample_row_groups(
    source: KeyFiles, files: FileTable, chosen: Int64, columns: Sequence[Column], max_bytes: int, seed: int
) -> RowGroupSample:
    """Read key columns of row groups until the column chunks exceed `max_bytes`.

    At least one row group is read, so that a single large one may exceed the limit.

    Args:
        source: Access to the files.
        chosen: int64, indices of the files to sample.
        max_bytes: The limit of the size of column chunks.
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
    footers = reader.footers(sorted({read.file for read in found}))
    return _joined(found, columns, used, seed, footers, complete=complete)


def _strata(files: FileTable, chosen: Int64) -> list[Int64]:
    """Divide the files, in order of partition and then of the table, into parts of about equal live rows."""
    order = chosen[np.lexsort((chosen, files.partition[chosen]))]
    rows = np.cumsum(np.maximum(files.live_rows[order], 1))
    number = min(MAX_STRATA, len(order))
    stratum = np.minimum((rows - 1) * number // max(int(rows[-1]), 1), number - 1) if len(rows) else rows
    return [order[stratum == n] for n in range(number) if (stratum == n).any()]


def _turns(strata: list[list[int]], reader: _Reader, random: np.random.Generator) -> Iterator[tuple[int, int, int]]:
    """Yield (file, row group, number), one of each stratum in turn, and each row group once."""
    waiting = [(list(files), dict[int, list[int]]()) for files in strata]
    number = 0
    while waiting:
        for at in random.permutation(len(waiting)).tolist():
            files, groups = waiting[at]
            file = int(files.pop(0))
            if file not in groups:
                groups[file] = random.permutation(reader.row_groups(file)).tolist()
            if not groups[file]:
                continue
            yield file, groups[file].pop(), number
            number += 1
            if groups[file]:
                files.append(file)
        waiting = [one for one in waiting if one[0]]


class _Reader:
    """Opens files once and reads row groups of them."""

    def __init__(self, source: KeyFiles, files: FileTable, columns: tuple[Column, ...]) -> None:
        self._source, self._files, self._columns = source, files, columns
        self._open: dict[int, pq.ParquetFile] = {}

    def row_groups(self, file: int) -> int:
        return int(self._parquet(file).metadata.num_row_groups)

    def footers(self, files: Sequence[int]) -> RowGroups:
        """Return all row groups of files, of which each one was opened before, with the bounds of the key columns."""
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

    def _paths(self, parquet: pq.ParquetFile) -> dict[str, tuple[str, ...] | None]:
        return {c.name: self._source.leaf(c.name, parquet.schema_arrow) for c in self._columns}

    def _parquet(self, file: int) -> pq.ParquetFile:
        if file not in self._open:
            self._open[file] = pq.ParquetFile(self._source.open(self._files.path[file].as_py()))
        return self._open[file]

    def read(self, file: int, group: int, number: int) -> _Read:
        # a file object of its own, because threads must not share the position of one
        opened = self._source.open(self._files.path[file].as_py())
        parquet = pq.ParquetFile(opened, metadata=self._parquet(file).metadata)
        paths = self._paths(parquet)
        wanted = [".".join(path) for path in paths.values() if path is not None]
        metadata = parquet.metadata.row_group(group)
        rows = int(metadata.num_rows)
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


def _bounds(statistics: Sequence[pq.Statistics | None], kind: pa.DataType) -> ColumnBounds:
    limits = [_limits(s, kind) for s in statistics]
    nulls = [s.null_count if s is not None and s.has_null_count else -1 for s in statistics]
    return ColumnBounds(
        pa.array([low for low, _ in limits], kind),
        pa.array([high for _, high in limits], kind),
        np.array(nulls, np.int64),
        np.zeros(len(nulls), bool),
    )


def _limits(statistics: pq.Statistics | None, kind: pa.DataType) -> tuple[Any, Any]:
    """Return minimum and maximum as values of the type; None twice if the footer has none that can be used."""
    if statistics is None or not statistics.has_min_max:
        return None, None
    try:
        found = statistics.min, statistics.max
        if pa.types.is_decimal(kind) and not all(isinstance(value, Decimal) for value in found):
            return None, None  # an unscaled integer
        return pa.scalar(found[0], kind), pa.scalar(found[1], kind)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return None, None


def _leaf(table: pa.Table, path: Sequence[str]) -> pa.Array:
    values = table.column(path[0])
    for name in path[1:]:
        values = pc.struct_field(values, name)
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def _typed(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    return values if values.type == kind else values.cast(kind, safe=False)


def _joined(
    found: Sequence[_Read], columns: Sequence[Column], used: int, seed: int, footers: RowGroups, *, complete: bool
) -> RowGroupSample:
    keys = {
        column.name: pa.concat_arrays([pa.array([], column.type), *(read.keys[n] for read in found)])
        for n, column in enumerate(columns)
    }
    rows = np.array([read.rows for read in found], np.int64)
    return RowGroupSample(
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
    """Return a function for `KeyFiles.leaf` that finds a column by its path of names in data files."""

    def leaf(column: str, schema: pa.Schema) -> tuple[str, ...] | None:
        path = paths[column]
        return path if path[0] in schema.names else None

    return leaf


def by_field_id(
    ids: Mapping[str, int], names: Mapping[str, tuple[str, ...]]
) -> Callable[[str, pa.Schema], tuple[str, ...] | None]:
    """Return a function for `KeyFiles.leaf` that finds a column by its field id, in files without ids by its names."""

    def leaf(column: str, schema: pa.Schema) -> tuple[str, ...] | None:
        paths = dict(_field_ids(schema, ()))
        if not paths:
            return by_name(names)(column, schema)
        return paths.get(ids[column])

    return leaf


def _field_ids(fields: Any, above: tuple[str, ...]) -> Iterator[tuple[int, tuple[str, ...]]]:
    for field in fields:
        path = (*above, field.name)
        id = (field.metadata or {}).get(b"PARQUET:field_id")
        if id is not None:
            yield int(id), path
        if pa.types.is_struct(field.type):
            yield from _field_ids(list(field.type), path)
