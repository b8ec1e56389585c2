"""Builds the frame that rewrites groups of one table: sample, file maps, placement, shuffle, sort, and the gate.

This module is independent of the format. A backend provides the rows with their files and positions, writes the frame
and commits the new files. The frame depends only on the rows, the paths of their files and the layout. It does not
depend on the number of cores or the order of tasks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from zlayout.errors import Diagnostic, Refused
from zlayout.message_text import plural
from zlayout.rewrite.constants import Constants
from zlayout.rewrite.forest import Forest, build_forest
from zlayout.rewrite.gate import Gate
from zlayout.rewrite.place import (
    FILE_ID,
    LEAF,
    NOT_SAMPLED,
    forest_arrays,
    place_rows,
    shard_arrays,
    with_shard,
)
from zlayout.rewrite.rows import (
    GROUP,
    ORDINAL,
    POSITION,
    POSITION_BITS,
    FileIndex,
    GroupTarget,
    Source,
    index_arrays,
    index_files,
    key_names,
    partition_names,
    source_columns,
    with_origin,
    with_source_order,
)
from zlayout.rewrite.shards import Shard, build_shards
from zlayout.rewrite.shuffle import to_partitions
from zlayout.spark.jvm import session_conf
from zlayout.spec.layout import Layout
from zlayout.table.reserved import PREFIX, reserved_refusals

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

LONG_BITS = 63  # without the sign

SESSION_CONF = {
    # one Spark partition is one output file: Spark must not merge, split or reorder partitions
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.files.maxRecordsPerFile": "0",
    # a missing or corrupt source file must fail the job, not lose rows
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.files.ignoreCorruptFiles": "false",
    # by default, Spark pads CHAR values when it reads them, and the rewrite would store the padding
    "spark.sql.readSideCharPadding": "false",
    # if a map stage runs again and its output differs, the stages that read it run again too
    "spark.sql.shuffle.orderIndependentChecksum.enabled": "true",
    "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch": "true",
    # HotSpot does not compile longer methods: with four keys, a rewrite took 85 s, and 30 s with shorter methods
    "spark.sql.codegen.hugeMethodLimit": "8000",
    # a writer keeps the files of two output partitions open instead of sorting the rows by partition columns
    "spark.sql.maxConcurrentOutputFileWriters": "2",
}

# With one task per core, which is Spark's minimum, cores are idle while the largest task of a scan runs.
MIN_TASKS_PER_CORE = 4


def min_tasks(session: SparkSession) -> int:
    """Return the minimum number of tasks for reading a source, if the source is large enough."""
    return MIN_TASKS_PER_CORE * session.sparkContext.defaultParallelism


@dataclass(frozen=True, slots=True)
class _Job:
    """What `_frame` needs to place the rows of a source."""

    source: Source
    columns: tuple[str, ...]  # the key columns
    index: FileIndex
    shards: tuple[Shard, ...]
    forest: Forest  # of the file maps of all shards
    gate: Gate
    group_of: Int32  # as in `Placed`

    @property
    def partitions(self) -> int:
        return len(self.group_of)


@dataclass(frozen=True, slots=True)
class Placed:
    """The frame that rewrites the groups. It must be written within `rewrite_conf(session)`.

    Attributes:
        frame: The rows with the source's columns. Each Spark partition is one new file. If groups have several output
            partitions, one additional Spark partition per group has the rows whose output partition is not in the
            sample, sorted by output partition.
        gate: The gate. Call `gate.check()` after the write and before the commit.
        group_of: int32[partitions], the number of the group of each Spark partition.
        oversized: The number of files that have more than twice the target size because all rows have the same key.
    """

    frame: DataFrame
    gate: Gate
    group_of: Int32
    oversized: int

    def notes(self, table: object) -> tuple[Diagnostic, ...]:
        """Return a note (ZL402) if files are oversized."""
        if not self.oversized:
            return ()
        files = f"{plural(self.oversized, 'new file')} {'is' if self.oversized == 1 else 'are'}"
        message = f"{table}: {files} more than twice as large as the others, with rows of one key only"
        return (Diagnostic("ZL402", message, "note", "use zorder.noise: true to distribute them over several files"),)


def rewrite_conf(session: SparkSession) -> AbstractContextManager[None]:
    """Set the session configuration that `place` and the write of its frame need, and restore it at exit."""
    return session_conf(session, SESSION_CONF | {"spark.sql.files.minPartitionNum": str(min_tasks(session))})


def place(source: Source, layout: Layout, groups: Sequence[GroupTarget]) -> Placed:
    """Sample the rows of the groups, build the file maps, and return the frame that rewrites the rows.

    Call this function, and write the frame, within `rewrite_conf`.

    Args:
        source: Exactly the live rows of the files of all groups.
        layout: The layout.
        groups: The groups.

    Raises:
        TableError: ZL109, if the type of a key column has no order.
        EngineError: ZL313, if a file is in two groups.
        Refused: ZL260, if a column has a reserved name.
    """
    if refusals := reserved_refusals(source.frame.columns):
        raise Refused(*refusals)
    columns = key_names(layout)
    index = index_files(source.frame.sparkSession, groups)
    shards = tuple(build_shards(source, layout, groups, index))
    forest = build_forest([shard.map for shard in shards])
    gate = Gate(
        source.frame, sum(g.rows for g in groups), partial(_grouped, source, index) if len(groups) > 1 else None
    )
    file_group = np.repeat([shard.group for shard in shards], [shard.map.files for shard in shards])
    not_sampled_group = np.arange(len(groups) if source.partition else 0)
    group_of = np.concatenate((file_group, not_sampled_group)).astype(np.int32)
    return Placed(
        frame=_frame(_Job(source, columns, index, shards, forest, gate, group_of)),
        gate=gate,
        group_of=group_of,
        oversized=sum(len(shard.map.tree.oversized) for shard in shards),
    )


def _frame(job: _Job) -> DataFrame:
    """Return the source's columns with each row in the Spark partition of its new file, in a deterministic order."""
    source, forest = job.source, job.forest
    arrays = {**index_arrays(job.index), **forest_arrays(forest), **shard_arrays([shard.key for shard in job.shards])}
    group_of_ordinal = np.empty(len(job.index), np.int32)
    group_of_ordinal[job.index.ordinal] = job.index.group
    groups = {"group_of_ordinal": pa.array(group_of_ordinal), "group_of_partition": pa.array(job.group_of)}
    constants = Constants(source.frame.sparkSession, arrays | groups)
    frame = with_origin(source.frame.select("*", *source_columns(source)), job.index, constants)
    frame = with_shard(with_source_order(frame, job.columns), source, constants)
    frame = place_rows(frame, job.columns, forest, constants)
    if source.partition:
        # the rows of a shard that is not in the sample must be written too
        additional = F.lit(forest.files) + F.col(GROUP)
        frame = frame.withColumn(FILE_ID, F.when(F.col(NOT_SAMPLED), additional).otherwise(F.col(FILE_ID)))
    names, order = partition_names(source), _order(job)
    several = len(np.unique(job.group_of)) > 1
    source_group = constants.at("group_of_ordinal", order.ordinal) if several else None
    result_group = constants.at("group_of_partition", F.spark_partition_id()) if several else None
    carried = [column.alias(name) for name, column in order.carried.items()]
    frame = job.gate.watch_source(frame, *map(F.col, names), *carried, group=source_group)
    frame = to_partitions(frame, job.partitions, order.partition).sortWithinPartitions(*names, *order.carried)
    return job.gate.watch_result(frame, result_group)


def _grouped(source: Source, index: FileIndex) -> tuple[DataFrame, Column]:
    constants = Constants(source.frame.sparkSession, index_arrays(index))
    return with_origin(source.frame.select("*", *source_columns(source)), index, constants), F.col(GROUP)


@dataclass(frozen=True, slots=True)
class _Order:
    """The columns that the shuffle transports with a row, and by which the rows of a file are sorted."""

    carried: Mapping[str, Column]  # by name: order rows along the curve, then by file and position in the source
    partition: Column  # the Spark partition of a row, computed from the carried columns
    ordinal: Column  # of a row's source file, computed from the carried columns


def _order(job: _Job) -> _Order:
    """Return the order, packed into one long if possible, so that Spark shuffles fewer bytes and uses a radix sort."""
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
