"""The report formats by name, and what can be changed in a report before it is rendered.

Each format is a pure function from a plan or run report to text.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from importlib import import_module
from itertools import accumulate
from typing import Any

from zlayout.errors import Diagnostic, Location, SpecError
from zlayout.planner import document
from zlayout.planner.model import Plan, RewriteGroup, TablePlan
from zlayout.planner.run_report import RunReport, StripBin
from zlayout.report import markdown, text


def _late(module: str, function: str = "render") -> Callable[[Plan | RunReport], str]:
    def render(report: Plan | RunReport) -> str:
        return str(getattr(import_module(f"zlayout.report.{module}"), function)(report))

    return render


REPORTERS: Mapping[str, Callable[[Plan | RunReport], str]] = {
    "text": text.render,
    "json": document.to_json,
    "markdown": markdown.render,
    "github": _late("findings", "render_github"),
    "sarif": _late("findings", "render_sarif"),
    "junit": _late("findings", "render_junit"),
    "html": _late("html"),
    "prometheus": _late("prometheus"),
}
# The extra of zlayout that a format needs, and its packages.
_EXTRAS = {"html": ("report", "jinja2"), "prometheus": ("metrics", "prometheus_client")}


def check_available(name: str) -> None:
    """Raise SpecError ZL062 if the format needs a package that is not installed."""
    extra, *packages = _EXTRAS.get(name, ("",))
    try:
        for package in packages:
            import_module(package)
    except ImportError as error:
        raise SpecError.of(
            "ZL062",
            f"the {name} report needs a package that is not installed: {error.name}",
            hint=f"run pip install 'zlayout[{extra}]'",
        ) from error


# Changes of a report before it is rendered.


def without_values(shown: Plan | RunReport) -> RunReport:
    """Return the report without values of rows. `apply` still accepts the plan in it.

    Names of partitions, which are values of rows, are replaced by numbers. The details of diagnostics are removed,
    because they are messages of other programs, which may contain such values.
    """
    report = RunReport.of(shown)
    tables = tuple(map(_table, report.plan.tables))
    results = {
        name: replace(result, strip=_numbered(result.strip), problems=_without_details(result.problems))
        for name, result in report.results.items()
    }
    pictures = {
        name: replace(p, partition=_name(p.partition, p.partition_number), strip=_numbered(p.strip))
        for name, p in report.pictures.items()
    }
    return replace(report, plan=replace(report.plan, tables=tables), results=results, pictures=pictures)


def _table(table: TablePlan) -> TablePlan:
    actions = tuple(
        replace(a, partition=_name(a.partition, a.partition_number, a.partitions)) if isinstance(a, RewriteGroup) else a
        for a in table.actions
    )
    return replace(table, actions=actions, diagnostics=_without_details(table.diagnostics))


def _name(partition: str, number: int, partitions: int = 1) -> str:
    if not partition:
        return ""
    more = f" and {partitions - 1:,} more" if partitions > 1 else ""
    return f"partition {number}{more}" if number else f"a partition{more}"


def _without_details(diagnostics: tuple[Diagnostic, ...]) -> tuple[Diagnostic, ...]:
    return tuple(replace(d, detail="") for d in diagnostics)


def _numbered(strip: tuple[StripBin, ...]) -> tuple[StripBin, ...]:
    bins = []
    for strip_bin, last in zip(strip, accumulate(strip_bin.partitions for strip_bin in strip), strict=True):
        first = last - strip_bin.partitions + 1
        label = f"partition {last}" if first == last else f"partitions {first} to {last}"
        bins.append(replace(strip_bin, label=label))
    return tuple(bins)


def seen_from(shown: Plan | RunReport, below: str) -> RunReport:
    """Return the report with `below`, a relative folder, in front of its relative paths; '' changes nothing."""
    report = RunReport.of(shown)
    return report if below in ("", ".") else _moved(report, below)


def _moved(value: Any, below: str) -> Any:
    if isinstance(value, Location):
        return replace(value, path=posixpath.normpath(posixpath.join(below, value.path)))
    if isinstance(value, tuple):
        return tuple(_moved(item, below) for item in value)
    if isinstance(value, Mapping):
        return {key: _moved(item, below) for key, item in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{field.name: _moved(getattr(value, field.name), below) for field in fields(value)})
    return value
