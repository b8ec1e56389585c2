"""The commands `publish` and `drop-trial`: show what will be done, ask for approval, and commit it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from zlayout.app.project import load_project
from zlayout.app.publish import commit_drop, commit_publish, plan_drop_trial, plan_publish
from zlayout.cli.console import Approval, Console, spark_of
from zlayout.formats.trial import Trial
from zlayout.message_text import plural
from zlayout.report.words import printable, version_word


def publish_command(
    project: Path, table: str, branch: str, console: Console, approval: Approval, timeout: float
) -> int:
    """Set `main` to a branch, after approval. Raises the errors of `zlayout.publish`.

    Returns:
        The exit code: 1 if the command was not approved, else 0.
    """
    approval.require_possible("publish")
    loaded = load_project(project)
    trial = plan_publish(loaded, table, branch, timeout=timeout)
    main = printable(str(trial.table.on("")))
    if trial.published:
        console.text(f"{main}: main has every snapshot of branch {trial.table.branch}; nothing to publish\n")
        console.document(publish_document(trial, "nothing_to_do"))
        return 0
    moves = f"main from snapshot {trial.main} to {trial.version}, that of branch {trial.table.branch}"
    console.text("".join(f"{line}\n" for line in _shown(main, f"moves    {moves}", trial)))
    if (code := approval.declined("Publish this branch?", lambda: publish_document(trial, "dry_run"))) is not None:
        return code
    with spark_of(loaded, console, brief=True) as runtime:
        console.say(f"starting Spark: {main}")
        commit_publish(loaded, trial, runtime)
    console.text(
        f"\nPublished: main is at snapshot {trial.version}. To undo: zlayout rollback {main}. "
        f"The branch is kept; to remove it: zlayout drop-trial {main} --branch {trial.table.branch}\n"
    )
    console.document(publish_document(trial, "published"))
    return 0


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


def drop_trial_command(
    project: Path, table: str, branch: str | None, console: Console, approval: Approval, timeout: float
) -> int:
    """Remove the branch of a trial, after approval. Raises the errors of `zlayout.drop_trial`.

    Returns:
        The exit code: 1 if the command was not approved, else 0.
    """
    approval.require_possible("drop-trial")
    loaded = load_project(project)
    trial = plan_drop_trial(loaded, table, branch=branch, timeout=timeout)
    what = f"branch {trial.table.branch}"
    name = printable(str(trial.table.on("")))
    console.text("".join(f"{line}\n" for line in _shown(name, f"removes  {printable(what)}", trial)))
    if (code := approval.declined("Remove this trial?", lambda: drop_document(trial, "dry_run"))) is not None:
        return code
    with spark_of(loaded, console, brief=True) as runtime:
        console.say(f"starting Spark: {name}")
        commit_drop(loaded, trial, runtime)
    console.text(f"\nRemoved {printable(what)}. The table itself is unchanged.\n")
    console.document(drop_document(trial, "dropped"))
    return 0


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
