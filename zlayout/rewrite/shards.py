"""Builds the file maps of a rewrite, one for each output partition of each group, from samples that Spark draws.

The memory that the driver needs is limited. For very many files, the tree of curve `kd` is built in two levels
(docs/adr/0022). The boxes of the first level are built from a small sample. For the second level, Spark groups the rows
of another sample by box, and the driver reads the rows of some boxes at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, log2

import numpy as np
import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import functions as F

from zlayout.curve.layout import FileMap, build_map
from zlayout.curve.tree import Int32, Int64
from zlayout.curve.two_levels import Boxes, Refined, build_boxes, join, refine
from zlayout.rewrite.forest import Forest, build_forest
from zlayout.rewrite.place import FILE_ID, NOT_SAMPLED, forest_arrays, place_rows, shard_arrays, with_shard
from zlayout.rewrite.rows import (
    MAX_SAMPLE_ROWS,
    MIN_ROWS_PER_FILE,
    Drawn,
    FileIndex,
    GroupTarget,
    Sample,
    Source,
    draw,
    key_names,
    rows_per_file,
    take_sample,
)
from zlayout.rewrite.shuffle import to_partitions
from zlayout.spark.arrow import to_arrow
from zlayout.spec.layout import Layout
from zlayout.table.reserved import PREFIX

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
    """A shard before its file map is built."""

    group: int
    key: int
    files: int
    rows: float  # estimated
    sampled: Int64  # the positions of its rows in the sample


def build_shards(source: Source, layout: Layout, groups: Sequence[GroupTarget], index: FileIndex) -> list[Shard]:
    """Return the shards of all groups, with their file maps.

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
    return shards


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


def _in_two_levels(source: Source, layout: Layout, groups: Sequence[GroupTarget], index: FileIndex) -> list[Shard]:
    """As `build_shards`, with boxes from a first sample that a second sample refines, one chunk of boxes at a time."""
    columns = key_names(layout)
    files = sum(group.target_files for group in groups)
    sample = take_sample(source, columns, groups, index, BOX_SAMPLE_ROWS / files)
    targets = list(_targets(sample, groups))
    boxes = [build_boxes(sample.rows_at(t.sampled), layout.weights, t.files) for t in targets]
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
    return [
        Shard(target.group, target.key, join(box, part, rows, layout.noise))
        for target, box, part, rows in zip(targets, boxes, parts, file_rows, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class _Chunk:
    """The sampled rows of the boxes `first` to `end` - 1, counted over all shards."""

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
    frame = place_rows(frame, drawn.keys, forest, drawn.constants)
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
