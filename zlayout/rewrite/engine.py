"""Builds the frame that rewrites groups of one table: sample, file maps, placement, shuffle, sort, and the gate.

`place` returns this frame. This module is independent of the format. A backend provides the rows with their files and
positions, writes the frame and commits the new files. The frame depends only on the rows, the paths of their files and
the layout. It does not depend on the number of cores or the order of tasks.

The file of a row is computed by Spark expressions: range ids by binary search, then one table look-up or a tree walk.
`build_forest` combines the file maps of all shards, and `place_rows` adds the file of each row. Each step is a separate
projection, and later steps use its results more than once. Therefore Spark does not merge the projections, and computes
each result once, inside one generated loop. docs/adr/0003 has the measurements.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import pairwise
from math import ceil, log2, prod
from operator import and_
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from zlayout.curve.layout import (
    Boxes,
    FileMap,
    LeafOrder,
    Refined,
    build_boxes,
    build_map,
    join,
    join_trees,
    leaf_order,
    refine,
)
from zlayout.curve.tree import Int32, Int64
from zlayout.errors import Diagnostic, Refused, ZlayoutError, first_line
from zlayout.rewrite.gate import Gate
from zlayout.rewrite.rows import (
    GROUP,
    MAX_SAMPLE_ROWS,
    MIN_ROWS_PER_FILE,
    ORDINAL,
    POSITION,
    POSITION_BITS,
    SHARD,
    Constants,
    Drawn,
    FileIndex,
    GroupTarget,
    Sample,
    Source,
    draw,
    index_arrays,
    index_files,
    key_column,
    key_names,
    key_type,
    partition_names,
    rows_per_file,
    search_array,
    shard_key,
    source_columns,
    take_sample,
    with_origin,
    with_source_order,
)
from zlayout.spark.arrow import from_arrow, to_arrow
from zlayout.spark.java_errors import Py4JError
from zlayout.spark.jvm import column_of, expression_of, jvm_of, scala_seq, session_conf
from zlayout.spec.model import Layout, ZorderColumn
from zlayout.table.state import PREFIX, reserved_refusals
from zlayout.text import plural

# The shuffle of each row to the Spark partition whose number is in a column, in every version of Spark.


def keys_of_partitions(session: SparkSession, count: int) -> NDArray[np.int32]:
    """Return, for each of `count` partitions, an int that Spark's hash partitioning sends to this partition.

    The search tries about `count` * (ln `count` + 1) ints.

    Returns:
        int32[count].
    """
    jvm = jvm_of(session)
    partitionings = jvm.org.apache.spark.sql.catalyst.plans.physical
    keys = np.full(count, -1, np.int32)
    start, step = 0, max(1024, 4 * count)
    while (keys < 0).any():
        key = F.col("id").cast("int")
        # not F.hash, in whose place the session may have a function of its own
        by_key = partitionings.HashPartitioning(scala_seq(jvm, [expression_of(jvm, key)]), count)
        partition = column_of(jvm, by_key.partitionIdExpression())
        tried = to_arrow(session.range(start, start + step).select(key.alias("key"), partition))
        first, where = np.unique(tried[1].to_numpy(), return_index=True)
        missing = keys[first] < 0
        keys[first[missing]] = tried["key"].to_numpy()[where[missing]]
        start += step
    return keys


def to_partitions(frame: DataFrame, count: int, partition: Column) -> DataFrame:
    """Shuffle each row to the Spark partition whose number is in the column `partition` (int).

    Since version 4.1, Spark can shuffle by such a number. Earlier versions always apply their hash function. For
    them, each row gets an int that the hash function sends to this partition. The result is the same.
    """
    if hasattr(DataFrame, "repartitionById"):
        return frame.repartitionById(count, partition)
    return by_hash(frame, count, partition)


def by_hash(frame: DataFrame, count: int, partition: Column) -> DataFrame:
    """Shuffle as `to_partitions` does, through Spark's hash function."""
    keys = Constants(frame.sparkSession, {"key": pa.array(keys_of_partitions(frame.sparkSession, count))})
    return frame.repartition(count, keys.at("key", partition))


# The file maps of a rewrite, one for each output partition of each group, from samples that Spark draws.
#
# The memory that the driver needs is limited. For very many files, the tree of curve `kd` is built in two levels
# (docs/adr/0022). The boxes of the first level are built from a small sample. For the second level, Spark groups the
# rows of another sample by box, and the driver reads the rows of some boxes at a time.


