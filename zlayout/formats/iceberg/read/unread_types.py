"""Reads table metadata with types that pyiceberg does not know, such as `variant` in pyiceberg 0.12.

pyiceberg rejects the whole metadata of a table if it does not know the type of one column or of one statistics blob, or
cannot parse one default value. Therefore the JSON of the metadata is changed before pyiceberg parses it: such a type
becomes `unknown`, such a blob or default value is removed, and a table property gets the types by field id. After
pyiceberg has loaded the table, `restore` removes this property and puts an `UnreadType` into each schema. What
pyiceberg can parse is not changed.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any

import pyarrow as pa
from pydantic import Field, model_serializer
from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile, load_file_io
from pyiceberg.schema import Schema
from pyiceberg.serializers import Compressor, GzipCompressor
from pyiceberg.table import Table
from pyiceberg.table.statistics import BlobMetadata
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, PrimitiveType, StructType, UnknownType

from zlayout import reading
from zlayout.formats.iceberg.read.server import Declared, require_location

IO_IMPLEMENTATION = "py-io-impl"
PROPERTY = "zlayout.unread-types"
CATALOG = "zlayout.catalog"  # the property with the name of the catalog
# Matches every type in the JSON of a table. A match that is no type only costs time.
_TYPE = re.compile(rb'"(?:type|element|key|value)"\s*:\s*"([^"]*)"')
_DEFAULTS = ("initial-default", "write-default")
_DEFAULT_OR_PROPERTY = re.compile(rb'"(?:initial-default|write-default|zlayout\.unread-types)"')
_OTHER_WORDS = frozenset({"struct", "list", "map", "branch", "tag"})  # which _TYPE matches too


class UnreadType(PrimitiveType):
    """A type that pyiceberg does not know, with its text in the metadata."""

    root: tuple[str] = Field()

    def __init__(self, text: str) -> None:
        super().__init__(root=(text,))

    @model_serializer
    def _text(self) -> str:
        return self.root[0]

    def __str__(self) -> str:
        return self.root[0]

    def __repr__(self) -> str:
        return f"UnreadType({self.root[0]!r})"

    def __hash__(self) -> int:
        return hash(self.root)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UnreadType) and self.root == other.root

    def __getnewargs__(self) -> tuple[str]:
        return self.root


class MetadataIO(FileIO):
    """Reads metadata files through `readable`, and writes files as pyiceberg does. pyiceberg imports it by its name."""

    def new_input(self, location: str) -> InputFile:
        """Return the file. Raises TableError ZL138, because the reader would send credentials to the host in a URL."""
        declared = Declared(self.properties.get(CATALOG, ""), self.properties)
        require_location(declared, location, "the location of a metadata file has")
        return _MetadataFile(self._io(location).new_input(location))

    def new_output(self, location: str) -> OutputFile:
        return self._io(location).new_output(location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        self._io(location if isinstance(location, str) else location.location).delete(location)

    def _io(self, location: str) -> FileIO:
        return load_own_io(self.properties, location)


def load_own_io(properties: Mapping[str, str], location: str | None) -> FileIO:
    """Return pyiceberg's own access to a location, which opens files as they are."""
    return load_file_io({key: value for key, value in properties.items() if key != IO_IMPLEMENTATION}, location)


class _MetadataFile(InputFile):
    def __init__(self, given: InputFile) -> None:
        super().__init__(given.location)
        self._given = given

    def __len__(self) -> int:
        return len(self._given)

    def exists(self) -> bool:
        return self._given.exists()

    def open(self, seekable: bool = True) -> InputStream:  # noqa: ARG002
        """Raises ValueError for a file that is too large."""
        compressor = Compressor.get_compressor(self.location)
        return io.BytesIO(compressor.bytes_compressor()(readable(plain_content(self._given))))


def plain_content(file: InputFile) -> bytes:
    """Return the JSON of a metadata file as it is stored, decompressed.

    Raises:
        ValueError: The file is too large, or its JSON could not be parsed safely.
    """
    plain = content_of(file, reading.MAX_METADATA_BYTES)
    if isinstance(Compressor.get_compressor(file.location), GzipCompressor):
        plain = reading.inflated(plain, reading.MAX_METADATA_BYTES, reading.GZIP, file.location)
    reading.require_parsable(plain, file.location)
    return plain


