"""May a saved plan still be applied? Compares what it requires with the table as it is now."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import pyarrow.compute as pc

from zlayout.errors import Diagnostic
from zlayout.planner.decision import Decision
from zlayout.planner.model import PartitionChange, Requires, TablePlan
from zlayout.spec.model import LayoutSpec
from zlayout.table.state import TableState, identities

Staleness = Literal["compatible", "strict"]


def staleness(
    saved: TablePlan, spec: LayoutSpec, again: Decision, now: TableState, mode: Staleness
) -> tuple[Diagnostic, ...]:
    """Why the saved plan may not be applied; empty when it may.

    again: the decision made anew from the saved version of the table. now: the table at this moment. Appends since
    then are fine unless mode is `strict`; a changed spec, schema, partitioning or pinned file never is.
    """
    old, new = saved.requires, again.plan.requires
    if old is None or new is None:
        return (_refusal(spec, "the plan names no table version", "make the plan again"),)
    reasons = _reasons(old, new, again, now, mode) or _changed_settings(saved, again.plan, now)
    return tuple(_refusal(spec, reason, "run `zlayout plan` again and review it") for reason in reasons)


def _reasons(old: Requires, new: Requires, again: Decision, now: TableState, mode: Staleness) -> list[str]:
    reasons = []
    if old.table_id != now.table_id:
        reasons.append("the table was dropped and made again")
    if old.layout_id != new.layout_id:
        reasons.append("the layout spec changed")
    if old.schema != now.schema_digest:
        reasons.append("the table's schema changed")
    if old.partitioning != ", ".join(map(str, now.partition_fields)):
        reasons.append("the table's partitioning changed")
    if reasons:
        return reasons
    if old.files != new.files:
        return ["the plan's files are not the ones this spec selects"]
    if mode == "strict" and old.version != now.version:
        return [f"the table is at version {now.version}, the plan was made at {old.version}"]
    changed = _changed_files(again, now)
    return [f"{changed} of the plan's files were changed or removed"] if changed else []


def _changed_settings(saved: TablePlan, again: TablePlan, now: TableState) -> list[str]:
    """Settings are not always versioned with the table: what was reviewed must be what would be done now."""
    if saved.properties != again.properties or _change(saved) != _change(again):
        return ["the settings to change are not the ones in the plan"]
    changed = [p.name for p in saved.properties if now.properties.get(p.name) != p.before]
    return [f"the table's properties changed: {', '.join(changed)}"] if changed else []


def _change(plan: TablePlan) -> PartitionChange | None:
    """The change of the partitioning, wherever it stands in the spec, and from wherever that is read."""
    return plan.partitioning and replace(plan.partitioning, location=None)


def _changed_files(again: Decision, now: TableState) -> int:
    """How many pinned (path, version_key) are no longer live."""
    keys = identities([group.files for group in again.groups])
    return len(keys) - (pc.sum(pc.is_in(keys, now.files.identity())).as_py() or 0)


def _refusal(spec: LayoutSpec, reason: str, hint: str) -> Diagnostic:
    return Diagnostic("ZL203", f"{spec.table}: the plan is stale: {reason}", "refused", hint, spec.location)
