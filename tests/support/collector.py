"""An OpenTelemetry collector on this machine: receives OTLP by HTTP and decodes it with the official schema."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from support.servers import serving

Values = dict[str, str | int | float | bool]


class Collector(ThreadingHTTPServer):
    """What was received, the first at the time `first`. status: the answer; hangs: whether none is given."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.status, self.hangs = 200, False
        self.requests: list[tuple[str, bytes]] = []
        self.first = 0.0
        self.released = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def paths(self) -> set[str]:
        return {path for path, _ in self.requests}

    def spans(self) -> list[Span]:
        """All spans, in the order of their start."""
        found = [ExportTraceServiceRequest.FromString(body) for path, body in self.requests if path == "/v1/traces"]
        spans = [s for request in found for r in request.resource_spans for sc in r.scope_spans for s in sc.spans]
        return sorted(spans, key=lambda span: span.start_time_unix_nano)

    def metrics(self) -> dict[str, Metric]:
        found = [ExportMetricsServiceRequest.FromString(body) for path, body in self.requests if path == "/v1/metrics"]
        return {
            m.name: m
            for request in found
            for r in request.resource_metrics
            for sc in r.scope_metrics
            for m in sc.metrics
        }

    def resources(self) -> list[Values]:
        """The resource of each request."""
        traces = [ExportTraceServiceRequest.FromString(body) for path, body in self.requests if path == "/v1/traces"]
        metrics = [
            ExportMetricsServiceRequest.FromString(body) for path, body in self.requests if path == "/v1/metrics"
        ]
        found = [r.resource for t in traces for r in t.resource_spans]
        found += [r.resource for m in metrics for r in m.resource_metrics]
        return [values(resource.attributes) for resource in found]


class _Answer(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        self.server.first = self.server.first or time.monotonic()
        self.server.requests.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
        if self.server.hangs:
            self.server.released.wait(60)
            return
        self.send_response(self.server.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def running() -> Iterator[Collector]:
    with serving(Collector()) as server:
        yield server
        server.released.set()


def values(attributes: Iterator[KeyValue]) -> Values:
    """The attributes as a dictionary."""
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in attributes}
