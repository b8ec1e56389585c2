"""Generated examples are new on each run here, and the same on each run in CI, where a failure must be repeatable."""

import os

import pytest
from hypothesis import settings
from reliability import summary

# No deadline: how long an example takes says more of what else the machine does than of the code.
settings.register_profile("ci", derandomize=True, deadline=None)
settings.register_profile("here", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "here")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if (counts := summary()) is not None:
        terminalreporter.write_line(f"reliability so far: {counts}")
