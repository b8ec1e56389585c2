"""Diagnostics on a plan: why a table is refused, and notes on settings, bounds and scope."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from zlayout.errors import Diagnostic
from zlayout.planner.actions import ChangePartitioning, CutBounds, cut_text
from zlayout.planner.select import Selection
from zlayout.planner.settings import longer
from zlayout.spec.model import LayoutSpec
from zlayout.table.state import TableState


def full_rewrite_refusals(
    spec: LayoutSpec, state: TableState, change: ChangePartitioning | None, *, allowed: bool
) -> Iterator[Diagnostic]:
    """ZL201, ZL202: a change of the partitioning that rewrites every file, where that is not allowed."""
    if change is None or not change.full_rewrite:
        return
    if not allowed:
        yield Diagnostic(
            "ZL201",
            f"partition_by changed: {state.format} can only do that by rewriting every file",
            "refused",
            "pass --allow-full-rewrite to plan it, or set partition_by back",
            change.location,
        )
    if spec.where is not None:
        yield Diagnostic(
            "ZL202",
            "partition_by changed, which needs every file, and `where` limits the partitions that may be changed",
            "refused",
            "remove `where` for this change",
            change.location,
        )


def budget_too_small(spec: LayoutSpec, budget: int, least: int) -> Diagnostic:
    """ZL205: the budget is below the smallest possible rewrite. Both in bytes."""
    return Diagnostic(
        "ZL205",
        f"{spec.table}: --max-rewrite-bytes is {budget:,} bytes, the smallest possible rewrite takes {least:,}",
        "refused",
        "allow more bytes, or leave the table out with --exclude",
        spec.location,
    )


def unused_settings(spec: LayoutSpec) -> Iterator[Diagnostic]:
    """ZL404 for each setting in the spec that has no effect with its curve."""
    layout = spec.layout
    if not layout.uses_range_ids and "zorder.range_ids" in spec.marks:
        alone = " by one column" if layout.effective_curve != layout.curve else ""
        yield _unused(spec, "zorder.range_ids", f"{layout.curve}{alone} cuts at the values themselves")
    if layout.engine == "zlayout" and layout.weights != {c.name: c.weight for c in layout.columns}:
        what = "one column" if len(layout.columns) == 1 else layout.curve
        yield _unused(spec, "zorder.columns", f"{what} ignores weights")


def _unused(spec: LayoutSpec, key: str, why: str) -> Diagnostic:
    hint = "remove it, or choose another curve"
    return Diagnostic("ZL404", f"{key} has no effect: {why}", "note", hint, spec.mark(key))


def scope_notes(spec: LayoutSpec, selection: Selection, partitions: int) -> Iterator[Diagnostic]:
    """ZL403 where `where` selects nothing, or partitions only in part. partitions: how many the table has."""
    if selection.straddling:
        message = f"{selection.straddling:,} partitions match `where` only in part; they are not changed"
        hint = "move the limit to a partition boundary to include them"
        yield Diagnostic("ZL403", message, "note", hint, spec.mark("where"))
    elif partitions and selection.out_of_scope == partitions:
        message = f"`where` selects none of the {partitions:,} partitions"
        yield Diagnostic("ZL403", message, "note", "compare it with their values", spec.mark("where"))


def cut_notes(
    spec: LayoutSpec, state: TableState, cuts: Sequence[CutBounds], hopeless: Sequence[CutBounds]
) -> Iterator[Diagnostic]:
    """ZL406 for each column with indistinct bounds.

    cuts: columns for which apply sets properties. hopeless: columns for which the table keeps long bounds already.
    """
    for cut in cuts:
        if cut.same:
            changes = ", ".join(f"{key} to {value}" for key, value in longer(state, cut))
            yield _indistinct(spec, cut, f"apply sets {changes}")
    for cut in hopeless:
        hint = "the table keeps long bounds already: unset that property and apply again if the files are older than it"
        yield _indistinct(spec, cut, hint)


def _indistinct(spec: LayoutSpec, cut: CutBounds, hint: str) -> Diagnostic:
    message = f"{cut_text(cut)}: no layout can skip files by them"
    return Diagnostic("ZL406", message, "note", hint, spec.mark("zorder.columns"))
