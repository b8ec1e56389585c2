"""The commands that change a table after a question, except apply: their text and JSON, before and after."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from zlayout.cli.console import Console
from zlayout.cli.terminal import Terminal, heading
from zlayout.errors import NotApproved, SpecError
from zlayout.formats.trial import Trial
from zlayout.formats.undo import Undo, total
from zlayout.planner.model import QueryCost
from zlayout.report import text
from zlayout.report.words import aligned, number, printable, version_word
from zlayout.session.session import RolledBack
from zlayout.session.trial import PlannedTrial, TrialReport
from zlayout.spark.session import check_engine
from zlayout.text import plural, size


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

    @staticmethod
    def document(planned: Any, done: Any) -> Mapping[str, Any]:
        """Return the JSON document, whose keys docs/reports.md lists. done: None for a dry run."""
        raise NotImplementedError

    def show(self, planned: Any, done: Any = None) -> None:
        self.console.text(self.text(planned, done))
        if done is not None:
            self.console.document(self.document(planned, done))

    def check(self) -> None:
        """Check that Java and pyspark exist. Raises EngineError ZL301 to ZL303."""
        check_engine()

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
            self.check()
            if self.console.ask(f"\n{question} Only 'yes' is accepted: ") != "yes":
                self.console.say("Not approved: nothing was written.")
                raise NotApproved(1)


# The command `rollback`.


MAX_LISTED_FILES = 10


class RollbackTerminal(Asking):
    command = "rollback"

    def text(self, planned: Undo, done: RolledBack | None) -> str:
        if done is None:
            return "\n".join(_undo_lines(planned, verbose=self.console.verbose)) + "\n"
        return (
            f"\nRolled back in {version_word(planned.format)} {done.commit.version}: "
            f"{plural(done.commit.files_removed, 'file')} removed, {plural(done.commit.files_added, 'file')} returned. "
            "zlayout plan shows what the layout needs now.\n"
        )

    @staticmethod
    def document(planned: Undo, done: RolledBack | None) -> dict[str, Any]:
        return {
            "table": str(planned.table),
            "format": planned.format,
            "outcome": "rolled_back" if done else "dry_run",
            "undoes": planned.run_id,
            "commits": list(planned.commits),
            "version": planned.version,
            "rows": planned.rows,
            "removed": _listed(planned.removed),
            "returned": _listed(planned.returned),
            "kept": list(planned.kept),
            "run_id": done.run_id if done else None,
            "committed_version": done.commit.version if done else None,
        }


def _listed(files: pa.Table) -> dict[str, Any]:
    return {"files": len(files), "bytes": total(files, "bytes"), "paths": files["path"].to_pylist()}


def _undo_lines(undo: Undo, *, verbose: bool) -> Iterator[str]:
    word = version_word(undo.format)
    yield f"{printable(str(undo.table))} ({undo.format}, {word} {undo.version})"
    yield f"  undoes   run {printable(undo.run_id)}"
    yield f"  commits  {word} {', '.join(map(str, undo.commits))}"
    yield f"  removes  {plural(len(undo.removed), 'file')} of the run, {size(total(undo.removed, 'bytes'))}"
    yield from _file_lines(undo.removed, verbose)
    yield f"  returns  {plural(len(undo.returned), 'file')}, {size(total(undo.returned, 'bytes'))}"
    yield from _file_lines(undo.returned, verbose)
    yield f"  rows     {number(undo.rows)} in both; table properties that the run has set are kept"
    if undo.kept:
        yield f"  keeps    {plural(len(undo.kept), 'later commit')} of other writers"


def _file_lines(files: pa.Table, verbose: bool) -> Iterator[str]:
    paths = files["path"].to_pylist()
    listed = paths if verbose else paths[:MAX_LISTED_FILES]
    yield from (f"             {printable(path)}" for path in listed)
    if len(listed) < len(paths):
        yield f"             and {len(paths) - len(listed):,} more; -v lists them all"


# The commands `publish` and `drop-trial`.


UNMEASURED = "not measured for this snapshot of the branch; zlayout trial measures it"


class PublishTerminal(Asking):
    command = "publish"

    def text(self, planned: Trial, done: str | None) -> str:
        main, branch = printable(str(planned.table.on(""))), planned.table.branch
        if done == "nothing_to_do":
            return f"{main}: main has every snapshot of branch {branch}; nothing to publish\n"
        if done is None:
            moves = f"main from snapshot {planned.main} to {planned.version}, that of branch {branch}"
            lines = [*_trial_lines(main, f"moves    {moves}", planned), f"  reads    {planned.reads or UNMEASURED}"]
            return "".join(f"{line}\n" for line in lines)
        return (
            f"\nPublished: main is at snapshot {planned.version}. To undo: zlayout rollback {main}. "
            f"The branch is kept; to remove it: zlayout drop-trial {main} --branch {branch}\n"
        )

    @staticmethod
    def document(planned: Trial, done: str | None) -> dict[str, Any]:
        return _trial_document(planned, done, main_version=planned.main, branch_version=planned.version)


class DropTerminal(Asking):
    command = "drop-trial"

    def text(self, planned: Trial, done: str | None) -> str:
        what = printable(f"branch {planned.table.branch}")
        if done is None:
            name = printable(str(planned.table.on("")))
            return "".join(f"{line}\n" for line in _trial_lines(name, f"removes  {what}", planned))
        return f"\nRemoved {what}. The table itself is unchanged.\n"

    @staticmethod
    def document(planned: Trial, done: str | None) -> dict[str, Any]:
        return _trial_document(planned, done)


def _trial_document(trial: Trial, outcome: str | None, **versions: int) -> dict[str, Any]:
    return {
        "table": str(trial.table.on("")),
        "format": trial.format,
        "outcome": outcome or "dry_run",
        "branch": trial.table.branch,
        **versions,
        "commits": [{"version": made.version, "run_id": made.run_id} for made in trial.commits],
    }


def _trial_lines(name: str, what: str, trial: Trial) -> Iterator[str]:
    word = version_word(trial.format)
    runs = dict.fromkeys(made.run_id for made in trial.commits)
    yield f"{name} ({trial.format})"
    yield f"  {what}"
    yield f"  commits  {plural(len(trial.commits), word)} of zlayout: {', '.join(map(printable, runs)) or 'none'}"


# The command `trial`, which also compares the queries on the branch with those on the table.


MAX_LISTED_QUERIES = 10
MAX_NAME_WIDTH = 40


class TrialTerminal(Asking):
    command = "trial"

    def text(self, planned: PlannedTrial, done: TrialReport | None) -> str:
        if done is not None:
            return "\n" + "".join(f"{line}\n" for line in _comparison(done, verbose=self.console.verbose))
        title = heading(planned.plan, "trial")
        plan = text.render(planned.plan.document, self.console.text_options(), heading=title)
        return plan + "".join(f"{line}\n" for line in _intention(planned))

    @staticmethod
    def document(planned: PlannedTrial, done: TrialReport | None) -> dict[str, Any]:
        trial = done.trial if done else planned.trial
        predictions = [
            {"location": one.query.location, "weight": one.query.weight, "main": None, "trial": None}
            | {"predicted": asdict(one.predicted) if one.predicted else None, "inverted": one.inverted}
            for one in planned.queries
        ]
        return {
            "table": str(planned.name.on("")),
            "format": planned.state.format,
            "outcome": "measured" if done else "dry_run",
            "main_version": planned.state.version,
            "branch": planned.name.branch,
            "trial_version": trial.version if trial else None,
            "created": planned.trial is None,
            "run_id": done.result.run_id if done and done.result else None,
            "queries": [asdict(query) for query in done.queries] if done else predictions,
            "queries_left_out": len(planned.expected.queries) - len(planned.queries),
            "mean": {
                "main": asdict(done.main) if done else None,
                "trial": asdict(done.measured) if done else None,
                "predicted": asdict(done.predicted) if done and done.predicted else None,
            },
            "verdict": done.reads.verdict if done and done.reads else None,
            "diagnostics": [
                {"code": d.code, "severity": d.severity, "message": d.message, "hint": d.hint}
                for d in (done.diagnostics if done else ())
            ],
        }

    def show(self, planned: PlannedTrial, done: TrialReport | None = None) -> None:
        super().show(planned, done)
        for diagnostic in done.diagnostics if done else ():
            self.console.diagnose(diagnostic)


def _intention(planned: PlannedTrial) -> Iterator[str]:
    branch, table = printable(planned.name.branch), printable(str(planned.name.on("")))
    if planned.trial is None:
        word = version_word(planned.state.format)
        yield f"Trial: makes branch {branch} of {table} at {word} {planned.state.version}."
    else:
        yield f"Trial: uses branch {branch} of {table}."
    yield f"Then replays {plural(len(planned.queries), 'query')} on it and on the table, which is not changed."


def _comparison(report: TrialReport, *, verbose: bool) -> Iterator[str]:
    word, made = version_word(report.trial.format), "made" if report.created else "used"
    yield f"{printable(report.table)}, {word} {report.main_version}"
    yield f"{printable(str(report.trial.table))}, {word} {report.trial.version} ({made})"
    yield ""
    shown = report.queries if verbose else report.queries[:MAX_LISTED_QUERIES]
    rows = [("query", "files: table", "trial", "predicted", "bytes: table", "trial", "predicted")]
    for query in shown:
        main, trial = (QueryCost(side.files, side.bytes) for side in (query.main, query.trial))
        rows.append(_row(_name(query.location) + ("*" if query.inverted else ""), main, trial, query.predicted))
    rows.append(_row("mean, by weight", report.main, report.measured, report.predicted))
    yield from aligned(rows, range(1, 7))
    if len(shown) < len(report.queries):
        yield f"  and {plural(len(report.queries) - len(shown), 'query')} more; -v lists them all"
    if report.left_out:
        yield f"  not replayed: {plural(report.left_out, 'query')}, which open fewer bytes"
    if any(query.inverted for query in shown):
        yield "  * a condition on a function was replayed as one on its column, by which Spark may skip more files"
    yield ""
    yield "Files and bytes of the table and of the trial are those that Spark reports for its scans."
    yield ""
    yield from _verdict(report)


def _verdict(report: TrialReport) -> Iterator[str]:
    table, branch, reads = printable(report.table), report.trial.table.branch, report.reads
    publish = f"zlayout publish {table} --branch {branch}"
    if reads is None:
        yield "Verdict: none, because the trial and the table have different rows."
    elif reads.verdict != "better":
        yield f"Verdict: {reads}: do not publish it."
    else:
        yield f"Verdict: {reads}."
        yield f"To publish it: {publish}"
    yield f"To remove it: zlayout drop-trial {table} --branch {branch}"


def _row(
    name: str, main: QueryCost, trial: QueryCost, predicted: QueryCost | None
) -> tuple[str, str, str, str, str, str, str]:
    files = "-" if predicted is None else _files(predicted.files)
    read = "-" if predicted is None else size(predicted.bytes)
    return name, _files(main.files), _files(trial.files), files, size(main.bytes), size(trial.bytes), read


def _files(count: float) -> str:
    return f"{count:,.1f}" if count != int(count) else number(int(count))


def _name(location: str) -> str:
    name = printable(location.rpartition("/")[2])
    return name if len(name) <= MAX_NAME_WIDTH else "..." + name[3 - MAX_NAME_WIDTH :]
