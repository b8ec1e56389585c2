"""Samples key columns of an Iceberg table without a JVM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from zlayout.formats.iceberg.read.arrow_types import leaf_fields
from zlayout.formats.iceberg.read.catalog import load_table
from zlayout.formats.row_groups import KeyFiles, by_field_id, sample_row_groups
from zlayout.spec.model import CatalogConfig, TableName
from zlayout.table.key_sample import NotParquetError, RowGroupSample
from zlayout.table.state import Int64, TableState


def sample_iceberg(
    catalog: CatalogConfig,
    name: TableName,
    state: TableState,
    chosen: Int64,
    columns: Sequence[str],
    max_bytes: int,
    seed: int,
) -> RowGroupSample:
    """Sample key columns of the chosen files. The arguments are those of `zlayout.formats.base.Backend.sample_keys`.

    Raises:
        NotParquetError: If a file is not a Parquet file.
    """
    table = load_table(catalog, name)
    fields = {leaf: field.field_id for leaf, field in leaf_fields(table.schema())}
    files = state.files

    def open_file(path: str) -> pa.NativeFile:
        if path.endswith((".orc", ".avro")):
            raise NotParquetError(path.rpartition(".")[2].upper())
        opened = table.io.new_input(path).open(seekable=True)
        # PythonFile would seek to the end to learn the size, where GCS has nothing to read, which is an error.
        return opened if isinstance(opened, pa.NativeFile) else pa.PythonFile(opened, mode="r")

    def constant(column: str, file: int) -> Any:
        partition = files.partitions[files.partition[file]]
        values = {str(field): value for field, value in zip(partition.fields, partition.values, strict=True)}
        return values.get(column)

    wanted = [column for column in state.columns if column.name in columns]
    names = {leaf: tuple(leaf.split(".")) for leaf in fields}
    source = KeyFiles(open_file, by_field_id(fields, names), constant)
    return sample_row_groups(source, files, chosen, wanted, max_bytes, seed)
