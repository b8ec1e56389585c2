"""What is sent by whom, and that a collector which fails costs little time and nothing else."""

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from opentelemetry import metrics, trace
from opentelemetry.context import Context
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import Span, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from support.collector import Collector
from support.projects import Cli
from support.servers import free_port

import zlayout
from zlayout.cli.console import print_logs
from zlayout.telemetry.sending import Traces
from zlayout.telemetry.spans import Spans

EXPORTER = "opentelemetry.exporter.otlp.proto.http.trace_exporter"


@pytest.mark.usefixtures("root")
def test_a_collector_that_is_down_is_one_warning(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zlayout.telemetry.sending.MAX_SECONDS", 0.3)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://user:the-password@127.0.0.1:{free_port()}")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=the-token")
    start = time.monotonic()
    with monkeypatch.context() as patch:
        patch.setattr(logging.root, "handlers", [])
        print_logs()  # as the command line does, which pytest has replaced
        printed = cli("plan")
    assert time.monotonic() - start < 3
    assert [line[:14] for line in printed.err.splitlines() if "warning" in line] == ["warning: ZL452"]
    assert "the-password" not in printed.err
    assert "the-token" not in printed.err


@pytest.mark.usefixtures("root")
def test_a_collector_that_rejects_is_a_warning(cli: Cli, collector: Collector) -> None:
    collector.status = 400
    assert "traces and metrics were not sent to OpenTelemetry: the collector did not accept them (" in cli("plan").err


def test_no_span_of_many_tables_that_end_at_the_same_time_is_lost(collector: Collector) -> None:
    traces = Traces()
    spans = Spans(traces.tracer, "plan", {})
    for number in range(3000):
        spans.stage(f"lake.db.t{number}", "observing")
    spans.close(None)
    assert traces.send()
    assert len(collector.spans()) == 6001


@pytest.mark.usefixtures("root")
def test_a_variable_that_is_invalid_is_a_warning(
    cli: Cli, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "-1")
    assert "traces and metrics were not sent to OpenTelemetry: ValueError at the start" in cli("plan").err
    assert collector.requests == []


@pytest.mark.usefixtures("root")
def test_an_endpoint_without_the_extra_is_one_note(
    cli: Cli, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, EXPORTER, None)
    monkeypatch.delitem(sys.modules, "zlayout.telemetry.sending", raising=False)
    printed = cli("plan")
    (line,) = (line for line in printed.err.splitlines() if "ZL452" in line)
    assert line.startswith("note: ZL452 an endpoint of OpenTelemetry is set, but a package is not installed: ")
    assert "pip install 'zlayout[otel]'" in line
    assert collector.requests == []


@pytest.mark.usefixtures("root")
@pytest.mark.parametrize("disabled", [True, False])
def test_nothing_is_sent_and_nothing_imported_without_an_endpoint(
    cli: Cli, collector: Collector, monkeypatch: pytest.MonkeyPatch, disabled: bool
) -> None:
    for name in list(sys.modules):
        if name.partition(".")[0] == "opentelemetry" or name == "zlayout.telemetry.sending":
            monkeypatch.delitem(sys.modules, name)
    if disabled:
        monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    else:
        monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT")
    assert "ZL452" not in cli("plan").err
    assert {name for name in sys.modules if name.startswith("opentelemetry")} == set()
    assert collector.requests == []


@pytest.mark.usefixtures("root")
def test_a_program_gets_the_warning_in_its_log(collector: Collector, caplog: pytest.LogCaptureFixture) -> None:
    collector.status = 400
    zlayout.plan(zlayout.load_project())
    records = [record for record in caplog.records if record.name == "zlayout"]
    assert [record.levelno for record in records] == [logging.WARNING]
    assert "ZL452" in records[0].getMessage()


class TestOfTheApplication:
    """An application that has configured OpenTelemetry sends, and keeps on sending."""

    @pytest.mark.usefixtures("memory")
    def test_its_providers_are_used_and_not_shut_down(
        self, collector: Collector, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("TRACEPARENT", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
        reader = InMemoryMetricReader()
        with configured(monkeypatch, reader) as exporter:
            with trace.get_tracer("app").start_as_current_span("job") as job:
                zlayout.apply(zlayout.plan(zlayout.load_project()))
                assert trace.get_current_span() is job
            trace.get_tracer("app").start_span("after").end()
            spans = {span.name: span for span in exporter.get_finished_spans()}
        assert {"zlayout plan", "zlayout apply", "rewriting", "job", "after"} <= set(spans)
        for name in ("zlayout plan", "zlayout apply"):
            assert spans[name].parent == job.get_span_context()
            assert spans[name].instrumentation_scope.name == "zlayout"
        data = reader.get_metrics_data()
        assert data is not None
        found = {metric.name for r in data.resource_metrics for scope in r.scope_metrics for metric in scope.metrics}
        assert {"zlayout.tables", "zlayout.table.commits"} <= found
        assert collector.requests == []

    @pytest.mark.usefixtures("root")
    def test_zlayout_sends_the_signal_that_the_application_does_not(
        self, collector: Collector, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with configured(monkeypatch, None) as exporter:
            zlayout.drift(zlayout.load_project())
            assert "zlayout drift" in {span.name for span in exporter.get_finished_spans()}
        assert collector.paths() == {"/v1/metrics"}

    @pytest.mark.usefixtures("root")
    @pytest.mark.parametrize("at_once", [True, False])
    def test_a_processor_that_fails_does_not_change_the_result(
        self, at_once: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        class Broken(SimpleSpanProcessor):
            def on_start(self, span: Span, parent_context: Context | None = None) -> None:  # noqa: ARG002
                if at_once or span.parent is not None:
                    raise ZeroDivisionError

        with configured(monkeypatch, None, Broken):
            assert zlayout.plan(zlayout.load_project()).has_changes


@contextmanager
def configured(
    monkeypatch: pytest.MonkeyPatch,
    reader: InMemoryMetricReader | None,
    processor: type[SimpleSpanProcessor] = SimpleSpanProcessor,
) -> Iterator[InMemorySpanExporter]:
    """Global providers, as `set_tracer_provider` sets them, which a process can do only once."""
    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(processor(exporter))
    with monkeypatch.context() as patch:
        patch.setattr(trace, "_TRACER_PROVIDER", provider)
        if reader is not None:
            meters = MeterProvider([reader], shutdown_on_exit=False)
            patch.setattr(metrics._internal, "_METER_PROVIDER", meters)
        yield exporter
