"""The history of a project: append records of what commands found and did, and read them again."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from zlayout.errors import Diagnostic, SpecError, TableError, first_line
from zlayout.history_records import (
    MAX_RECORDS,
    Command,
    Growth,
    Record,
    SqliteStore,
    growths,
    records_of,
    touched_trend,
)
from zlayout.planner.model import Plan
from zlayout.planner.run_report import ResultStatus, RunReport, TableResult, Trend
from zlayout.planner.work import PlannedTable
from zlayout.session.project import known_table, layout_of, require_count
from zlayout.session.rules import require_branches, table_on
from zlayout.spec.model import Project, TableName

# The number of records that a trend in a report shows.
MAX_POINTS = 30


@dataclass(frozen=True, slots=True)
class TableHistory:
    """The history records of one table, and its growing decay measures.

    Attributes:
        records: The newest records, oldest first.
        growing: The decay measures that are expected to pass their tolerance, and when.
    """

    table: str
    records: tuple[Record, ...]
    growing: tuple[Growth, ...]


def history(project: Project, table: str, *, limit: int = 30, branch: str | None = None) -> TableHistory:
    """Read the history of one table. Reads neither the table nor its catalog.

    Args:
        project: The project, with `history:` in `zlayout.yaml`.
        table: `catalog.namespace.table`.
        limit: The number of newest records to return.
        branch: The branch of the table. Default: `ref` of its layout, or main.

    Raises:
        SpecError: An argument is invalid, or the project keeps no history.
        Refused: ZL237, tables of this format have no branches.
        TableError: ZL106, the history cannot be read.
    """
    known = known_table(project, table)
    require_count("limit", limit)
    on_branch = table_on(known, layout_of(project, known), branch)
    require_branches(project.catalogs[known.catalog], on_branch)
    name = str(on_branch)
    store = _store(project)
    if store is None:
        raise SpecError.of(
            "ZL052", "the project keeps no history", hint="add `history: {}` to zlayout.yaml; later commands fill it"
        )
    try:
        records = store.read([name], max(limit, MAX_RECORDS)).get(name, [])
    except Exception as error:
        raise TableError.of(
            "ZL106", f"the history {_history_name(project)} cannot be read: {first_line(error)}", hint=_HINT
        ) from error
    return TableHistory(name, tuple(records[-limit:]), tuple(growths(records, datetime.now(UTC))))


def append_to_history(
    project: Project, planned: Iterable[PlannedTable], report: RunReport, command: Command
) -> tuple[Diagnostic, ...]:
    """Append one record per table to the history, if the project has one.

    Returns:
        A warning (ZL450) if the history cannot be written, else nothing. The command is complete in any case.
    """
    store = _store(project)
    if store is None or not report.plan.tables:
        return ()
    layout_ids = {str(one.spec.table): one.spec.layout.layout_id for one in planned}
    try:
        store.append(records_of(report, layout_ids, command, uuid.uuid4().hex, datetime.now(UTC)))
    except Exception as error:  # a store may raise anything, and the command does not depend on it
        return (_warning(project, "written", error),)
    return ()


def keep_commits(project: Project, planned: PlannedTable, result: TableResult) -> None:
    """Keep what a run has committed so far to one table, so that it is not lost if the process is killed.

    The record of the whole run replaces it. A history that cannot be written is reported with that record.
    """
    with suppress(Exception):
        result = replace(result, outcome=ResultStatus.INTERRUPTED)
        report = RunReport(Plan("", (planned.plan,)), {planned.plan.table: result})
        append_to_history(project, (planned,), report, Command.APPLY)


def follow_publish(project: Project, branch: TableName, runs: Collection[str]) -> None:
    """Append the records of the runs on a published branch again, as records of main with the present time.

    If the history cannot be read or written, a warning (ZL450) is logged.
    """
    store = _store(project)
    if store is None:
        return
    try:
        found = store.read([str(branch)], MAX_RECORDS).get(str(branch), [])
        now, main = datetime.now(UTC), str(branch.on(""))
        made = [record for record in found if record.command is Command.APPLY and record.run_id in runs]
        store.append([replace(record, table=main, time=now) for record in made])
    except Exception as error:  # a store may raise anything, and the command does not depend on it
        _log(_warning(project, "written", error))


def with_trends(project: Project, report: RunReport) -> tuple[RunReport, tuple[Diagnostic, ...]]:
    """Add the trend of each table that has at least two history records.

    Returns:
        The report, and a warning (ZL450) if the history cannot be read.
    """
    store = _store(project)
    if store is None:
        return report, ()
    try:
        found = store.read([table.table for table in report.plan.tables], MAX_POINTS)
        trends: dict[str, Trend] = {
            table: touched_trend(records) for table, records in found.items() if len(records) > 1
        }
    except Exception as error:
        return report, (_warning(project, "read", error),)
    return replace(report, trends=trends), ()


_HINT = "check that it is a history of this version of zlayout, and its permissions"


def _store(project: Project) -> SqliteStore | None:
    config = project.history
    if config is None:
        return None
    return SqliteStore(config.path, config.keep_days)


def _history_name(project: Project) -> str:
    assert project.history is not None
    return str(project.history.path.relative_to(project.root))


def _log(diagnostic: Diagnostic) -> None:
    logging.getLogger("zlayout").warning("%s", diagnostic)


def _warning(project: Project, done: str, error: Exception) -> Diagnostic:
    message = f"the history {_history_name(project)} could not be {done}: {first_line(error)}"
    return Diagnostic("ZL450", message, "warning", _HINT)
