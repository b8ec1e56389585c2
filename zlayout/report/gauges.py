"""The numbers of a plan or a run as gauges, for the programs that store metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from zlayout.planner.model import Plan, Status, TablePlan
from zlayout.planner.run_report import RunReport
from zlayout.report.words import printable


@dataclass(frozen=True, slots=True)
class Gauge:
    """A gauge and its values.

    Attributes:
        name: The name in Prometheus' notation, without the prefix `zlayout_`.
        text: What the gauge counts or measures.
        unit: The unit in the notation of UCUM.
        labels: The names of the labels.
        values: The values by the texts of the labels.
    """

    name: str
    text: str
    unit: str
    labels: tuple[str, ...]
    values: dict[tuple[str, ...], float]


def gauges(shown: Plan | RunReport) -> Iterator[Gauge]:
    """Yield gauges of each table: its state before the run, and what apply did."""
    report = RunReport.of(shown)
    tables, results = report.plan.tables, {printable(key): result for key, result in report.results.items()}
    yield Gauge(
        "tables",
        "Number of tables by status of the plan.",
        "{table}",
        ("status",),
        {(status,): len(report.plan.with_status(status)) for status in Status},
    )
    yield Gauge(
        "table_not_as_declared",
        "1 if the table is not as declared, or not known to be; else 0.",
        "1",
        ("table",),
        {(printable(table.table),): int(report.is_open(table)) for table in tables},
    )
    yield Gauge(
        "table_diagnostics",
        "Number of errors, refusals, warnings and notes of the table by code.",
        "{diagnostic}",
        ("table", "severity", "code"),
        dict(Counter(_diagnostics(report))),
    )
    read = {printable(table.table): table for table in tables if _was_read(table)}
    yield Gauge(
        "table_files",
        "Number of live files when the table was planned.",
        "{file}",
        ("table",),
        {(name,): table.files for name, table in read.items()},
    )
    yield Gauge(
        "table_bytes",
        "Size of the live files when the table was planned.",
        "By",
        ("table",),
        {(name,): table.bytes for name, table in read.items()},
    )
    yield Gauge(
        "table_planned_rewrite_bytes",
        "Size of the files that the plan rewrites.",
        "By",
        ("table",),
        {(name,): table.rewrite_bytes for name, table in read.items()},
    )
    yield Gauge(
        "table_touched_files",
        "Files that a query for one value opened before the run.",
        "{file}",
        ("table", "column"),
        {(name, printable(c.column)): c.touched for name, table in read.items() for c in table.columns},
    )
    yield Gauge(
        "table_commits",
        "Number of commits of the run.",
        "{commit}",
        ("table", "outcome"),
        {(name, result.outcome): result.commits for name, result in results.items()},
    )
    yield Gauge(
        "table_files_removed",
        "Number of files that the run removed.",
        "{file}",
        ("table",),
        {(name,): result.files_removed for name, result in results.items()},
    )
    yield Gauge(
        "table_files_added",
        "Number of files that the run added.",
        "{file}",
        ("table",),
        {(name,): result.files_added for name, result in results.items()},
    )
    yield Gauge(
        "table_touched_files_after",
        "Files that a query for one value opens now.",
        "{file}",
        ("table", "column"),
        {(name, printable(c.column)): c.touched for name, result in results.items() for c in result.columns},
    )


def _diagnostics(report: RunReport) -> Iterator[tuple[str, str, str]]:
    for table in report.plan.tables:
        result = report.results.get(table.table)
        for diagnostic in (*table.diagnostics, *(result.problems if result else ())):
            yield printable(table.table), diagnostic.severity, printable(diagnostic.code)


def _was_read(table: TablePlan) -> bool:
    """Return whether the numbers of a table are known. A refused table may have been refused before it was read."""
    return table.status is not Status.ERROR and (table.status is not Status.REFUSED or table.files > 0)
