"""Determine whether a saved plan is stale: compare its requirements with the present table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal

import pyarrow.compute as pc

from zlayout.errors import Diagnostic
from zlayout.message_text import plural
from zlayout.planner.actions import (
    Action,
    ChangeClustering,
    ChangePartitioning,
    ClusteringIs,
    FilesAre,
    LayoutIs,
    LocationIs,
    Observed,
    PartitioningIs,
    PropertyIs,
    Requirement,
    RewriteGroup,
    SchemaIs,
    TableIs,
    VersionIs,
    planned_clustering,
    violated,
)
from zlayout.planner.model import TablePlan
from zlayout.planner.work import PlannedTable
from zlayout.spec.model import MAIN, LayoutSpec
from zlayout.table.state import FileTable, TableState, identities

Staleness = Literal["compatible", "strict"]

_CHANGED = {
    LocationIs: "the catalog leads to another location",
    TableIs: "the table was dropped and created again",
    SchemaIs: "the table's schema changed",
    LayoutIs: "the layout spec changed",
    PartitioningIs: "the table's partitioning changed",
    ClusteringIs: "the table's clustering columns changed",
}


def staleness(saved: TablePlan, again: PlannedTable, now: TableState, mode: Staleness) -> tuple[Diagnostic, ...]:
    """Return the reasons why a saved plan is stale.

    Args:
        saved: The plan from the file.
        again: The plan made again with the present layout spec, from the table version of the saved plan.
        now: The present table.
        mode: `compatible` accepts appends since the plan, `strict` does not. Neither of them accepts another layout,
            schema or partitioning, or a change of the pinned files.

    Returns:
        One ZL203 per reason; empty if the plan is not stale.
    """
    spec = again.spec
    if saved.version is None:
        return (_refusal(spec, "expected a version_is requirement, found none", "run `zlayout plan` again"),)
    observed = _observed(spec, now, again, mode)
    broken = violated((*saved.requirements, planned_clustering(saved.requirements)), observed)
    planned, wanted = saved.branch, spec.table.branch
    versions = [requirement.version for requirement in broken if isinstance(requirement, VersionIs)]
    if planned != wanted:
        reasons = [f"it is for branch {planned or MAIN}, and this run is for {wanted or MAIN}"]
    elif changed := [text for kind, text in _CHANGED.items() if any(isinstance(r, kind) for r in broken)]:
        reasons = changed
    elif _other_selection(saved.requirements, again.plan.requirements):
        reasons = ["the layout spec selects other files now"]
    elif versions:
        reasons = [f"expected table version {version}, found {now.version}" for version in versions]
    elif gone := _changed_files([group.files for group in again.groups], now):
        reasons = [f"{plural(gone, 'pinned file')} {'was' if gone == 1 else 'were'} changed or removed"]
    elif _settings(saved.actions) != _settings(again.plan.actions):  # a table version does not include all settings
        reasons = ["the plan would change other settings now"]
    else:
        broken = violated((*saved.requirements, *again.plan.requirements), observed)
        names = dict.fromkeys(r.name for r in broken if isinstance(r, PropertyIs))
        reasons = [f"the table's properties changed: {', '.join(names)}"] if names else []
    return tuple(_refusal(spec, reason, "run `zlayout plan` again and review it") for reason in reasons)


def _observed(spec: LayoutSpec, now: TableState, again: PlannedTable, mode: Staleness) -> Observed:
    return Observed(
        table_id=now.table_id,
        location=now.location,
        branch=spec.table.branch,
        version=now.version if mode == "strict" else None,
        schema=now.schema_digest,
        layout_id=spec.layout.layout_id,
        partitioning=tuple(map(str, now.partition_fields)),
        clustering=now.clustering or (),
        properties=now.properties,
        files={r.group: r.digest for r in again.plan.requirements if isinstance(r, FilesAre)},
    )


def _other_selection(saved: Sequence[Requirement], again: Sequence[Requirement]) -> bool:
    saved_files, again_files = ({r for r in plan if isinstance(r, FilesAre)} for plan in (saved, again))
    missing = {type(r) for r in again} - {type(r) for r in saved} - {PropertyIs}
    return saved_files != again_files or bool(missing)


def _changed_files(pinned: Sequence[FileTable], now: TableState) -> int:
    keys = identities(pinned)
    return len(keys) - (pc.sum(pc.is_in(keys, now.files.identity())).as_py() or 0)


def _settings(actions: Iterable[Action]) -> list[Action]:
    return [
        replace(action, location=None) if isinstance(action, ChangePartitioning | ChangeClustering) else action
        for action in actions
        if not isinstance(action, RewriteGroup)
    ]


def _refusal(spec: LayoutSpec, reason: str, hint: str) -> Diagnostic:
    return Diagnostic("ZL203", f"{spec.table}: the plan is stale: {reason}", "refused", hint, spec.location)
