"""Read which signals the environment variables of OpenTelemetry request, and warn of those that are not sent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

from zlayout.errors import Diagnostic

# The only OTLP protocol that zlayout supports. It is the default of the OpenTelemetry specification.
PROTOCOL = "http/protobuf"
# The values of OTEL_TRACES_EXPORTER and OTEL_METRICS_EXPORTER that select this protocol.
_EXPORTERS = {"otlp", "otlp_proto_http"}


class Signal(StrEnum):
    """A kind of data that OpenTelemetry sends."""

    TRACES = "traces"
    METRICS = "metrics"


def requested(environ: Mapping[str, str]) -> tuple[frozenset[Signal], tuple[Diagnostic, ...]]:
    """Return the signals to send: those that have an endpoint and are not turned off by a variable.

    Returns:
        The signals, and a warning (ZL452) if the variables select another protocol for some of them.
    """
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return frozenset(), ()
    declared = [signal for signal in Signal if _of(environ, signal, "ENDPOINT") and _is_on(environ, signal)]
    other = [signal for signal in declared if (_of(environ, signal, "PROTOCOL") or PROTOCOL) != PROTOCOL]
    hint = f"set OTEL_EXPORTER_OTLP_PROTOCOL={PROTOCOL} and the endpoint of this protocol"
    problems = (not_sent(other, f"zlayout sends by {PROTOCOL} only", hint),) if other else ()
    return frozenset(declared) - frozenset(other), problems


def not_sent(
    signals: Iterable[Signal], reason: str, hint: str = "check the collector and the OTEL_ variables"
) -> Diagnostic:
    """Return the warning (ZL452) that signals are not sent."""
    names = " and ".join(sorted(signals, reverse=True))
    return Diagnostic("ZL452", f"{names} were not sent to OpenTelemetry: {reason}", "warning", hint)


def not_installed(error: ImportError) -> Diagnostic:
    """Return the note (ZL452) that the packages of the extra `otel` are not installed."""
    return Diagnostic(
        "ZL452",
        f"an endpoint of OpenTelemetry is set, but a package is not installed: {error.name}",
        "note",
        "run pip install 'zlayout[otel]', or set OTEL_SDK_DISABLED=true",
    )


def _of(environ: Mapping[str, str], signal: Signal, name: str) -> str:
    """Return the variable of a signal, or else the one for all signals. An empty variable counts as not set."""
    own = environ.get(f"OTEL_EXPORTER_OTLP_{signal.upper()}_{name}", "").strip()
    return own or environ.get(f"OTEL_EXPORTER_OTLP_{name}", "").strip()


def _is_on(environ: Mapping[str, str], signal: Signal) -> bool:
    exporters = environ.get(f"OTEL_{signal.upper()}_EXPORTER", "").strip()
    return not exporters or not _EXPORTERS.isdisjoint(name.strip() for name in exporters.split(","))
