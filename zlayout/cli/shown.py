"""Print the plan and the results of apply on stdout: as text, or as JSON events."""

from __future__ import annotations

from collections.abc import Sequence

from zlayout.cli.console import Console
from zlayout.cli.events import Events
from zlayout.cli.reports import Reports
from zlayout.cli.views import Bars, Lines, View
from zlayout.errors import Diagnostic, SpecError
from zlayout.planner.run_report import RunReport
from zlayout.report import text


class TextShown:
    """Prints text, unless a report goes to stdout."""

    def __init__(self, console: Console, reports: Reports) -> None:
        self.console = console
        self._reports = reports

    def plan(self, report: RunReport, heading: str) -> None:
        """Print the plan, before apply asks for approval."""
        if not self._reports.take_stdout:
            self.console.result(text.render(report, self.console.text_options(), heading=heading))

    def view(self) -> View:
        """Return the view that shows the progress."""
        return Bars() if self.console.live else Lines(self.console)

    def end(self, report: RunReport, code: int, outcomes: str = "", problems: Sequence[Diagnostic] = ()) -> int:
        """Print the results and below them the problems of the run, write the reports and return the exit code."""
        if not self._reports.take_stdout:
            self.console.result(outcomes)
        self._diagnose(problems)
        self._reports.finish(report, self.console, code)
        return code

    def _diagnose(self, problems: Sequence[Diagnostic]) -> None:
        for diagnostic in problems:
            self.console.diagnose(diagnostic)


class JsonShown(TextShown):
    """Prints events for programs, and nothing else on stdout."""

    def __init__(self, console: Console, reports: Reports) -> None:
        super().__init__(console, reports)
        self._events = Events(console)
        self._planned = False

    def plan(self, report: RunReport, heading: str) -> None:  # noqa: ARG002 - events have no heading
        self._events.planned(report.plan)
        self._planned = True

    def view(self) -> View:
        return self._events

    def end(
        self,
        report: RunReport,
        code: int,
        outcomes: str = "",  # noqa: ARG002 - events contain the results
        problems: Sequence[Diagnostic] = (),
    ) -> int:
        self._diagnose(problems)
        if not self._planned:
            self._events.planned(report.plan)
        try:
            self._reports.finish(report, self.console, code)
        except SpecError:
            self._events.summary(report, SpecError.exit_code)
            raise
        self._events.summary(report, code)
        return code
