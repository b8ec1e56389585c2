"""Redact a report. Names of partitions are values of rows, and messages of other programs may contain such values."""

from __future__ import annotations

from dataclasses import replace

from zlayout.errors import Diagnostic
from zlayout.planner.actions import RewriteGroup
from zlayout.planner.model import Plan, TablePlan
from zlayout.planner.picture import Picture, StripBin
from zlayout.planner.result import TableResult
from zlayout.planner.run_report import RunReport


def without_values(shown: Plan | RunReport) -> RunReport:
    """Return the report with numbers instead of names of partitions. `apply` still accepts the plan in it."""
    report = RunReport.of(shown)
    tables, pictures = [], {}
    for table in report.plan.tables:
        picture = report.pictures.get(table.table)
        number = _numbers(table, picture)
        tables.append(_table(table, number))
        if picture is not None:
            numbered = replace(picture, partition=number[picture.partition], strip=_numbered(picture.strip))
            pictures[table.table] = numbered
    results = {name: _result(result) for name, result in report.results.items()}
    return RunReport(replace(report.plan, tables=tuple(tables)), results, pictures)


def _numbers(table: TablePlan, picture: Picture | None) -> dict[str, str]:
    names = {g.partition for g in table.groups} | ({picture.partition} if picture else set())
    return {name: f"partition {n}" for n, name in enumerate(sorted(names - {""}), 1)} | {"": ""}


def _table(table: TablePlan, number: dict[str, str]) -> TablePlan:
    actions = tuple(
        replace(action, partition=number[action.partition]) if isinstance(action, RewriteGroup) else action
        for action in table.actions
    )
    return replace(table, actions=actions, diagnostics=_without_details(table.diagnostics))


def _result(result: TableResult) -> TableResult:
    return replace(result, strip=_numbered(result.strip), problems=_without_details(result.problems))


def _without_details(diagnostics: tuple[Diagnostic, ...]) -> tuple[Diagnostic, ...]:
    return tuple(replace(d, detail="") for d in diagnostics)


def _numbered(strip: tuple[StripBin, ...]) -> tuple[StripBin, ...]:
    """Return the bins, named by their position in the strip."""
    last = 0
    bins = []
    for strip_bin in strip:
        first, last = last + 1, last + strip_bin.partitions
        label = f"number {first}" if first == last else f"numbers {first} to {last}"
        bins.append(replace(strip_bin, label=label))
    return tuple(bins)
