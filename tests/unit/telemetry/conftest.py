"""Projects, commands, and a collector that the environment names."""

import os
from collections.abc import Iterator

import pytest
from support.collector import Collector, running
from support.projects import cli, memory, root

__all__ = ["cli", "collector", "memory", "no_variables", "root"]


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith("OTEL_") or name in ("TRACEPARENT", "TRACESTATE"):
            monkeypatch.delenv(name)


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with running() as server:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.url)
        yield server
