"""History records with the values that most tests need."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from zlayout.records.model import ColumnRecord, Command, DecayRecord, Record, RecordState

START = datetime(2026, 3, 1, 3, tzinfo=UTC)


def make_record(day: float = 0.0, unclustered: float = 0.02, touched: float = 4.0, **changes: Any) -> Record:
    """The record of a `drift`, `day` days after START."""
    values: dict[str, Any] = {
        "time": START + timedelta(days=day),
        "run_id": "r",
        "command": Command.DRIFT,
        "table": "lake.db.t",
        "layout_id": "one",
        "state": RecordState.AS_DECLARED,
        "files": 10,
        "bytes": 1000,
        "rewrite_bytes": 0,
        "columns": (ColumnRecord("a", touched, 2.5),),
        "decay": (DecayRecord("unclustered", unclustered, 0.1),),
    }
    return Record(**values | changes)
