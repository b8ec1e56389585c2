"""Reads the live entries of a snapshot's manifests as columns.

pyiceberg's `fetch_manifest_entry` (0.12) does not read the fields of format version 3, for example
`referenced_data_file`. Therefore this module uses pyiceberg's Avro reader with its own projection to the needed fields.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from zlayout.formats.iceberg.read.avro import open_avro, schema_of, struct_reader
from zlayout.table.state import Int32, Int64

if TYPE_CHECKING:
    from pyiceberg.avro.reader import StructReader
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.typedef import Record

MAX_CONCURRENT_READS = 16
MIN_BYTES_FOR_THREADS = 1 << 18  # to read fewer bytes of local manifests takes less time than to start threads
DELETED, ADDED = 2, 1
DATA, POSITION_DELETES, EQUALITY_DELETES = 0, 1, 2
FILE_PATH_FIELD = 2147483546  # the reserved field id of `file_path` in a position delete file

# Field ids of the Iceberg spec, and the positions of these fields in the records of `entries`.
DATA_FILE = 2
_ENTRY = (0, 1, 3, 4, DATA_FILE)
_DATA_FILE = (134, 100, 101, 102, 103, 104, 110, 125, 128, 131, 143, 144, 135)
_STATUS, _SNAPSHOT, _SEQUENCE, _WRITTEN, _FILE = range(5)
_CONTENT, _PATH, _FORMAT, _PARTITION, _ROWS, _BYTES, _NULLS, _LOWER, _UPPER, _KEY, _REFERENCED, _OFFSET = range(12)
_EQUALITY = 12

PartitionKey = tuple[int, tuple[Any, ...]]


class DeleteFile(NamedTuple):
    """A position delete file, a deletion vector or an equality delete file.

    Attributes:
        key: The path; for a deletion vector the path and the offset, because one Puffin file contains many vectors.
        content: POSITION_DELETES (also for a deletion vector) or EQUALITY_DELETES.
        sequence: The data sequence number.
        rows: The number of deletes in the file.
        referenced: The path of the only data file to which the deletes apply, None if there may be several.
        lowest: The lower bound of the data file paths in a position delete file, None if missing.
        highest: The upper bound of the data file paths in a position delete file, None if missing.
        equality: The field ids of the columns of an equality delete file.
        lower: The serialized lower bounds of these columns by field id.
        upper: The serialized upper bounds of these columns by field id.
        nulls: The null counts of these columns by field id.
        snapshot: The id of the snapshot that added the file.
    """

    key: str
    content: int
    vector: bool
    partition: PartitionKey
    sequence: int
    rows: int
    referenced: str | None
    lowest: str | None
    highest: str | None
    equality: tuple[int, ...] = ()
    lower: Mapping[int, bytes] = MappingProxyType({})
    upper: Mapping[int, bytes] = MappingProxyType({})
    nulls: Mapping[int, int] = MappingProxyType({})
    snapshot: int = -1


@dataclass(slots=True)
class DataColumns:
    """The live data files in the order of the manifests, one list per field, and the delete files.

    Attributes:
        sequence: The data sequence numbers. A rewrite may give its new files the number of the snapshot it has read.
        written: The file sequence numbers, which are those of the commits that added the files.
        snapshot: The ids of the snapshots that added the files.
        partition: The number of each file's partition in `partitions`.
        lower: The serialized lower bounds by field id. `upper` and `nulls` are by field id too.
        nulls: The null counts, -1 if unknown.
        encrypted: Whether any of the files is encrypted.
    """

    path: list[str] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    size: list[int] = field(default_factory=list)
    sequence: list[int] = field(default_factory=list)
    written: list[int] = field(default_factory=list)
    snapshot: list[int] = field(default_factory=list)
    partition: list[int] = field(default_factory=list)
    partitions: dict[PartitionKey, int] = field(default_factory=dict)
    lower: dict[int, list[bytes | None]] = field(default_factory=dict)
    upper: dict[int, list[bytes | None]] = field(default_factory=dict)
    nulls: dict[int, list[int]] = field(default_factory=dict)
    formats: set[str] = field(default_factory=set)
    encrypted: bool = False
    deletes: list[DeleteFile] = field(default_factory=list)

    def int64(self, name: str) -> Int64:
        return np.array(getattr(self, name), np.int64)

    def partition_index(self) -> Int32:
        return np.array(self.partition, np.int32)

    def paths(self) -> pa.Array:
        return pa.array(self.path, pa.string())


def read_live(manifests: Iterable[ManifestFile], io: FileIO, field_ids: Sequence[int]) -> DataColumns:
    """Read all live entries. Raises the errors of pyiceberg.

    Args:
        manifests: The manifests of a snapshot.
        io: The file system.
        field_ids: The columns whose bounds and null counts are read, in addition to those of equality delete files.
    """
    from pyiceberg.manifest import ManifestContent

    columns = DataColumns()
    every = list(manifests)
    deletes = [m for m in every if m.content == ManifestContent.DELETES]
    opened = _opened(deletes + [m for m in every if m.content == ManifestContent.DATA], io)
    for manifest, found in islice(opened, len(deletes)):
        columns.deletes += [_delete_file(manifest, e) for e in found if e[_STATUS] != DELETED]
    ids = {*field_ids, *(i for delete in columns.deletes for i in delete.equality)}
    for by_id in (columns.lower, columns.upper):
        by_id.update({i: [] for i in ids})
    columns.nulls.update({i: [] for i in ids})
    for manifest, found in opened:
        _append_data(columns, manifest, [e for e in found if e[_STATUS] != DELETED])
    return columns


class Change(NamedTuple):
    """The data files that one snapshot removed and added: paths, sizes in bytes, and the number of added rows."""

    removed: frozenset[str]
    added: frozenset[str]
    bytes_removed: int
    bytes_added: int
    rows_added: int


def read_change(manifests: Iterable[ManifestFile], io: FileIO, snapshot_id: int) -> Change:
    """Read the data files that a snapshot added and removed, from the manifests that the snapshot wrote."""
    removed: dict[str, int] = {}
    added: dict[str, int] = {}
    rows = 0
    for manifest, found in _opened([m for m in manifests if m.added_snapshot_id == snapshot_id], io):
        for entry in found:
            data = entry[_FILE]
            if data[_CONTENT] != DATA or _snapshot(entry, manifest) != snapshot_id:
                continue
            if entry[_STATUS] == DELETED:
                removed[data[_PATH]] = data[_BYTES]
            elif entry[_STATUS] == ADDED:
                added[data[_PATH]] = data[_BYTES]
                rows += data[_ROWS]
    return Change(frozenset(removed), frozenset(added), sum(removed.values()), sum(added.values()), rows)


def _opened(manifests: Sequence[ManifestFile], io: FileIO) -> Iterator[tuple[ManifestFile, Iterator[Record]]]:
    is_local = all(manifest.manifest_path.startswith(("file:", "/")) for manifest in manifests)
    if is_local and sum(manifest.manifest_length for manifest in manifests) < MIN_BYTES_FOR_THREADS:
        yield from ((manifest, entries(manifest, io)) for manifest in manifests)
        return
    with ThreadPoolExecutor(MAX_CONCURRENT_READS) as pool:
        for first in range(0, len(manifests), MAX_CONCURRENT_READS):
            batch = manifests[first : first + MAX_CONCURRENT_READS]
            yield from zip(batch, pool.map(lambda manifest: entries(manifest, io), batch), strict=True)


def entries(manifest: ManifestFile, io: FileIO) -> Iterator[Record]:
    """Fetch a manifest. Return all its entries as records with the fields of `_ENTRY` and `_DATA_FILE`."""
    return open_avro(manifest.manifest_path, io, _projection)


@lru_cache(maxsize=64)
def _projection(schema: str) -> StructReader:
    """Return a reader of `_ENTRY` and `_DATA_FILE` alone. pyiceberg's own projection cannot skip a map or a list."""
    from pyiceberg.avro.reader import DefaultReader
    from pyiceberg.types import StructType

    entry = schema_of(schema).as_struct()
    data_file = entry.field(DATA_FILE)
    if data_file is None or not isinstance(data_file.field_type, StructType):
        raise ValueError("expected a struct data_file in a manifest entry, found none")
    content = struct_reader(data_file.field_type, _DATA_FILE, {_CONTENT: DefaultReader(DATA)}, {})
    return struct_reader(entry, _ENTRY, {}, {DATA_FILE: content})


