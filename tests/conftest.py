"""Generated examples are new on each run here, and the same on each run in CI, where a failure must be repeatable."""

import os

import pytest
from hypothesis import settings
from reliability import summary

settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if (counts := summary()) is not None:
        terminalreporter.write_line(f"reliability so far: {counts}")
