"""Reads the manifests of Iceberg tables as columns, with limits for the sizes of Avro files.

`manifests_of` lists the manifests of a snapshot, `read_live` reads their live entries, and `read_change` the files that
a snapshot added and removed. pyiceberg's `fetch_manifest_entry` (0.12) does not read the fields of format version 3,
for example `referenced_data_file`. Therefore this module uses pyiceberg's Avro reader with its own projection to the
needed fields.
"""

from __future__ import annotations

import json
import math
from bz2 import BZ2Decompressor
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyiceberg.avro.codecs import KNOWN_CODECS
from pyiceberg.avro.decoder import BinaryDecoder, new_decoder
from pyiceberg.avro.file import META_SCHEMA, AvroFile, AvroFileHeader, Block
from pyiceberg.avro.reader import DefaultReader, OptionReader, Reader, StructReader
from pyiceberg.avro.resolver import construct_reader, resolve_reader
from pyiceberg.io import FileIO
from pyiceberg.manifest import (
    DEFAULT_READ_VERSION,
    MANIFEST_LIST_FILE_SCHEMAS,
    ManifestContent,
    ManifestFile,
    PartitionFieldSummary,
)
from pyiceberg.schema import Schema, index_by_id
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.typedef import Record
from pyiceberg.types import FixedType, IcebergType, ListType, MapType, StructType, UnknownType
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

from zlayout.formats.iceberg.read.unread_types import content_of
from zlayout.reading import DEFLATE, TooLargeError, inflated
from zlayout.table.state import Int32, Int64

# Avro, decoded within the bytes that were given.
#
# pyiceberg's compiled decoder (0.12) trusts the lengths and counts in a file. With others, it reads the memory of the
# process as if it was the file, or ends the process. Therefore each is compared with the bytes that are left.


_PADDING = bytes(16)  # in which a number ends whose last byte is missing
_MAX_INT_BYTES = 10
_NO_LAST_BYTE = bytes(range(0x80, 0x100))  # the bytes after which a number continues
_UNSIGNED = 2**64 - 1


class BoundedDecoder(BinaryDecoder):
    """A decoder that raises EOFError instead of reading beyond its data, or before them."""

    def __init__(self, data: bytes) -> None:
        self._end = len(data)
        self._data = data + _PADDING
        self._decoder = new_decoder(self._data)

    def tell(self) -> int:
        return self._decoder.tell()

    def _require(self, count: int) -> None:
        left = self._end - self._decoder.tell()
        if not 0 <= count <= left:
            raise EOFError(f"expected {count} more bytes, found {max(left, 0)}")

    def read(self, n: int) -> bytes:
        self._require(n)
        return self._decoder.read(n)

    def skip(self, n: int) -> None:
        self._require(n)
        self._decoder.skip(n)

    def read_boolean(self) -> bool:
        self._require(1)
        return self._decoder.read_boolean()

    def read_int(self) -> int:
        self._require(1)
        return self._decoder.read_int()

    def read_ints(self, count: int) -> Any:
        """Return unsigned integers of 64 bits, as the compiled decoder does."""
        self._require(count)
        at = self._decoder.tell()
        following = self._data[at : min(at + _MAX_INT_BYTES * count, self._end)]
        if len(following.translate(None, _NO_LAST_BYTE)) >= count:
            return self._decoder.read_ints(count)
        return tuple(self.read_int() & _UNSIGNED for _ in range(count))

    def read_int_bytes_dict(self, count: int, dest: dict[int, bytes]) -> None:
        self._require(2 * count)
        end, decoder = self._end, self._decoder
        tell, read_int, read = decoder.tell, decoder.read_int, decoder.read
        for _ in range(count):  # the loop of `read_int` and `read_bytes`, which takes most of the time for wide tables
            key, length = read_int(), read_int()  # at most in the padding
            if not 0 <= length <= end - tell():
                raise EOFError(f"expected {length} more bytes, found others")
            dest[key] = read(length)

    def read_bytes(self) -> bytes:
        return self.read(self.read_int())

    def read_float(self) -> float:
        self._require(4)
        return self._decoder.read_float()

    def read_double(self) -> float:
        self._require(8)
        return self._decoder.read_double()

    def read_utf8(self) -> str:
        return self.read_bytes().decode("utf-8")

    def skip_boolean(self) -> None:
        self.skip(1)

    def skip_int(self) -> None:
        self._require(1)
        self._decoder.skip_int()

    def skip_float(self) -> None:
        self.skip(4)

    def skip_double(self) -> None:
        self.skip(8)

    def skip_bytes(self) -> None:
        self.skip(self.read_int())

    def skip_utf8(self) -> None:
        self.skip(self.read_int())


