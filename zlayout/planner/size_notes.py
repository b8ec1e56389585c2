"""Make the diagnostics on sizes: more bytes read after a rewrite, tables of one file, and unreasonable target sizes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from zlayout.errors import Diagnostic
from zlayout.planner.forecasts import SAME_READS, ColumnForecast
from zlayout.planner.model import READS_MORE
from zlayout.planner.partitions import Index
from zlayout.spec.model import LayoutSpec

MIB, GIB = 2**20, 2**30
# Smaller files cost more to open than to read. Larger files cannot be skipped in parts.
MIN_TARGET_SIZE, MAX_TARGET_SIZE = MIB, 16 * GIB
# The number of files beyond one per partition up to which a table is small in any case.
MIN_FILES = 100


def reads_more(spec: LayoutSpec, columns: Sequence[ColumnForecast]) -> Iterator[Diagnostic]:
    """Yield ZL440 if a query for one value reads more bytes after the rewrite, in the mean weighted as the columns.

    Without a prediction, the lowest possible number of bytes counts. The error of the estimate is no warning.
    """
    after = [c.bytes_read.least for c in columns]
    weights = np.array([spec.layout.weights.get(c.column, 1.0) for c in columns])
    if not columns or any(size is None for size in after):
        return
    now = float(weights @ np.array([c.bytes_read.now for c in columns])) / float(weights.sum())
    then = float(weights @ np.array(after, np.float64)) / float(weights.sum())
    if now <= 0 or then <= SAME_READS * now:
        return
    known = all(c.bytes_read.predicted is not None for c in columns)
    mean = "" if len(columns) == 1 else ", in the mean over the z-order columns"
    yield Diagnostic(
        READS_MORE,
        f"after the rewrite, a query for one value reads {'' if known else 'at least '}{then / now:,.1f} times as many "
        f"bytes as now{mean}: {then:,.0f} instead of {now:,.0f} (whole files)",
        "warning",
        "use a smaller files.target_size, or accept it: plan --detailed-exitcode needs --allow-worse then",
        spec.location_of("files.target_size"),
    )


def one_file(spec: LayoutSpec, targets: Index) -> Iterator[Diagnostic]:
    """Yield ZL441 if every partition fits in one file. targets: int64[P], the number of files after a rewrite."""
    if targets.max(initial=0) == 1:
        what = "the table" if int((targets > 0).sum()) == 1 else "each partition"
        message = f"{what} fits in one file of files.target_size, so that no layout can skip files"
        yield Diagnostic("ZL441", message, "note", "", spec.location_of("files.target_size"))


def unreasonable_size(spec: LayoutSpec, targets: Index, *, rewrites: bool) -> Iterator[Diagnostic]:
    """Yield ZL442 for a target size that leads to very many small files, or to files that are too large to skip.

    Args:
        targets: int64[P], the number of files after a rewrite of each partition.
        rewrites: Whether the plan rewrites files, so that the number of small files is about to change.
    """
    size, files = spec.layout.target_size, int(targets.sum())
    if size > MAX_TARGET_SIZE:
        found = f"which is more than {MAX_TARGET_SIZE:,}: queries must read very large files"
    elif rewrites and size < MIN_TARGET_SIZE and files - int((targets > 0).sum()) > MIN_FILES:
        found = f"with which the table has {files:,} files"
    else:
        return
    yield Diagnostic(
        "ZL442",
        f"files.target_size is {size:,} bytes, {found}",
        "warning",
        "use 64MiB to 1GiB",
        spec.location_of("files.target_size"),
    )
