"""Record one command as spans and metrics, with the providers of the application or with those of zlayout."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import zlayout
from zlayout.errors import Diagnostic
from zlayout.planner.run_report import RunReport
from zlayout.telemetry.environment import Signal, not_installed, not_sent, wanted

if TYPE_CHECKING:
    from opentelemetry.metrics import Meter
    from opentelemetry.trace import Span

    from zlayout.telemetry.sending import Metrics, Traces


def start(command: str, environ: Mapping[str, str]) -> tuple[Recorder | None, tuple[Diagnostic, ...]]:
    """Start to record a command.

    Args:
        command: The name of the command.

    Returns:
        The recorder; None if neither the application nor the environment asks for traces or metrics. And the notes and
        warnings (ZL452) on what the environment asks for and is not sent.
    """
    given = frozenset(signal for signal in Signal if _is_configured(signal))
    signals, problems = wanted(environ)
    own = signals - given
    if not (own or given):
        return None, problems
    traces = metrics = None
    try:
        if own:
            from zlayout.telemetry.sending import Metrics, Traces

            traces = Traces() if Signal.TRACES in own else None
            metrics = Metrics() if Signal.METRICS in own else None
        return Recorder(command, environ, given, traces, metrics), problems
    except ImportError as error:
        problems += (not_installed(error),)
    except Exception as error:  # of a variable that is invalid; its text may contain the value
        problems += (not_sent(own or given, f"{type(error).__name__} at the start"),)
    return (Recorder(command, environ, given, None, None) if own and given else None), problems


class Recorder:
    """The spans and the metrics of one command."""

    def __init__(
        self,
        command: str,
        environ: Mapping[str, str],
        given: frozenset[Signal],
        traces: Traces | None,
        metrics: Metrics | None,
    ) -> None:
        """Start the span of the command.

        given: The signals whose provider the application has configured. traces, metrics: What zlayout sends itself.
        """
        from opentelemetry import trace

        from zlayout.telemetry.spans import Spans

        self._metrics = metrics
        self._meter = _meter() if Signal.METRICS in given else None
        self._senders: dict[Signal, Callable[[], bool]] = {}
        if traces:
            tracer = traces.tracer
            self._senders[Signal.TRACES] = traces.send
        elif Signal.TRACES in given:
            tracer = trace.get_tracer("zlayout", zlayout.__version__)
        else:
            tracer = trace.NoOpTracer()
        if metrics:
            self._senders[Signal.METRICS] = metrics.send
        self.spans = Spans(tracer, command, environ)

    def current(self) -> AbstractContextManager[Span]:
        """Return a context in which the span of the command is the current one."""
        from opentelemetry import trace

        return trace.use_span(self.spans.command, record_exception=False, set_status_on_exception=False)

    def report(self, report: RunReport, exit_code: int | None) -> None:
        """Add what the report says to the spans, and its gauges to the metrics."""
        from zlayout.telemetry.metrics import as_data, set_gauges

        self.spans.report(report, exit_code)
        if self._meter:
            set_gauges(self._meter, report)
        if self._metrics:
            self._metrics.data = as_data(report)

    def close(self, error: BaseException | None) -> tuple[Diagnostic, ...]:
        """End the spans and send what zlayout sends itself. Return warnings (ZL452) on what could not be sent.

        error: What ended the command; None if it has come to its end.
        """
        self.spans.close(error)
        if not self._senders:
            return ()
        from zlayout.telemetry.sending import send_in_time

        return send_in_time(self._senders)


def _meter() -> Meter:
    from opentelemetry import metrics

    return metrics.get_meter("zlayout", zlayout.__version__)


def _is_configured(signal: Signal) -> bool:
    """Return whether the application has set a provider. The API itself has only placeholders."""
    if signal is Signal.TRACES and "opentelemetry.trace" in sys.modules:
        from opentelemetry import trace

        return _is_provider(trace.get_tracer_provider(), trace.__name__)
    if signal is Signal.METRICS and "opentelemetry.metrics" in sys.modules:
        from opentelemetry import metrics

        return _is_provider(metrics.get_meter_provider(), metrics.__name__)
    return False


def _is_provider(provider: object, api: str) -> bool:
    return not type(provider).__module__.startswith(api)
