"""What a session asks its ui, and in which order, on a table in memory."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.projects import Scripted

from zlayout.errors import Diagnostic, NotApproved
from zlayout.session.results import ApplyEvent
from zlayout.session.session import Interrupts, PlanRequest, Run, Session, Ui
from zlayout.spark.session import SparkRuntime


class Recording(Ui):
    """Records the names of the calls. answer: the exit code with which it does not approve."""

    owns_process = True

    def __init__(self, answer: int | None = None) -> None:
        super().__init__()
        self.answer = answer
        self.calls: list[str] = []
        self.shown: list[Any] = []

    def approve(self, question: str, planned: Any) -> None:  # noqa: ARG002 - the same for all questions
        self.calls.append("approve")
        if self.answer is not None:
            raise NotApproved(self.answer)

    @contextmanager
    def reading(self) -> Iterator[None]:
        self.calls.append("reading")
        yield
        self.calls.append("read")

    @contextmanager
    def working(self, runtime: SparkRuntime) -> Iterator[None]:  # noqa: ARG002 - nothing is asked of it
        self.calls.append("working")
        yield
        self.calls.append("worked")

    def event(self, event: ApplyEvent) -> None:
        self.calls.append(type(event).__name__)

    def show(self, planned: Any, done: Any = None) -> None:
        self.calls.append("show planned" if done is None else "show done")
        self.shown.append(planned if done is None else done)

    def diagnose(self, diagnostic: Diagnostic) -> None:
        self.calls.append(diagnostic.code)

    def interrupted(self, interrupts: Interrupts, done: Any = None) -> None:  # noqa: ARG002 - the same for all signals
        self.calls.append("stopping" if done is None else "stopped")


def test_apply_reads_asks_works_and_shows_what_was_done(memory: Scripted) -> None:
    ui = Recording()
    run = Session(Path(), ui).apply(PlanRequest())
    assert ui.calls[:5] == ["reading", "read", "show planned", "approve", "working"]
    events = ui.calls[5:-2]
    assert [name for name in events if name != "Progress"] == ["TableStarted", "TableEvent", "TableFinished"]
    assert ui.calls[-2:] == ["worked", "show done"]
    assert ui.shown[-1] is run
    assert (run.exit_code, run.signal, len(run.done or ())) == (0, 0, 1)
    assert len(memory._catalog._tables["db.orders"].log) > 2


def test_without_approval_nothing_is_written_and_the_reports_are_shown(memory: Scripted) -> None:
    ui, before = Recording(answer=1), memory._catalog._tables["db.orders"].log[-1]
    with pytest.raises(NotApproved):
        Session(Path(), ui).apply(PlanRequest())
    assert ui.calls == ["reading", "read", "show planned", "approve", "show done"]
    (run,) = (shown for shown in ui.shown if isinstance(shown, Run))
    assert (run.exit_code, run.done) == (1, None)
    assert memory._catalog._tables["db.orders"].log[-1] is before


@pytest.mark.usefixtures("memory")
def test_nothing_to_apply_is_not_asked_for() -> None:
    Session(Path(), Ui()).apply(PlanRequest())
    ui = Recording()
    assert Session(Path(), ui).apply(PlanRequest()).done is None
    assert ui.calls == ["reading", "read", "show planned", "show done"]


@pytest.mark.usefixtures("memory")
def test_a_history_that_cannot_be_written_is_diagnosed_before_the_result() -> None:
    project = Path("zlayout.yaml")
    project.write_text(project.read_text() + "history: {path: history.db}\n")
    Path("history.db").write_text("no database")
    ui = Recording()
    Session(Path(), ui).drift(PlanRequest())
    assert ui.calls == ["reading", "read", "ZL450", "show done"]


def test_a_signal_is_reported_when_it_comes_and_at_the_end(memory: Scripted) -> None:
    memory.meanwhile = lambda: os.kill(os.getpid(), signal.SIGINT)  # type: ignore[method-assign]
    ui = Recording()
    run = Session(Path(), ui).apply(PlanRequest())
    assert (run.exit_code, run.signal) == (130, signal.SIGINT)
    assert ui.calls.index("stopping") < ui.calls.index("stopped") < ui.calls.index("show done")
