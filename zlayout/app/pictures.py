"""Draw the pictures of reports from observed tables."""

from __future__ import annotations

from collections.abc import Sequence

from zlayout.app.proposing import Planned
from zlayout.planner.drawing import boxes_of, draw, strip
from zlayout.planner.model import Plan, Status, TablePlan
from zlayout.planner.picture import Boxes, Picture, StripBin
from zlayout.planner.run_report import RunReport

# A page with more pictures is slow to load.
MAX_PICTURES = 50
# Drawing a larger table takes about as long as planning it, so plan files have no pictures of larger tables.
MAX_FILES_DRAWN_IN_PLAN_FILE = 200_000


def with_pictures(plan: Plan, planned: Sequence[Planned], max_files: int | None = None) -> RunReport:
    """Draw at most MAX_PICTURES tables: those with most bytes to rewrite, then those with most files.

    max_files: Tables with more files are not drawn; None for no limit.
    """
    drawn = [p for p in planned if p.spec.layout.orders]
    readable = {p.decision.plan.table: p for p in drawn if p.state is not None and len(p.state.files)}
    if max_files is not None:
        readable = {name: p for name, p in readable.items() if p.decision.plan.files <= max_files}
    tables = (t for t in plan.tables if t.table in readable and t.status is not Status.ERROR)
    order = sorted(tables, key=lambda t: (-t.rewrite_bytes, -t.files))
    return RunReport(plan, pictures={t.table: _drawn(t, readable[t.table]) for t in order[:MAX_PICTURES]})


def _drawn(table: TablePlan, planned: Planned) -> Picture:
    assert planned.state is not None
    known = any(c.predicted is not None or c.high is not None for c in table.columns)
    predictable = known and table.partitioning is None
    decision = planned.decision
    return draw(planned.spec, planned.state, decision.groups, predictable=predictable, after=decision.after)


def drawn_again(before: Picture | None, again: Planned) -> tuple[Boxes | None, tuple[StripBin, ...]]:
    """Draw the boxes and the strip of a table again after its run, for the same partition as before.

    Nothing is drawn if there was no picture before, or if the spec no longer fits the table.
    """
    if before is None or again.decision.plan.status is Status.ERROR:
        return None, ()
    if again.state is None or not len(again.state.files):
        return None, ()
    files = again.state.files
    nothing = files.bytes < 0
    return boxes_of(again.spec, files, before.partition), strip(again.spec, files, nothing)
