"""Reads the bounds of new files from their Java objects, for baselines and metrics."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa

from zlayout.errors import EngineError
from zlayout.formats.base import Group
from zlayout.formats.iceberg.read.bounds import column_bounds
from zlayout.formats.iceberg.write.jvm import java_errors
from zlayout.formats.iceberg.write.staging import Staged
from zlayout.formats.kernel.commits import NewFiles, file_table
from zlayout.formats.kernel.requirements import partitions_of
from zlayout.table.state import FileTable, Int64, Partition


def written_files(pinned: Staged, group: Group, files: NewFiles) -> FileTable | None:
    """Return the new files of one group with the bounds of the z-order columns.

    If the group has files of an older partition spec, the values of its new partitions are JSON strings.

    Returns:
        The files; None if the Java objects cannot be read. A rewrite must not fail because of its metrics.
    """
    content, types = pinned.jvm.content, {name: bounds.lower.type for name, bounds in group.files.bounds.items()}
    try:
        with java_errors(f"reading the bounds of new files of {pinned.table.name()}"):
            schema, handles = pinned.table.schema(), pinned.handles_of(files)
            ids = {name: int(schema.findField(name).fieldId()) for name in types}
            bounds = {
                name: column_bounds(
                    content.bounds(handles, ids[name], upper=False),
                    content.bounds(handles, ids[name], upper=True),
                    content.null_counts(handles, ids[name]),
                    type_,
                    frozenset(),
                )
                for name, type_ in types.items()
            }
            owners, partitions = _partitions(pinned, group, handles)
    except (EngineError, ValueError, TypeError, KeyError, AttributeError, pa.ArrowException):
        return None
    return file_table(files, owners, partitions, bounds)


def _partitions(pinned: Staged, group: Group, handles: Any) -> tuple[Int64, tuple[Partition, ...]]:
    """Return the partition of each new file as an index, and the partitions. handles: the Java DataFiles."""
    before, spec = partitions_of([group]), pinned.table.spec()
    spec_id = int(spec.specId())
    if len(before) == 1 and before[0].spec_id == spec_id:
        return np.zeros(len(handles), np.int64), (before[0],)
    documents = map(json.loads, pinned.jvm.content.documents(handles, spec))
    texts = pa.array([json.dumps(document.get("partition"), sort_keys=True) for document in documents], pa.string())
    numbers = texts.dictionary_encode()
    found = tuple(Partition(spec_id, (), (text,)) for text in numbers.dictionary.to_pylist())
    return np.asarray(numbers.indices, np.int64), found
