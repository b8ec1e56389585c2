"""The command `history`: print what the history has of one table."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from zlayout.app.history import history
from zlayout.app.project import load_project
from zlayout.cli.console import Console
from zlayout.records.trend import touched_trend
from zlayout.report import history_text


def history_command(project: Path, table: str, limit: int, console: Console, *, branch: str | None = None) -> int:
    """Print the records of a table, as text or as JSON, and return 0."""
    found = history(load_project(project), table, limit=limit, branch=branch)
    if console.as_json:
        records = [record.row() | {"time": record.time.isoformat(timespec="milliseconds")} for record in found.records]
        document = {"table": found.table, "records": records, "growing": [asdict(growth) for growth in found.growing]}
        console.document(document)
    else:
        trend = touched_trend(found.records)
        console.result(history_text.render(found.table, found.records, trend, found.growing))
    return 0
