"""Write the report as metrics of Prometheus, in the text format that node_exporter reads from files."""

from __future__ import annotations

from collections.abc import Iterable

from zlayout.errors import SpecError
from zlayout.planner.model import Plan, Status, TablePlan
from zlayout.planner.run_report import RunReport
from zlayout.report.words import printable


def check_available() -> None:
    """Raise SpecError ZL062 if the package of the extra `metrics` is not installed."""
    try:
        import prometheus_client  # noqa: F401
    except ImportError as error:
        raise SpecError.of(
            "ZL062",
            f"the prometheus report needs a package that is not installed: {error.name}",
            hint="run pip install 'zlayout[metrics]'",
        ) from error


def render(shown: Plan | RunReport) -> str:
    """Render gauges for each table, of its state before the run, and what apply did. Raises SpecError ZL062."""
    check_available()
    from prometheus_client import CollectorRegistry, Gauge, generate_latest

    report = RunReport.of(shown)
    registry = CollectorRegistry()

    def gauge(name: str, text: str, labels: Iterable[str] = ("table",)) -> Gauge:
        return Gauge(f"zlayout_{name}", text, list(labels), registry=registry)

    tables = gauge("tables", "Number of tables by status of the plan.", ["status"])
    not_as_declared = gauge("table_not_as_declared", "1 if the table is not as declared, or not known to be; else 0.")
    for status in Status:
        tables.labels(status).set(len(report.plan.with_status(status)))
    for table in report.plan.tables:
        not_as_declared.labels(printable(table.table)).set(report.is_open(table))
    problems = gauge(
        "table_diagnostics",
        "Number of errors, refusals, warnings and notes of the table by code.",
        ["table", "severity", "code"],
    )
    for table in report.plan.tables:
        result = report.results.get(table.table)
        for diagnostic in (*table.diagnostics, *(result.problems if result else ())):
            problems.labels(printable(table.table), diagnostic.severity, printable(diagnostic.code)).inc()
    files = gauge("table_files", "Number of live files when the table was planned.")
    size = gauge("table_bytes", "Size of the live files when the table was planned.")
    planned = gauge("table_planned_rewrite_bytes", "Size of the files that the plan rewrites.")
    touched = gauge(
        "table_touched_files", "Files that a query for one value opened before the run.", ["table", "column"]
    )
    for table in filter(_was_read, report.plan.tables):
        name = printable(table.table)
        files.labels(name).set(table.files)
        size.labels(name).set(table.bytes)
        planned.labels(name).set(table.rewrite_bytes)
        for column in table.columns:
            touched.labels(name, printable(column.column)).set(column.touched)
    commits = gauge("table_commits", "Number of commits of the run.", ["table", "outcome"])
    removed = gauge("table_files_removed", "Number of files that the run removed.")
    added = gauge("table_files_added", "Number of files that the run added.")
    after = gauge("table_touched_files_after", "Files that a query for one value opens now.", ["table", "column"])
    for key, result in report.results.items():
        name = printable(key)
        commits.labels(name, result.outcome).set(result.commits)
        removed.labels(name).set(result.files_removed)
        added.labels(name).set(result.files_added)
        for measured in result.columns:
            after.labels(name, printable(measured.column)).set(measured.touched)
    return generate_latest(registry).decode()


def _was_read(table: TablePlan) -> bool:
    """Return whether the numbers of a table are known. A refused table may have been refused before it was read."""
    return table.status is not Status.ERROR and (table.status is not Status.REFUSED or table.files > 0)
