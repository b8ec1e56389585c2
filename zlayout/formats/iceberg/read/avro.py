"""Reads Avro files through pyiceberg, with readers that are made once for each Avro schema.

pyiceberg makes new readers for each file, which takes several times as long as reading a small manifest.
"""

from __future__ import annotations

import json
from bz2 import BZ2Decompressor
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from zlayout.reading import DEFLATE, TooLargeError, inflated

if TYPE_CHECKING:
    from pyiceberg.avro.file import AvroFile
    from pyiceberg.avro.reader import Reader, StructReader
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.schema import Schema
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.types import IcebergType, StructType

# The records of a file, and their bytes after decompression. Writers divide larger metadata among several manifests.
MAX_AVRO_BYTES = 512 << 20
MAX_AVRO_RECORDS = 5_000_000
_SYNC_BYTES = 16
_SCHEMA, _CODEC = "avro.schema", "avro.codec"  # the keys of the schema and of the codec in the metadata of a file


def open_avro(location: str, io: FileIO, reader_of: Callable[[str], Reader]) -> AvroFile[Any]:
    """Fetch a whole Avro file. Return it as an iterator of its records.

    Args:
        io: The file system.
        reader_of: Returns the reader of the records, given the Avro schema as JSON.

    Raises:
        ValueError: If the file contains no Avro schema; TooLargeError if the file has more than MAX_AVRO_BYTES; also
            other errors of pyiceberg. Iterating raises TooLargeError for the bytes after decompression.
    """
    from zlayout.formats.iceberg.read.decoder import BoundedDecoder
    from zlayout.formats.iceberg.read.unread_types import content_of

    file = _limited_file()(io.new_input(location))
    file.decoder = BoundedDecoder(content_of(file.input_file, MAX_AVRO_BYTES))
    file.header = _header_reader().read(file.decoder)
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
    from pyiceberg.schema import index_by_id
    from pyiceberg.utils.schema_conversion import AvroSchemaConversion

    schema = AvroSchemaConversion().avro_to_iceberg(json.loads(avro_schema))
    for each in index_by_id(schema).values():
        _require_bytes(each.field_type)
    return schema


def _require_bytes(type_: IcebergType) -> None:
    from pyiceberg.types import ListType, MapType

    match type_:
        case ListType(element_required=True) if not _has_bytes(type_.element_type):
            raise ValueError("an Avro schema has a list whose elements have no bytes")
        case MapType(value_required=True) if not (_has_bytes(type_.key_type) or _has_bytes(type_.value_type)):
            raise ValueError("an Avro schema has a map whose entries have no bytes")


def _has_bytes(type_: IcebergType) -> bool:
    """Return whether each value of a type has at least one byte in Avro."""
    from pyiceberg.types import FixedType, StructType, UnknownType

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
    from pyiceberg.avro.reader import DefaultReader, OptionReader, StructReader
    from pyiceberg.avro.resolver import construct_reader
    from pyiceberg.typedef import Record

    readers: list[tuple[int | None, Reader]] = []
    for known in struct.fields:
        reader = nested.get(known.field_id) or construct_reader(known.field_type)
        reader = reader if known.required else OptionReader(reader)
        position = wanted.index(known.field_id) if known.field_id in wanted else None
        readers.append((position, reader) if position is not None else (None, _dropping()(reader)))
    present = {known.field_id for known in struct.fields}
    readers += [(i, absent.get(i, DefaultReader(None))) for i, field_id in enumerate(wanted) if field_id not in present]
    return StructReader(tuple(readers), Record, struct)


@cache
def _dropping() -> type[Reader]:
    """Return the class of readers that skip a value by reading it: pyiceberg skips the entries of a map one by one."""
    from pyiceberg.avro.reader import Reader

    class Dropping(Reader):
        def __init__(self, reader: Reader) -> None:
            self.read = reader.read  # type: ignore[method-assign]

        def read(self, decoder: Any) -> Any:
            raise NotImplementedError

        def skip(self, decoder: Any) -> None:
            self.read(decoder)

    return Dropping


@cache
def _limited_file() -> type[AvroFile[Any]]:
    from pyiceberg.avro.file import AvroFile, Block

    from zlayout.formats.iceberg.read.decoder import BoundedDecoder

    class LimitedFile(AvroFile[Any]):
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
                plain = _decompressed(
                    self.header.meta.get(_CODEC, "null"), packed, MAX_AVRO_BYTES - self.size, location
                )
            except TooLargeError as error:
                raise TooLargeError(location, MAX_AVRO_BYTES) from error
            self.size += len(plain)
            self.records += records
            if self.records > MAX_AVRO_RECORDS:
                raise ValueError(f"{location} has more than {MAX_AVRO_RECORDS:,} records, the limit of zlayout")
            self.block = Block(reader=self.reader, block_records=records, block_decoder=BoundedDecoder(plain))
            return records

    return LimitedFile


def _decompressed(codec: str, packed: bytes, limit: int, location: str) -> bytes:
    """Decompress a block of an Avro file, but no more than `limit` bytes. location: for messages."""
    from pyiceberg.avro.codecs import KNOWN_CODECS

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
    """Call `read` with the number of bytes that are wanted until it returns none, or more than `limit` are there."""
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


@cache
def _header_reader() -> Reader:
    from pyiceberg.avro.file import META_SCHEMA, AvroFileHeader
    from pyiceberg.avro.resolver import construct_reader

    return construct_reader(META_SCHEMA, {-1: AvroFileHeader})


@lru_cache(maxsize=64)
def _manifest_list_reader(schema: str) -> Reader:
    """Return the reader that pyiceberg uses for manifest lists. schema: the Avro schema of a manifest list, as JSON."""
    from pyiceberg.avro.resolver import resolve_reader
    from pyiceberg.manifest import (
        DEFAULT_READ_VERSION,
        MANIFEST_LIST_FILE_SCHEMAS,
        ManifestContent,
        ManifestFile,
        PartitionFieldSummary,
    )

    wanted = MANIFEST_LIST_FILE_SCHEMAS[DEFAULT_READ_VERSION]
    types: dict[int, Any] = {-1: ManifestFile, 508: PartitionFieldSummary}
    return resolve_reader(schema_of(schema), wanted, types, {517: ManifestContent})
