"""Builds the frame that rewrites groups of one table: sample, file maps, placement, shuffle, sort, and the gate.

`place` returns this frame. This module is independent of the format. A backend provides the rows with their files and
positions, writes the frame and commits the new files. The frame depends only on the rows, the paths of their files and
the layout. It does not depend on the number of cores or the order of tasks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from math import ceil, log2

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from zlayout.curve.layout import Boxes, FileMap, LeafOrder, Refined, build_boxes, build_map, join, leaf_order, refine
from zlayout.curve.tree import Int32, Int64
from zlayout.errors import Diagnostic, Refused, ZlayoutError, first_line
from zlayout.rewrite.gate import Gate
from zlayout.rewrite.place import (
    FILE_ID,
    LEAF,
    NOT_SAMPLED,
    VALUE_ID,
    Forest,
    build_forest,
    forest_arrays,
    leaf_order_arrays,
    place_rows,
    shard_arrays,
    with_shard,
    with_value_id,
)
from zlayout.rewrite.rows import (
    GROUP,
    MAX_SAMPLE_ROWS,
    MIN_ROWS_PER_FILE,
    ORDINAL,
    POSITION,
    POSITION_BITS,
    Constants,
    Drawn,
    FileIndex,
    GroupTarget,
    Sample,
    Source,
    draw,
    index_arrays,
    index_files,
    key_names,
    partition_names,
    rows_per_file,
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