# A leaf within a file has about as many rows as a Parquet page by default, so that engines can skip pages.
ROWS_PER_PAGE = 20_000
MAX_DEPTH_WITHIN = 6
SAMPLED_ROWS_PER_LEAF = 30
# The rows of the first sample of two. The number of rows in a box varies by 1 / sqrt(1900) for 100,000 files, and by
# 1 / sqrt(240) for 800,000 files.
BOX_SAMPLE_ROWS = 4_000_000
# The rows of the second sample that the driver holds at a time.
MAX_CHUNK_ROWS = 4_000_000
CHUNK = f"{PREFIX}chunk"


@dataclass(frozen=True, slots=True)
class Shard:
    """The rows of one group that go to one output partition, and their file map. key: see `rows.shard_key`."""

    group: int
    key: int
    map: FileMap


@dataclass(frozen=True, slots=True)
class _Target:
    group: int
    key: int
    files: int
    rows: float  # estimated
    sampled: Int64  # the positions of its rows in the sample


def build_shards(
    source: Source, layout: Layout, groups: Sequence[GroupTarget], index: FileIndex
) -> tuple[list[Shard], LeafOrder | None]:
    """Return the shards of all groups, with their file maps, and the order of the rows inside all leaves.

    A group has one shard for each of its output partitions in the sample. A group without sampled rows has one shard.
    """
    columns = key_names(layout)
    files = sum(group.target_files for group in groups)
    if layout.effective_curve == "kd" and files * MIN_ROWS_PER_FILE > MAX_SAMPLE_ROWS:
        return _in_two_levels(source, layout, groups, index)
    per_file = rows_per_file(files)
    sample = take_sample(source, columns, groups, index, per_file)
    shards = []
    for target in _targets(sample, groups):
        depth = _depth_within(layout, target, per_file)
        built = build_map(sample.rows_at(target.sampled), layout, target.files, depth)
        shards.append(Shard(target.group, target.key, built))
    return shards, leaf_order(sample.keys, layout)


def _targets(sample: Sample, groups: Sequence[GroupTarget]) -> Iterator[_Target]:
    order = np.lexsort((sample.shard_key, sample.group))
    starts = np.searchsorted(sample.group[order], np.arange(len(groups) + 1))
    for number, (group, (first, end)) in enumerate(zip(groups, pairwise(starts.tolist()), strict=True)):
        of_group = order[first:end]
        keys, at = np.unique(sample.shard_key[of_group], return_index=True)
        if not len(keys):
            yield _Target(number, number, max(1, group.target_files), group.rows, of_group)
        for key, rows in zip(keys.tolist(), np.split(of_group, at[1:]), strict=False):
            share = len(rows) / len(of_group)
            yield _Target(number, key, max(1, round(group.target_files * share)), group.rows * share, rows)


def _depth_within(layout: Layout, target: _Target, sampled_per_file: int) -> int:
    """Return the depth of the tree within a file: about one leaf per page, if enough rows are sampled for each leaf."""
    if not (layout.sort_within and layout.orders):  # rows that keep their order need no leaves
        return 0
    leaves = min(target.rows / target.files / ROWS_PER_PAGE, sampled_per_file / SAMPLED_ROWS_PER_LEAF)
    return min(ceil(log2(leaves)), MAX_DEPTH_WITHIN) if leaves > 1 else 0