def _append_data(columns: DataColumns, manifest: ManifestFile, live: list[Record]) -> None:
    files = [e[_FILE] for e in live]
    columns.path += [f[_PATH] for f in files]
    columns.rows += [f[_ROWS] for f in files]
    columns.size += [f[_BYTES] for f in files]
    columns.sequence += [_sequence(e, manifest) for e in live]
    columns.written += [_written(e, manifest) for e in live]
    columns.snapshot += [_snapshot(e, manifest) for e in live]
    columns.formats.update({f[_FORMAT].upper() for f in files})
    columns.encrypted |= any(f[_KEY] is not None for f in files)
    spec_id, seen = manifest.partition_spec_id, columns.partitions
    columns.partition += [seen.setdefault((spec_id, _values(f)), len(seen)) for f in files]
    for field_id in columns.lower:
        columns.lower[field_id] += [(f[_LOWER] or {}).get(field_id) for f in files]
        columns.upper[field_id] += [(f[_UPPER] or {}).get(field_id) for f in files]
        columns.nulls[field_id] += [(f[_NULLS] or {}).get(field_id, -1) for f in files]


def _delete_file(manifest: ManifestFile, entry: Record) -> DeleteFile:
    data = entry[_FILE]
    low = _path_bound(data[_LOWER])
    high = _path_bound(data[_UPPER])
    referenced = data[_REFERENCED] or (low if low is not None and low == high else None)
    ids = tuple(data[_EQUALITY] or ()) if data[_CONTENT] == EQUALITY_DELETES else ()

    def of_equality(values: dict[int, Any] | None) -> dict[int, Any]:
        return {i: values[i] for i in ids if i in values} if values else {}

    return DeleteFile(
        key=data[_PATH] if data[_OFFSET] is None else f"{data[_PATH]}@{data[_OFFSET]}",
        content=data[_CONTENT],
        vector=data[_OFFSET] is not None,
        partition=(manifest.partition_spec_id, _values(data)),
        sequence=_sequence(entry, manifest),
        rows=data[_ROWS],
        referenced=referenced if data[_CONTENT] == POSITION_DELETES else None,
        lowest=low,
        highest=high,
        equality=ids,
        lower=of_equality(data[_LOWER]),
        upper=of_equality(data[_UPPER]),
        nulls=of_equality(data[_NULLS]),
        snapshot=_snapshot(entry, manifest),
    )


def _values(data_file: Record) -> tuple[Any, ...]:
    """Return the partition values of a file. Every NaN is the same object, so that equal partitions are equal."""
    return tuple(math.nan if value != value else value for value in data_file[_PARTITION]._data)


def _path_bound(bounds: dict[int, bytes] | None) -> str | None:
    value = (bounds or {}).get(FILE_PATH_FIELD)
    return None if value is None else value.decode()


def _sequence(entry: Record, manifest: ManifestFile) -> int:
    """Return the data sequence number. New entries inherit it from the manifest; in format version 1 it is 0."""
    own = entry[_SEQUENCE]
    return int(own if own is not None else manifest.sequence_number or 0)


def _written(entry: Record, manifest: ManifestFile) -> int:
    """Return the file sequence number, which new entries inherit, or the data sequence number if it is missing."""
    if (own := entry[_WRITTEN]) is not None:  # old writers may omit it
        return int(own)
    return int(manifest.sequence_number or 0) if entry[_STATUS] == ADDED else _sequence(entry, manifest)


def _snapshot(entry: Record, manifest: ManifestFile) -> int:
    own = entry[_SNAPSHOT]
    return int(own if own is not None else manifest.added_snapshot_id or -1)