# Avro files, read through pyiceberg with readers that are made once for each Avro schema.
#
# pyiceberg makes new readers for each file, which takes several times as long as reading a small manifest.


# The records of a file, and their bytes after decompression. Writers divide larger metadata among several manifests.
MAX_AVRO_BYTES = 512 << 20
MAX_AVRO_RECORDS = 5_000_000
_SYNC_BYTES = 16
_SCHEMA, _CODEC = "avro.schema", "avro.codec"  # the keys of the schema and of the codec in the metadata of a file
_HEADER = construct_reader(META_SCHEMA, {-1: AvroFileHeader})


def open_avro(location: str, io: FileIO, reader_of: Callable[[str], Reader]) -> AvroFile[Any]:
    """Fetch a whole Avro file. Return it as an iterator of its records.

    Args:
        io: The file system.
        reader_of: Returns the reader of the records, given the Avro schema as JSON.

    Raises:
        ValueError: If the file contains no Avro schema; TooLargeError if the file has more than MAX_AVRO_BYTES; also
            other errors of pyiceberg. Iterating raises TooLargeError for the bytes after decompression.
    """
    file = _LimitedFile(io.new_input(location))
    file.decoder = BoundedDecoder(content_of(file.input_file, MAX_AVRO_BYTES))
    file.header = _HEADER.read(file.decoder)
    if (schema := file.header.meta.get(_SCHEMA)) is None:
        raise ValueError(f"expected an Avro schema in {location}, found none")
    file.reader = reader_of(schema)
    return file


def manifests_of(snapshot: Snapshot, io: FileIO) -> list[ManifestFile]:
    """Return the manifests of a snapshot, from its manifest list. Raises the errors of pyiceberg."""
    return list(open_avro(snapshot.manifest_list, io, _manifest_list_reader))


def schema_of(avro_schema: str) -> Schema:
    """Return the Iceberg schema of an Avro schema, which is JSON.

    Raises:
        ValueError: A list or a map may have elements without bytes, of which a small file can contain any number.
    """
    schema = AvroSchemaConversion().avro_to_iceberg(json.loads(avro_schema))
    for each in index_by_id(schema).values():
        _require_bytes(each.field_type)
    return schema


def _require_bytes(type_: IcebergType) -> None:
    match type_:
        case ListType(element_required=True) if not _has_bytes(type_.element_type):
            raise ValueError("an Avro schema has a list whose elements have no bytes")
        case MapType(value_required=True) if not (_has_bytes(type_.key_type) or _has_bytes(type_.value_type)):
            raise ValueError("an Avro schema has a map whose entries have no bytes")


def _has_bytes(type_: IcebergType) -> bool:
    match type_:
        case StructType():
            return any(not each.required or _has_bytes(each.field_type) for each in type_.fields)
        case FixedType():
            return len(type_) > 0
    return not isinstance(type_, UnknownType)


def struct_reader(
    struct: StructType, wanted: Sequence[int], absent: Mapping[int, Reader], nested: Mapping[int, Reader]
) -> StructReader:
    """Return a reader of some fields of a struct.

    Args:
        wanted: The field ids, in the order of the records.
        absent: Readers, by position in `wanted`, of fields that the struct may lack. Other missing fields are null.
        nested: Readers of nested structs by field id.
    """
    readers: list[tuple[int | None, Reader]] = []
    for known in struct.fields:
        reader = nested.get(known.field_id) or construct_reader(known.field_type)
        reader = reader if known.required else OptionReader(reader)
        position = wanted.index(known.field_id) if known.field_id in wanted else None
        readers.append((position, reader) if position is not None else (None, _Dropping(reader)))
    present = {known.field_id for known in struct.fields}
    readers += [(i, absent.get(i, DefaultReader(None))) for i, field_id in enumerate(wanted) if field_id not in present]
    return StructReader(tuple(readers), Record, struct)


class _Dropping(Reader):
    """Skips a value by reading it, because pyiceberg skips the entries of a map one by one."""

    def __init__(self, reader: Reader) -> None:
        self.read = reader.read  # type: ignore[method-assign]

    def read(self, decoder: Any) -> Any:
        raise NotImplementedError

    def skip(self, decoder: Any) -> None:
        self.read(decoder)


