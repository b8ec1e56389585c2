"""What the commands `trial`, `publish` and `drop-trial` print."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from zlayout.cli.plan import heading
from zlayout.cli.terminal import Asking
from zlayout.formats.trial import Trial
from zlayout.message_text import plural
from zlayout.planner.model import QueryCost
from zlayout.report import text
from zlayout.report.words import number, printable, size, version_word
from zlayout.session.trial import PlannedTrial, TrialReport

# The commands `publish` and `drop-trial`.


class PublishTerminal(Asking):
    command = "publish"

    def text(self, planned: Trial, done: str | None) -> str:
        main, branch = printable(str(planned.table.on(""))), planned.table.branch
        if done == "nothing_to_do":
            return f"{main}: main has every snapshot of branch {branch}; nothing to publish\n"
        if done is None:
            moves = f"main from snapshot {planned.main} to {planned.version}, that of branch {branch}"
            return "".join(f"{line}\n" for line in _shown(main, f"moves    {moves}", planned))
        return (
            f"\nPublished: main is at snapshot {planned.version}. To undo: zlayout rollback {main}. "
            f"The branch is kept; to remove it: zlayout drop-trial {main} --branch {branch}\n"
        )

    def document(self, planned: Trial, done: str | None) -> dict[str, Any]:
        return publish_document(planned, done or "dry_run")


def publish_document(trial: Trial, outcome: str) -> dict[str, Any]:
    """Return the JSON document of `publish`. outcome: `published`, `dry_run` or `nothing_to_do`."""
    return {
        "table": str(trial.table.on("")),
        "format": trial.format,
        "outcome": outcome,
        "branch": trial.table.branch,
        "main_version": trial.main,
        "branch_version": trial.version,
        "commits": _commits(trial),
    }


class DropTerminal(Asking):
    command = "drop-trial"

    def text(self, planned: Trial, done: str | None) -> str:
        what = printable(f"branch {planned.table.branch}")
        if done is None:
            name = printable(str(planned.table.on("")))
            return "".join(f"{line}\n" for line in _shown(name, f"removes  {what}", planned))
        return f"\nRemoved {what}. The table itself is unchanged.\n"

    def document(self, planned: Trial, done: str | None) -> dict[str, Any]:
        return drop_document(planned, done or "dry_run")


def drop_document(trial: Trial, outcome: str) -> dict[str, Any]:
    """Return the JSON document of `drop-trial`. outcome: `dropped` or `dry_run`."""
    return {
        "table": str(trial.table.on("")),
        "format": trial.format,
        "outcome": outcome,
        "branch": trial.table.branch,
        "commits": _commits(trial),
    }


def _commits(trial: Trial) -> list[dict[str, Any]]:
    return [{"version": made.version, "run_id": made.run_id} for made in trial.commits]


def _shown(name: str, what: str, trial: Trial) -> Iterator[str]:
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
            return "\n" + "".join(f"{line}\n" for line in lines(done, verbose=self.console.verbose))
        title = heading(planned.plan, "trial")
        plan = text.render(planned.plan.document, self.console.text_options(), heading=title)
        return plan + "".join(f"{line}\n" for line in _intention(planned))

    def document(self, planned: PlannedTrial, done: TrialReport | None) -> dict[str, Any]:
        return as_document(planned, done)

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


def lines(report: TrialReport, *, verbose: bool) -> Iterator[str]:
    """Yield lines of text that compare what the queries opened of the table and of the trial."""
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
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        name, *values = row
        cells = (name.ljust(widths[0]), *(value.rjust(w) for value, w in zip(values, widths[1:], strict=True)))
        yield "  " + "  ".join(cells)
    if len(shown) < len(report.queries):
        yield f"  and {plural(len(report.queries) - len(shown), 'query')} more; -v lists them all"
    if report.left_out:
        yield f"  not replayed: {plural(report.left_out, 'query')}, which open fewer bytes"
    if any(query.inverted for query in shown):
        yield "  * a condition on a function was replayed as one on its column, by which Spark may skip more files"
    yield ""
    yield "Files and bytes of the table and of the trial are those that Spark reports for its scans."
    yield from _next(report)


def _next(report: TrialReport) -> Iterator[str]:
    table, branch = printable(report.table), report.trial.table.branch
    yield f"To publish it: zlayout publish {table} --branch {branch}"
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
    """Return the end of `folder/file:line`, which is the part that differs."""
    name = printable(location.rpartition("/")[2])
    return name if len(name) <= MAX_NAME_WIDTH else "..." + name[3 - MAX_NAME_WIDTH :]


def as_document(planned: PlannedTrial, report: TrialReport | None) -> dict[str, Any]:
    """Return the JSON document of `trial`, without values of rows. report: None in a dry run."""
    trial = report.trial if report else planned.trial
    predictions = [
        {"location": one.query.location, "weight": one.query.weight, "main": None, "trial": None}
        | {"predicted": asdict(one.predicted) if one.predicted else None, "inverted": one.inverted}
        for one in planned.queries
    ]
    return {
        "table": str(planned.name.on("")),
        "format": planned.state.format,
        "outcome": "measured" if report else "dry_run",
        "main_version": planned.state.version,
        "branch": planned.name.branch,
        "trial_version": trial.version if trial else None,
        "created": planned.trial is None,
        "run_id": report.result.run_id if report and report.result else None,
        "queries": [asdict(query) for query in report.queries] if report else predictions,
        "queries_left_out": len(planned.expected.queries) - len(planned.queries),
        "mean": {
            "main": asdict(report.main) if report else None,
            "trial": asdict(report.measured) if report else None,
            "predicted": asdict(report.predicted) if report and report.predicted else None,
        },
        "diagnostics": [
            {"code": d.code, "severity": d.severity, "message": d.message, "hint": d.hint}
            for d in (report.diagnostics if report else ())
        ],
    }
