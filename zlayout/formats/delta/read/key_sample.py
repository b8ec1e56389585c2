"""Samples key columns of a Delta table without a JVM."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.fs as pa_fs

from zlayout.formats.delta.read.location import table_files
from zlayout.formats.delta.read.opening import open_table
from zlayout.formats.delta.read.schema import leaves
from zlayout.formats.row_groups import KeyFiles, by_name, sample_row_groups
from zlayout.table.key_sample import RowGroupSample
from zlayout.table.state import Int64, TableState


def sample_delta(
    state: TableState,
    chosen: Int64,
    columns: Sequence[str],
    max_bytes: int,
    seed: int,
    storage_options: Mapping[str, str],
) -> RowGroupSample:
    """Sample key columns of the chosen files. The arguments are those of `zlayout.formats.base.Backend.sample_keys`."""
    options = dict(storage_options)
    with ExitStack() as stack:
        opened = open_table(state.table, state.location, state.version, options, stack)
        physical = {leaf.name: leaf.physical for leaf in leaves(json.loads(opened.delta.schema().to_json()))}
    storage = table_files(opened.location, options)
    files = state.files

    def open_file(path: str) -> pa.NativeFile:
        if "://" in path or path.startswith("/"):  # the table is a shallow clone, and the file belongs to its source
            found, inside = pa_fs.FileSystem.from_uri(path)
            return found.open_input_file(inside)
        return storage.open_input_file(unquote(path))

    def constant(column: str, file: int) -> Any:
        partition = files.partitions[files.partition[file]]
        values = {field.source: value for field, value in zip(partition.fields, partition.values, strict=True)}
        return values.get(column)

    wanted = [column for column in state.columns if column.name in columns]
    source = KeyFiles(open_file, by_name(physical), constant)
    return sample_row_groups(source, files, chosen, wanted, max_bytes, seed)
