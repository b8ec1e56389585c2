"""Find where a trial is: on a branch of an Iceberg table, or in a shallow clone of a Delta table."""

from __future__ import annotations

from dataclasses import dataclass, replace

from zlayout.app.branches import table_on
from zlayout.app.concurrent_reads import TIMEOUT, read_one
from zlayout.app.project import known_table
from zlayout.errors import SpecError
from zlayout.formats.registry import FORMATS
from zlayout.formats.trial import Trial, Trials
from zlayout.message_text import quote_value
from zlayout.spark.session import SparkRuntime
from zlayout.spec.model import MAIN, Project, TableName


@dataclass(frozen=True, slots=True)
class Place:
    """Where a trial is.

    Attributes:
        table: The table itself.
        where: The name of the branch, or the location of the clone.
        project: A project in which `name` leads to the trial.
        name: The name of the trial: the table with the branch, or the table with `@clone`.
        trials: The trials of the catalog.
    """

    table: TableName
    where: str
    project: Project
    name: TableName
    trials: Trials

    def read(self, timeout: float = TIMEOUT) -> Trial | None:
        """Read the trial without a JVM; None if there is none. Raises the errors of `Trials.read`."""
        return read_one(lambda: self.trials.read(self.table, self.where), self.table, timeout)


def place_of(project: Project, table: str, branch: str | None, clone: str | None, runtime: SparkRuntime) -> Place:
    """Return where a trial is.

    Raises:
        SpecError: ZL020, ZL021, ZL054, ZL059 (neither or both are given, or not what the format has).
    """
    name = known_table(project, table)
    catalog = project.catalogs[name.catalog]
    traits = FORMATS[catalog.format].traits
    where = branch if traits.branches else clone
    if not where or (branch and clone):
        place, option = ("a branch", "--branch NAME") if traits.branches else ("a shallow clone", "--clone LOCATION")
        raise SpecError.of("ZL059", f"{name}: a trial of a table of {traits.title} is {place}", hint=f"use {option}")
    if traits.branches and not table_on(name, None, where).branch:
        raise SpecError.of("ZL059", f"{name}: {MAIN} is not a trial", hint="use the name of another branch")
    if not where.isprintable():
        message = f"{name}: expected a location of printable characters, found {quote_value(where)}"
        raise SpecError.of("ZL059", message, hint="use another folder")
    trials = FORMATS[catalog.format].trials(catalog, runtime)
    at, named = trials.placed(name, where)
    return Place(name, where, replace(project, catalogs={**project.catalogs, at.name: at}), named, trials)
