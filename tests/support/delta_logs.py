"""Delta logs and checkpoints written by hand, action by action, and their observation."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from zlayout.formats.delta.read.observe import observe_delta
from zlayout.spec.model import TableName
from zlayout.table.state import TableState

TAGS = {"zlayout.layout_id": "abc", "zlayout.group": "run/0", "zlayout.layout": '{"engine":"native"}'}
VECTOR = {
    "storageType": "u",
    "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^",
    "offset": 4,
    "sizeInBytes": 40,
    "cardinality": 6,
}


def field(name: str, kind: Any, physical: str = "") -> dict[str, Any]:
    number = sum(physical.encode())
    metadata = {"delta.columnMapping.physicalName": physical, "delta.columnMapping.id": number} if physical else {}
    return {"name": name, "type": kind, "nullable": True, "metadata": metadata}


def metadata(fields: list[Any], partitions: list[str] | None = None, **properties: str) -> dict[str, Any]:
    schema = json.dumps({"type": "struct", "fields": fields})
    return {
        "metaData": {
            "id": "6f1d-id",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": schema,
            "partitionColumns": partitions or [],
            "configuration": properties,
            "createdTime": 1,
        }
    }


def protocol(*features: str, reader: tuple[str, ...] = ()) -> dict[str, Any]:
    if not features and not reader:
        return {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
    both = {"readerFeatures": list(reader), "writerFeatures": [*features, *reader]}
    return {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **both}}


def add(path: str, low: Any = None, high: Any = None, rows: int | None = 10, **more: Any) -> dict[str, Any]:
    stats = {
        "numRecords": rows,
        "minValues": low or {},
        "maxValues": high or {},
        "nullCount": zeros(low or {}),
    }
    action = {"path": path, "partitionValues": {}, "size": 100, "modificationTime": 1, "dataChange": True}
    return {"add": action | ({"stats": utf8_json(stats)} if rows is not None else {}) | more}


def zeros(low: dict[str, Any]) -> dict[str, Any]:
    return {name: zeros(value) if isinstance(value, dict) else 0 for name, value in low.items()}


def utf8_json(value: Any) -> str:
    """As Delta writes it: deltalake misreads U+10FFFF when it comes as an escaped surrogate pair."""
    return json.dumps(value, ensure_ascii=False)


def remove(path: str, **more: Any) -> dict[str, Any]:
    return {"remove": {"path": path, "dataChange": True, "deletionTimestamp": 1} | more}


def write_log(path: Path, *commits: list[dict[str, Any]]) -> Path:
    log = path / "_delta_log"
    log.mkdir(parents=True)
    for version, actions in enumerate(commits):
        lines = [{"commitInfo": {"timestamp": 1, "operation": "WRITE"}}, *actions]
        (log / f"{version:020d}.json").write_text("\n".join(map(utf8_json, lines)) + "\n")
    return path


INTS = [field("a", "integer"), field("b", "long")]


_MAP = pa.map_(pa.string(), pa.string())
_CHECKPOINT = pa.schema(
    [
        ("protocol", pa.struct([("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32()),
                                ("readerFeatures", pa.list_(pa.string())), ("writerFeatures", pa.list_(pa.string()))])),
        ("metaData", pa.struct([("id", pa.string()), ("schemaString", pa.string()),
                                ("format", pa.struct([("provider", pa.string()), ("options", _MAP)])),
                                ("partitionColumns", pa.list_(pa.string())), ("configuration", _MAP),
                                ("createdTime", pa.int64())])),
        ("add", pa.struct([("path", pa.string()), ("partitionValues", _MAP), ("size", pa.int64()),
                           ("modificationTime", pa.int64()), ("dataChange", pa.bool_()), ("stats", pa.string()),
                           ("tags", _MAP), ("clusteringProvider", pa.string()),
                           ("deletionVector", pa.struct([("storageType", pa.string()), ("pathOrInlineDv", pa.string()),
                                                         ("offset", pa.int32()), ("sizeInBytes", pa.int32()),
                                                         ("cardinality", pa.int64())]))])),
        ("remove", pa.struct([("path", pa.string()), ("dataChange", pa.bool_()), ("deletionTimestamp", pa.int64())])),
        ("domainMetadata", pa.struct([("domain", pa.string()), ("configuration", pa.string()),
                                      ("removed", pa.bool_())])),
        ("checkpointMetadata", pa.struct([("version", pa.int64()), ("tags", _MAP)])),
        ("sidecar", pa.struct([("path", pa.string()), ("sizeInBytes", pa.int64()), ("modificationTime", pa.int64())])),
    ]
)  # fmt: skip


def write_checkpoint(path: Path, name: str, actions: list[dict[str, Any]]) -> int:
    def shaped(value: Any, kind: pa.DataType) -> Any:
        if value is None or not isinstance(value, dict):
            return value
        if pa.types.is_map(kind):
            return list(value.items())
        return {f.name: shaped(value.get(f.name), f.type) for f in kind}

    rows = [{f.name: shaped(action.get(f.name), f.type) for f in _CHECKPOINT} for action in actions]
    target = path / "_delta_log" / name
    target.parent.mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, _CHECKPOINT), target)
    return target.stat().st_size


def observe(path: Path, *columns: str, version: int | None = None) -> TableState:
    """Observe the table lake.db.t that lives in this folder."""
    return observe_delta(TableName("lake", ("db",), "t"), str(path), columns, version)
