"""The ui of the command line: it prints what a session does, and asks for approval."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from zlayout.cli.console import Console, ReadingShown
from zlayout.errors import Diagnostic, NotApproved, SpecError
from zlayout.formats.base import Event, GroupFailed, Notice, Progress, Stage
from zlayout.message_text import plural
from zlayout.report.words import printable, size
from zlayout.session.results import ApplyEvent, TableEvent
from zlayout.session.session import Ui
from zlayout.signals import signal_of
from zlayout.spark.session import SparkRuntime, check_engine

_STAGES = {
    Stage.STARTING_SPARK: "starting Spark",
    Stage.STARTING: "starting",
    Stage.CHANGING_SETTINGS: "changing settings",
    Stage.REWRITING: "rewriting",
    Stage.COMMITTING: "committing",
    Stage.RECORDING: "recording the layout",
    Stage.OBSERVING: "reading the table again",
    Stage.REPLAYING: "replaying queries",
}


def stage_text(progress: Progress) -> str:
    """Return the stage in words, with its detail."""
    return f"{_STAGES[progress.stage]} {progress.detail}".rstrip()


def describe(event: Event) -> str:
    """Write an event as a line of text."""
    if isinstance(event, Notice):
        return printable(f"{event.diagnostic.severity}: {event.diagnostic}")
    if isinstance(event, GroupFailed):
        return f"{plural(len(event.groups), 'group')} dropped: {printable(str(event.error))}"
    if event.kind in ("rewrite", "rollback"):
        return (
            f"commit {event.version}: {event.files_removed:,} -> {event.files_added:,} files, {size(event.bytes_added)}"
        )
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


class Asking(Terminal):
    """Shows what a command will do and has done, as text and as JSON, and asks for approval in between.

    command: Its name.
    """

    command: str

    def __init__(self, console: Console, auto_approve: bool, dry_run: bool | None = None) -> None:
        """Check that somebody can approve, before anything is read.

        Args:
            console: Where to write.
            auto_approve: Whether nobody is asked.
            dry_run: Whether nothing is written; None if the command has no such option.

        Raises:
            SpecError: ZL046, there is no terminal on which to ask.
        """
        super().__init__(console)
        self._auto_approve, self._dry_run = auto_approve, dry_run
        if not (auto_approve or dry_run or console.interactive):
            raise SpecError.of(
                "ZL046",
                f"expected a terminal on which {self.command} can ask for approval, found none",
                hint="use --auto-approve" if dry_run is None else "use --auto-approve, or --dry-run",
            )

    def text(self, planned: Any, done: Any) -> str:
        """Return the text for people. done: None before the approval."""
        raise NotImplementedError

    def document(self, planned: Any, done: Any) -> Mapping[str, Any]:
        """Return the JSON document. done: None for a dry run."""
        raise NotImplementedError

    def show(self, planned: Any, done: Any = None) -> None:
        self.console.text(self.text(planned, done))
        if done is not None:
            self.console.document(self.document(planned, done))

    def approve(self, question: str, planned: Any) -> None:
        """Ask for approval, unless an option answers. Before the question, it is checked that Java and pyspark exist.

        Raises:
            NotApproved: Exit code 0 for a dry run, 1 if the answer is not yes.
            EngineError: ZL301 to ZL303, Java or pyspark is missing.
        """
        if self._dry_run:
            self.console.say("Dry run: nothing was written.")
            self.console.document(self.document(planned, None))
            raise NotApproved(0)
        if not self._auto_approve:
            check_engine()
            if self.console.ask(f"\n{question} Only 'yes' is accepted: ") != "yes":
                self.console.say("Not approved: nothing was written.")
                raise NotApproved(1)
