"""Send spans and metrics to the endpoints that the environment names, within a time limit."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from threading import Thread

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.environment_variables import OTEL_BSP_MAX_QUEUE_SIZE
from opentelemetry.sdk.metrics.export import Metric, MetricExportResult, MetricsData, ResourceMetrics, ScopeMetrics
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Tracer

import zlayout
from zlayout.errors import Diagnostic
from zlayout.telemetry.environment import Signal, not_sent

SCOPE = "zlayout"
# The time limit for sending at the end of a command, in seconds.
MAX_SECONDS = 3.0
# The length of the queue unless the environment sets it. The spans of all tables end at the same time, and spans that
# find the queue full are lost.
MAX_QUEUED_SPANS = 100_000


class _SpanExporter(OTLPSpanExporter):
    """An exporter that remembers whether it failed."""

    failed = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = super().export(spans)
        self.failed |= result is not SpanExportResult.SUCCESS
        return result


class Traces:
    """A tracer whose spans are sent while the command runs."""

    def __init__(self) -> None:
        """Raises any exception if a variable of the environment is invalid."""
        self._exporter = _SpanExporter()
        self._provider = TracerProvider(resource=_resource(), shutdown_on_exit=False)
        queue = None if os.environ.get(OTEL_BSP_MAX_QUEUE_SIZE) else MAX_QUEUED_SPANS
        self._provider.add_span_processor(BatchSpanProcessor(self._exporter, max_queue_size=queue))

    @property
    def tracer(self) -> Tracer:
        return self._provider.get_tracer(SCOPE, zlayout.__version__)

    def send(self) -> bool:
        """Send the spans that are not sent yet. Return whether the collector accepted all spans."""
        self._provider.shutdown()
        return not self._exporter.failed


class Metrics:
    """Metrics that are sent at the end of the command."""

    def __init__(self) -> None:
        """Raises any exception if a variable of the environment is invalid."""
        self._exporter = OTLPMetricExporter()
        self.data: list[Metric] = []

    def send(self) -> bool:
        """Send the metrics. Return whether the collector accepted them."""
        scope = ScopeMetrics(InstrumentationScope(SCOPE, zlayout.__version__), self.data, "")
        data = MetricsData([ResourceMetrics(_resource(), [scope], "")])
        return not self.data or self._exporter.export(data) is MetricExportResult.SUCCESS


def send_in_time(senders: dict[Signal, Callable[[], bool]]) -> tuple[Diagnostic, ...]:
    """Call functions that send signals, concurrently, and wait for them at most MAX_SECONDS.

    Returns:
        A warning (ZL452) if signals were not sent. It does not contain the endpoint, which may contain a password.
    """
    sent: dict[Signal, bool] = {}

    def send(signal: Signal) -> None:
        try:
            sent[signal] = senders[signal]()
        except Exception:
            sent[signal] = False

    threads = [Thread(target=send, args=(signal,), name="zlayout-telemetry", daemon=True) for signal in senders]
    end = time.monotonic() + MAX_SECONDS
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(end - time.monotonic(), 0.0))
    missing = [signal for signal in senders if not sent.get(signal)]
    in_time = f" within {MAX_SECONDS:g} s" if len(sent) < len(senders) else ""
    return (not_sent(missing, f"the collector did not accept them{in_time}"),) if missing else ()


def _resource() -> Resource:
    """Return the resource that the environment declares, with the service zlayout unless it names another one."""
    found = Resource.create()
    if str(found.attributes.get(SERVICE_NAME, "unknown_service")).startswith("unknown_service"):
        return found.merge(Resource({SERVICE_NAME: "zlayout", SERVICE_VERSION: zlayout.__version__}))
    return found
