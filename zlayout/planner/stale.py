"""Determine whether a saved plan is stale: compare its requirements with the present table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from zlayout.errors import Diagnostic
from zlayout.planner.actions import (
    Action,
    ChangeClustering,
    ChangePartitioning,
    Requirements,
    RewriteGroup,
    is_at,
)
from zlayout.planner.model import TablePlan
from zlayout.planner.work import PlannedTable
from zlayout.spec.model import MAIN, LayoutSpec
from zlayout.table.state import FileTable, TableState, identities, identity_columns
from zlayout.text import plural

Staleness = Literal["compatible", "strict"]


def staleness(saved: TablePlan, again: PlannedTable, now: TableState, mode: Staleness) -> tuple[Diagnostic, ...]:
    """Return the reasons why a saved plan is stale.

    Args:
        saved: The plan from the file.
        again: The plan made again with the present layout spec, from the table version of the saved plan.
        now: The present table.
        mode: `compatible` accepts appends since the plan, `strict` does not. Neither of them accepts another layout,
            schema or partitioning, or a change of the pinned files. If the plan can be rebased, deletes of rows in the
            pinned files are no such change.

    Returns:
        One ZL203 per reason; empty if the plan is not stale.
    """
    spec, planned, made = again.spec, saved.requirements, again.plan.requirements
    if planned is None or made is None:
        return (_refusal(spec, "expected requirements, found none", "run `zlayout plan` again"),)
    branch = spec.table.branch
    if planned.branch != branch:
        reasons = [f"it is for branch {planned.branch or MAIN}, and this run is for {branch or MAIN}"]
    elif changed := list(_changed(planned, spec, now)):
        reasons = changed
    elif _files(saved) != _files(again.plan) or _lacks(planned, made):
        reasons = ["the layout spec selects other files now"]
    elif mode == "strict" and planned.version != now.version:
        reasons = [f"expected table version {planned.version}, found {now.version}"]
    elif gone := _changed_files([group.files for group in again.groups], now, rebases=bool(again.plan.rebases)):
        reasons = [f"{plural(gone, 'pinned file')} {'was' if gone == 1 else 'were'} changed or removed"]
    elif _settings(saved.actions) != _settings(again.plan.actions):  # a table version does not include all settings
        reasons = ["the plan would change other settings now"]
    else:
        names = [p.name for p in again.plan.properties if now.properties.get(p.name) != p.before]
        reasons = [f"the table's properties changed: {', '.join(names)}"] if names else []
    return tuple(_refusal(spec, reason, "run `zlayout plan` again and review it") for reason in reasons)


def _changed(planned: Requirements, spec: LayoutSpec, now: TableState) -> Iterator[str]:
    if not is_at(now.location, planned.location):
        yield "the catalog leads to another location"
    compared = (
        (planned.table_id, now.table_id, "the table was dropped and created again"),
        (planned.schema, now.schema_digest, "the table's schema changed"),
        (planned.layout_id, spec.layout.layout_id, "the layout spec changed"),
        (planned.partitioning, tuple(map(str, now.partition_fields)), "the table's partitioning changed"),
        (planned.clustering or (), now.clustering or (), "the table's clustering columns changed"),
    )
    yield from (text for before, after, text in compared if before != after)


def _files(plan: TablePlan) -> set[tuple[str, str]]:
    return {(group.id, group.digest) for group in plan.groups}


def _lacks(planned: Requirements, made: Requirements) -> bool:
    """Return whether the saved plan lacks a fact that only some tables have."""
    one, other = ((each.location, each.clustering) for each in (planned, made))
    return any(before is None and after is not None for before, after in zip(one, other, strict=True))


def _changed_files(pinned: Sequence[FileTable], now: TableState, *, rebases: bool) -> int:
    """Count the pinned files that are not live any more or, if the rewrite cannot be rebased, have other deletes."""
    keys = identity_columns(pinned)[0] if rebases else identities(pinned)
    live = now.files.path.cast(pa.large_string()) if rebases else now.files.identity()
    return len(keys) - (pc.sum(pc.is_in(keys, live)).as_py() or 0)


def _settings(actions: Iterable[Action]) -> list[Action]:
    return [
        replace(action, location=None) if isinstance(action, ChangePartitioning | ChangeClustering) else action
        for action in actions
        if not isinstance(action, RewriteGroup)
    ]


def _refusal(spec: LayoutSpec, reason: str, hint: str) -> Diagnostic:
    return Diagnostic("ZL203", f"{spec.table}: the plan is stale: {reason}", "refused", hint, spec.location)
