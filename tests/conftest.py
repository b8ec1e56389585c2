"""Generated examples are new on each run here, and the same on each run in CI, where a failure must be repeatable."""

import gc
import os
from typing import Any

import pytest
from hypothesis import settings
from reliability import count, counted, summary
from support.jre import provide_java

# No deadline: how long an example takes says more of what else the machine does than of the code.
settings.register_profile("ci", derandomize=True, deadline=None)
settings.register_profile("here", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "here")


def pytest_configure() -> None:
    """Tests that start Spark or `java` on their own find the Java of `make setup` on a machine without one."""
    provide_java()


def pytest_collection_finish() -> None:
    """Keep the garbage collector from looking at all modules and tests again and again."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """One of several processes (pytest-xdist) reports to the first what it counted."""
    if (output := getattr(session.config, "workeroutput", None)) is not None:
        output["reliability"] = counted()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    for name, number in getattr(node, "workeroutput", {}).get("reliability", {}).items():
        count(name, number)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if not hasattr(config, "workerinput") and (counts := summary()) is not None:
        terminalreporter.write_line(f"reliability so far: {counts}")
