"""Reads Avro files through pyiceberg, with readers that are made once for each Avro schema.

pyiceberg makes new readers for each file, which takes several times as long as reading a small manifest.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyiceberg.avro.file import AvroFile
    from pyiceberg.avro.reader import Reader, StructReader
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.schema import Schema
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.types import StructType

_SCHEMA = "avro.schema"  # the key of the schema in the metadata of a file


def open_avro(location: str, io: FileIO, reader_of: Callable[[str], Reader]) -> AvroFile[Any]:
    """Fetch a whole Avro file. Return it as an iterator of its records.

    Args:
        io: The file system.
        reader_of: Returns the reader of the records, given the Avro schema as JSON.

    Raises:
        ValueError: If the file contains no Avro schema; also other errors of pyiceberg.
    """
    from pyiceberg.avro.decoder import new_decoder
    from pyiceberg.avro.file import AvroFile

    file = AvroFile[Any](io.new_input(location))
    with file.input_file.open() as stream:
        file.decoder = new_decoder(stream.read())
    file.header = _header_reader().read(file.decoder)
    if (schema := file.header.meta.get(_SCHEMA)) is None:
        raise ValueError(f"expected an Avro schema in {location}, found none")
    file.reader = reader_of(schema)
    return file


def manifests_of(snapshot: Snapshot, io: FileIO) -> list[ManifestFile]:
    """Return the manifests of a snapshot, from its manifest list. Raises the errors of pyiceberg."""
    return list(open_avro(snapshot.manifest_list, io, _manifest_list_reader))


def schema_of(avro_schema: str) -> Schema:
    """Return the Iceberg schema of an Avro schema, which is JSON."""
    from pyiceberg.utils.schema_conversion import AvroSchemaConversion

    return AvroSchemaConversion().avro_to_iceberg(json.loads(avro_schema))


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
        position = wanted.index(known.field_id) if known.field_id in wanted else None
        readers.append((position, reader if known.required else OptionReader(reader)))
    present = {known.field_id for known in struct.fields}
    readers += [(i, absent.get(i, DefaultReader(None))) for i, field_id in enumerate(wanted) if field_id not in present]
    return StructReader(tuple(readers), Record, struct)


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
