"""Find trials, publish the branch of a trial, and drop trials.

A caller first reads from metadata what will be done (`plan_publish`, `plan_drop_trial`), and then carries it out
(`publish`, `drop_trial`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
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


@dataclass(frozen=True, slots=True)
class TrialReference:
    """Where a trial is, whether it exists or not.

    Attributes:
        table: The table itself.
        where: The name of the branch, or the location of the clone.
        project: The project with a catalog in which `name` leads to the trial.
        name: The name of the trial: the table name with the branch, or with `@clone`.
        trials: The trials of the catalog of the table.
    """

    table: TableName
    where: str
    project: Project
    name: TableName
    trials: Trials

    def read(self, timeout: float = TIMEOUT) -> Trial | None:
        """Read the trial without a JVM; None if it does not exist. Raises the errors of `Trials.read`, and ZL105."""
        return read_one(lambda: self.trials.read(self.table, self.where), self.table, timeout)


def reference_of(
    project: Project, table: str, branch: str | None, clone: str | None, runtime: SparkRuntime
) -> TrialReference:
    """Return where a trial is.

    Raises:
        SpecError: ZL020, ZL021, ZL054, ZL084; ZL059: the argument that the format needs, `branch` or `clone`, is
            missing, the other one is given too, or the value cannot be a trial.
    """
    name = known_table(project, table)
    catalog = project.catalogs[name.catalog]
    traits = FORMATS[catalog.format].traits
    where = branch if traits.branches else clone
    if not where or (branch and clone):
        noun, option = ("a branch", "--branch NAME") if traits.branches else ("a shallow clone", "--clone LOCATION")
        raise SpecError.of("ZL059", f"{name}: a trial of a table of {traits.title} is {noun}", hint=f"use {option}")
    if traits.branches and not table_on(name, None, where).branch:
        raise SpecError.of("ZL059", f"{name}: {MAIN} is not a trial", hint="use the name of another branch")
    if not where.isprintable():
        message = f"{name}: expected a location of printable characters, found {quote_value(where)}"
        raise SpecError.of("ZL059", message, hint="use another folder")
    trials = FORMATS[catalog.format].trials(catalog, runtime)
    at, named = trials.placed(name, where)
    return TrialReference(name, where, replace(project, catalogs={**project.catalogs, at.name: at}), named, trials)


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
        Refused: ZL238 (no such branch), ZL250 (main has changed), ZL251 (the branch has commits of other writers),
            ZL255.
        TableError: The table cannot be read.
    """
    name = known_table(project, table)
    traits = FORMATS[project.catalogs[name.catalog].format].traits
    if not traits.branches:
        raise SpecError.of(
            "ZL059",
            f"{name}: tables of {traits.title} have no branch to publish",
            hint="lay out the table itself with `zlayout apply`, and remove the clone with `zlayout drop-trial`",
        )
    reference = reference_of(project, table, branch, None, SparkRuntime(project))
    trial = _found(reference, timeout)
    if not trial.published:
        require_publishable(trial)
        require_rows(trial, read_one(lambda: reference.trials.rows(trial), reference.table, timeout))
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


def plan_drop_trial(
    project: Project, table: str, *, branch: str | None = None, clone: str | None = None, timeout: float = TIMEOUT
) -> Trial:
    """Determine what `drop_trial` removes. Reads metadata, and starts no JVM.

    Args:
        project: The project with the table's catalog.
        table: `catalog.namespace.table`; it needs no layout spec.
        branch: The name of the branch of an Iceberg table.
        clone: The location of the shallow clone of a Delta table.
        timeout: The limit on reading the table, in seconds.

    Raises:
        SpecError: ZL020, ZL021, ZL054, ZL059, ZL084.
        Refused: ZL238 (no such branch or clone), ZL252 (zlayout did not make it), ZL253 (it has commits of other
            writers), ZL256.
        TableError: The table cannot be read.
    """
    trial = _found(reference_of(project, table, branch, clone, SparkRuntime(project)), timeout)
    require_droppable(trial)
    return trial


def drop_trial(project: Project, trial: Trial, spark: SparkSession | None = None) -> None:
    """Remove the branch or the clone of a trial.

    Args:
        project: The project that was given to `plan_drop_trial`.
        trial: From `plan_drop_trial`.
        spark: A running session, as for `apply`. Default: a new session, stopped at the end.

    Raises:
        Refused: ZL252, ZL253, ZL256. Nothing was removed.
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
    """Start the session, and return the trials of the catalog.

    pyspark replaces the handler of Ctrl-C when a session starts, so the handler is installed again.
    """
    trials = FORMATS[trial.format].trials(project.catalogs[trial.table.catalog], runtime)
    _ = runtime.session
    interrupts.arm()
    interrupts.check()
    return trials


def _found(reference: TrialReference, timeout: float) -> Trial:
    trial = reference.read(timeout)
    if trial is None:
        raise Refused.of(
            "ZL238",
            f"expected a trial of {reference.table}, found no branch or clone {quote_value(reference.where)}",
            hint="check the name",
        )
    return trial
