"""Sample the key columns of tables: to forecast the result of their rewrites, and to simulate layouts.

Only `draw_sample`, which draws the rows of a large table, needs Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zlayout.errors import Diagnostic, TableError, first_line
from zlayout.formats.access import unaddressable
from zlayout.formats.base import Backend
from zlayout.planner.bounds import needed_values, with_values
from zlayout.planner.model import Status
from zlayout.planner.notes import partitioning
from zlayout.planner.sampled import columns_to_sample, files_to_sample, predictions, with_sample
from zlayout.planner.work import SAMPLE_BYTES, PlannedTable
from zlayout.process import give_back_freed_memory
from zlayout.session.concurrent_reads import TIMEOUT, begin_read
from zlayout.spark.session import check_pyspark
from zlayout.spec.model import TableName
from zlayout.table.samples import KeySample, NotParquetError, StoredRows, rows_drawn
from zlayout.table.state import PREFIX, WRONG_ROW_COUNTS, Int64, TableState

SEED = 1
CHECK_ACCESS = "check the access to the data files; the plan has the ranges that metadata guarantees"


def sampled(table: PlannedTable, backend: Backend, max_bytes: int, *, planning: bool = False) -> PlannedTable:
    """Return the table with predictions from a sample.

    It is returned unchanged if nothing is rewritten, if the rewrite cannot be predicted, or if the plan has a sample
    already. A failure does not stop the plan: it gets a warning (ZL410), and keeps the ranges from metadata.

    Args:
        table: The table without a sample.
        backend: The backend of its catalog.
        max_bytes: The limit on the size of the column chunks that are read; 0 for no sample.
        planning: Whether the sample may also determine the bound length of string columns. This changes the plan, so it
            is not allowed after the plan was shown.
    """
    spec, state, plan, groups = table.spec, table.state, table.plan, table.groups
    if not max_bytes or state is None or plan.status is not Status.CHANGES or plan.sample is not None:
        return table
    if not groups or not spec.layout.orders:  # without an order there is nothing to forecast
        return table
    if not backend.capabilities.can_predict(spec.layout, state):
        return table
    fields = partitioning(spec, state)
    moves = any(state.files.partitions[n].fields != fields for g in groups for n in set(g.files.partition.tolist()))
    try:
        chosen = files_to_sample(spec, state, groups)
        columns = columns_to_sample(spec, fields if moves else ())
        sample = backend.sample_keys(spec.table, state, chosen, columns, max_bytes, SEED)
        table = with_row_counts(table, state, sample)
        if planning and sample.lacking:
            return refused_by_sample(table, sample)
        if planning:
            table = with_values(table, state, needed_values(state, plan, sample))
        return with_sample(spec, state, fields, table, sample)
    except NotParquetError as error:
        hint = "nothing to do; the plan has the ranges that metadata guarantees"
        return _not_sampled(table, str(error), hint)
    except Exception as error:
        # A reader may raise anything, and a plan does not depend on its forecast.
        if (cause := unaddressable(error)) is not None:
            return _not_sampled(table, f"a data file cannot be read: {cause.reason}", cause.hint)
        return _not_sampled(table, f"{type(error).__name__}: {first_line(error)}")


# Limits of a table whose key columns are read whole, which takes less time than the start of Spark.
SMALL_BYTES, SMALL_FILES, SMALL_VALUES = 64 * 2**20, 500, 5_000_000


def rows_of_small(
    backend: Backend, table: TableName, state: TableState, columns: Sequence[str], rows: int, seed: int
) -> KeySample | None:
    """Draw rows of a small table without Spark.

    The arguments and the result are those of `draw_sample`.

    Returns:
        The rows; None if the table is not small, if rows of its files are deleted, or if its files cannot be read here.
    """
    files, total = state.files, int(state.files.live_rows.sum())
    is_small = files.bytes.sum() <= SMALL_BYTES and len(files) <= SMALL_FILES and total * len(columns) <= SMALL_VALUES
    if not is_small or state.notes or files.deleted.any():
        return None
    try:
        every = np.arange(len(files), dtype=np.int64)
        found = backend.sample_keys(table, state, every, columns, SMALL_BYTES + 1, seed)
    except Exception:
        # A reader may raise anything, and Spark may have other credentials and readers.
        return None
    if not found.complete or found.lacking or len(found) != total:
        return None
    at = np.random.default_rng(seed).permutation(total)[:rows]
    keys = {name: values.take(pa.array(at)) for name, values in found.keys.items()}
    return rows_drawn(keys, found.file[at], seed, complete=len(at) == total)


def stored_rows(
    backend: Backend, table: TableName, state: TableState, chosen: Int64, columns: Sequence[str]
) -> StoredRows | None:
    """Return rows of the chosen files with all columns; None if they cannot be read, as the size is then unknown.

    The arguments are those of `zlayout.formats.base.Backend.stored_rows`.
    """
    try:
        return backend.stored_rows(table, state, chosen, columns, SAMPLE_BYTES)
    except Exception:
        # A reader may raise anything, and a forecast does not depend on these rows.
        return None


def refused_by_sample(table: PlannedTable, sample: KeySample) -> PlannedTable:
    """Return the refusal of the table (ZL245), because sampled files lack columns that must not be null."""
    found = [
        Diagnostic(
            "ZL245",
            f"{number:,} of {sample.files:,} sampled files lack the column {name}, which must not be null",
            "refused",
            f"write its values by UPDATE or MERGE, or ALTER TABLE ... ALTER COLUMN {name} DROP NOT NULL; Spark cannot "
            "read such files",
            table.spec.location,
        )
        for name, number in sample.lacking.items()
    ]
    return table.refused(found)


def with_row_counts(table: PlannedTable, state: TableState, sample: KeySample) -> PlannedTable:
    """Return the table with a warning (ZL448) if the metadata has other numbers of rows than the sampled files."""
    footers = sample.footers
    opened = np.unique(footers.file)
    rows = np.bincount(footers.file, footers.rows, len(state.files))[opened].astype(np.int64)
    listed = state.files.rows[opened]
    wrong = opened[rows != listed]
    if state.notes or not len(wrong):  # a note on the table state means that row counts are estimates
        return table
    at = int(np.flatnonzero(rows != listed)[0])
    message = (
        f"{len(wrong):,} of {len(opened):,} sampled files have other numbers of rows than the metadata of the table "
        f"states, for example {rows[at]:,} instead of {listed[at]:,}; a rewrite of such files is refused (ZL311)"
    )
    return table.noting(Diagnostic("ZL448", message, "warning", WRONG_ROW_COUNTS, table.spec.location))


def _not_sampled(table: PlannedTable, reason: str, hint: str = CHECK_ACCESS) -> PlannedTable:
    warning = Diagnostic(
        "ZL410",
        f"the rows could not be sampled: {reason}",
        "warning",
        hint,
        table.spec.location,
    )
    return table.noting(warning)


def begin_predictions(
    table: PlannedTable, backend: Backend, timeout: float = TIMEOUT
) -> Callable[[], Mapping[str, float]]:
    """Begin to sample the rows in a thread, and return a function that waits for the predictions of touched.

    The rewrite does not depend on the predictions, so that Spark can work meanwhile. The function returns the predicted
    touched of each z-order column after the whole plan, without columns that have none. If the rows cannot be sampled
    within `timeout` seconds from now, or at all, these are the predictions from metadata.
    """

    def predict() -> Mapping[str, float]:
        try:
            return predictions(sampled(table, backend, SAMPLE_BYTES).plan)
        except BaseException:  # also PanicException of Rust: the caller waits with written files, or to report commits
            return predictions(table.plan)
        finally:
            give_back_freed_memory()  # the JVM of Spark needs the memory

    begun = begin_read(predict, table.table, timeout)

    def predicted() -> Mapping[str, float]:
        try:
            return begun()
        except TableError:
            return predictions(table.plan)

    return predicted


def sampled_late(table: PlannedTable, timeout: float) -> PlannedTable:
    """Return the table with a warning (ZL410) that the data files could not be read within `timeout` seconds."""
    return _not_sampled(table, f"no answer within {timeout:g} s")


_FILE = f"{PREFIX}file"
_DRAW = f"{PREFIX}draw"
# Factor by which more rows are drawn than requested, because each row is drawn independently and their number varies.
_MARGIN = 1.05


def draw_sample(
    backend: Backend, table: TableName, state: TableState, columns: Sequence[str], rows: int, seed: int
) -> KeySample:
    """Draw rows of the observed version of a table, with the file of each row.

    The same seed draws the same rows from the same files. On Delta this holds only if Spark splits the files in the
    same way, because not every Delta table provides the position of a row.

    Args:
        backend: The backend of the table.
        table: The name of the table.
        state: The observed table.
        columns: The columns to draw.
        rows: The number of rows. The result has about as many, but never more.
        seed: The seed of the random numbers.

    Returns:
        The rows. Their types are those of the bounds in `state`.

    Raises:
        EngineError: ZL301 to ZL306, ZL314.
    """
    check_pyspark()
    from pyspark.sql import functions as F

    from zlayout.formats.kernel.outcome import Failures, java_errors
    from zlayout.rewrite.rows import key_column
    from zlayout.spark.arrow import to_arrow

    with java_errors(f"{table}: drawing a sample", Failures()):
        source = backend.sample_source(table, state, seed)
        known = int(state.files.live_rows.sum())
        share = min(1.0, _MARGIN * rows / max(known, 1))
        wanted = {name: f"key{i}" for i, name in enumerate(columns)}
        picked = [key_column(name).alias(alias) for name, alias in wanted.items()]
        drawn = source.frame.select(*picked, source.file.alias(_FILE), source.draw.alias(_DRAW))
        data = to_arrow(drawn.where(F.col(_DRAW) < share))
        paths = source.paths()
    # The order of the random numbers does not depend on the order in which Spark reads the files.
    data = data.take(pc.sort_indices(data[_DRAW])[:rows])
    keys = {name: _typed(data[alias], state, name) for name, alias in wanted.items()}
    found = pc.index_in(data[_FILE], paths).combine_chunks()
    file = found.to_numpy(zero_copy_only=False).astype(np.int64)
    return rows_drawn(keys, file, seed, complete=len(data) >= known)


def _typed(values: pa.ChunkedArray, state: TableState, name: str) -> pa.Array:
    flat = values.combine_chunks()
    column = state.column(name)
    return flat if column is None or flat.type == column.type else flat.cast(column.type)
