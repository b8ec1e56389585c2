"""Estimate how a layout changes the size of files, by encoding some rows in their present and in their new order.

Columns that a layout orders, and columns that are correlated with them, have fewer distinct values in a new file than
in a present one: their dictionaries and the indices into these become shorter. A column whose values grow in the order
in which rows arrived takes more bytes. Both effects are measured for each column on chunks of rows.

A chunk has fewer rows than a file. If it has all values that the column has in a new file, the new file takes as many
bytes for each row, and has the same dictionary. If each value is also one run of rows, the new file takes as many bytes
in total, since its runs are only longer. If a chunk does not have all values, the bytes of the column in the present
files are multiplied by the ratio of what chunks take in both orders, which is usually closer to 1 than that of whole
files.

If rows change their partition, the rows of the chunks are divided by their new partitions first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from zlayout.curve.layout import build_map, leaf_order
from zlayout.planner.partitions import Floats, Index
from zlayout.planner.simulation import Outputs, Rewrite
from zlayout.spec.model import Layout
from zlayout.table.partition import source_columns
from zlayout.table.samples import Sizes, StoredRows, summed

# If the half of the rows of new files that arrived first has this share of the values of a column, it is assumed that
# more rows would not have others. Equal values of rows that arrived together, such as those of the lines of an order,
# are in the same half.
MIN_SHARE_IN_HALF = 0.9
MIN_RATIO, MAX_RATIO = 0.1, 10  # other ratios come from footers with wrong sizes
MAX_PARTS_COUNTED = 8  # the files whose values are counted, because counting takes longer than encoding
MIN_PART_ROWS = 250  # new files with fewer rows of the chunks, on average, would not resemble files


@dataclass(frozen=True, slots=True)
class _Part:
    """A new file.

    Attributes:
        rows: Its rows in the new order.
        half: int64[n // 2], which of its n rows are the first in the present order.
    """

    rows: pa.Table
    half: Index


def size_ratios(rewrite: Rewrite, stored: StoredRows | None) -> Callable[[Layout], float | None]:
    """Return a function of a layout that estimates the size of the new files, divided by that of the present ones.

    Both have the same rows. In each group, its chunks are laid out in as many files as the rewrite writes, or in as
    many as there are chunks if these are fewer; the ratio is then closer to 1 than that of the rewrite. The ratio is
    None if it is unknown, because there are no chunks, or too few for the partitions to which rows move.

    Args:
        rewrite: The rewrite. Its layout does not matter.
        stored: Rows of the files to rewrite; None if there are none.
    """
    if stored is None or (rewrite.moves and not stored.keys.keys() >= set(source_columns(rewrite.fields))):
        return lambda _layout: None
    groups = rewrite.group[stored.file]
    inside = [group for group in np.unique(groups[groups >= 0]).tolist() if rewrite.targets[group]]
    in_order = np.argsort(stored.file, kind="stable")
    chosen = [in_order[groups[in_order] == group] for group in inside]
    try:
        by_group = [list(_by_partition(rewrite, stored, chunks)) for chunks in chosen]
    except Exception:  # as in `ratio`
        by_group = []
    divided = [own for group in by_group for own in group]
    files = sum(own.files for own in divided)
    if not files or sum(len(own.rows) for own in divided) < MIN_PART_ROWS * files:
        return lambda _layout: None
    pieces = (
        piece
        for chunks, group in zip(chosen, by_group, strict=True)
        for piece in _pieces(pa.concat_tables(stored.rows[n] for n in chunks), sum(own.files for own in group))
    )
    before = _encoded(stored, pieces)
    # The rows of an average file that is written, of the groups with chunks.
    live, written = rewrite.of_groups(rewrite.files.live_rows)[inside].sum(), sum(own.written for own in divided)
    file_rows = float(live) / max(written, 1)

    def ratio(layout: Layout) -> float | None:
        if before is None or any(name not in stored.keys for name in layout.weights):
            return None
        try:
            parts = [part for own in divided for part in _laid_out(layout, own)]
            found = _ratio(stored, before, parts, file_rows)
        except Exception:  # Arrow cannot reorder and write each type that it reads, and a forecast can do without
            return None
        return found if MIN_RATIO < found < MAX_RATIO else None

    return ratio


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows of chunks that a group writes to one partition.

    Attributes:
        rows, keys: See `StoredRows`.
        files: The number of files in which they are laid out.
        written: The number of files that the rewrite writes.
    """

    rows: pa.Table
    keys: Mapping[str, pa.Array]
    files: int
    written: int


def _by_partition(rewrite: Rewrite, stored: StoredRows, chunks: Index) -> Iterator[_Rows]:
    """Yield the rows of some chunks of one group by the partition to which the rewrite writes them."""
    rows = pa.concat_tables([stored.rows[n] for n in chunks])
    keys = {name: pa.concat_arrays([of[n] for n in chunks]) for name, of in stored.keys.items()}
    targets = int(rewrite.targets[rewrite.group[stored.file[chunks[0]]]])
    if not rewrite.moves:
        yield _Rows(rows, keys, min(len(chunks), targets), targets)
        return
    file = np.repeat(stored.file[chunks], len(stored.rows[0]))
    to = Outputs(rewrite.files, rewrite.fields).partition_of(keys, file, np.arange(len(rows), dtype=np.int64))
    for partition in np.unique(to).tolist():
        inside = np.flatnonzero(to == partition)
        at, share = pa.array(inside), len(inside) / len(rows)
        files, written = (max(1, round(number * share)) for number in (min(targets, len(chunks)), targets))
        yield _Rows(rows.take(at), {name: of.take(at) for name, of in keys.items()}, files, written)


def _pieces(rows: pa.Table, number: int) -> Iterator[pa.Table]:
    """Return consecutive parts of about equal length."""
    ends = [len(rows) * n // number for n in range(number + 1)]
    return (rows.slice(start, stop - start) for start, stop in pairwise(ends) if stop > start)


def _encoded(stored: StoredRows, chunks: Iterable[pa.Table]) -> Sizes | None:
    try:
        return summed([stored.encoded(rows) for rows in chunks]) or None
    except Exception:  # as in `ratio`
        return None


def _laid_out(layout: Layout, own: _Rows) -> Iterator[_Part]:
    """Yield the files that consist of some rows in a layout."""
    keys, rows = {name: own.keys[name] for name in layout.weights}, own.rows
    built = build_map(keys, layout, own.files)
    file = built.locate(keys, np.arange(len(rows), dtype=np.int64))
    inside = leaf_order(keys, layout)
    value_ids = inside.value_ids(keys[inside.column]) if inside else np.zeros_like(file)
    order = np.lexsort((value_ids, file))  # as a rewrite sorts the rows of a leaf
    ends = np.cumsum(np.bincount(file, minlength=built.files))
    for part in np.split(order, ends[:-1]):
        if len(part):
            yield _Part(rows.take(pa.array(part)), np.argsort(part)[: len(part) // 2])


def _ratio(stored: StoredRows, before: Sizes, parts: list[_Part], file_rows: float) -> float:
    """Return the size of files as these parts, divided by the stored size. before: of chunks in their present order."""
    after, rows = summed([stored.encoded(part.rows) for part in parts]), sum(len(part.rows) for part in parts)
    now = new = 0.0
    for name, size in stored.stored.items():
        now += float(size.sum())
        if name not in after:
            new += float(size.sum())
        elif size[0] and (values := _Values.of(name, parts)).are_all:
            in_files = len(parts) * file_rows
            dictionary, data = after[name] / (in_files, in_files if values.are_runs else rows)
            new += float(dictionary + data) * stored.stored_rows
        else:
            new += float((size * _divided(after[name], before[name])).sum())
    return new / now if now else 1.0


@dataclass(frozen=True, slots=True)
class _Values:
    """How the values of a column are distributed in some of the new files.

    Attributes:
        count: The number of distinct values in each file, summed.
        in_half: The same for the half of the rows of each file.
        runs: The number of runs of equal values, summed.
    """

    count: int
    in_half: int
    runs: int

    @classmethod
    def of(cls, name: str, parts: list[_Part]) -> _Values:
        if name not in parts[0].rows.schema.names:  # a nested column
            return cls(1, 0, 0)
        count = in_half = runs = 0
        for part in parts[:: -(-len(parts) // MAX_PARTS_COUNTED)]:
            encoded = part.rows[name].combine_chunks().dictionary_encode("encode")
            value = encoded.indices.to_numpy()
            count += len(encoded.dictionary)
            in_half += len(np.unique(value[part.half]))
            runs += 1 + int(np.count_nonzero(np.diff(value)))
        return cls(count, in_half, runs)

    @property
    def are_all(self) -> bool:
        return self.in_half >= MIN_SHARE_IN_HALF * self.count

    @property
    def are_runs(self) -> bool:
        return self.runs <= self.count


def _divided(new: Floats, old: Floats) -> Floats:
    return np.divide(new, old, out=np.ones(2), where=old > 0)
