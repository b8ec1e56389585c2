"""Draw a sample of the key columns with Spark. Nothing else in `simulate` and `advise` needs a JVM."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zlayout.formats.base import Backend
from zlayout.spark.arrow import to_arrow
from zlayout.spark.session import check_pyspark
from zlayout.spec.model import TableName
from zlayout.table.samples import KeySample, rows_drawn
from zlayout.table.state import PREFIX, TableState

FILE = f"{PREFIX}file"
DRAW = f"{PREFIX}draw"
# Factor by which more rows are drawn than requested, because each row is drawn independently and their number varies.
MARGIN = 1.05


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

    with java_errors(f"{table}: drawing a sample", Failures()):
        source = backend.sample_source(table, state, seed)
        known = int(state.files.live_rows.sum())
        share = min(1.0, MARGIN * rows / max(known, 1))
        wanted = {name: f"key{i}" for i, name in enumerate(columns)}
        picked = [key_column(name).alias(alias) for name, alias in wanted.items()]
        drawn = source.frame.select(*picked, source.file.alias(FILE), source.draw.alias(DRAW))
        data = to_arrow(drawn.where(F.col(DRAW) < share))
        paths = source.paths()
    # The order of the random numbers does not depend on the order in which Spark reads the files.
    data = data.take(pc.sort_indices(data[DRAW])[:rows])
    keys = {name: _typed(data[alias], state, name) for name, alias in wanted.items()}
    found = pc.index_in(data[FILE], paths).combine_chunks()
    file = found.to_numpy(zero_copy_only=False).astype(np.int64)
    return rows_drawn(keys, file, seed, complete=len(data) >= known)


def _typed(values: pa.ChunkedArray, state: TableState, name: str) -> pa.Array:
    flat = values.combine_chunks()
    column = state.column(name)
    return flat if column is None or flat.type == column.type else flat.cast(column.type)
