"""The rewrite of one table as a frame: sample, file maps, placement, one shuffle, sort, and the gate around it.

This is independent of the format: a backend supplies the rows with their file and position, writes the frame and
commits. The result depends only on the rows, the paths of their files and the layout, not on cores or task order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from math import ceil, log2

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from zlayout.curve.layout import FileMap, build
from zlayout.errors import Diagnostic
from zlayout.rewrite.constants import Constants
from zlayout.rewrite.forest import Forest, build_forest
from zlayout.rewrite.gate import Gate
from zlayout.rewrite.place import FILE_ID, LEAF, forest_arrays, place_rows
from zlayout.rewrite.rows import (
    GROUP,
    ORDINAL,
    POSITION,
    PREFIX,
    SHARD,
    FileIndex,
    GroupTarget,
    Source,
    index_arrays,
    index_files,
    partition_names,
    shard_key,
    source_columns,
    with_origin,
)
from zlayout.rewrite.sample import Sample, take_sample
from zlayout.spark.jvm import session_conf
from zlayout.spec.model import Layout

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

# A leaf inside a file has about as many rows as a Parquet page has by default, so that page indexes can prune.
ROWS_PER_PAGE = 20_000
MAX_DEPTH_WITHIN = 6
LONG_BITS = 63
POSITION_BITS = 40  # more than the rows of any file, whose number may be an estimate
NOT_SAMPLED = f"{PREFIX}not_sampled"

SESSION_CONF = {
    # one Spark partition is one output file: nothing may merge, split or reorder them
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.files.maxRecordsPerFile": "0",
    # a missing or corrupt source file must fail the job, not lose rows
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.files.ignoreCorruptFiles": "false",
    # CHAR values are stored unpadded, since readers that do not pad would read others
    "spark.sql.readSideCharPadding": "false",
    # if a map stage runs again with other output, its readers run again too
    "spark.sql.shuffle.orderIndependentChecksum.enabled": "true",
    "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch": "true",
    # HotSpot does not compile longer methods: four keys took 85 s when interpreted, and 30 s as shorter code
    "spark.sql.codegen.hugeMethodLimit": "8000",
    # a writer keeps a partition's file open instead of sorting by partition columns a second time
    "spark.sql.maxConcurrentOutputFileWriters": "2",
}


# Spark's own minimum of one task per core leaves cores idle behind the largest task of a scan.
MIN_TASKS_PER_CORE = 4


def min_tasks(session: SparkSession) -> int:
    """Return how many tasks should read the source if it is large enough to be split into so many."""
    return MIN_TASKS_PER_CORE * session.sparkContext.defaultParallelism


@dataclass(frozen=True, slots=True)
class Shard:
    """The rows of one group (its number) that go to one output partition. key: `zlayout.rewrite.rows.shard_key`."""

    group: int
    key: int
    map: FileMap


@dataclass(frozen=True, slots=True)
class _Job:
    source: Source
    columns: tuple[str, ...]
    index: FileIndex
    shards: tuple[Shard, ...]
    forest: Forest
    gate: Gate
    group_of: Int32

    @property
    def partitions(self) -> int:
        return len(self.group_of)


@dataclass(frozen=True, slots=True)
class Placed:
    """The rewrite, ready to be written within `rewrite_conf(session)`.

    Attributes:
        frame: The source's columns; each Spark partition is one output file. If the source has `partition`, the last
            Spark partition of each group is for rows whose output partition is not in the sample. It may have several
            output partitions, and is sorted by them.
        gate: Call `gate.check()` after the write and before the commit.
        group_of: int32[partitions], the group of each Spark partition.
        oversized: Number of files with one key that is larger than two files.
    """

    frame: DataFrame
    gate: Gate
    group_of: Int32
    oversized: int

    def notes(self, table: object) -> tuple[Diagnostic, ...]:
        """Return what the user should know (ZL402)."""
        if not self.oversized:
            return ()
        message = f"{table}: {self.oversized:,} of the new files have one key that is larger than two files"
        return (Diagnostic("ZL402", message, "note", "use zorder.noise: true to spread such a key over several files"),)


def rewrite_conf(session: SparkSession) -> AbstractContextManager[None]:
    """Set what the placed frame must be planned, run and written under; the earlier settings are restored."""
    return session_conf(session, SESSION_CONF | {"spark.sql.files.minPartitionNum": str(min_tasks(session))})


def place(source: Source, layout: Layout, groups: Sequence[GroupTarget]) -> Placed:
    """Sample the groups' rows in one Spark job, lay them out on the driver, and return the frame that rewrites them.

    Call this, and write the frame, within `settings`.

    Args:
        source: The live rows of all groups' files and no others.
        layout: The layout.
        groups: The groups.

    Raises:
        TableError: ZL109, for a key column without an order.
        EngineError: ZL313, for a file in two groups.
    """
    columns = tuple(c.name for c in layout.columns)
    index = index_files(source.frame.sparkSession, groups)
    sample = take_sample(source, columns, groups, index)
    shards = tuple(_shards(sample, layout, groups))
    forest = build_forest([c.map for c in shards])
    gate = Gate(
        source.frame, sum(g.rows for g in groups), partial(_grouped, source, index) if len(groups) > 1 else None
    )
    file_group = np.repeat([c.group for c in shards], [c.map.files for c in shards])
    missed = np.arange(len(groups) if source.partition else 0)
    group_of = np.concatenate((file_group, missed)).astype(np.int32)
    return Placed(
        frame=_frame(_Job(source, columns, index, shards, forest, gate, group_of)),
        gate=gate,
        group_of=group_of,
        oversized=sum(len(c.map.tree.oversized) for c in shards),
    )


def _shards(sample: Sample, layout: Layout, groups: Sequence[GroupTarget]) -> list[Shard]:
    """A file map for each group and output partition in the sample; a group without sample rows gets one file."""
    shards = []
    weights = layout.weights
    for number, group in enumerate(groups):
        mine = sample.group == number
        keys, counts = np.unique(sample.shard_key[mine], return_counts=True)
        if not len(keys):
            keys, counts = np.array([number]), np.ones(1, np.int64)
        shares = counts / counts.sum()
        for key, share in zip(keys.tolist(), shares.tolist(), strict=True):
            files = max(1, round(group.target_files * share))
            depth = _depth_within(group.rows * share / files) if layout.sort_within else 0
            rows = sample.rows_of(mine & (sample.shard_key == key))
            built = build(rows, weights, layout.curve, layout.range_ids, files, layout.noise, depth)
            shards.append(Shard(number, key, built))
    return shards


def _depth_within(rows_per_file: float) -> int:
    pages = rows_per_file / ROWS_PER_PAGE
    return min(ceil(log2(pages)), MAX_DEPTH_WITHIN) if pages > 1 else 0


def _frame(job: _Job) -> DataFrame:
    """The source's columns, each row in its file's Spark partition, in an order that depends only on the source."""
    source, forest = job.source, job.forest
    by_key = np.argsort([c.key for c in job.shards])
    shards = {
        "shard_key": pa.array(np.array([c.key for c in job.shards], np.int64)[by_key]),
        "shard": pa.array(by_key.astype(np.int32)),
    }
    arrays = {**index_arrays(job.index), **forest_arrays(forest), **shards}
    group_of_ordinal = np.empty(len(job.index), np.int32)
    group_of_ordinal[job.index.ordinal] = job.index.group
    groups = {"group_of_ordinal": pa.array(group_of_ordinal), "group_of_partition": pa.array(job.group_of)}
    constants = Constants(source.frame.sparkSession, arrays | groups)
    frame = with_origin(source.frame.select("*", *source_columns(source)), job.index, constants)
    frame = _with_shard(frame, source, constants)
    frame = place_rows(frame, job.columns, forest, constants)
    if source.partition:
        # for a shard that is not in the sample: correctness must not depend on the sample
        overflow = F.lit(forest.files) + F.col(GROUP)
        frame = frame.withColumn(FILE_ID, F.when(F.col(NOT_SAMPLED), overflow).otherwise(F.col(FILE_ID)))
    names, order = partition_names(source), _order(job)
    several = len(np.unique(job.group_of)) > 1
    left = constants.at("group_of_ordinal", order.ordinal) if several else None
    came = constants.at("group_of_partition", F.spark_partition_id()) if several else None
    carried = [column.alias(name) for name, column in order.carried.items()]
    frame = job.gate.watch_source(frame, *map(F.col, names), *carried, group=left)
    frame = frame.repartitionById(job.partitions, order.partition).sortWithinPartitions(*names, *order.carried)
    return job.gate.watch_result(frame, came)


def _grouped(source: Source, index: FileIndex) -> tuple[DataFrame, Column]:
    """The source's rows with the group of their file."""
    constants = Constants(source.frame.sparkSession, index_arrays(index))
    return with_origin(source.frame.select("*", *source_columns(source)), index, constants), F.col(GROUP)


