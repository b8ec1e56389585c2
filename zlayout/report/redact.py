"""A plan without row values. Names of partitions are the only ones in it: they hold the rows' own values."""

from __future__ import annotations

from dataclasses import replace

from zlayout.plan.model import Plan, TablePlan
from zlayout.plan.picture import StripCell


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
        result = replace(result, strip=_numbered(result.strip))
    groups = tuple(replace(g, partition=number[g.partition]) for g in table.groups)
    return replace(table, groups=groups, picture=picture, result=result)


def _numbered(strip: tuple[StripCell, ...]) -> tuple[StripCell, ...]:
    """Cells called by where they stand in the strip."""
    last = 0
    cells = []
    for cell in strip:
        first, last = last + 1, last + cell.partitions
        label = f"number {first}" if first == last else f"numbers {first} to {last}"
        cells.append(replace(cell, label=label))
    return tuple(cells)
