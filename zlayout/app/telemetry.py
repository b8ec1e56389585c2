"""Pass the events and the report of a command to OpenTelemetry. A failure there does not affect the command."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress

from zlayout.app.concurrent_reads import TableRead
from zlayout.app.results import ApplyEvent, OnEvent, TableEvent, TableFinished
from zlayout.errors import Diagnostic
from zlayout.formats.base import Commit, GroupFailed, Notice, Progress
from zlayout.planner.run_report import RunReport
from zlayout.records.model import Command
from zlayout.telemetry.recorder import Recorder, start

_COMMIT_FIELDS = ("kind", "version", "files_removed", "files_added", "bytes_removed", "bytes_added", "rows")


class Telemetry:
    """Receives the events and the report of one command, and passes them to the recorder, if there is one."""

    def __init__(self, recorder: Recorder | None = None) -> None:
        self._recorder = recorder

    def read(self, read: TableRead) -> None:
        """Record one step of planning a table."""
        if self._recorder is not None:
            with suppress(Exception):
                self._recorder.spans.step(read.table, read.step, read.seconds)

    def following(self, on_event: OnEvent | None) -> OnEvent:
        """Return a function that records an event of apply before it calls `on_event`."""

        def record(event: ApplyEvent) -> None:
            if self._recorder is not None:
                with suppress(Exception):
                    _record(self._recorder, event)
            if on_event is not None:
                on_event(event)

        return record

    def end(self, report: RunReport, exit_code: int | None = None) -> None:
        """Record the report of the command, and the exit code of the command line."""
        if self._recorder is not None:
            with suppress(Exception):
                self._recorder.report(report, exit_code)


def log(diagnostic: Diagnostic) -> None:
    """Write a note or a warning to the logger `zlayout`, for programs that use the Python API."""
    level = logging.INFO if diagnostic.severity == "note" else logging.WARNING
    logging.getLogger("zlayout").log(level, "%s", diagnostic)


@contextmanager
def telemetry_of(command: Command, warn: Callable[[Diagnostic], None] = log) -> Iterator[Telemetry]:
    """Record the block as one command, if the application has configured OpenTelemetry or the environment requests it.

    Args:
        command: The command; its name is part of the name of the span.
        warn: Called at the end with each note and warning (ZL452) about signals that were not sent.
    """
    recorder, problems = start(command, os.environ)
    ended_by: BaseException | None = None
    try:
        with recorder.current() if recorder else nullcontext():
            yield Telemetry(recorder)
    except BaseException as error:
        ended_by = error
        raise
    finally:
        if recorder is not None:
            with suppress(Exception):
                problems += recorder.close(ended_by)
        for problem in problems:
            warn(problem)


def _record(recorder: Recorder, event: ApplyEvent) -> None:
    spans = recorder.spans
    match event:
        case TableEvent(table, Commit() as commit):
            spans.event(table, "commit", {f"zlayout.commit.{name}": getattr(commit, name) for name in _COMMIT_FIELDS})
        case TableEvent(table, GroupFailed(_, error)):
            spans.problems(table, error.diagnostics)
        case TableEvent(table, Notice(diagnostic)):
            spans.problems(table, [diagnostic])
        case TableFinished(applied):
            if applied.error is not None:
                spans.problems(applied.table, applied.error.diagnostics)
            spans.end_stage(applied.table)
        case Progress(table, stage):
            spans.stage(table, stage)
