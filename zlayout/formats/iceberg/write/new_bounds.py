"""Reads the bounds of new files from their Java objects, for baselines and metrics."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from zlayout.errors import EngineError
from zlayout.formats.base import Group
from zlayout.formats.iceberg.read.bounds import column_bounds
from zlayout.formats.iceberg.write.jvm import java_errors
from zlayout.formats.iceberg.write.staging import Staged, handles_of
from zlayout.formats.kernel.commits import NewFiles, file_table
from zlayout.formats.kernel.requirements import partitions_of
from zlayout.table.state import FileTable, Partition


def written_files(pinned: Staged, group: Group, files: NewFiles) -> FileTable | None:
    """Return the new files of one group with the bounds of the z-order columns.

    If the group has files of an older partition spec, its new partitions are known by the text of their values only.

    Returns:
        The files; None if the Java objects cannot be read, for which a rewrite must not fail.
    """
    types = {name: bounds.lower.type for name, bounds in group.files.bounds.items()}
    try:
        with java_errors(f"reading the bounds of new files of {pinned.table.name()}"):
            spec, schema = pinned.table.spec(), pinned.table.schema()
            ids = {name: int(schema.findField(name).fieldId()) for name in types}
            to_json = pinned.jvm.iceberg.ContentFileParser.toJson
            documents = [json.loads(to_json(file, spec)) for file in handles_of(files)]
        bounds = {
            name: column_bounds(
                [_bytes(document, "lower-bounds", ids[name]) for document in documents],
                [_bytes(document, "upper-bounds", ids[name]) for document in documents],
                np.array([_entry(document, "null-value-counts", ids[name], -1) for document in documents], np.int64),
                kind,
                frozenset(),
            )
            for name, kind in types.items()
        }
        owners, partitions = _partitions(group, documents, int(spec.specId()))
    except (EngineError, ValueError, TypeError, KeyError, AttributeError, pa.ArrowException):
        return None
    return file_table(files, owners, partitions, bounds)


def _partitions(
    group: Group, documents: Sequence[Mapping[str, Any]], spec_id: int
) -> tuple[list[int], tuple[Partition, ...]]:
    """Return the partition of each new file as an index, and the partitions."""
    before = partitions_of([group])
    if len(before) == 1 and before[0].spec_id == spec_id:
        return [0] * len(documents), (before[0],)
    texts = [json.dumps(document.get("partition"), sort_keys=True) for document in documents]
    numbers = {text: at for at, text in enumerate(dict.fromkeys(texts))}
    return [numbers[text] for text in texts], tuple(Partition(spec_id, (), (text,)) for text in numbers)


def _entry(document: Mapping[str, Any], name: str, field_id: int, default: Any = None) -> Any:
    stored = document.get(name) or {"keys": [], "values": []}
    return dict(zip(stored["keys"], stored["values"], strict=True)).get(field_id, default)


def _bytes(document: Mapping[str, Any], name: str, field_id: int) -> bytes | None:
    value = _entry(document, name, field_id)
    return None if value is None else bytes.fromhex(value)
