"""Carry out decisions, table by table, and look again afterwards: the half of zlayout that writes."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from zlayout.app.plan import Planned, look, plan_table
from zlayout.errors import EngineError, Refused, TableError, ZlayoutError
from zlayout.formats.base import Backend, Commit, Group, GroupFailed, Notice, Notify, Outcome
from zlayout.planner.actions import Reason
from zlayout.planner.budget import take
from zlayout.planner.decision import PlanOptions
from zlayout.planner.model import Status, TablePlan
from zlayout.planner.stale import Staleness, staleness
from zlayout.tuning import give_back_freed_memory

# A group that met a concurrent change is planned anew and run again; one run does so until it tried this often.
ATTEMPTS = 3

Announce = Callable[[str, Outcome], None]


@dataclass(slots=True)
class Applied:
    """What was done to one table. `after` is the plan made afresh afterwards, None when that was not reached.

    again: what was read for it. within_budget: all that a byte budget allowed is done.
    interrupted: a person stopped the run at this table. forgotten: a dropped group had only its bounds to gain, and
    they look as declared now that the table's property makes bounds longer (docs/adr/0004-cut-bounds.md).
    """

    table: str
    run_id: str
    commits: list[Commit] = field(default_factory=list)
    failures: list[GroupFailed] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    error: ZlayoutError | None = None
    after: TablePlan | None = None
    again: Planned | None = None
    within_budget: bool = False
    interrupted: bool = False
    forgotten: bool = False

    @property
    def exit_code(self) -> int:
        if self.error is not None:
            return self.error.exit_code
        if self.after is None or self.forgotten:
            return 1
        if self.within_budget and self.after.status is Status.CHANGES:
            return 0
        return {Status.UNCHANGED: 0, Status.REFUSED: Refused.exit_code}.get(self.after.status, 1)


def apply_table(
    planned: Planned,
    backend: Backend,
    options: PlanOptions,
    applied: Applied,
    notify: Notify,
    announce: Announce,
    verify: Literal["gate", "full"] = "gate",
    attempts: int = ATTEMPTS,
) -> None:
    """Execute one decision, planning again what met a concurrent change; fills `applied` as it goes.

    attempts: 1 for a reviewed plan file, since another plan would be one that nobody saw.
    An error ends this table and is kept in `applied.error`; what was committed before it stays listed.
    """
    current = planned
    try:
        for _ in range(attempts):
            failed = _execute(current, backend, applied, notify, announce, verify)
            after = plan_table(planned.spec, backend, replace(options, max_rewrite_bytes=None))
            applied.after, applied.again = after.decision.plan, after
            applied.forgotten |= _forgets(current, failed, after)
            if not failed:
                applied.within_budget = planned.decision.plan.left_over is not None
                break
            if options.max_rewrite_bytes is not None:
                size = sum(int(g.files.bytes.sum()) for g in current.decision.groups if g.id in failed)
                after = plan_table(planned.spec, backend, replace(options, max_rewrite_bytes=size))
            if after.decision.plan.status in (Status.REFUSED, Status.ERROR):
                break
            current = after
    except ZlayoutError as error:
        applied.error = error
    except Exception as error:
        # What this and other tables committed must still be reported, whatever an engine throws.
        applied.error = EngineError.of(
            "ZL307",
            f"{applied.table}: unexpected {type(error).__name__}: {error}",
            hint=f"look for run {applied.run_id} in the table's history, and report this",
            location=planned.spec.location,
        )


def exit_code(done: Sequence[Applied]) -> int:
    """Of a whole run: 3 only if nothing was written and nothing else failed, as it promises."""
    codes = {applied.exit_code for applied in done} - {0}
    if codes == {Refused.exit_code} and not any(applied.commits for applied in done):
        return Refused.exit_code
    return 1 if codes else 0


def new_run(planned: Planned) -> Applied:
    return Applied(str(planned.spec.table), uuid.uuid4().hex)


def _forgets(before: Planned, failed: frozenset[str], after: Planned) -> bool:
    """Whether a dropped group was for longer bounds and has files that live on and that no group takes now."""
    blind = {g.id for g in before.decision.plan.groups if g.reason is Reason.BOUNDS_CUT} & failed
    if not blind or after.state is None:
        return False
    left = set(after.state.files.path.to_pylist()) - _paths(after.decision.groups)
    return not left.isdisjoint(_paths(group for group in before.decision.groups if group.id in blind))


def _paths(groups: Iterable[Group]) -> set[str]:
    return {path for group in groups for path in group.files.path.to_pylist()}


def check_saved(saved: TablePlan, planned: Planned, backend: Backend, options: PlanOptions, mode: Staleness) -> Planned:
    """The decision behind a saved plan, pinned to the plan's version.

    Raises Refused ZL203 when it is stale, TableError when the spec does not fit the table any more.
    """
    if planned.state is None:
        raise TableError(*planned.decision.plan.diagnostics)
    version = saved.version
    again = planned
    if saved.left_over is not None:
        offered = look(planned.spec, backend, replace(options, max_rewrite_bytes=saved.left_over.budget), version)
        again = replace(offered, decision=take(offered.decision, {group.id for group in saved.groups}))
    elif version is not None and version != planned.state.version:
        again = plan_table(planned.spec, backend, options, version)
    if again.state is None:
        raise Refused.of(
            "ZL203",
            f"{planned.spec.table}: the plan is stale: version {version} can no longer be read",
            hint="run `zlayout plan` again and review it",
            location=planned.spec.location,
        )
    if again.decision.plan.status is Status.ERROR:
        raise TableError(*again.decision.plan.diagnostics)
    if reasons := staleness(saved, planned.spec, again.decision, planned.state, mode):
        raise Refused(*reasons)
    return again


def _execute(
    planned: Planned,
    backend: Backend,
    applied: Applied,
    notify: Notify,
    announce: Announce,
    verify: Literal["gate", "full"],
) -> frozenset[str]:
    """Run the decision; the ids of the groups that were dropped and are worth planning again."""
    whole = planned.decision.work(planned.spec, applied.run_id, verify)
    failed: frozenset[str] = frozenset()
    works = whole.in_parts(planned.spec.max_group_size)
    give_back_freed_memory()  # what planning left: Spark's JVM needs it from here on
    for outcome in (outcome for work in works for outcome in backend.execute(work, notify)):
        if isinstance(outcome, Notice):
            if outcome in applied.notices:
                continue
            applied.notices.append(outcome)
        elif isinstance(outcome, GroupFailed):
            applied.failures.append(outcome)
            failed |= frozenset(outcome.groups)
        else:
            applied.commits.append(outcome)
        announce(applied.table, outcome)
    return failed
