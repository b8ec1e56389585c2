"""What apply prints on stdout: the plan and the outcomes as text, or events as JSON."""

from __future__ import annotations

from typing import Protocol

from zlayout.cli.console import Console
from zlayout.cli.events import Events
from zlayout.cli.reports import Reports
from zlayout.cli.views import Bars, Lines, View
from zlayout.errors import SpecError
from zlayout.planner.run_report import RunReport
from zlayout.report import text


class Shown(Protocol):
    """One apply, from its plan to its end."""

    console: Console

    def plan(self, report: RunReport, heading: str) -> None:
        """What is going to be done, before anybody is asked."""
        ...

    def view(self) -> View:
        """What is told of the work as it goes on."""
        ...

    def end(self, report: RunReport, code: int, outcomes: str = "") -> int:
        """Write the reports and return `code`."""
        ...


class TextShown:
    """For people. A report that goes to stdout takes the place of all other text there."""

    def __init__(self, console: Console, reports: Reports) -> None:
        self.console = console
        self._reports = reports

    def plan(self, report: RunReport, heading: str) -> None:
        if not self._reports.take_stdout:
            self.console.result(text.render(report, self.console.text_options(), heading=heading))

    def view(self) -> View:
        return Bars() if self.console.live else Lines(self.console)

    def end(self, report: RunReport, code: int, outcomes: str = "") -> int:
        if not self._reports.take_stdout:
            self.console.result(outcomes)
        self._reports.finish(report, self.console, code)
        return code


class JsonShown:
    """For programs: events on stdout and nothing else there."""

    def __init__(self, console: Console, reports: Reports) -> None:
        self.console = console
        self._events = Events(console)
        self._reports = reports
        self._told = False

    def plan(self, report: RunReport, heading: str) -> None:  # noqa: ARG002 - events carry no headings
        self._events.planned(report.plan)
        self._told = True

    def view(self) -> View:
        return self._events

    def end(self, report: RunReport, code: int, outcomes: str = "") -> int:  # noqa: ARG002 - told as events
        if not self._told:
            self._events.planned(report.plan)
        try:
            self._reports.finish(report, self.console, code)
        except SpecError:
            self._events.summary(report, 1)  # which the command ends with then
            raise
        self._events.summary(report, code)
        return code
