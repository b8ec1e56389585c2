"""Write a plan or a run as gauges of Prometheus, in the text format that node_exporter reads from files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from zlayout.planner.model import Plan, Status, TablePlan
from zlayout.planner.run_report import RunReport, TableResult
from zlayout.report.words import printable

Of = TypeVar("Of", TablePlan, TableResult)
Values = Mapping[tuple[str, ...], float]


Gauge = tuple[str, str, tuple[str, ...], Values]  # its name, text and labels, and its values by those of the labels


def render(shown: Plan | RunReport) -> str:
    """Render gauges for each table, of its state before the run, and what apply did. Needs the extra `metrics`."""
    import prometheus_client

    registry = prometheus_client.CollectorRegistry()
    for name, text, names, values in _gauges(shown):
        family = prometheus_client.Gauge(f"zlayout_{name}", text, names, registry=registry)
        for labels, value in values.items():
            family.labels(*labels).set(value)
    return prometheus_client.generate_latest(registry).decode()


def _gauges(shown: Plan | RunReport) -> Iterator[Gauge]:
    report = RunReport.of(shown)
    tables = {printable(table.table): table for table in report.plan.tables}
    read = {name: table for name, table in tables.items() if _was_read(table)}
    results = {printable(name): result for name, result in report.results.items()}
    by_status: Values = {(status.value,): len(report.plan.with_status(status)) for status in Status}
    yield ("tables", "Number of tables by status of the plan.", ("status",), by_status)
    text = "1 if the table is not as declared, or not known to be; else 0."
    yield _each("not_as_declared", text, tables, lambda table: int(report.is_open(table)))
    text = "Number of errors, refusals, warnings and notes of the table by code."
    labels = ("table", "severity", "code")
    yield ("table_diagnostics", text, labels, Counter(_diagnostics(report)))
    text = "Number of live files when the table was planned."
    yield _each("files", text, read, lambda table: table.files)
    text = "Size of the live files when the table was planned."
    yield _each("bytes", text, read, lambda table: table.bytes)
    text = "Size of the files that the plan rewrites."
    yield _each("planned_rewrite_bytes", text, read, lambda table: table.rewrite_bytes)
    yield _touched("touched_files", "Files that a query for one value opened before the run.", read)
    commits: Values = {(name, result.outcome.value): result.commits for name, result in results.items()}
    yield ("table_commits", "Number of commits of the run.", ("table", "outcome"), commits)
    text = "Number of files that the run removed."
    yield _each("files_removed", text, results, lambda result: result.files_removed)
    text = "Number of files that the run added."
    yield _each("files_added", text, results, lambda result: result.files_added)
    yield _touched("touched_files_after", "Files that a query for one value opens now.", results)


def _each(name: str, text: str, found: Mapping[str, Of], value: Callable[[Of], float]) -> Gauge:
    return (f"table_{name}", text, ("table",), {(table,): value(of) for table, of in found.items()})


def _touched(name: str, text: str, found: Mapping[str, Of]) -> Gauge:
    values: Values = {(table, printable(c.column)): c.touched for table, of in found.items() for c in of.columns}
    return (f"table_{name}", text, ("table", "column"), values)


def _diagnostics(report: RunReport) -> Iterator[tuple[str, ...]]:
    for table in report.plan.tables:
        result = report.results.get(table.table)
        for diagnostic in (*table.diagnostics, *(result.problems if result else ())):
            yield printable(table.table), diagnostic.severity, printable(diagnostic.code)


def _was_read(table: TablePlan) -> bool:
    """Return whether the numbers of a table are known. A refused table may have been refused before it was read."""
    return table.status is not Status.ERROR and (table.status is not Status.REFUSED or table.files > 0)
