"""Write the events of `apply --output json`: one JSON object per line on stdout. docs/reports.md lists them."""

from __future__ import annotations

import dataclasses
import threading
from typing import Any

import zlayout
from zlayout.app.results import Applied, result_of
from zlayout.cli.console import Console
from zlayout.cli.views import MAX_SECONDS_BETWEEN_LINES, Moment, View
from zlayout.errors import SpecError
from zlayout.formats.base import Event, GroupFailed, Notice
from zlayout.message_text import json_text
from zlayout.planner.model import FORMAT_VERSION, Plan, TablePlan
from zlayout.planner.result import TableResult
from zlayout.planner.run_report import RunReport


class Events(View):
    """Writes events. The first event is always `version`, and the last is `change_summary`."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._lock = threading.Lock()
        self._reported: dict[str, tuple[str, float]] = {}  # by table: the last written stage, and its time in seconds
        self._unfinished: set[str] = set()  # the tables that have started

    def emit(self, type: str, **fields: Any) -> None:
        """Write one event as a whole line. May be called from any thread. Raises SpecError ZL083."""
        line = json_text({"type": type, **fields}, None)
        with self._lock:
            try:
                self._console.result(f"{line}\n")
            except OSError as error:
                reason, hint = error.strerror or str(error), "keep stdout open until apply has ended"
                raise SpecError.of("ZL083", f"the events cannot be written: {reason}", hint=hint) from error

    def planned(self, plan: Plan) -> None:
        """Write `version`, then one `planned_change` for each table that is not as declared."""
        self.emit("version", zlayout=zlayout.__version__, format_version=FORMAT_VERSION)
        for table in plan.tables:
            if not table.as_declared:
                self.emit("planned_change", **_planned(table))

    def summary(self, report: RunReport, exit_code: int) -> None:
        """Write `change_summary`: the number of tables per result status, and the exit code of the command.

        Before it, each table that Ctrl-C interrupted between two steps gets its last event.
        """
        for table in sorted(self._unfinished & report.results.keys()):
            self._finished(table, report.results[table], self._reported[table][1])
        statuses = [result.outcome for result in report.results.values()]
        counts = {status: statuses.count(status) for status in sorted(set(statuses))}
        self.emit("change_summary", tables=len(report.plan.tables), outcomes=counts, exit_code=exit_code)

    def started(self, moment: Moment, run_id: str) -> None:
        self._reported[moment.table] = "", 0.0
        self._unfinished.add(moment.table)
        self.emit("apply_start", table=moment.table, run_id=run_id, number=moment.number, tables=moment.tables)

    def moved(self, moment: Moment) -> None:
        """Write `apply_progress` if the stage has changed or a minute has passed."""
        stage, seconds = self._reported.get(moment.table, ("", 0.0))
        if moment.stage == stage and moment.seconds - seconds < MAX_SECONDS_BETWEEN_LINES:
            return
        self._reported[moment.table] = moment.stage, moment.seconds
        self.emit(
            "apply_progress",
            table=moment.table,
            stage=moment.stage,
            tasks_done=moment.done,
            tasks_total=moment.total,
            seconds=round(moment.seconds, 1),
        )

    def happened(self, table: str, event: Event) -> None:
        if isinstance(event, Notice):
            self.emit("notice", table=table, diagnostic=dataclasses.asdict(event.diagnostic))
        elif isinstance(event, GroupFailed):
            problems = [dataclasses.asdict(d) for d in event.error.diagnostics]
            self.emit("group_dropped", table=table, groups=list(event.groups), problems=problems)
        else:
            self.emit("commit", table=table, **dataclasses.asdict(event))

    def finished(self, applied: Applied, seconds: float) -> None:
        self._finished(applied.table, result_of(applied), seconds)

    def _finished(self, table: str, result: TableResult, seconds: float) -> None:
        self._unfinished.discard(table)
        body = dataclasses.asdict(result)
        for measured in ("columns", "size_histogram", "boxes", "strip"):
            body.pop(measured)
        kind = "apply_complete" if result.succeeded else "apply_errored"
        self.emit(kind, table=table, seconds=round(seconds, 1), **body)


def _planned(table: TablePlan) -> dict[str, Any]:
    groups = table.groups
    return {
        "table": table.table,
        "status": table.status,
        "drift": [d.key for d in table.drift],
        "properties": [p.name for p in table.properties],
        "repartition": table.partitioning is not None,
        "reasons": sorted({g.reason for g in groups}),
        "groups": len(groups),
        "files": sum(g.files for g in groups),
        "bytes": table.rewrite_bytes,
        "target_files": sum(g.target_files for g in groups),
        "diagnostics": [dataclasses.asdict(d) for d in table.diagnostics],
    }
