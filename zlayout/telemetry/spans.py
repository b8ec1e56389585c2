"""The spans of one command: one for the command, one for each table, and one for each step and stage of a table.

Spans contain names of tables, numbers and codes. They contain no message, because the message of another program may
contain values of rows.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from opentelemetry.context import Context
from opentelemetry.trace import Span, Status, StatusCode, Tracer, get_current_span, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from zlayout.errors import Diagnostic, ZlayoutError
from zlayout.planner.run_report import RunReport
from zlayout.report.words import printable

_FAILURES = ("error", "refused")


@dataclass(slots=True)
class _Table:
    """A table that is being recorded.

    Attributes:
        span: The span of the table.
        last: The end of the last step or stage, in nanoseconds since 1970.
        stage: The span of the running stage; None between stages.
    """

    span: Span
    last: int
    stage: Span | None = None

    def end_stage(self, now: int) -> None:
        """End the running stage, if there is one."""
        if self.stage is not None:
            self.stage.end(now)
            self.stage, self.last = None, now


class Spans:
    """Starts the span of a command when it is created, and ends all spans in `close`."""

    def __init__(self, tracer: Tracer, command: str, environ: Mapping[str, str]) -> None:
        """Start the span of the command. Its parent is the current span, or else the one that `environ` names."""
        self._tracer = tracer
        self._tables: dict[str, _Table] = {}
        self._exit_code: int | None = None
        self._began = time.time_ns()
        self.command = tracer.start_span(f"zlayout {command}", _parent(environ), start_time=self._began)

    def step(self, table: str, name: str, seconds: float) -> None:
        """Add a span for a step that took the given seconds and ends now."""
        now = time.time_ns()
        began = now - int(seconds * 1e9)
        of_table = self._table(table, began)
        self._child(of_table, table, name, began).end(now)
        of_table.last = now

    def stage(self, table: str, name: str) -> None:
        """End the span of the running stage, and start that of the next one."""
        now = time.time_ns()
        of_table = self._table(table, now)
        of_table.end_stage(now)
        of_table.stage = self._child(of_table, table, name, now)

    def event(self, table: str, name: str, attributes: Mapping[str, str | int]) -> None:
        """Add an event to the running stage, or to the table."""
        self._running(table).add_event(name, dict(attributes))

    def problems(self, table: str, diagnostics: Iterable[Diagnostic]) -> None:
        """Add diagnostics to the running stage, or to the table."""
        _add(self._running(table), diagnostics)

    def end_stage(self, table: str) -> None:
        """End the running stage of a table."""
        now = time.time_ns()
        self._table(table, now).end_stage(now)

    def report(self, report: RunReport, exit_code: int | None) -> None:
        """Add the status of each table, and end the spans of the tables.

        exit_code: The exit code of the command line; None outside of it.
        """
        for plan in report.plan.tables:
            of_table = self._table(plan.table, self._began)
            span, result = of_table.span, report.results.get(plan.table)
            span.set_attributes({"zlayout.format": plan.format, "zlayout.status": plan.status.value})
            if result is not None:
                span.set_attributes({"zlayout.run_id": result.run_id, "zlayout.outcome": result.outcome.value})
            _add(span, (*plan.diagnostics, *(result.problems if result else ())))
        failures = (d for problems in report.failed.values() for d in problems if d.severity in _FAILURES)
        _add(self.command, [*report.plan.diagnostics, *failures])
        self.command.set_attribute("zlayout.tables", len(report.plan.tables))
        self._exit_code = exit_code
        self._end_tables()

    def close(self, error: BaseException | None) -> None:
        """End all spans. error: The exception that ended the command; None if the command completed."""
        self._end_tables()
        if error is None and self._exit_code is not None:
            self.command.set_attribute("process.exit.code", self._exit_code)
        if isinstance(error, ZlayoutError):
            _add(self.command, error.diagnostics)
        elif error is not None:
            _fail(self.command, type(error).__name__)
        self.command.end()

    def _end_tables(self) -> None:
        now = time.time_ns()
        for of_table in self._tables.values():
            of_table.end_stage(now)
            of_table.span.end(of_table.last)
        self._tables.clear()

    def _running(self, table: str) -> Span:
        of_table = self._table(table, time.time_ns())
        return of_table.stage or of_table.span

    def _table(self, table: str, began: int) -> _Table:
        """Return the record of a table. For a new table, a span is started."""
        if table not in self._tables:
            name = printable(table)
            context = set_span_in_context(self.command)
            span = self._tracer.start_span(
                f"table {name}", context, attributes={"zlayout.table": name}, start_time=began
            )
            self._tables[table] = _Table(span, began)
        return self._tables[table]

    def _child(self, of_table: _Table, table: str, name: str, began: int) -> Span:
        context = set_span_in_context(of_table.span)
        attributes = {"zlayout.table": printable(table)}
        return self._tracer.start_span(name, context, attributes=attributes, start_time=began)


def _parent(environ: Mapping[str, str]) -> Context | None:
    """Return the context of the span that TRACEPARENT names; None if there is a current span."""
    if get_current_span().get_span_context().is_valid:
        return None
    names = {"TRACEPARENT": "traceparent", "TRACESTATE": "tracestate"}
    carrier = {name: environ[variable] for variable, name in names.items() if variable in environ}
    return TraceContextTextMapPropagator().extract(carrier)


def _add(span: Span, diagnostics: Iterable[Diagnostic]) -> None:
    """Add an event for each diagnostic, and give the span the status of the first failure."""
    diagnostics = tuple(diagnostics)
    for diagnostic in diagnostics:
        span.add_event("diagnostic", {"zlayout.code": diagnostic.code, "zlayout.severity": diagnostic.severity})
    if failures := [d.code for d in diagnostics if d.severity in _FAILURES]:
        _fail(span, failures[0])


def _fail(span: Span, error: str) -> None:
    span.set_attribute("error.type", error)
    span.set_status(Status(StatusCode.ERROR, error))
