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
    tables = tuple(map(_table, report.plan.tables))
    pictures = {name: _picture(picture) for name, picture in report.pictures.items()}
    results = {name: _result(result) for name, result in report.results.items()}
    return replace(report, plan=replace(report.plan, tables=tables), results=results, pictures=pictures)


def _table(table: TablePlan) -> TablePlan:
    actions = tuple(
        replace(a, partition=_name(a.partition, a.partition_number, a.partitions)) if isinstance(a, RewriteGroup) else a
        for a in table.actions
    )
    return replace(table, actions=actions, diagnostics=_without_details(table.diagnostics))


def _picture(picture: Picture) -> Picture:
    name = _name(picture.partition, picture.partition_number)
    return replace(picture, partition=name, strip=_numbered(picture.strip))


def _name(partition: str, number: int, partitions: int = 1) -> str:
    """Return the number of a partition instead of its name; '' for an unpartitioned table."""
    if not partition:
        return ""
    more = f" and {partitions - 1:,} more" if partitions > 1 else ""
    return f"partition {number}{more}" if number else f"a partition{more}"


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
        label = f"partition {first}" if first == last else f"partitions {first} to {last}"
        bins.append(replace(strip_bin, label=label))
    return tuple(bins)