def _in_two_levels(
    source: Source, layout: Layout, groups: Sequence[GroupTarget], index: FileIndex
) -> tuple[list[Shard], LeafOrder | None]:
    """As `build_shards`, with boxes from a first sample that a second sample refines, one chunk of boxes at a time."""
    columns = key_names(layout)
    files = sum(group.target_files for group in groups)
    sample = take_sample(source, columns, groups, index, BOX_SAMPLE_ROWS / files)
    targets = list(_targets(sample, groups))
    boxes = [build_boxes(sample.rows_at(t.sampled), layout.weights, t.files) for t in targets]
    order = leaf_order(sample.keys, layout)
    del sample
    # `rows` is 0 if the number of rows of a group is unknown
    file_rows = [max(1.0, min(MIN_ROWS_PER_FILE, t.rows / t.files)) for t in targets]
    ends = np.cumsum([b.map.files for b in boxes])
    parts: list[list[Refined]] = [[] for _ in targets]
    forest, chunk_of_box = build_forest([b.map for b in boxes]), _chunk_of_box(boxes, file_rows)
    arrays = {**forest_arrays(forest), **shard_arrays([t.key for t in targets]), "chunk": pa.array(chunk_of_box)}
    drawn = draw(source, columns, groups, index, MIN_ROWS_PER_FILE, arrays)
    for chunk in _chunks(drawn, source, forest, chunk_of_box):
        # a chunk may begin and end between two boxes of one shard
        begin = chunk.first
        for shard in range(int(np.searchsorted(ends, begin, side="right")), len(boxes)):
            end = min(int(ends[shard]), chunk.end)
            if begin >= end:
                break
            depth = _depth_within(layout, targets[shard], MIN_ROWS_PER_FILE)
            rows, box = chunk.boxes(begin, end)
            keys = dict(zip(columns, rows.columns, strict=True))
            sizes = (end - begin, layout.weights, file_rows[shard])
            parts[shard].append(refine(boxes[shard], keys, box, *sizes, layout.noise, depth))
            begin = end
    shards = [
        Shard(target.group, target.key, join(box, part, rows, layout.noise))
        for target, box, part, rows in zip(targets, boxes, parts, file_rows, strict=True)
    ]
    return shards, order


@dataclass(frozen=True, slots=True)
class _Chunk:
    first: int
    end: int
    rows: pa.Table  # the keys
    box: Int64  # of each row, ascending

    def boxes(self, first: int, end: int) -> tuple[pa.Table, Int64]:
        """Return the keys of the rows in some of the boxes, and int64[n], their boxes counted from `first`."""
        start, stop = np.searchsorted(self.box, (first, end)).tolist()
        return self.rows.slice(start, stop - start), self.box[start:stop] - first


