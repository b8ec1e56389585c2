"""Plan tables that their format clusters itself (Delta's liquid clustering). Pure functions.

Such a table is laid out by the format's own OPTIMIZE, which selects the files itself. `rewritten_by_optimize` computes
its selection, so that the plan shows these files (docs/adr/0026-clustered-tables-by-optimize.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from zlayout.errors import Diagnostic
from zlayout.planner.model import ChangeClustering
from zlayout.planner.partitions import Bools, recorded
from zlayout.spec.model import CLUSTERED_BY, CLUSTERING_CURVE, Layout, LayoutSpec
from zlayout.table.state import FileTable, TableState

MAX_CLUSTERING_COLUMNS = 4  # Delta's limit of clustering columns
# OPTIMIZE does not rewrite ZCubes of LARGE_CUBE bytes or more, and makes ZCubes of NEW_CUBE bytes. These are the
# defaults of Delta. The session configuration of a rewrite sets them, so that OPTIMIZE rewrites the planned files.
LARGE_CUBE = 100 * 2**30
NEW_CUBE = 150 * 2**30


def clustering(layout: Layout, state: TableState) -> tuple[str, ...] | None:
    """Return the clustering columns to reach. The order of clustering columns does not count as a difference.

    They are empty after CLUSTER BY NONE, and None if the format does not cluster the table.
    """
    declared, has = tuple(column.name for column in layout.columns), state.clustering
    return has if not has or not declared or set(declared) == set(has) else declared


def compare_clustering(spec: LayoutSpec, state: TableState) -> ChangeClustering | None:
    """Return the change of the clustering columns; None if there is none, or if the engine is not native."""
    after = clustering(spec.layout, state)
    if not state.clustering or after is None or after == state.clustering or spec.layout.engine != "native":
        return None
    return ChangeClustering(state.clustering, after, spec.location_of("zorder.columns"))


def clustering_refusals(layout: Layout, state: TableState) -> Iterator[Diagnostic]:
    """Yield ZL211 if the clustering of the table excludes what the layout declares."""
    if state.clustering:
        by = f"the table is liquid-clustered (CLUSTER BY {', '.join(state.clustering)})"
        if layout.engine != "native":
            hint = "declare engine: native, which runs the table's own OPTIMIZE, or run ALTER TABLE ... CLUSTER BY NONE"
            yield _refused(f"{by}, which excludes engine zlayout", hint)
        elif not layout.orders:
            yield _refused(f"{by}, and the layout declares no z-order columns", "declare the clustering columns")
        elif len(layout.columns) > MAX_CLUSTERING_COLUMNS:
            message = f"{by}, which allows {MAX_CLUSTERING_COLUMNS} columns; the layout declares {len(layout.columns)}"
            yield _refused(message, "declare fewer z-order columns")
    elif state.clustering is not None and layout.engine == "native" and (layout.orders or state.partition_fields):
        what = "OPTIMIZE ZORDER BY" if layout.orders else "OPTIMIZE ... WHERE"
        message = f"the table has the feature clustering without clustering columns, which excludes {what}"
        yield _refused(message, "declare engine: zlayout")


def without_touched(spec: LayoutSpec) -> LayoutSpec:
    """Return the spec without a tolerance for touched, which must not select files of a clustered table.

    ZCubes overlap, and OPTIMIZE rewrites no large ones, however many files a query touches.
    """
    return replace(spec, tolerance=replace(spec.tolerance, touched=np.inf))


def unclustered_hilbert(layout: Layout, state: TableState) -> tuple[Diagnostic, ...]:
    """Return ZL223 if a layout of engine native declares a Hilbert curve for a table that is not clustered."""
    if state.clustering or not layout.orders or layout.curve != CLUSTERING_CURVE or len(layout.columns) < 2:
        return ()
    message = "engine native orders by hilbert in tables with liquid clustering only, and this table has none"
    return (Diagnostic("ZL223", message, "refused", "use curve zorder, or engine zlayout"),)


def is_full(layout: Layout, files: FileTable) -> bool:
    """Return whether files were clustered by other columns or another provider. Only OPTIMIZE FULL rewrites these."""
    return bool(((files.layout >= 0) & ~recorded(layout, files)).any())


def rewritten_by_optimize(layout: Layout, state: TableState) -> Bools:
    """Return the files of a clustered table that OPTIMIZE rewrites, or OPTIMIZE FULL if `is_full` is true, bool[N].

    OPTIMIZE rewrites the files of small ZCubes, and files without a ZCube. If there is only one small ZCube and no file
    without a ZCube, it rewrites nothing. OPTIMIZE FULL also rewrites files that were clustered by other columns. The
    algorithm is that of `ClusteringStrategy` in the Delta source, except that it rounds sizes to bytes differently.
    """
    files, columns = state.files, clustering(layout, state)
    by = [record.settings.get(CLUSTERED_BY) == list(columns or ()) for record in files.layouts]
    differs = np.array([*(not same for same in by), False], bool)[files.layout]
    cube = files.group.astype(np.int64)
    sizes = np.bincount(cube + 1, files.live_bytes, minlength=1)
    large = (cube >= 0) & (sizes[cube + 1] >= LARGE_CUBE)
    small: Bools = ~differs & ~large
    if is_full(layout, files):
        small |= differs
        return small
    alone = bool((cube[small] >= 0).all()) and len(np.unique(cube[small])) <= 1
    return np.zeros(len(files), bool) if alone else small


def left_alone(spec: LayoutSpec) -> Diagnostic:
    """Return ZL409: the table exceeds a tolerance, and OPTIMIZE would rewrite none of its files."""
    message = "the table exceeds its tolerance, but its OPTIMIZE rewrites no file of a complete ZCube"
    hint = "nothing to do; when new files are added, OPTIMIZE also rewrites a ZCube below 100 GiB"
    return Diagnostic("ZL409", message, "note", hint, spec.location)


def undo_refusals(state: TableState) -> tuple[Diagnostic, ...]:
    """Return ZL211 for a clustered table, in which no run can be rolled back."""
    if not state.clustering:
        return ()
    message = f"the table is liquid-clustered (CLUSTER BY {', '.join(state.clustering)}), which excludes a rollback"
    return (_refused(message, "use RESTORE TABLE while no other writer changes the table"),)


def _refused(message: str, hint: str) -> Diagnostic:
    return Diagnostic("ZL211", message, "refused", hint)
