"""History records as Arrow tables, for histories that are Delta or Iceberg tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from random import uniform
from time import sleep
from typing import TypeVar

import pyarrow as pa

from zlayout.records.model import Record

Result = TypeVar("Result")
_METRICS = [(name, pa.float64()) for name in ("touched", "floor", "predicted", "measured")]
_COLUMN = pa.struct([("column", pa.string()), *_METRICS])
_DECAY = pa.struct([("measure", pa.string()), ("value", pa.float64()), ("tolerance", pa.float64())])
SCHEMA = pa.schema(
    [
        ("record_version", pa.int32()),
        ("time", pa.timestamp("us", "UTC")),
        *((name, pa.string()) for name in ("run_id", "command", "table", "layout_id", "state")),
        *((name, pa.int64()) for name in ("files", "bytes", "rewrite_bytes")),
        ("columns", pa.list_(_COLUMN)),
        ("decay", pa.list_(_DECAY)),
    ]
)
# The number of times that one append is tried. Each attempt but the last can end in a conflict with another process.
MAX_ATTEMPTS = 12
# Records older than `keep_days` are removed only when one of them is older than `keep_days` times this factor, because
# each removal rewrites files.
OVERDUE = 1.05


def to_arrow(records: Sequence[Record]) -> pa.Table:
    """Return one row per record, with the columns of SCHEMA."""
    return pa.Table.from_pylist([record.row() for record in records], SCHEMA)


def from_arrow(rows: pa.Table) -> list[Record]:
    """Return the record of each row. Raises the errors of `Record.of_row`."""
    return [Record.of_row(row) for row in rows.select(SCHEMA.names).to_pylist()]


def require_history(names: Iterable[str]) -> None:
    """Raise ValueError if a table with these columns is not a history."""
    found = set(names)
    if missing := [name for name in SCHEMA.names if name not in found]:
        raise ValueError(f"expected a history of zlayout, found a table without column {missing[0]}")


def oldest_kept(keep_days: int, factor: float = 1.0) -> datetime:
    """Return the time that lies `keep_days` times `factor` before now."""
    return datetime.now(UTC) - timedelta(days=keep_days * factor)


def attempt(commit: Callable[[], Result], conflicts: tuple[type[Exception], ...]) -> Result:
    """Call `commit`, and again after each conflict with another process, until it succeeds or MAX_ATTEMPTS are used.

    Args:
        commit: The function to call.
        conflicts: The exceptions that mean a conflict. That of the last attempt is raised.
    """
    for number in range(1, MAX_ATTEMPTS):
        try:
            return commit()
        except conflicts:
            sleep(uniform(0.02, 0.1) * number)
    return commit()
