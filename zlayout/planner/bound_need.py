"""Determine from a sample how long the bounds of string columns must be, and set this length in a plan.

Without a sample a plan sets `LONG_BOUND`, which is enough for nearly all values and longer than most need.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zlayout.planner.actions import Action, Reason, SetProperties
from zlayout.planner.decision import Decision
from zlayout.planner.log_growth import growth_notes, length_in
from zlayout.planner.model import TablePlan
from zlayout.planner.requirements import PropertyIs
from zlayout.planner.truncated_bounds import common_length
from zlayout.spec.model import LayoutSpec
from zlayout.table.key_sample import RowGroupSample
from zlayout.table.state import TableState, is_text

# Values that may become bounds, per file: the sample shows the values between them only in part.
VALUES_PER_FILE, MAX_VALUES = 4, 4096
# The share of neighbouring values that must differ within the length. Some values may be nearly equal in any length.
SHARE_TOLD_APART = 0.99
# Characters beyond what the sample needs, and the step of lengths.
MARGIN, STEP = 16, 16
# Parquet writers omit bounds of about 2 KB.
MAX_LENGTH = 1024


def needed_length(values: pa.Array, files: int) -> int:
    """Return the length in characters (bytes for binary) within which the bounds of neighbouring files differ.

    Args:
        values: Sampled values of a string or binary column, with nulls.
        files: The number of files that a rewrite makes of them.

    Returns:
        A multiple of STEP, at most MAX_LENGTH; 0 if fewer than two values are known.
    """
    distinct = pc.unique(values.drop_null())
    distinct = distinct.take(pc.array_sort_indices(distinct))
    count = min(len(distinct), max(VALUES_PER_FILE * files, 2), MAX_VALUES)
    if count < 2:
        return 0
    spaced = np.linspace(0, len(distinct) - 1, count).astype(np.int64)
    common = [common_length(low, high) for low, high in pairwise(distinct.take(pa.array(spaced)).to_pylist())]
    needed = int(np.quantile(common, SHARE_TOLD_APART, method="higher")) + 1 + MARGIN
    length = pc.utf8_length if pa.types.is_string(values.type) else pc.binary_length
    longest = int(pc.max(length(distinct)).as_py())
    return min(-(-min(needed, longest) // STEP) * STEP, MAX_LENGTH)


def needed_values(state: TableState, plan: TablePlan, sample: RowGroupSample) -> dict[str, str | None]:
    """Return the values that the sample needs for the properties of a plan that set the length of bounds, by name.

    None is for a property that need not change, because present bounds are long enough.
    """
    files = sum(group.target_files for group in plan.groups)
    found: dict[str, str | None] = {}
    for change in plan.properties:
        if not (wanted := length_in(change.after)):
            continue
        texts = [c for c in state.columns if c.name in sample.keys and is_text(c.type)]
        columns = [c for c in texts if change.name in {name for name, _ in (*c.longer_bounds, *c.enable_stats)}]
        if not columns:
            continue
        length = max(needed_length(sample.keys[c.name], files) for c in columns)
        present = max(c.bound_length or 0 for c in columns)
        if length <= present:
            truncated = any(group.reason is Reason.BOUNDS_TRUNCATED for group in plan.groups)
            found[change.name] = change.after if truncated else None
        else:
            found[change.name] = change.after.replace(str(wanted), str(length))
    return found


def with_values(spec: LayoutSpec, state: TableState, decision: Decision, values: Mapping[str, str | None]) -> Decision:
    """Return the decision with other values of properties that set the length of bounds, or without them (None)."""
    plan = decision.plan
    old = {p.name: p.after for p in plan.properties if length_in(p.after)}
    changed = {name: value for name, value in values.items() if name in old and value != old[name]}
    if not changed:
        return decision
    actions = tuple(_actions(plan.actions, changed))
    properties = [p for action in actions if isinstance(action, SetProperties) for p in action.changes]
    dropped = {name for name, value in changed.items() if value is None}
    notes = [replace(d, hint=_hint(d.hint, old, changed)) for d in plan.diagnostics if d.code != "ZL432"]
    notes = [d for d in notes if d.code != "ZL406" or not any(f"sets {name} to" in d.hint for name in dropped)]
    revised = replace(
        plan,
        actions=actions,
        requirements=tuple(r for r in plan.requirements if not (isinstance(r, PropertyIs) and r.name in dropped)),
        diagnostics=(*notes, *growth_notes(spec, state, properties)),
    )
    return replace(decision, plan=revised)


def saved_values(saved: TablePlan, again: TablePlan) -> dict[str, str | None]:
    """Return the values of a saved plan for the lengths of bounds that the plan made again, without a sample, sets."""
    if saved.sample is None:
        return {}
    kept = {p.name: p.after for p in saved.properties}
    return {p.name: kept.get(p.name) for p in again.properties if length_in(p.after)}


def _actions(actions: Sequence[Action], values: Mapping[str, str | None]) -> list[Action]:
    found: list[Action] = []
    for action in actions:
        if not isinstance(action, SetProperties):
            found.append(action)
            continue
        wanted = [(change, values.get(change.name, change.after)) for change in action.changes]
        changes = tuple(replace(change, after=value) for change, value in wanted if value is not None)
        found += [SetProperties(changes)] if changes else []
    return found


def _hint(hint: str, old: Mapping[str, str], values: Mapping[str, str | None]) -> str:
    for name, value in values.items():
        hint = hint if value is None else hint.replace(f"{name} to {old[name]}", f"{name} to {value}")
    return hint
