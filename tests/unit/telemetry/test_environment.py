"""What the standard environment variables ask for."""

import pytest

from zlayout.telemetry.environment import Signal, requested

BOTH = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}
TRACES, METRICS = Signal.TRACES, Signal.METRICS


@pytest.mark.parametrize(
    ("environ", "signals"),
    [
        ({}, set()),
        (BOTH, {TRACES, METRICS}),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": " "}, set()),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c/t"}, {TRACES}),
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://c/m"}, {METRICS}),
        (BOTH | {"OTEL_SDK_DISABLED": "True"}, set()),
        (BOTH | {"OTEL_SDK_DISABLED": "false"}, {TRACES, METRICS}),
        (BOTH | {"OTEL_TRACES_EXPORTER": "none"}, {METRICS}),
        (BOTH | {"OTEL_METRICS_EXPORTER": "console, otlp"}, {TRACES, METRICS}),
        (BOTH | {"OTEL_METRICS_EXPORTER": "prometheus"}, {TRACES}),
        (BOTH | {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, {TRACES, METRICS}),
    ],
)
def test_a_signal_is_sent_if_it_has_an_endpoint_and_is_not_turned_off(
    environ: dict[str, str], signals: set[Signal]
) -> None:
    assert requested(environ) == (signals, ())


@pytest.mark.parametrize(
    ("environ", "signals", "named"),
    [
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, set(), "traces and metrics"),
        ({"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/json"}, {METRICS}, "traces"),
        (
            {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf"},
            {TRACES},
            "metrics",
        ),
    ],
)
def test_another_protocol_is_a_warning(environ: dict[str, str], signals: set[Signal], named: str) -> None:
    found, (problem,) = requested(BOTH | environ)
    assert found == signals
    assert (problem.code, problem.severity) == ("ZL452", "warning")
    assert problem.message == f"{named} were not sent to OpenTelemetry: zlayout sends by http/protobuf only"
