"""Reads from the log what deltalake does not return: file tags, clustering providers and deletion vectors.

File tags contain the layout records, the groups and the baselines of live files.

deltalake determines which files are live. A live file whose add action is not found here counts as not laid out, which
leads to an unnecessary rewrite at worst. The Delta protocol describes the formats under "Action Reconciliation" (the
last add action of a path is valid) and "Checkpoints" (classic, multi-part, v2 with sidecars).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from zlayout.formats.delta.read.log import (
    HEAD_BYTES,
    MAX_CONCURRENT_READS,
    LogFiles,
    is_local,
    json_sidecars,
    parquet_sidecars,
    read_actions,
    sidecar_name,
)
from zlayout.reading import parse_json
from zlayout.spec.model import COLUMN_IDS
from zlayout.table.baseline import Baseline, parse_baseline
from zlayout.table.order import distinct_rows
from zlayout.table.state import Int32, LayoutRecord, are_settings

# Commits on this machine with fewer bytes in total are read without threads, because starting threads takes longer.
MIN_BYTES_FOR_THREADS = 1 << 20
LAYOUT_ID = "zlayout.layout_id"
GROUP = "zlayout.group"
LAYOUT = "zlayout.layout"
BASELINE = "zlayout.baseline"
# Delta's OPTIMIZE writes these two tags on clustered tables.
ZCUBE_ID = "ZCUBE_ID"
ZCUBE_COLUMNS = "ZCUBE_ZORDER_BY"
TAGS = (LAYOUT_ID, GROUP, LAYOUT, BASELINE, ZCUBE_ID, ZCUBE_COLUMNS)
PROVIDER = "clusteringProvider"
PARTITION_VALUES = "partitionValues"
VALUE = f"{PARTITION_VALUES}."  # in ANNOTATION, before the name of a partition column

_DELETION_VECTOR = pa.struct(
    {"storageType": pa.string(), "pathOrInlineDv": pa.string(), "offset": pa.int32(), "cardinality": pa.int64()}
)
_ADD = pa.struct(
    {
        "path": pa.string(),
        "tags": pa.struct(dict.fromkeys(TAGS, pa.string())),
        "deletionVector": _DELETION_VECTOR,
        PROVIDER: pa.string(),
        "size": pa.int64(),
        "modificationTime": pa.int64(),
    }
)
# deltalake rounds fractions in size, modificationTime and the versions of the protocol. They are in this schema so that
# `read_actions` refuses fractions.
_PROTOCOL = pa.struct({"minReaderVersion": pa.int32(), "minWriterVersion": pa.int32()})
_ACTIONS = pa.schema({"add": _ADD, "protocol": _PROTOCOL})
ANNOTATION = pa.schema(
    dict.fromkeys(("path", *TAGS, "version_key", "vector"), pa.string())
    | {"deleted": pa.int64(), PROVIDER: pa.string()}
)
_UUID_LENGTH = 20  # characters of the UUID in the name of a deletion vector, at the end of a path of storage type u


def read_annotations(log: LogFiles, version: int, live: pa.Array, values: Sequence[str] = ()) -> pa.Table:
    """Read the file tags and deletion vectors of the live files of a version. Also store the commits' heads in `log`.

    Args:
        live: string[files], the paths of its live files.
        values: The physical names of the partition columns whose values are read as the log stores them.

    Returns:
        A table with the schema ANNOTATION, then a column of strings for each of `values`, and one row per path of
        `live`, in the same order. A file tag or the clustering provider is null if the file does not have it.
        version_key is the unique id of the deletion vector (storage type, path, @offset), empty if the file has none.
        vector is the path of its file, with another name, if this file is not directly in the location of the table,
        else null. deleted is the number of rows that the deletion vector marks as deleted.

    Raises:
        TableError: ZL113, if a commit is missing.
        OSError: If a file of the log cannot be read.
        pa.ArrowException: If an action does not have the types of the protocol.
    """
    segment = log.segment(version)

    def read_commit(name: str) -> bytes:
        content = log.read(name)
        log.heads[name] = content[:HEAD_BYTES]
        return content

    if is_local(log.storage) and sum(log.sizes[name] for name in segment.commits) < MIN_BYTES_FOR_THREADS:
        pieces = [table for name in segment.checkpoint for table in _checkpoint(log, name, values)]
        pieces.append(_json_adds(b"\n".join([*map(read_commit, segment.commits)][::-1]), values))
    else:
        with ThreadPoolExecutor(MAX_CONCURRENT_READS) as pool:
            checkpoint = pool.map(lambda name: list(_checkpoint(log, name, values)), segment.checkpoint)
            commits = pool.map(lambda name: _json_adds(read_commit(name), values), segment.commits)
            pieces = [*(table for tables in checkpoint for table in tables), *commits]
    newest_first = pa.concat_tables([_schema(values).empty_table(), *reversed(pieces)])
    paths = live.cast(pa.string())
    rows = pc.index_in(paths, value_set=newest_first["path"].combine_chunks())
    chosen = newest_first.take(rows).set_column(0, "path", paths)
    for name, without_vector in (("version_key", ""), ("deleted", 0)):
        at = chosen.schema.get_field_index(name)
        chosen = chosen.set_column(at, name, pc.fill_null(chosen[name], without_vector))
    return chosen


def _schema(values: Sequence[str]) -> pa.Schema:
    return pa.schema([*ANNOTATION, *(pa.field(VALUE + name, pa.string()) for name in values)])


def _checkpoint(log: LogFiles, name: str, values: Sequence[str]) -> Iterator[pa.Table]:
    if name.endswith(".json"):
        content = log.read(name)
        yield _json_adds(content, values)
        parts = json_sidecars(content)
    else:
        with log.parquet(name) as file:
            yield _parquet_adds(file, values)
            parts = parquet_sidecars(file)
    log.sidecars += parts
    for part in parts:
        with log.parquet(sidecar_name(part)) as file:
            yield _parquet_adds(file, values)


def _parquet_adds(file: pq.ParquetFile, values: Sequence[str]) -> pa.Table:
    if "add" not in file.schema_arrow.names:
        return _schema(values).empty_table()
    vector_fields = (f"add.deletionVector.{field.name}" for field in _DELETION_VECTOR)
    wanted = ["add.path", "add.tags", f"add.{PROVIDER}", *vector_fields]
    wanted += [f"add.{PARTITION_VALUES}"] if values else []
    adds = file.read(columns=wanted)["add"].combine_chunks()
    adds = adds.filter(pc.is_valid(pc.struct_field(adds, "path")))
    fields = {field.name for field in adds.type}
    tags = _looked_up(adds, "tags", TAGS) if "tags" in fields else [pa.nulls(len(adds), pa.string()) for _ in TAGS]
    no_vectors = pa.nulls(len(adds), _DELETION_VECTOR)
    vector = pc.struct_field(adds, "deletionVector") if "deletionVector" in fields else no_vectors
    parts = [pc.struct_field(vector, field.name) for field in _DELETION_VECTOR]
    provider = pc.struct_field(adds, PROVIDER) if PROVIDER in fields else pa.nulls(len(adds), pa.string())
    raw = _looked_up(adds, PARTITION_VALUES, values) if values else []
    return _annotation(pc.struct_field(adds, "path"), tags, parts, provider, values, raw)


def _looked_up(adds: pa.Array, field: str, names: Sequence[str]) -> list[pa.Array]:
    found = pc.struct_field(adds, field)
    return [pc.map_lookup(found, pa.scalar(name, found.type.key_type), "first") for name in names]


def _json_adds(content: bytes, values: Sequence[str]) -> pa.Table:
    actions = _ACTIONS
    if values:
        stored = pa.field(PARTITION_VALUES, pa.struct(dict.fromkeys(values, pa.string())))
        actions = pa.schema([pa.field("add", pa.struct([*_ADD, stored])), pa.field("protocol", _PROTOCOL)])
    path, tags, vector, provider, *_, last = read_actions(content, actions)["add"].combine_chunks().flatten()
    raw = last.flatten() if values else []
    return _annotation(path, tags.flatten(), vector.flatten(), provider, values, raw).filter(path.is_valid())


def _annotation(
    path: pa.Array,
    tags: list[pa.Array],
    vector: list[pa.Array],
    provider: pa.Array,
    values: Sequence[str],
    raw: list[pa.Array],
) -> pa.Table:
    """Return what `read_annotations` returns. vector: the fields of _DELETION_VECTOR, in order. raw: of `values`."""
    *identifying, cardinality = vector
    strings = [column.cast(pa.string()) for column in (path, *tags)]
    strings += [vector_key(*identifying), _vector_path(*identifying[:2])]
    columns = [*strings, cardinality.cast(pa.int64()), provider.cast(pa.string())]
    columns += [column.cast(pa.string()) for column in raw]
    return pa.Table.from_arrays(columns, schema=_schema(values))


def vector_key(storage: pa.Array, where: pa.Array, offset: pa.Array) -> pa.Array:
    """Return the unique ids of deletion vectors, null without a vector.

    Args:
        storage: The fields storageType of the vectors.
        where: The fields pathOrInlineDv.
        offset: The fields offset; null if a vector has none.
    """
    if storage.null_count == len(storage):
        return pa.nulls(len(storage), pa.string())
    at = pc.fill_null(pc.binary_join_element_wise("@", offset.cast(pa.string()), ""), "")
    return pc.binary_join_element_wise(storage.cast(pa.string()), where.cast(pa.string()), at, "")


def _vector_path(storage: pa.Array, where: pa.Array) -> pa.Array:
    """Return `vector` of ANNOTATION, given the fields storageType and pathOrInlineDv of the vectors."""
    if storage.null_count == len(storage):
        return pa.nulls(len(storage), pa.string())
    storage, where = storage.cast(pa.string()), where.cast(pa.string())
    prefix = pc.utf8_slice_codeunits(where, 0, -_UUID_LENGTH)
    below = pc.and_(pc.equal(storage, "u"), pc.not_equal(prefix, ""))
    missing = pa.scalar(None, pa.string())
    named = pc.if_else(below, pc.binary_join_element_wise(prefix, "vector.bin", "/"), missing)
    return pc.if_else(pc.equal(storage, "p"), where, named)


def codes_of(column: pa.ChunkedArray) -> tuple[Int32, pa.Array]:
    """Number the distinct values of a column in order of first appearance.

    Returns:
        int32[rows], the number of each row's value (-1 for null), and the value of each number.
    """
    encoded = column.combine_chunks().dictionary_encode()
    codes = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False).astype(np.int32)
    return codes, encoded.dictionary


def layout_records(annotations: pa.Table) -> tuple[Int32, tuple[LayoutRecord, ...], Int32]:
    """Return the index of each file's layout record, the layout records, and the number of each file's group.

    A file without a record has index and group -1. Files with the same layout id and column ids have one record. Its
    settings are the first valid ones in the tags of these files.
    """
    layout, ids = codes_of(annotations[LAYOUT_ID])
    written, texts = codes_of(annotations[LAYOUT])
    known = layout >= 0
    pairs, of_pair = distinct_rows([layout[known], written[known]])
    parsed = [_settings(text.as_py()) for text in texts]
    records: dict[tuple[int, str], LayoutRecord] = {}
    number = np.empty(len(pairs), np.int32)
    for at, (name, text) in enumerate(pairs.tolist()):
        settings = parsed[text] if text >= 0 else {}
        key = (name, str(settings.get(COLUMN_IDS)))
        records.setdefault(key, LayoutRecord(ids[name].as_py()))
        if settings and not records[key].settings:
            records[key] = LayoutRecord(ids[name].as_py(), settings)
        number[at] = list(records).index(key)
    index = np.full(len(layout), -1, np.int32)
    index[known] = number[of_pair]
    return index, tuple(records.values()), np.where(index < 0, np.int32(-1), codes_of(annotations[GROUP])[0])


def baselines(group: Int32, annotations: pa.Table) -> dict[int, Baseline]:
    """Return the baseline of each group, by the number of the group: the first valid one in the tags of its files."""
    written, texts = codes_of(annotations[BASELINE])
    known = (group >= 0) & (written >= 0)
    pairs, _ = distinct_rows([group[known], written[known]])
    parsed = [parse_baseline(text) for text in texts.to_pylist()]
    found: dict[int, Baseline] = {}
    for number, text in pairs.tolist():
        if (baseline := parsed[text]) is not None:
            found.setdefault(number, baseline)
    return found


def _settings(text: str) -> dict[str, Any]:
    """Return the layout settings in a file tag, empty if the tag is invalid; then reports cannot explain the drift."""
    try:
        parsed = parse_json(text)
    except ValueError:
        return {}
    return parsed if are_settings(parsed) else {}
