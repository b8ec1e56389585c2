"""Samples the key columns of all groups in one Spark job. Whether a row is in the sample depends on that row alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from zlayout.rewrite.constants import Constants
from zlayout.rewrite.rows import (
    GROUP,
    ORDINAL,
    POSITION,
    SHARD_KEY,
    SOURCE_ORDER,
    FileIndex,
    GroupTarget,
    Source,
    index_arrays,
    key_column,
    shard_key,
    source_columns,
    with_origin,
    with_source_order,
)
from zlayout.spark.arrow import to_arrow
from zlayout.table.reserved import PREFIX

Int64 = NDArray[np.int64]
# The number of rows of new files then varies by about 1 / sqrt(2000) = 2 %.
SAMPLE_ROWS_PER_FILE = 2000
# With more files, each file gets fewer rows, down to MIN_ROWS_PER_FILE, with which their number varies by about 7 %.
# The driver needs about 160 bytes for each row of two columns. For more files, `kd` takes two samples (docs/scale.md).
MAX_SAMPLE_ROWS = 10_000_000
MIN_ROWS_PER_FILE = 200
HASH_BITS = 31


@dataclass(frozen=True, slots=True)
class Sample:
    """The sampled rows.

    Attributes:
        keys: The values of each key column, by name.
        group: int32[rows], the number of the group.
        shard_key: int64[rows], see `rows.shard_key`.
    """

    keys: Mapping[str, pa.ChunkedArray]
    group: NDArray[np.int32]
    shard_key: Int64

    def rows_at(self, positions: Int64) -> dict[str, pa.ChunkedArray]:
        """Return the keys of the rows at these positions."""
        chosen = pa.array(positions)
        return {name: values.take(chosen) for name, values in self.keys.items()}


@dataclass(frozen=True, slots=True)
class Drawn:
    """The rows of a sample in Spark.

    Attributes:
        frame: Rows with `keys`, ORDINAL, POSITION, GROUP and the values of the output partition.
        keys: The names of the key columns in the frame.
        constants: The constants that the frame uses.
    """

    frame: DataFrame
    keys: tuple[str, ...]
    constants: Constants


def draw(
    source: Source,
    columns: Sequence[str],
    groups: Sequence[GroupTarget],
    index: FileIndex,
    per_file: float,
    arrays: Mapping[str, pa.Array] | None = None,
) -> Drawn:
    """Return about `per_file` rows for each new file of all groups. Reading them reads only the key columns.

    A row is in the sample if a hash of its file and position is below the threshold of its group. Therefore the sample,
    unlike `DataFrame.sample`, does not depend on the number of cores or tasks. Executors run no Python.

    Args:
        source: The rows to rewrite.
        index: The files of the groups.
        per_file: The wanted number of rows.
        arrays: More constants.
    """
    thresholds = pa.array([_threshold(g, per_file) for g in groups], pa.int32())
    constants = Constants(source.frame.sparkSession, {**index_arrays(index), "share": thresholds, **(arrays or {})})
    names = tuple(name if name == SOURCE_ORDER else f"{PREFIX}key{i}" for i, name in enumerate(columns))
    stored = [(c, name) for c, name in zip(columns, names, strict=True) if c != SOURCE_ORDER]
    frame = source.frame.select(
        *[key_column(source.frame, column).alias(name) for column, name in stored],
        *source_columns(source),
    )
    frame = with_source_order(with_origin(frame, index, constants), names)
    low_bits = F.xxhash64(ORDINAL, POSITION).bitwiseAND((1 << HASH_BITS) - 1)
    return Drawn(frame.where(low_bits <= constants.at("share", F.col(GROUP))), names, constants)


def take_sample(
    source: Source, columns: Sequence[str], groups: Sequence[GroupTarget], index: FileIndex, per_file: float
) -> Sample:
    """Sample the key columns of all groups in one Spark job. The arguments are those of `draw`."""
    drawn = draw(source, columns, groups, index, per_file)
    table = to_arrow(drawn.frame.select(*drawn.keys, F.col(GROUP), shard_key(source).alias(SHARD_KEY)))
    keys = {column: table[name] for column, name in zip(columns, drawn.keys, strict=True)}
    return Sample(keys, table[GROUP].to_numpy(), table[SHARD_KEY].to_numpy())


def rows_per_file(files: int) -> int:
    """Return the number of rows to sample for each of `files` new files of all groups."""
    return min(SAMPLE_ROWS_PER_FILE, max(MIN_ROWS_PER_FILE, MAX_SAMPLE_ROWS // max(files, 1)))


def _threshold(group: GroupTarget, per_file: float) -> int:
    """Return the share of a group's rows to sample, as the largest hash of a sampled row."""
    share = per_file * group.target_files / max(group.rows, 1)
    return min(int(share * (1 << HASH_BITS)), (1 << HASH_BITS) - 1)