def content_of(file: InputFile, limit: int) -> bytes:
    """Return the content of a file by one request.

    Raises:
        TooLargeError: The file has more than `limit` bytes. Its content is not read.
    """
    with file.open() as stream:
        size = stream.size() if isinstance(stream, pa.NativeFile) else getattr(stream, "size", None)
        if size is not None and size > limit:
            raise reading.TooLargeError(file.location, limit)
        content = stream.read() if size is not None else stream.read(limit + 1)
    if len(content) > limit:
        raise reading.TooLargeError(file.location, limit)
    return content


def restore(table: Table) -> Table:
    """Put the unread types into the schemas of a table, remove the property that has them, and return the table."""
    table.io.properties.pop(PROPERTY, None)
    unread = json.loads(table.metadata.properties.pop(PROPERTY, "{}"))
    if unread:
        schemas = [
            _restored(schema, {int(at): text for at, text in unread.items()}) for schema in table.metadata.schemas
        ]
        table.metadata = table.metadata.model_copy(update={"schemas": schemas})
    return table


def readable(data: bytes) -> bytes:
    """Return the JSON of a table's metadata, or of a REST response with it, in a form that pyiceberg can parse."""
    words = {word.decode(errors="replace") for word in set(_TYPE.findall(data))} - _OTHER_WORDS
    if all(map(_is_known, words)) and not _DEFAULT_OR_PROPERTY.search(data):
        return data
    try:
        document = json.loads(data)
    except ValueError:
        return data  # pyiceberg reports the error
    metadata = document.get("metadata", document) if isinstance(document, dict) else None
    if not isinstance(metadata, dict):
        return data
    unread: dict[str, str] = {}
    with suppress(AttributeError, KeyError, TypeError):  # of invalid metadata, which pyiceberg reports
        for schema in (metadata.get("schema"), *metadata.get("schemas", ())):  # `schema` is a key of format version 1
            _replace(schema, unread)
        for statistics in metadata.get("statistics", ()):
            statistics["blob-metadata"] = [blob for blob in statistics["blob-metadata"] if _is_known_blob(blob)]
        properties = {k: v for k, v in metadata.get("properties", {}).items() if k != PROPERTY}
        metadata["properties"] = properties | ({PROPERTY: json.dumps(unread)} if unread else {})
    return json.dumps(document).encode()


def _replace(type_: Any, unread: dict[str, str]) -> None:
    """Replace types and remove default values that pyiceberg cannot parse. unread: gets these types, by field id."""
    if not isinstance(type_, dict):
        return
    for part, key, field_id in _parts(type_):
        inner = part[key]
        if isinstance(inner, str) and not _is_known(inner):
            unread[str(part[field_id])] = inner
            part[key] = "unknown"
        _replace(inner, unread)
        if any(name in part for name in _DEFAULTS) and not _can_parse(part):
            for name in _DEFAULTS:
                part.pop(name, None)


def _parts(type_: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str, str]]:
    """Yield each object that contains an inner type, with its key for this type and its key for the field id."""
    match type_["type"]:
        case "struct":
            yield from ((field, "type", "id") for field in type_["fields"])
        case "list":
            yield type_, "element", "element-id"
        case "map":
            yield type_, "key", "key-id"
            yield type_, "value", "value-id"


@lru_cache(maxsize=1024)
def _is_known(text: str) -> bool:
    return _can_parse({"id": 1, "name": "f", "type": text})


def _can_parse(field: dict[str, Any]) -> bool:
    try:
        NestedField(**field).model_dump_json()
    except Exception:  # the errors have no common base: ValueError, pyiceberg's ValidationError, TypeError and others
        return False
    return True


def _is_known_blob(blob: dict[str, Any]) -> bool:
    try:
        BlobMetadata(**blob)
    except ValueError:
        return False
    return True


def _restored(schema: Schema, unread: dict[int, str]) -> Schema:
    fields = _type(schema.as_struct(), 0, unread).fields
    return Schema(*fields, schema_id=schema.schema_id, identifier_field_ids=schema.identifier_field_ids)


def _type(type_: IcebergType, field_id: int, unread: dict[int, str]) -> Any:
    match type_:
        case StructType(fields=fields):
            return StructType(
                *[f.model_copy(update={"field_type": _type(f.field_type, f.field_id, unread)}) for f in fields]
            )
        case ListType(element_id=at):
            return ListType(at, _type(type_.element_type, at, unread), type_.element_required)
        case MapType(key_id=key, value_id=value):
            key_type, value_type = _type(type_.key_type, key, unread), _type(type_.value_type, value, unread)
            return MapType(key, key_type, value, value_type, type_.value_required)
        case UnknownType() if field_id in unread:
            return UnreadType(unread[field_id])
    return type_
