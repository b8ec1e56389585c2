"""Finds orphans of a Delta table: files that no commit and no checkpoint in `_delta_log` refers to."""

from __future__ import annotations

import json
import uuid
from base64 import b85decode
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.fs as pa_fs
import pyarrow.parquet as pq

from zlayout.errors import first_line
from zlayout.formats.delta.read.features import require_own_commits
from zlayout.formats.delta.read.location import delta_location, table_files
from zlayout.formats.delta.read.log import LOG
from zlayout.formats.delta.read.observe import observe_delta
from zlayout.formats.delta.read.opening import unreadable
from zlayout.formats.orphans import Orphans, find_orphans
from zlayout.formats.storage import deltalake_options
from zlayout.spec.model import CatalogConfig, TableName
from zlayout.sql_text import quote_identifier

# The table property that lists the other formats whose metadata Delta also writes. Iceberg metadata is in the folder
# `metadata`, which VACUUM ignores.
_UNIFORM = "delta.universalFormat.enabledFormats"
_ACTIONS = ("add", "remove", "cdc")
_VECTOR = ("storageType", "pathOrInlineDv")
# The log encodes the UUID in the name of a deletion vector's file as Z85 (ZeroMQ RFC 32). Python decodes base 85 with
# the alphabet of RFC 1924.
_Z85 = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_B85 = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_FROM_Z85 = bytes.maketrans(_Z85, _B85)
_UUID_LENGTH = 20


def delta_orphans(catalog: CatalogConfig, table: TableName) -> Orphans:
    """See `zlayout.formats.base.Backend.orphans`. Raises TableError ZL101, ZL110 to ZL114; Refused ZL212."""
    location, options = delta_location(catalog, table), deltalake_options(catalog)
    state = observe_delta(table, location, (), None, options)
    require_own_commits(state, "so files that the log does not name may be live")
    storage = table_files(location, options)
    try:
        named = frozenset(named_files(storage))
        hidden = ("metadata",) if "iceberg" in state.properties.get(_UNIFORM, "").split(",") else ()
        return find_orphans(storage, "", named, f"VACUUM delta.{quote_identifier(location)} DRY RUN", hidden)
    except (OSError, ValueError) as error:
        raise unreadable(table, location, error) from error


def named_files(storage: pa_fs.FileSystem) -> Iterator[str]:
    """Yield the paths of all files that a commit or checkpoint refers to, live or not, relative to the table.

    Raises:
        OSError: If a file of the log cannot be read.
        ValueError: If a file of the log is not a commit or checkpoint.
    """
    for info in storage.get_file_info(pa_fs.FileSelector(LOG, recursive=True)):
        if info.type != pa_fs.FileType.File or not info.size:  # a killed writer can leave an empty checkpoint
            continue
        try:
            if info.path.endswith(".parquet"):
                with storage.open_input_file(info.path) as source:
                    yield from _in_checkpoint(pq.ParquetFile(source))
            elif info.path.endswith(".json"):
                with storage.open_input_stream(info.path, compression=None) as stream:
                    yield from _in_json(stream.read())
        except (TypeError, AttributeError, LookupError, RecursionError, pa.ArrowException) as error:
            raise ValueError(f"{info.base_name} is not a commit or checkpoint: {first_line(error)}") from error


def _in_json(content: bytes) -> Iterator[str]:
    for line in content.split(b"\n"):
        if b'"path"' in line:
            for action in _ACTIONS:
                if found := json.loads(line).get(action):
                    yield from _files(found)


def _in_checkpoint(file: pq.ParquetFile) -> Iterator[str]:
    leaves = {file.schema.column(at).path for at in range(len(file.schema))}
    for action in ("add", "remove"):
        wanted = [f"{action}.path", *(f"{action}.deletionVector.{name}" for name in _VECTOR)]
        if wanted[0] in leaves:
            for batch in file.iter_batches(columns=[name for name in wanted if name in leaves]):
                for found in batch.column(0).drop_null().to_pylist():
                    yield from _files(found)


def _files(action: dict[str, Any]) -> Iterator[str]:
    """Yield the paths of the data file and of the deletion vector in an action, relative to the table.

    Absolute paths, as in a shallow clone, are yielded unchanged. They match no file below the table's location.
    """
    if action.get("path"):
        yield unquote(action["path"])
    vector = action.get("deletionVector") or {}
    if vector.get("storageType") == "u":
        where = vector["pathOrInlineDv"]
        prefix, encoded = where[:-_UUID_LENGTH], where[-_UUID_LENGTH:]
        name = f"deletion_vector_{uuid.UUID(bytes=b85decode(encoded.encode().translate(_FROM_Z85)))}.bin"
        yield f"{prefix}/{name}" if prefix else name
