"""Writes the reports of `--report FORMAT=PATH`, and the step summary and the outputs for GitHub Actions."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from zlayout.cli.console import Console
from zlayout.errors import SpecError
from zlayout.planner.model import NOT_REVIEWED, Plan, Status
from zlayout.planner.run_report import RunReport
from zlayout.report import markdown
from zlayout.report.formats import REPORTERS, check_available, seen_from, without_values
from zlayout.session.files import append, hint_for, write_result

STDOUT = "-"
# The formats that GitHub reads. It identifies files by their path in the repository.
FORMATS_WITH_REPOSITORY_PATHS = ("github", "sarif", "markdown")
# GitHub ignores a step summary of more than 1 MiB.
MAX_SUMMARY_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class Reports:
    """The reports that the user requested.

    Attributes:
        wanted: (format, path) of each report; path `-` is stdout.
        show_values: Whether reports contain the names of partitions.
    """

    wanted: tuple[tuple[str, str], ...] = ()
    show_values: bool = False

    @property
    def take_stdout(self) -> bool:
        """Whether a report goes to stdout, so that nothing else may be written there."""
        return any(path == STDOUT for _, path in self.wanted)

    @property
    def need_pictures(self) -> bool:
        """Whether a report contains pictures."""
        return any(name == "html" for name, _ in self.wanted)

    def finish(self, report: Plan | RunReport, console: Console, exit_code: int) -> None:
        """Write all reports, and in GitHub Actions the step summary and the outputs. Raises SpecError ZL061, ZL086.

        exit_code: the exit code of the command, which is an output.
        """
        self.write(report, console)
        if os.environ.keys() & {"GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT"}:
            report_to_github(seen_from(self._shown(report), _below_checkout(os.environ)), exit_code, os.environ)

    def write(self, report: Plan | RunReport, console: Console) -> None:
        """Write all reports. Raises SpecError ZL061 and ZL086."""
        if not self.wanted:
            return
        shown = self._shown(report)
        for name, path in self.wanted:
            text = REPORTERS[name](
                seen_from(shown, _below_checkout(os.environ)) if name in FORMATS_WITH_REPOSITORY_PATHS else shown
            )
            if path == STDOUT:
                console.result(text)
                continue
            write_result(Path(path), text, "ZL061", f"the report {path}")
            console.say(f"{name} report written to {path}")

    def _shown(self, report: Plan | RunReport) -> RunReport:
        return RunReport.of(report) if self.show_values else without_values(report)


def _below_checkout(environ: Mapping[str, str]) -> str:
    workspace = environ.get("GITHUB_WORKSPACE")
    if not workspace:
        return ""
    relative = os.path.relpath(os.getcwd(), workspace)
    return "" if relative.startswith("..") else Path(relative).as_posix()


def parse_reports(options: Sequence[str], show_values: bool) -> Reports:
    """Parse the values of `--report`. Raises SpecError ZL060 to ZL062, before any table is read."""
    wanted = []
    for option in options:
        name, sign, path = option.partition("=")
        if not sign or not path or name not in REPORTERS:
            raise SpecError.of(
                "ZL060",
                f"expected FORMAT=PATH for --report, found {option}",
                hint=f"use one of {', '.join(REPORTERS)} as FORMAT, and a file or - (stdout) as PATH",
            )
        check_available(name)
        folder = Path(path).parent
        if path != STDOUT and not folder.is_dir():
            raise SpecError.of(
                "ZL061", f"cannot write the report {path}: no folder {folder}", hint="create the folder first"
            )
        wanted.append((name, path))
    return Reports(tuple(wanted), show_values)


def report_to_github(report: RunReport, exit_code: int, environ: Mapping[str, str]) -> None:
    """Append to the files that GITHUB_STEP_SUMMARY and GITHUB_OUTPUT name, if set. Raises SpecError ZL061, ZL086."""
    if path := environ.get("GITHUB_STEP_SUMMARY"):
        _append(path, markdown.render(report, MAX_SUMMARY_BYTES, None))
    if path := environ.get("GITHUB_OUTPUT"):
        changed = len(report.plan.with_status(Status.CHANGES))
        unseen = sum(any(d.code == NOT_REVIEWED for d in table.diagnostics) for table in report.plan.tables)
        has_changes = str(report.plan.has_changes).lower()
        not_reviewed = f"tables_not_reviewed={unseen}\n" if unseen else ""
        _append(path, f"has_changes={has_changes}\nexit_code={exit_code}\ntables_changed={changed}\n{not_reviewed}")


def _append(path: str, text: str) -> None:
    try:
        append(Path(path), text)
    except OSError as error:
        reason, hint = error.strerror or str(error), hint_for(error, "check the folder and its permissions")
        raise SpecError.of("ZL061", f"cannot write the report {path}: {reason}", hint=hint) from error