def _with_shard(frame: DataFrame, source: Source, constants: Constants) -> DataFrame:
    """Add SHARD (int), and NOT_SAMPLED for a row whose shard is not in the sample (SHARD is arbitrary then)."""
    if not source.partition:
        return frame.withColumn(SHARD, F.col(GROUP))
    found = f"{PREFIX}found"
    frame = frame.withColumn(found, constants.search("shard_key", shard_key(source)))
    at = F.greatest(F.col(found), F.lit(0))
    return frame.withColumns({SHARD: constants.at("shard", at), NOT_SAMPLED: F.col(found) < 0})


@dataclass(frozen=True, slots=True)
class _Order:
    """What the shuffle carries beside a row, by name. It also sorts a file's rows: along the curve, then as before.

    partition, ordinal: of the row, computed from the carried columns.
    """

    carried: Mapping[str, Column]
    partition: Column
    ordinal: Column


def _order(job: _Job) -> _Order:
    """One long if that is enough: fewer bytes to shuffle, and Spark sorts by a single long with a radix sort."""
    parts = {FILE_ID: job.partitions, LEAF: job.forest.leaves_in_file, ORDINAL: len(job.index)}
    bits = {name: (count - 1).bit_length() for name, count in parts.items()}
    bits[POSITION] = LONG_BITS - sum(bits.values())
    if bits[POSITION] < POSITION_BITS:
        return _Order({name: F.col(name) for name in bits}, F.col(FILE_ID), F.col(ORDINAL))
    name, packed = f"{PREFIX}order", F.col(FILE_ID).cast("bigint")
    for lower in (LEAF, ORDINAL, POSITION):
        packed = F.shiftleft(packed, bits[lower]).bitwiseOR(F.col(lower).cast("bigint"))
    partition = F.shiftright(name, LONG_BITS - bits[FILE_ID]).cast("int")
    ordinal = F.shiftright(name, bits[POSITION]).bitwiseAND(F.lit((1 << bits[ORDINAL]) - 1)).cast("int")
    return _Order({name: packed}, partition, ordinal)