class _LimitedFile(AvroFile[Any]):
    __slots__ = ("records", "size")

    def _read_block(self) -> int:
        """As in pyiceberg, but with limits."""
        location = self.input_file.location
        if self.block is None:
            self.size = self.records = 0
        elif (sync := self.decoder.read(_SYNC_BYTES)) != self.header.sync:
            raise ValueError(f"expected the sync bytes {self.header.sync!r} in {location}, found {sync!r}")
        records = self.decoder.read_int()
        packed = self.decoder.read_bytes()
        try:
            plain = _decompressed(self.header.meta.get(_CODEC, "null"), packed, MAX_AVRO_BYTES - self.size, location)
        except TooLargeError as error:
            raise TooLargeError(location, MAX_AVRO_BYTES) from error
        self.size += len(plain)
        self.records += records
        if self.records > MAX_AVRO_RECORDS:
            raise ValueError(f"{location} has more than {MAX_AVRO_RECORDS:,} records, the limit of zlayout")
        self.block = Block(reader=self.reader, block_records=records, block_decoder=BoundedDecoder(plain))
        return records


def _decompressed(codec: str, packed: bytes, limit: int, location: str) -> bytes:
    match codec:
        case "null":
            plain = packed
        case "deflate":
            plain = inflated(packed, limit, DEFLATE, location)
        case "zstandard":
            from zstandard import ZstdDecompressor

            plain = _at_most(ZstdDecompressor().stream_reader(packed).read, limit)
        case "bzip2":
            unpack, parts = BZ2Decompressor(), iter((packed,))
            plain = _at_most(lambda count: b"" if unpack.eof else unpack.decompress(next(parts, b""), count), limit)
        case "snappy" if _snappy_length(packed) > limit:
            raise TooLargeError(location, limit)
        case "snappy" if (known := KNOWN_CODECS["snappy"]) is not None:
            plain = known.decompress(packed)
        case _:
            raise ValueError(f"{location} has the unknown codec {codec!r}")
    if len(plain) > limit:
        raise TooLargeError(location, limit)
    return plain


def _at_most(read: Callable[[int], bytes], limit: int) -> bytes:
    found = bytearray()
    while len(found) <= limit and (part := read(limit + 1 - len(found))):
        found += part
    return bytes(found)


def _snappy_length(packed: bytes) -> int:
    """Return the length after decompression, with which data compressed by snappy begins: 7 bits in each byte."""
    length = 0
    for at, byte in enumerate(packed[:5]):
        length |= (byte & 0x7F) << (7 * at)
        if byte < 0x80:
            break
    return length


@lru_cache(maxsize=64)
def _manifest_list_reader(schema: str) -> Reader:
    wanted = MANIFEST_LIST_FILE_SCHEMAS[DEFAULT_READ_VERSION]
    types: dict[int, Any] = {-1: ManifestFile, 508: PartitionFieldSummary}
    return resolve_reader(schema_of(schema), wanted, types, {517: ManifestContent})


# The entries of manifests.


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


def read_live(
    manifests: Iterable[ManifestFile], io: FileIO, field_ids: Sequence[int], counted: Collection[int] = ()
) -> DataColumns:
    """Read all live entries. Raises the errors of pyiceberg.

    Args:
        manifests: The manifests of a snapshot.
        io: The file system.
        field_ids: The columns whose bounds and null counts are read, in addition to those of equality delete files.
        counted: The columns whose null counts are read too.
    """
    columns = DataColumns()
    every = list(manifests)
    deletes = [m for m in every if m.content == ManifestContent.DELETES]
    opened = _opened(deletes + [m for m in every if m.content == ManifestContent.DATA], io)
    for manifest, found in islice(opened, len(deletes)):
        columns.deletes += [_delete_file(manifest, e) for e in found if e[_STATUS] != DELETED]
    ids = {*field_ids, *(i for delete in columns.deletes for i in delete.equality)}
    for by_id in (columns.lower, columns.upper):
        by_id.update({i: [] for i in ids})
    columns.nulls.update({i: [] for i in ids.union(counted)})
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
    for field_id, nulls in columns.nulls.items():
        nulls += [(f[_NULLS] or {}).get(field_id, -1) for f in files]


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
