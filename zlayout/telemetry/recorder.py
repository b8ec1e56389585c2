"""Record one command as spans and metrics, with the providers of the application or with those of zlayout."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import zlayout
from zlayout.errors import Diagnostic
from zlayout.planner.run_report import RunReport
from zlayout.report.gauges import Gauge, gauges
from zlayout.telemetry.environment import Signal, not_installed, not_sent, requested

if TYPE_CHECKING:
    from opentelemetry.metrics import Meter
    from opentelemetry.sdk.metrics.export import Metric
    from opentelemetry.trace import Span

    from zlayout.telemetry.sending import Metrics


def start(command: str, environ: Mapping[str, str]) -> tuple[Recorder | None, tuple[Diagnostic, ...]]:
    """Start to record a command.

    Args:
        command: The name of the command.
        environ: The environment variables.

    Returns:
        The recorder, and the notes and warnings (ZL452) about requested signals that are not sent. The recorder is None
        if neither the application nor the environment requests traces or metrics, or if none of them can be recorded.
    """
    given = frozenset(signal for signal in Signal if _is_configured(signal))
    signals, problems = requested(environ)
    own = signals - given
    if not (own or given):
        return None, problems
    try:
        return Recorder(command, environ, given, own), problems
    except ImportError as error:
        problems += (not_installed(error),)
    except Exception as error:  # for an invalid variable; the text of the error may contain its value
        problems += (not_sent(own or given, f"{type(error).__name__} at the start"),)
    return (Recorder(command, environ, given, frozenset()) if own and given else None), problems


class Recorder:
    """The spans and the metrics of one command."""

    def __init__(
        self, command: str, environ: Mapping[str, str], given: frozenset[Signal], own: frozenset[Signal]
    ) -> None:
        """Start the span of the command.

        Args:
            command: The name of the command.
            environ: The environment variables.
            given: The signals whose provider the application has configured.
            own: The signals that zlayout sends itself.

        Raises:
            ImportError: A package of the extra `otel` is not installed.
            Exception: A variable of the environment is invalid.
        """
        from opentelemetry import metrics, trace

        from zlayout.telemetry.spans import Spans

        self._senders: dict[Signal, Callable[[], bool]] = {}
        self._meter = metrics.get_meter("zlayout", zlayout.__version__) if Signal.METRICS in given else None
        self._metrics: Metrics | None = None
        tracer: trace.Tracer = trace.NoOpTracer()
        if Signal.TRACES in given:
            tracer = trace.get_tracer("zlayout", zlayout.__version__)
        if own:
            from zlayout.telemetry.sending import Metrics, Traces

            if Signal.TRACES in own:
                traces = Traces()
                tracer, self._senders[Signal.TRACES] = traces.tracer, traces.send
            if Signal.METRICS in own:
                self._metrics = Metrics()
                self._senders[Signal.METRICS] = self._metrics.send
        self.spans = Spans(tracer, command, environ)

    def current(self) -> AbstractContextManager[Span]:
        """Return a context in which the span of the command is the current one."""
        from opentelemetry import trace

        return trace.use_span(self.spans.command, record_exception=False, set_status_on_exception=False)

    def report(self, report: RunReport, exit_code: int | None) -> None:
        """Add the statuses and diagnostics of the report to the spans, and its gauges to the metrics."""
        self.spans.report(report, exit_code)
        if self._meter:
            _set_gauges(self._meter, report)
        if self._metrics:
            self._metrics.data = as_data(report)

    def close(self, error: BaseException | None) -> tuple[Diagnostic, ...]:
        """End the spans, and send the signals that zlayout sends itself.

        Args:
            error: The exception that ended the command; None if the command completed.

        Returns:
            A warning (ZL452) if a signal could not be sent.
        """
        self.spans.close(error)
        if not self._senders:
            return ()
        from zlayout.telemetry.sending import send_in_time

        return send_in_time(self._senders)


def as_data(report: RunReport) -> list[Metric]:
    """Return the gauges as data to send.

    They do not pass through a meter of the SDK, because it keeps at most 2,000 values, here tables, of one gauge.
    """
    from opentelemetry.sdk.metrics.export import Gauge as GaugeData
    from opentelemetry.sdk.metrics.export import Metric, NumberDataPoint

    now = time.time_ns()
    return [
        Metric(_name(gauge), gauge.text, gauge.unit, GaugeData([NumberDataPoint(a, now, now, v) for a, v in points]))
        for gauge in gauges(report)
        if (points := list(_points(gauge)))
    ]


def _set_gauges(meter: Meter, report: RunReport) -> None:
    for gauge in gauges(report):
        instrument = meter.create_gauge(_name(gauge), gauge.unit, gauge.text)
        for attributes, value in _points(gauge):
            instrument.set(value, attributes)


def _name(gauge: Gauge) -> str:
    """Return the name for OpenTelemetry, for example `zlayout.table.files` for the gauge `table_files`."""
    return f"zlayout.{gauge.name.replace('table_', 'table.', 1)}"


def _points(gauge: Gauge) -> Iterator[tuple[dict[str, str], float]]:
    names = [f"zlayout.{label}" for label in gauge.labels]
    for labels, value in gauge.values.items():
        yield dict(zip(names, labels, strict=True)), value


def _is_configured(signal: Signal) -> bool:
    """Return whether the application has set a provider. Without one, the API of OpenTelemetry returns placeholders."""
    name = {Signal.TRACES: "opentelemetry.trace", Signal.METRICS: "opentelemetry.metrics"}[signal]
    if (api := sys.modules.get(name)) is None:
        return False
    provider = api.get_tracer_provider() if signal is Signal.TRACES else api.get_meter_provider()
    return not type(provider).__module__.startswith(name)
