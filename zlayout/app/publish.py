"""Find trials, publish the branch of a trial, and drop trials.

A caller first reads from metadata what will be done (`plan_publish`, `plan_drop_trial`), and then carries it out
(`publish`, `drop_trial`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zlayout.app.concurrent_reads import TIMEOUT, read_one
from zlayout.app.history import follow_publish
from zlayout.app.interrupts import Interrupts
from zlayout.app.project import known_table
from zlayout.app.rules import table_on
from zlayout.errors import Refused, SpecError
from zlayout.formats.registry import FORMATS
from zlayout.formats.trial import Trial, Trials, require_droppable, require_publishable, require_rows
from zlayout.message_text import quote_value
from zlayout.spark.live import runtime_for
from zlayout.spark.session import SparkRuntime
from zlayout.spec.model import MAIN, Project, TableName

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def trial_name(project: Project, table: str, branch: str | None) -> TableName:
    """Return the name of a trial: the table on its branch.

    Raises:
        SpecError: An argument is invalid, the format has no branches, or `branch` is missing or main.
    """
    name = known_table(project, table)
    trials_of(project, name, SparkRuntime(project))
    if not branch:
        title = FORMATS[project.catalogs[name.catalog].format].traits.title
        message = f"{name}: a trial of a table of {title} is a branch"
        raise SpecError.of("ZL059", message, hint="use --branch NAME")
    found = table_on(name, None, branch)
    if not found.branch:
        raise SpecError.of("ZL059", f"{name}: {MAIN} is not a trial", hint="use the name of another branch")
    return found


def trials_of(project: Project, name: TableName, runtime: SparkRuntime) -> Trials:
    """Return the trials of the catalog of a table. Raises SpecError ZL059 if its format has no branches."""
    catalog = project.catalogs[name.catalog]
    trials = FORMATS[catalog.format].trials(catalog, runtime)
    if trials is None:
        raise SpecError.of(
            "ZL059",
            f"{name.on('')}: a trial is a branch, and tables of {FORMATS[catalog.format].traits.title} have none",
            hint="`zlayout plan --sample` forecasts the result, and `zlayout rollback` undoes an apply",
        )
    return trials


def read_trial(project: Project, name: TableName, timeout: float = TIMEOUT) -> Trial | None:
    """Read a trial without a JVM; None if it does not exist. Raises the errors of `Trials.read`, and ZL105."""
    trials = trials_of(project, name, SparkRuntime(project))
    return read_one(lambda: trials.read(name), name.on(""), timeout)


def plan_publish(project: Project, table: str, branch: str, *, timeout: float = TIMEOUT) -> Trial:
    """Determine what `publish` does. Reads metadata, and starts no JVM.

    Args:
        project: The project with the table's catalog.
        table: `catalog.namespace.table`; it needs no layout spec.
        branch: The name of the branch.
        timeout: The limit on reading the table, in seconds.

    Returns:
        The branch as it was read. `published` is true if main has every commit of it.

    Raises:
        SpecError: ZL020, ZL021, ZL054, ZL059, ZL084.
        Refused: The branch does not exist, has commits of other writers or another number of rows, or main has changed.
        TableError: The table cannot be read.
    """
    trial = _found(project, trial_name(project, table, branch), timeout)
    if not trial.published:
        require_publishable(trial)
        trials = trials_of(project, trial.table, SparkRuntime(project))
        require_rows(trial, read_one(lambda: trials.rows(trial), trial.table.on(""), timeout))
    return trial


def publish(project: Project, trial: Trial, spark: SparkSession | None = None) -> None:
    """Fast-forward main to the branch, in one commit. Nothing is done if main has every commit of the branch.

    Args:
        project: The project that was given to `plan_publish`.
        trial: From `plan_publish`.
        spark: A running session, as for `apply`. Default: a new session, stopped at the end.

    Raises:
        Refused: ZL250, ZL251. Nothing was written.
        CommitConflict: ZL320, ZL321: main or the branch has changed since it was read. Nothing was written.
        CommitUnknown: ZL331.
        EngineError: Java or Spark failed.
    """
    if not trial.published:
        commit_publish(project, trial, runtime_for(project, spark, [project.catalogs[trial.table.catalog]]))


def commit_publish(project: Project, trial: Trial, runtime: SparkRuntime) -> None:
    """Publish on a runtime that is stopped at the end. A first signal does not interrupt a commit."""
    require_publishable(trial)
    with runtime, Interrupts(lambda: None) as interrupts:
        _trials(project, trial, runtime, interrupts).publish(trial)
        runtime.committed(trial.table.on(""))
    runtime.discard_log()
    follow_publish(project, trial.table, {made.run_id for made in trial.commits})


def plan_drop_trial(project: Project, table: str, *, branch: str | None = None, timeout: float = TIMEOUT) -> Trial:
    """Determine what `drop_trial` removes. Reads metadata, and starts no JVM.

    Args:
        project: The project with the table's catalog.
        table: `catalog.namespace.table`; it needs no layout spec.
        branch: The name of the branch.
        timeout: The limit on reading the table, in seconds.

    Raises:
        SpecError: ZL020, ZL021, ZL054, ZL059, ZL084.
        Refused: ZL238 (no such branch), ZL252 (zlayout did not make it), ZL253 (it has commits of other writers).
        TableError: The table cannot be read.
    """
    trial = _found(project, trial_name(project, table, branch), timeout)
    require_droppable(trial)
    return trial


def drop_trial(project: Project, trial: Trial, spark: SparkSession | None = None) -> None:
    """Remove the branch of a trial.

    Args:
        project: The project that was given to `plan_drop_trial`.
        trial: From `plan_drop_trial`.
        spark: A running session, as for `apply`. Default: a new session, stopped at the end.

    Raises:
        Refused: ZL252, ZL253. Nothing was removed.
        CommitConflict: ZL320, ZL321: the trial has changed since it was read. Nothing was removed.
        CommitUnknown: ZL331.
        EngineError: Java or Spark failed.
    """
    commit_drop(project, trial, runtime_for(project, spark, [project.catalogs[trial.table.catalog]]))


def commit_drop(project: Project, trial: Trial, runtime: SparkRuntime) -> None:
    """Drop a trial on a runtime that is stopped at the end."""
    require_droppable(trial)
    with runtime, Interrupts(lambda: None) as interrupts:
        _trials(project, trial, runtime, interrupts).drop(trial)
    runtime.discard_log()


def _trials(project: Project, trial: Trial, runtime: SparkRuntime, interrupts: Interrupts) -> Trials:
    trials = trials_of(project, trial.table, runtime)
    _ = runtime.session
    interrupts.arm()  # pyspark replaces the handler of Ctrl-C when a session starts
    interrupts.check()
    return trials


def _found(project: Project, name: TableName, timeout: float) -> Trial:
    trial = read_trial(project, name, timeout)
    if trial is None:
        message = f"expected a trial of {name.on('')}, found no branch {quote_value(name.branch)}"
        raise Refused.of("ZL238", message, hint="check the name")
    return trial
