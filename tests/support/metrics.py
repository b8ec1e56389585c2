"""Metrics of one ranked column or one file table, as tests ask for them."""

import numpy as np
from numpy.typing import NDArray

from zlayout.table import metrics
from zlayout.table.metrics import estimate_in_partitions, touched_in_partitions
from zlayout.table.ranks import Ranked, Segments, segments_of
from zlayout.table.state import FileTable, Int32, Int64

Float64 = NDArray[np.float64]


def touched(ranked: Ranked, weights: Float64, partition: Int32 | None = None, partitions: int = 1) -> float:
    """Files that an equality query opens on average, summed over partitions."""
    segments = segments_of(ranked, partition, partitions)
    return float(touched_in_partitions(segments, estimate_in_partitions(segments, weights)).sum())


def depth(ranked: Ranked, partition: Int32 | None = None, partitions: int = 1) -> Int64:
    """int64[N], 0 for a file without a value."""
    segments = segments_of(ranked, partition, partitions)
    return _by_file(ranked, segments, metrics.depth(segments))


def overlaps(ranked: Ranked, partition: Int32 | None = None, partitions: int = 1) -> Int64:
    """int64[N], 0 for a file without a value."""
    segments = segments_of(ranked, partition, partitions)
    return _by_file(ranked, segments, metrics.overlaps(segments))


def distinct_estimate(ranked: Ranked, partition: Int32 | None = None, partitions: int = 1) -> Float64:
    """float64[P]."""
    segments = segments_of(ranked, partition, partitions)
    estimate, limit = metrics.distinct_values(segments, ranked.axis.countable, segments.lo == segments.hi)
    assert (estimate <= limit).all()
    return estimate


def column_metrics(files: FileTable, column: str) -> metrics.ColumnMetrics:
    """The metrics of one column."""
    (found,) = metrics.layout_metrics(files, [column])
    return found


def _by_file(ranked: Ranked, segments: Segments, values: Int64) -> Int64:
    whole = np.zeros(len(ranked), np.int64)
    whole[segments.file] = values
    return whole
