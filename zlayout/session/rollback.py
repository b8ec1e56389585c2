"""Roll back a run: determine from metadata what the rollback undoes, and commit it."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zlayout.errors import Refused
from zlayout.formats.base import Commit, Notify, Progress
from zlayout.formats.registry import backend_for
from zlayout.formats.undo import Undo
from zlayout.session.concurrent_reads import TIMEOUT, read_table
from zlayout.session.interrupts import Interrupts
from zlayout.session.project import known_table, layout_of
from zlayout.spark.live import runtime_for
from zlayout.spark.session import SparkRuntime
from zlayout.spec.model import MAIN, Project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class RolledBack:
    """What `rollback` did.

    Attributes:
        run_id: The id of the rollback, which its commit stores.
        undo: The run that was undone, with the files.
    """

    run_id: str
    undo: Undo
    commit: Commit


def plan_rollback(project: Project, table: str, run: str | None = None, *, timeout: float = TIMEOUT) -> Undo:
    """Determine what a rollback undoes. Reads metadata, checks that the files exist, and starts no JVM.

    Args:
        project: The project with the table's catalog.
        table: `catalog.namespace.table`; it needs no layout spec.
        run: The id of the run. Default: the newest run that rewrote files of the table and was not rolled back.
        timeout: The limit on reading the table, in seconds.

    Raises:
        SpecError: ZL020 (invalid table name), ZL021 (unknown catalog), ZL084.
        Refused: ZL230 to ZL236: there is no such run on main, or the rollback would lose or change rows.
        TableError: The table cannot be read.
    """
    name = known_table(project, table)
    spec = layout_of(project, name)
    if run is None and spec is not None and spec.ref != MAIN:
        message = f"{name}: the layout is for branch {spec.ref}, and a rollback is possible on main only"
        raise Refused.of("ZL230", message, hint="use --run ID for a run on main", location=spec.location_of("ref"))
    backend = backend_for(project.catalogs[name.catalog], SparkRuntime(project))
    return read_table(lambda: backend.undo(name, run), name, timeout)


def rollback(project: Project, undo: Undo, spark: SparkSession | None = None) -> RolledBack:
    """Undo a run: remove the files that it wrote, and add those that it replaced, in one commit.

    Later commits of other writers are kept. The files and the rows are checked again before the commit.

    Args:
        project: The project that was given to `plan_rollback`.
        undo: From `plan_rollback`.
        spark: A running session, as for `apply`. Default: a new session, stopped at the end.

    Raises:
        Refused: The rollback is no longer possible. Nothing was written.
        CommitConflict: Another writer changed one of the files, or the table. Nothing was written.
        CommitUnknown: ZL331.
        EngineError: Java or Spark failed.
    """
    runtime = runtime_for(project, spark, [project.catalogs[undo.table.catalog]])
    return roll_back(project, undo, runtime, lambda _: None)


def roll_back(project: Project, undo: Undo, runtime: SparkRuntime, notify: Notify) -> RolledBack:
    """Commit a rollback on a runtime that is stopped at the end. A first signal does not interrupt a commit."""
    spec, run_id = layout_of(project, undo.table), uuid.uuid4().hex
    properties = {} if spec is None else spec.commit_properties
    interrupts = Interrupts(lambda: None)
    with runtime, interrupts:
        backend = backend_for(project.catalogs[undo.table.catalog], runtime)
        commit = backend.roll_back(undo, run_id, properties, _armed(interrupts, notify))
        runtime.committed(undo.table)
    runtime.discard_log()
    return RolledBack(run_id, undo, commit)


def _armed(interrupts: Interrupts, notify: Notify) -> Notify:
    def notified(progress: Progress) -> None:
        interrupts.arm()  # pyspark replaces the handler of Ctrl-C when a session starts
        interrupts.check()
        notify(progress)

    return notified