def _chunk_of_box(boxes: Sequence[Boxes], file_rows: Sequence[float]) -> Int32:
    """Return the ascending chunk of each box, int32[boxes]; ~chunk for a box whose rows are not needed."""
    # file_rows: the number of rows that the second sample has for each new file, by shard
    expected = [b.map.tree.rows / max(b.file_rows, 1e-9) * rows for b, rows in zip(boxes, file_rows, strict=True)]
    is_needed = np.concatenate([~np.isin(np.arange(b.map.files), b.single_keys) for b in boxes])
    rows = np.where(is_needed, np.concatenate(expected), 0)
    # consecutive boxes with about MAX_CHUNK_ROWS rows, as estimated from the first sample
    chunk = np.unique((np.cumsum(rows) - rows) // MAX_CHUNK_ROWS, return_inverse=True)[1].astype(np.int32)
    return np.where(is_needed, chunk, ~chunk)


def _chunks(drawn: Drawn, source: Source, forest: Forest, chunk_of_box: Int32) -> Iterator[_Chunk]:
    """Yield chunks of the second sample. Spark stores it on the executors' disks, to read the source only once."""
    frame = with_shard(drawn.frame, source, drawn.constants)
    if source.partition:
        frame = frame.where(~F.col(NOT_SAMPLED))
    frame = place_rows(frame, drawn.keys, forest, drawn.constants, noise=False)
    # Spark treats this condition, which is always true, as nondeterministic. Therefore Spark does not push the filter
    # below the projections of the tree walk. There, its expression would be repeated several times for each level.
    always = F.spark_partition_id() >= 0
    chunk_of_row = F.when(always, drawn.constants.at("chunk", F.col(FILE_ID))).otherwise(-1)
    frame = frame.withColumn(CHUNK, chunk_of_row).where(F.col(CHUNK) >= 0)
    number = np.where(chunk_of_box < 0, ~chunk_of_box, chunk_of_box)
    count = int(number[-1]) + 1
    frame = to_partitions(frame.select(*drawn.keys, FILE_ID, CHUNK), count, F.col(CHUNK))
    frame = frame.persist(StorageLevel.DISK_ONLY)
    try:
        for chunk in range(count):
            rows = to_arrow(frame.where(F.col(CHUNK) == chunk).drop(CHUNK))
            box = rows[FILE_ID].to_numpy().astype(np.int64)
            order = np.argsort(box, kind="stable")
            first, end = np.searchsorted(number, (chunk, chunk + 1)).tolist()
            yield _Chunk(first, end, rows.select(drawn.keys).take(pa.array(order)), box[order])
    finally:
        frame.unpersist()


# The frame, with each row in the Spark partition of its new file.

LONG_BITS = 63  # without the sign
MIN_POSITION_BITS = 32  # beside value ids; the rows of a file beyond 4 billion have one position

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
    index = index_files(source.frame.sparkSession, groups, source.table)
    shards, inside = build_shards(source, layout, groups, index)
    forest = build_forest([shard.map for shard in shards])
    gate = Gate(
        source.frame,
        sum(g.rows for g in groups),
        partial(_grouped, source, index) if len(groups) > 1 else None,
        source.table,
        has_deletes=source.has_deletes,
    )
    file_group = np.repeat([shard.group for shard in shards], [shard.map.files for shard in shards])
    not_sampled_group = np.arange(len(groups) if source.partition else 0)
    group_of = np.concatenate((file_group, not_sampled_group)).astype(np.int32)
    return Placed(
        frame=_frame(source, layout, index, shards, inside, forest, gate, group_of),
        gate=gate,
        group_of=group_of,
        oversized=sum(len(shard.map.tree.oversized) for shard in shards),
    )


def _frame(
    source: Source,
    layout: Layout,
    index: FileIndex,
    shards: Sequence[Shard],
    inside: LeafOrder | None,
    forest: Forest,
    gate: Gate,
    group_of: Int32,
) -> DataFrame:
    columns = key_names(layout)
    arrays = {**index_arrays(index), **forest_arrays(forest), **shard_arrays([shard.key for shard in shards])}
    group_of_ordinal = np.empty(len(index), np.int32)
    group_of_ordinal[index.ordinal] = index.group
    groups = {"group_of_ordinal": pa.array(group_of_ordinal), "group_of_partition": pa.array(group_of)}
    constants = Constants(source.frame.sparkSession, arrays | groups | leaf_order_arrays(inside))
    frame = with_origin(source.frame.select("*", *source_columns(source)), index, constants)
    frame = with_shard(with_source_order(frame, columns), source, constants)
    frame = place_rows(frame, columns, forest, constants, noise=layout.noise)
    frame = with_value_id(frame, inside, constants)
    if source.partition:
        # the rows of a shard that is not in the sample must be written too
        additional = F.lit(forest.files) + F.col(GROUP)
        frame = frame.withColumn(FILE_ID, F.when(F.col(NOT_SAMPLED), additional).otherwise(F.col(FILE_ID)))
    names = partition_names(source)
    value_ids = inside.count if inside else 1
    order, partition, ordinal = _order(len(group_of), forest.leaves_in_file, value_ids, len(index))
    several = len(np.unique(group_of)) > 1
    source_group = constants.at("group_of_ordinal", ordinal) if several else None
    result_group = constants.at("group_of_partition", F.spark_partition_id()) if several else None
    carried = [column.alias(name) for name, column in order.items()]
    frame = gate.watch_source(frame, *map(F.col, names), *carried, group=source_group)
    frame = to_partitions(frame, len(group_of), partition).sortWithinPartitions(*names, *order)
    return gate.watch_result(frame, result_group)


def _grouped(source: Source, index: FileIndex) -> tuple[DataFrame, Column]:
    constants = Constants(source.frame.sparkSession, index_arrays(index))
    return with_origin(source.frame.select("*", *source_columns(source)), index, constants), F.col(GROUP)


def _order(
    partitions: int, leaves_in_file: int, value_ids: int, files: int
) -> tuple[Mapping[str, Column], Column, Column]:
    """Return the columns that order rows along the curve, then by value id, then by file and position in the source."""
    # They are packed into one long if possible, so that Spark shuffles fewer bytes and uses a radix sort, and else into
    # two. Value ids take bits of the position, which are enough for 4 billion rows. If there are not enough bits, the
    # lowest ones of the value ids are left out, so that neighboring values have the same id.
    # Returns the columns by name, which the shuffle transports with a row, and what is computed from them: the Spark
    # partition of the row, and the ordinal of its source file.
    counts = {FILE_ID: partitions, LEAF: leaves_in_file, VALUE_ID: value_ids, ORDINAL: files}
    bits = {name: (count - 1).bit_length() for name, count in counts.items()}
    free = LONG_BITS - sum(bits.values()) + bits[VALUE_ID]
    with_position = free >= POSITION_BITS
    kept = min(bits[VALUE_ID], free - MIN_POSITION_BITS * with_position)
    parts = {name: F.col(name) for name in counts}
    parts[VALUE_ID] = F.shiftright(VALUE_ID, bits[VALUE_ID] - kept)
    bits[VALUE_ID] = kept
    if with_position:
        bits[POSITION] = free - kept
        parts[POSITION] = F.least(F.col(POSITION), F.lit((1 << bits[POSITION]) - 1))
    name, packed = f"{PREFIX}order", F.lit(0).cast("bigint")
    for part, value in parts.items():
        packed = F.shiftleft(packed, bits[part]).bitwiseOR(value.cast("bigint"))
    order = {name: packed} if with_position else {name: packed, POSITION: F.col(POSITION)}
    below_ordinal = bits.get(POSITION, 0)
    partition = F.shiftright(name, sum(bits.values()) - bits[FILE_ID]).cast("int")
    ordinal = F.shiftright(name, below_ordinal).bitwiseAND(F.lit((1 << bits[ORDINAL]) - 1)).cast("int")
    return order, partition, ordinal


# The self-test: whether engine zlayout places rows in a Spark session as the reference implementation in numpy does.
#
# The engine runs on a version of Spark that zlayout was not tested with only if the self-test passes.


_ROWS, _SOURCE_FILES, _NEW_FILES = 600, 3, 5
_LAYOUT = Layout(
    (ZorderColumn("number"), ZorderColumn("text")), "kd", 32, False, 1 << 20, sort_within=True, engine="zlayout"
)

_known: dict[str, str | None] = {}  # by Spark application: the reason of a failure, or None


def failed_self_test(session: SparkSession) -> str | None:
    """Return how the engine fails in this session, None if it works. The test runs once per Spark application.

    The test rewrites a few hundred rows in memory, with the sample, the placement, the shuffle and the gate.
    """
    application = str(session.sparkContext.applicationId)
    if application not in _known:
        _known[application] = _failure(session)
    return _known[application]


def _failure(session: SparkSession) -> str | None:
    try:
        return _difference(session)
    except (Py4JError, PySparkException, ZlayoutError, AttributeError, TypeError) as error:
        return first_line(error)


def _difference(session: SparkSession) -> str | None:
    rows = _rows()
    source = Source(from_arrow(session, rows), F.col("file"), F.col("position"))
    paths = pa.array([f"file{i}" for i in range(_SOURCE_FILES)])
    with rewrite_conf(session):
        placed = place(source, _LAYOUT, [GroupTarget("self-test", paths, _ROWS, _NEW_FILES)])
        found = to_arrow(placed.frame.select("id", F.spark_partition_id().alias("at")))
        placed.gate.check()
    keys = {column.name: rows[column.name] for column in _LAYOUT.columns}
    file = build_map(keys, _LAYOUT, _NEW_FILES).locate(keys, np.zeros(_ROWS, np.int64))
    inside = leaf_order(keys, _LAYOUT)
    value_ids = inside.value_ids(keys[inside.column]) if inside else np.zeros_like(file)
    by_file = np.lexsort((rows["position"].to_numpy(), rows["file"].to_numpy(), value_ids, file))
    if wrong := int(np.count_nonzero(found.sort_by("id")["at"].to_numpy() != file)):
        return f"{wrong} of {_ROWS} rows are in other files than expected"
    wrong = int(np.count_nonzero(found["id"].to_numpy() != by_file))
    return f"{wrong} of {_ROWS} rows are in another order than expected" if wrong else None


def _rows() -> pa.Table:
    ids = np.arange(_ROWS)
    number, text = ids * 7919 % 613 - 300, ids * 104729 % 97
    return pa.table(
        {
            "id": ids,
            "number": pa.array(number, mask=ids % 17 == 3),
            "text": pa.array([f"é{value}" for value in text], mask=ids % 19 == 5),
            "file": [f"file{i % _SOURCE_FILES}" for i in ids],
            "position": ids // _SOURCE_FILES,
        }
    )


# The forest: the file maps of all shards in one set of arrays, so that one Spark job places the rows of all groups. The
# trees of the shards are concatenated, and the range boundaries of each column are merged into one sorted list.


# Up to this number of combinations (shard, range id, range id, ...), a table of their leaves (4 MB) replaces the walk.
MAX_GRID_CELLS = 1 << 20

# The range ids of a row are packed into longs, the words of the row. A node is packed into one long, too. It contains,
# from the lowest bits, the bit at which the range id of its column begins in a word (SHIFT_BITS), the index of the word
# (WORD_BITS), the threshold (`Forest.id_bits`), and the left child. This is enough for 2^26 nodes: the threshold then
# needs at most 27 bits, because there are fewer boundaries than nodes, and 26 bits remain for the left child.
SHIFT_BITS = 6
WORD_BITS = 4
ABOVE_ALL_RANGE_IDS = np.iinfo(np.int32).max


@dataclass(frozen=True, slots=True)
class Forest:
    """The kd trees of all shards.

    The root of a shard is node 2 * shard. Left children have even numbers, and the right child follows the left one. A
    row goes to the left child if its range id is below the threshold of the node. A leaf is its own left child and has
    a threshold above all range ids, so a walk of `depth` steps ends at a leaf and stays there.

    Attributes:
        boundaries: The sorted range boundaries of each column, of all shards together.
        column, threshold, left: int32[nodes], the column whose range id is compared, the threshold, and the left child.
        file: int32[nodes], the file of a leaf. Files are numbered over all shards.
        leaf: int32[nodes], the number of a leaf within its file, along the curve.
        spread: int32[nodes], as in `KdTree`.
        shards, files: The number of shards, and the number of files of all shards.
        depth: The maximum depth of the trees.
        grid: int32, the leaf of each combination (shard, range id, range id, ...) in row-major order, None if there are
            more than MAX_GRID_CELLS.
    """

    boundaries: tuple[pa.Array, ...]
    column: Int32
    threshold: Int32
    left: Int32
    file: Int32
    leaf: Int32
    spread: Int32
    shards: int
    files: int
    depth: int
    grid: Int32 | None

    @property
    def range_counts(self) -> tuple[int, ...]:
        return tuple(len(b) + 1 for b in self.boundaries)

    @property
    def leaves_in_file(self) -> int:
        return int(self.leaf.max(initial=0)) + 1

    @property
    def id_bits(self) -> int:
        """The number of bits for a range id of any column, and for a threshold that is above all range ids."""
        return max(self.range_counts).bit_length()

    @property
    def ids_per_word(self) -> int:
        """The number of range ids in one word, a long."""
        return 63 // self.id_bits

    @property
    def words(self) -> Int64:
        """The nodes, each packed into one long: int64[nodes]."""
        never = (1 << self.id_bits) - 1
        shift = self.column % self.ids_per_word * self.id_bits
        word = self.left.astype(np.int64) << self.id_bits | np.minimum(self.threshold, never)
        return (word << WORD_BITS | self.column // self.ids_per_word) << SHIFT_BITS | shift

    def walk(self, shard: Int64, range_ids: Sequence[Int64]) -> Int64:
        """Return the leaf of each row. This is the reference for the expressions in Spark.

        Args:
            shard: int64[rows], the shard of each row.
            range_ids: One int64[rows] per column, the range id of each row.

        Returns:
            int64[rows], the number of the node that is the leaf.
        """
        node = 2 * shard
        table = np.stack(range_ids)
        rows = np.arange(len(node))
        for _ in range(self.depth):
            right = table[self.column[node], rows] >= self.threshold[node]
            node = self.left[node].astype(np.int64) | right
        return node


def build_forest(maps: Sequence[FileMap]) -> Forest:
    """Return the forest of the file maps of all shards. There must be at least one."""
    roots = [np.array([0 if len(m.tree.column) else ~0], np.int32) for m in maps]
    shared, tree, root = join_trees([m.boundaries for m in maps], [m.tree for m in maps], roots)
    # The children of a node have consecutive numbers. A leaf with several parents becomes several leaves. The number
    # after the number of each root is unused.
    inner, leaves = len(tree.column), len(tree.file)
    child = np.concatenate((np.repeat(root, 2), np.stack((tree.left, tree.right), axis=1).ravel()))
    node = np.where(child < 0, inner + ~child, child)

    def numbered(of_node: NDArray[Any], of_leaf: NDArray[Any]) -> Int32:
        return np.concatenate((of_node, of_leaf))[node].astype(np.int32)

    none = np.zeros(inner, np.int32)
    forest = Forest(
        boundaries=tuple(s.distinct for s in shared),
        column=numbered(tree.column, np.zeros(leaves)),
        threshold=numbered(tree.threshold, np.full(leaves, ABOVE_ALL_RANGE_IDS)),
        left=np.where(child < 0, np.arange(len(node)), 2 * (len(maps) + child)).astype(np.int32),
        file=numbered(none, tree.file),
        leaf=numbered(none, _leaf_in_file(tree.file)),
        spread=numbered(none + 1, tree.spread),
        shards=len(maps),
        files=tree.files,
        depth=max(m.tree.depth for m in maps),
        grid=None,
    )
    shape = (forest.shards, *forest.range_counts)
    if prod(shape) > MAX_GRID_CELLS:
        return forest
    shard, *range_ids = (axis.ravel() for axis in np.indices(shape, dtype=np.int64))
    return replace(forest, grid=forest.walk(shard, range_ids).astype(np.int32))


def _leaf_in_file(file: Int32) -> Int64:
    """Return the number of each leaf within its file, int64[leaves]. The leaves of a file are adjacent."""
    starts = np.flatnonzero(np.concatenate(([True], file[1:] != file[:-1])))
    return np.arange(len(file)) - np.repeat(starts, np.diff(np.concatenate((starts, [len(file)]))))


# The Spark expressions that compute the file of a row.

FILE_ID = f"{PREFIX}file_id"
LEAF = f"{PREFIX}leaf"
VALUE_ID = f"{PREFIX}value_id"
NOT_SAMPLED = f"{PREFIX}not_sampled"


def forest_arrays(forest: Forest) -> dict[str, pa.Array]:
    """Return the arrays that `place_rows` reads from `Constants`."""
    arrays = {f"boundaries{c}": search_array(b) for c, b in enumerate(forest.boundaries)}
    arrays |= {name: pa.array(getattr(forest, name)) for name in ("file", "leaf", "spread")}
    name = "words" if forest.grid is None else "grid"
    return arrays | {name: pa.array(getattr(forest, name))}


def place_rows(
    frame: DataFrame, columns: Sequence[str], forest: Forest, constants: Constants, *, noise: bool
) -> DataFrame:
    """Add to each row FILE_ID, the number (int) of its new file, and LEAF, the number (int) of its leaf in the file.

    Args:
        frame: Rows with SHARD, ORDINAL, POSITION and the key columns.
        columns: The names of the key columns.
        forest: The file maps of all shards. They number the files over all shards.
        constants: Constants that include `forest_arrays(forest)`.
        noise: Whether all rows of a leaf with several files are distributed over these, or only those whose keys are
            all null.
    """
    nulls = [key_column(name).isNull() for name in columns]
    frame = _with_range_ids(frame, columns, constants)
    node = f"{PREFIX}node"
    if forest.grid is not None:
        frame = frame.withColumn(node, constants.at("grid", _grid_index(forest, constants)))
    else:
        frame = _walk(frame, node, forest, constants)
    file = constants.at("file", F.col(node))
    if forest.spread.max(initial=1) > 1:
        # not rand(), which depends on the number of tasks
        row_hash = F.xxhash64(ORDINAL, POSITION)
        if not noise:
            row_hash = F.when(reduce(and_, nulls), row_hash).otherwise(F.lit(0))
        file = (file + F.pmod(row_hash, constants.at("spread", F.col(node)))).cast("int")
    return frame.withColumns({FILE_ID: file, LEAF: constants.at("leaf", F.col(node))})


def shard_arrays(keys: Sequence[int]) -> dict[str, pa.Array]:
    """Return the arrays that `with_shard` reads from `Constants`. keys: the key of each shard, in order."""
    values = np.array(keys, np.int64)
    by_key = np.argsort(values)
    return {"shard_key": pa.array(values[by_key]), "shard": pa.array(by_key.astype(np.int32))}


def with_shard(frame: DataFrame, source: Source, constants: Constants) -> DataFrame:
    """Add the number of each row's shard, SHARD (int).

    If groups have several output partitions, also adds NOT_SAMPLED (boolean): whether the row's shard is not in the
    sample. SHARD is then arbitrary.
    """
    if not source.partition:
        return frame.withColumn(SHARD, F.col(GROUP))
    found = f"{PREFIX}found"
    frame = frame.withColumn(found, constants.search("shard_key", shard_key(source)))
    at = F.greatest(F.col(found), F.lit(0))
    return frame.withColumns({SHARD: constants.at("shard", at), NOT_SAMPLED: F.col(found) < 0})


def leaf_order_arrays(order: LeafOrder | None) -> dict[str, pa.Array]:
    """Return the arrays that `with_value_id` reads from `Constants`."""
    return {"leaf_values": search_array(order.values)} if order else {}


def with_value_id(frame: DataFrame, order: LeafOrder | None, constants: Constants) -> DataFrame:
    """Add VALUE_ID (int), as `LeafOrder.value_ids` computes it. It is 0 without an order."""
    if order is None:
        return frame.withColumn(VALUE_ID, F.lit(0))
    found = f"{PREFIX}found"
    frame = frame.withColumn(found, _search(frame, order.column, "leaf_values", constants))
    return frame.withColumn(VALUE_ID, _range_id(F.col(found)))


def _with_range_ids(frame: DataFrame, columns: Sequence[str], constants: Constants) -> DataFrame:
    results = [_search(frame, name, f"boundaries{c}", constants) for c, name in enumerate(columns)]
    frame = frame.withColumns({f"{PREFIX}found{c}": found for c, found in enumerate(results)})
    range_ids = [_range_id(F.col(f"{PREFIX}found{c}")) for c in range(len(columns))]
    return frame.withColumns({f"{PREFIX}range_id{c}": range_id for c, range_id in enumerate(range_ids)})


def _search(frame: DataFrame, column: str, array: str, constants: Constants) -> Column:
    """Return the result of `Constants.search` for a key column. It is -1 for null, which is below all values."""
    key = constants.ordered_key(key_column(column), key_type(frame, column))
    return constants.not_null(F.coalesce(constants.search(array, key), F.lit(-1)))


def _range_id(result: Column) -> Column:
    """Convert the result of a search to a range id, the number of boundaries <= key: i to i + 1, and -1 - i to i."""
    negative = F.shiftright(result, 31)  # -1 or 0
    return result.bitwiseXOR(negative) + F.bitwise_not(negative).bitwiseAND(1)


def _range_id_names(forest: Forest) -> list[str]:
    return [f"{PREFIX}range_id{c}" for c in range(len(forest.boundaries))]


def _grid_index(forest: Forest, constants: Constants) -> Column:
    index = F.col(SHARD)
    for name, count in zip(_range_id_names(forest), forest.range_counts, strict=True):
        index = constants.row_major(index, count, F.col(name))
    return index


def _walk(frame: DataFrame, node: str, forest: Forest, constants: Constants) -> DataFrame:
    names, number = _range_id_names(forest), forest.ids_per_word
    parts = [names[i : i + number] for i in range(0, len(names), number)]
    packed = {f"{PREFIX}range_ids{i}": _packed(part, forest.id_bits) for i, part in enumerate(parts)}
    frame = frame.withColumns(packed)
    mask, threshold_at = (1 << forest.id_bits) - 1, SHIFT_BITS + WORD_BITS
    packed_node = F.col(node)
    word = F.shiftright(packed_node, SHIFT_BITS).bitwiseAND((1 << WORD_BITS) - 1)
    ids, *others = map(F.col, packed)
    for i, other in enumerate(others, 1):
        ids = F.when(word == i, other).otherwise(ids)
    shift = constants.low_int(packed_node.bitwiseAND((1 << SHIFT_BITS) - 1))
    range_id = F.call_function("shiftright", ids, shift).bitwiseAND(mask)
    right = F.when(range_id >= F.shiftright(packed_node, threshold_at).bitwiseAND(mask), 1).otherwise(0)
    left = F.shiftright(packed_node, threshold_at + forest.id_bits)
    frame = frame.withColumn(node, constants.at("words", F.shiftleft(SHARD, 1)))
    # Spark generates one method for all levels. Its bytecode must have less than 8000 bytes, because HotSpot does not
    # compile longer methods.
    for _ in range(forest.depth):
        frame = frame.withColumn(node, constants.at("words", constants.low_int(left.bitwiseOR(right))))
    return frame.withColumn(node, constants.low_int(left))


def _packed(ids: Sequence[str], bits: int) -> Column:
    packed = F.lit(0).cast("bigint")
    for name in reversed(ids):
        packed = F.shiftleft(packed, bits).bitwiseOR(F.col(name).cast("bigint"))
    return packed
