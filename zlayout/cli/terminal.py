"""The ui of the command line: it prints what a session does, and asks for approval."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from zlayout.cli.console import Console, ReadingShown
from zlayout.errors import Diagnostic
from zlayout.formats.base import Event, GroupFailed, Notice, Progress, Stage
from zlayout.process import signal_of
from zlayout.report.words import printable
from zlayout.session.results import ApplyEvent, TableEvent
from zlayout.session.session import Ui
from zlayout.spark.session import SparkRuntime
from zlayout.text import plural, size

_STAGES = {
    Stage.STARTING_SPARK: "starting Spark",
    Stage.STARTING: "starting",
    Stage.CHANGING_SETTINGS: "changing settings",
    Stage.REWRITING: "rewriting",
    Stage.COMMITTING: "committing",
    Stage.REBASING: "rebasing",
    Stage.RECORDING: "recording the layout",
    Stage.OBSERVING: "reading the table again",
    Stage.REPLAYING: "replaying queries",
}


def stage_text(progress: Progress) -> str:
    """Return the stage in words, with its detail."""
    return f"{_STAGES[progress.stage]} {progress.detail}".rstrip()


def starting_text(what: str) -> str:
    """Return what is waited for while Spark starts, as a stage."""
    return printable(f"{_STAGES[Stage.STARTING_SPARK]}: {what}")


def describe(event: Event) -> str:
    """Write an event as a line of text."""
    if isinstance(event, Notice):
        return printable(f"{event.diagnostic.severity}: {event.diagnostic}")
    if isinstance(event, GroupFailed):
        return f"{plural(len(event.groups), 'group')} dropped: {printable(str(event.error))}"
    if event.kind in ("rewrite", "rollback"):
        rebased = f", {plural(event.rebased, 'row')} rebased" if event.rebased else ""
        files = f"{event.files_removed:,} -> {event.files_added:,} files"
        return f"commit {event.version}: {files}, {size(event.bytes_added)}{rebased}"
    what = "settings changed" if event.kind == "settings" else "layout recorded"
    return f"commit {event.version}: {what}"


class Terminal(Ui):
    """Prints events as lines on stderr. A command that starts Spark names its log after an error."""

    owns_process = True

    def __init__(self, console: Console) -> None:
        super().__init__()
        self.console = console

    def reading(self) -> ReadingShown:
        return ReadingShown(self.console)

    def working(self, runtime: SparkRuntime) -> AbstractContextManager[object]:
        runtime.waiting = lambda what: self.console.say(starting_text(what))
        return self._naming_log(runtime)

    def event(self, event: ApplyEvent) -> None:
        if isinstance(event, Progress):
            self.console.say(f"{stage_text(event)}: {event.table}")
        elif isinstance(event, TableEvent):
            self.console.say(describe(event.event))

    def diagnose(self, diagnostic: Diagnostic) -> None:
        self.console.diagnose(diagnostic)

    def name_log(self, log: Path | None) -> None:
        """Write the path of Spark's log, if it is kept."""
        if log is not None:
            self.console.say(f"Spark's log: {log}")

    @contextmanager
    def _naming_log(self, runtime: SparkRuntime) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            if signal_of(error) is not None:
                runtime.discard_log()
            self.name_log(runtime.log_path)
            raise
