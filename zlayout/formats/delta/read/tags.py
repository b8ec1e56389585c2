"""Reads file tags, clustering providers and deletion vectors of live files from the log: deltalake returns none.

deltalake determines which files are live. A live file whose add action is not found here counts as not laid out, which
leads to an unnecessary rewrite at worst. The formats are described in the Delta protocol under "Action Reconciliation"
(the last add action of a path is valid) and "Checkpoints" (classic, multi-part, v2 with sidecars).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pa_fs
import pyarrow.json as pa_json
import pyarrow.parquet as pq

from zlayout.formats.delta.read.files import is_local
from zlayout.formats.delta.read.log_segment import log_segment

LOG = "_delta_log"
SIDECARS = "_sidecars"
HEAD_BYTES = 1 << 16  # the part of a commit that is kept: Spark writes the commitInfo first
MAX_CONCURRENT_READS = 16
MIN_BYTES_FOR_THREADS = 1 << 20  # of commits on this machine: fewer are read sooner than threads start
LAYOUT_ID = "zlayout.layout_id"
GROUP = "zlayout.group"
LAYOUT = "zlayout.layout"
BASELINE = "zlayout.baseline"
ZCUBE_ID = "ZCUBE_ID"  # written by Delta's OPTIMIZE on clustered tables, as ZCUBE_ZORDER_BY is
ZCUBE_COLUMNS = "ZCUBE_ZORDER_BY"
TAGS = (LAYOUT_ID, GROUP, LAYOUT, BASELINE, ZCUBE_ID, ZCUBE_COLUMNS)
PROVIDER = "clusteringProvider"

_DELETION_VECTOR = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)
_ADD = pa.struct(
    [
        ("path", pa.string()),
        ("tags", pa.struct([(name, pa.string()) for name in TAGS])),
        ("deletionVector", _DELETION_VECTOR),
        (PROVIDER, pa.string()),
    ]
)
_ACTION = pa.schema([("add", _ADD), ("sidecar", pa.struct([("path", pa.string())]))])
ANNOTATION = pa.schema(
    [
        ("path", pa.string()),
        *((name, pa.string()) for name in TAGS),
        ("version_key", pa.string()),
        ("deleted", pa.int64()),
        (PROVIDER, pa.string()),
    ]
)
_JSON_BLOCK = 64 << 20
MAX_LINES_IN_PYTHON = 64  # actions that the json module parses sooner than Arrow starts its threads


def log_sizes(storage: pa_fs.FileSystem) -> dict[str, int]:
    """Return the sizes in bytes of the files in `_delta_log` by file name, none if it does not exist.

    Empty checkpoints, which a killed writer can leave, are omitted.
    """
    found = storage.get_file_info(pa_fs.FileSelector(LOG, allow_not_found=True))
    return {
        info.base_name: info.size or 0  # a folder has no size
        for info in found
        if info.size != 0 or ".checkpoint." not in info.base_name
    }


def read_annotations(
    storage: pa_fs.FileSystem,
    log: Mapping[str, int],
    version: int,
    live: pa.Array,
    heads: dict[str, bytes] | None = None,
) -> pa.Table:
    """Read the file tags and deletion vectors of the live files of a version.

    Args:
        storage: The file system, rooted at the table.
        log: The result of `log_sizes`.
        live: string[files], the paths of its live files.
        heads: Receives the first HEAD_BYTES of each commit that is read, by name, so that they are not read again.

    Returns:
        A table with the schema ANNOTATION and one row per path of `live`, in the same order. A file tag or the
        clustering provider is null if the file does not have it. version_key is the unique id of the deletion vector
        (storage type, path, @offset), empty without one. deleted is the number of rows that the deletion vector marks
        as deleted.

    Raises:
        TableError: ZL113, if a commit is missing.
    """
    segment = log_segment(log, version)
    kept: dict[str, bytes] = {} if heads is None else heads

    def read_commit(name: str) -> bytes:
        content = read_log_file(storage, name)
        kept[name] = content[:HEAD_BYTES]
        return content

    if is_local(storage) and sum(log[name] for name in segment.commits) < MIN_BYTES_FOR_THREADS:
        pieces = [table for name in segment.checkpoint for table in _checkpoint(storage, name)]
        pieces.append(_json_adds(b"\n".join([*map(read_commit, segment.commits)][::-1])))
    else:
        with ThreadPoolExecutor(MAX_CONCURRENT_READS) as pool:
            checkpoint = pool.map(lambda name: list(_checkpoint(storage, name)), segment.checkpoint)
            commits = pool.map(lambda name: _json_adds(read_commit(name)), segment.commits)
            pieces = [*(table for tables in checkpoint for table in tables), *commits]
    newest_first = pa.concat_tables([ANNOTATION.empty_table(), *reversed(pieces)])
    paths = live.cast(pa.string())
    rows = pc.index_in(paths, value_set=newest_first["path"].combine_chunks())
    chosen = newest_first.take(rows).set_column(0, "path", paths)
    for name, nothing in (("version_key", ""), ("deleted", 0)):
        at = chosen.schema.get_field_index(name)
        chosen = chosen.set_column(at, name, pc.fill_null(chosen[name], nothing))
    return chosen


def read_log_file(storage: pa_fs.FileSystem, name: str) -> bytes:
    """Return the content of a file in `_delta_log`."""
    with storage.open_input_stream(f"{LOG}/{name}", compression=None) as stream:
        content: bytes = stream.read()
    return content


def sidecars(storage: pa_fs.FileSystem, name: str) -> list[str]:
    """Return the names of the sidecars of a checkpoint file, which are in the folder SIDECARS of the log."""
    if name.endswith(".json"):
        return _in_json(read_log_file(storage, name))
    with storage.open_input_file(f"{LOG}/{name}") as source:
        return _in_parquet(pq.ParquetFile(source))


def _checkpoint(storage: pa_fs.FileSystem, name: str) -> Iterator[pa.Table]:
    """Yield the annotations in one checkpoint file and in its sidecars."""
    if name.endswith(".json"):
        content = read_log_file(storage, name)
        yield _json_adds(content)
        parts = _in_json(content)
    else:
        with storage.open_input_file(f"{LOG}/{name}") as source:
            file = pq.ParquetFile(source)
            yield _parquet_adds(file)
            parts = _in_parquet(file)
    for part in parts:
        with storage.open_input_file(f"{LOG}/{SIDECARS}/{part}") as source:
            yield _parquet_adds(pq.ParquetFile(source))


def _in_json(content: bytes) -> list[str]:
    """Return the names of the sidecars in a checkpoint."""
    return _names(_json_actions(content, b'"sidecar"')["sidecar"].combine_chunks().field("path"))


def _in_parquet(file: pq.ParquetFile) -> list[str]:
    """Return the names of the sidecars in a checkpoint."""
    if "sidecar" not in file.schema_arrow.names:
        return []
    return _names(pc.struct_field(file.read(columns=["sidecar.path"])["sidecar"].combine_chunks(), "path"))


def _names(paths: pa.Array) -> list[str]:
    """Return file names. A path may be absolute."""
    return [path.rpartition("/")[2] for path in paths.drop_null().to_pylist()]


def _parquet_adds(file: pq.ParquetFile) -> pa.Table:
    if "add" not in file.schema_arrow.names:
        return ANNOTATION.empty_table()
    vector_fields = (f"add.deletionVector.{field.name}" for field in _DELETION_VECTOR)
    wanted = ["add.path", "add.tags", f"add.{PROVIDER}", *vector_fields]
    adds = file.read(columns=wanted)["add"].combine_chunks()
    adds = adds.filter(pc.is_valid(pc.struct_field(adds, "path")))
    fields = {field.name for field in adds.type}
    if "tags" not in fields:
        tags = [pa.nulls(len(adds), pa.string()) for _ in TAGS]
    else:
        tag_map = pc.struct_field(adds, "tags")
        tags = [pc.map_lookup(tag_map, pa.scalar(name, tag_map.type.key_type), "first") for name in TAGS]
    vector = pc.struct_field(adds, "deletionVector") if "deletionVector" in fields else _no_vectors(len(adds))
    parts = [pc.struct_field(vector, field.name) for field in _DELETION_VECTOR]
    provider = pc.struct_field(adds, PROVIDER) if PROVIDER in fields else pa.nulls(len(adds), pa.string())
    return _annotation(pc.struct_field(adds, "path"), tags, parts, provider)


def _json_adds(content: bytes) -> pa.Table:
    path, tags, vector, provider = _json_actions(content, b'"add"')["add"].combine_chunks().flatten()
    known = path.is_valid()
    return _annotation(path, tags.flatten(), vector.flatten(), provider).filter(known)


def _json_actions(content: bytes, mention: bytes) -> pa.Table:
    """Parse the lines that contain `mention` for the fields of _ACTION. Other lines are not parsed."""
    lines = [line for line in content.split(b"\n") if mention in line]
    if len(lines) <= MAX_LINES_IN_PYTHON:
        with suppress(ValueError, TypeError, RecursionError):  # whether an unusual line is an error, Arrow decides
            actions = [json.loads(line, object_pairs_hook=_without_duplicates) for line in lines]
            return pa.Table.from_pylist(actions, _ACTION)
    text = b"\n".join(lines)
    block = max(_JSON_BLOCK, len(text)) if len(text) < 1 << 30 else 1 << 30
    return pa_json.read_json(
        pa.BufferReader(text),
        read_options=pa_json.ReadOptions(use_threads=len(text) > block, block_size=block),
        parse_options=pa_json.ParseOptions(explicit_schema=_ACTION, unexpected_field_behavior="ignore"),
    )


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("duplicate key")
    return found


def _annotation(path: pa.Array, tags: list[pa.Array], vector: list[pa.Array], provider: pa.Array) -> pa.Table:
    """Return annotations. vector: the fields of _DELETION_VECTOR."""
    storage, where, offset, cardinality = vector
    at = pc.fill_null(pc.binary_join_element_wise("@", offset.cast(pa.string()), ""), "")
    key = pc.binary_join_element_wise(storage.cast(pa.string()), where.cast(pa.string()), at, "")
    texts = [column.cast(pa.string()) for column in (path, *tags)]
    columns = [*texts, key, cardinality.cast(pa.int64()), provider.cast(pa.string())]
    return pa.Table.from_arrays(columns, schema=ANNOTATION)


def _no_vectors(count: int) -> pa.Array:
    return pa.nulls(count, _DELETION_VECTOR)
