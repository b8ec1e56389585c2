"""A plan without row values. Only names of partitions hold them, and what other programs say, which may name some."""

from __future__ import annotations

from dataclasses import replace

from zlayout.errors import Diagnostic
from zlayout.planner.model import Plan, TablePlan
from zlayout.planner.picture import StripCell


def without_values(plan: Plan) -> Plan:
    """The same plan with partitions numbered instead of named; still a plan that `apply` takes."""
    return replace(plan, tables=tuple(_table(t) for t in plan.tables))


def _table(table: TablePlan) -> TablePlan:
    picture, result = table.picture, table.result
    names = {g.partition for g in table.groups} | ({picture.partition} if picture else set())
    number = {name: f"partition {n}" for n, name in enumerate(sorted(names - {""}), 1)} | {"": ""}
    if picture is not None:
        picture = replace(picture, partition=number[picture.partition], strip=_numbered(picture.strip))
    if result is not None:
        result = replace(result, strip=_numbered(result.strip), problems=_without_details(result.problems))
    groups = tuple(replace(g, partition=number[g.partition]) for g in table.groups)
    told = _without_details(table.diagnostics)
    return replace(table, groups=groups, picture=picture, result=result, diagnostics=told)


def _without_details(diagnostics: tuple[Diagnostic, ...]) -> tuple[Diagnostic, ...]:
    return tuple(replace(d, detail="") for d in diagnostics)


def _numbered(strip: tuple[StripCell, ...]) -> tuple[StripCell, ...]:
    """Cells called by where they stand in the strip."""
    last = 0
    cells = []
    for cell in strip:
        first, last = last + 1, last + cell.partitions
        label = f"number {first}" if first == last else f"numbers {first} to {last}"
        cells.append(replace(cell, label=label))
    return tuple(cells)
