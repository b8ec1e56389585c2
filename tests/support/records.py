"""History records with the values that most tests need."""

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from zlayout.history_records import ColumnRecord, Command, DecayRecord, Record, RecordState

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


def run_at_once(script: str, arguments: list[list[str]]) -> None:
    """Run a script in one process for each list of arguments. It waits for a character on its standard input."""
    tests = Path(__file__).parents[1]
    environ = {"PYTHONPATH": f"{tests}{os.pathsep}{tests.parent}", "PATH": ""}
    running = [
        subprocess.Popen([sys.executable, "-c", script, *given], stdin=subprocess.PIPE, env=environ, text=True)
        for given in arguments
    ]
    for process in running:
        process.stdin.write("x")
        process.stdin.close()
    assert [process.wait(120) for process in running] == [0] * len(running)
