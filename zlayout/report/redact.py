"""A plan without row values. Names of partitions are the only ones in it: they hold the rows' own values."""

from __future__ import annotations

from dataclasses import replace

from zlayout.plan.model import Plan, TablePlan


def without_values(plan: Plan) -> Plan:
    """The same plan with partitions numbered instead of named; still a plan that `apply` takes."""
    return replace(plan, tables=tuple(_table(t) for t in plan.tables))


def _table(table: TablePlan) -> TablePlan:
    names = sorted({g.partition for g in table.groups} - {""})
    number = {name: f"partition {n}" for n, name in enumerate(names, 1)} | {"": ""}
    return replace(table, groups=tuple(replace(g, partition=number[g.partition]) for g in table.groups))
