"""Generated examples are new on each run here, and the same on each run in CI, where a failure must be repeatable."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Future
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from reliability import summary

if TYPE_CHECKING:
    from spark.kills.runs import Case, KilledRun

# No deadline: how long an example takes says more of what else the machine does than of the code.
settings.register_profile("ci", derandomize=True, deadline=None)
settings.register_profile("here", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "here")


@pytest.fixture(scope="session", autouse=True)
def killed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[Case, Future[KilledRun]]]:
    """The processes that tests/spark/kills asks for, if it is selected. They run beside the tests before it."""
    tests = [item for item in request.session.items if item.path.name == "test_kills.py"]
    if not tests:
        yield {}
        return
    from spark.kills.runs import killed_runs  # loads engines, which unit tests do without

    cases = [tuple(item.callspec.params[name] for name in ("table", "point", "victim")) for item in tests]
    with killed_runs({case: tmp_path_factory.mktemp("killed") for case in cases}) as runs:
        yield runs


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if (counts := summary()) is not None:
        terminalreporter.write_line(f"reliability so far: {counts}")
