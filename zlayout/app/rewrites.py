"""Carry out the work order of one table in parts, and record what is done."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Literal

from zlayout.app.concurrent_reads import read_one
from zlayout.app.plan import Planned
from zlayout.app.results import Applied
from zlayout.app.time_limit import TableLimit, TimeLimit
from zlayout.errors import CommitConflict
from zlayout.formats.base import Backend, Event, Group, GroupFailed, Notice, Notify, Progress
from zlayout.planner.actions import Reason
from zlayout.planner.work import Work
from zlayout.tuning import give_back_freed_memory

Announce = Callable[[str, Event], None]
Verify = Literal["gate", "full"]


def limit_of(planned: Planned, backend: Backend, applied: Applied, limit: TimeLimit, timeout: float) -> TableLimit:
    """Return the time limit for one table.

    If it leaves no time for any part of the work, `applied.begun` and `applied.deferred` are set. timeout: The limit on
    reading the metrics of the last run, in seconds.
    """
    if not limit.is_set:
        return limit.of_table()
    of_table = limit.of_table(_stored_rate(planned, backend, timeout))
    work = planned.decision.work(planned.spec, applied.run_id)
    if of_table.next_part(work, planned.spec.commit_bytes, begun=False)[0] is None:
        applied.begun, applied.deferred = False, work.rewrites
    return of_table


def _stored_rate(planned: Planned, backend: Backend, timeout: float) -> float | None:
    spec, state = planned.spec, planned.state
    if state is None:
        return None
    try:
        run = read_one(lambda: backend.last_run(spec.table, state), spec.table, timeout)
    except Exception:  # the run does not depend on the rate
        return None
    return run.bytes_per_second if run else None


def forgets(before: Planned, failed: frozenset[str], after: Planned) -> bool:
    """Return whether a failed group needs longer bounds, and one of its live files is in no group of the new plan.

    `Applied.forgotten` states how that happens.
    """
    indistinct = {g.id for g in before.decision.plan.groups if g.reason is Reason.BOUNDS_TRUNCATED} & failed
    if not indistinct or after.state is None:
        return False
    left = set(after.state.files.path.to_pylist()) - _paths(after.decision.groups)
    return not left.isdisjoint(_paths(group for group in before.decision.groups if group.id in indistinct))


def _paths(groups: Iterable[Group]) -> set[str]:
    return {path for group in groups for path in group.files.path.to_pylist()}


def execute(
    planned: Planned,
    backend: Backend,
    applied: Applied,
    notify: Notify,
    announce: Announce,
    verify: Verify,
    limit: TableLimit,
) -> tuple[frozenset[str], CommitConflict | None]:
    """Carry out the decision as far as the time limit allows.

    Returns:
        The ids of the groups that failed; and the conflict, if one concerns the whole table, such as a changed
        partitioning, else None. After such a conflict no further group is carried out.
    """
    whole = planned.decision.work(planned.spec, applied.run_id, verify, applied.predictions)
    failed: frozenset[str] = frozenset()
    applied.deferred = ()
    give_back_freed_memory()  # the JVM of Spark needs the memory

    def progressed(progress: Progress) -> None:
        limit.progressed(progress)
        notify(progress)

    rest: Work | None = whole
    while rest is not None:
        part, rest = limit.next_part(rest, planned.spec.commit_bytes, begun=rest is not whole)
        if part is None:
            applied.deferred = rest.rewrites if rest else ()
            break
        # No acceptance is stored if groups of an earlier part failed.
        events = backend.execute(replace(part, accepts="") if failed else part, progressed)
        try:
            for event in events:
                failed |= _recorded(event, applied, announce, limit)
        except CommitConflict as conflict:
            done = {group for commit in applied.commits for group in commit.groups}
            left = tuple(r.id for work in (part, rest) if work for r in work.rewrites if r.id not in done)
            return failed | _recorded(GroupFailed(left, conflict), applied, announce, limit), conflict
    return failed, None


def _recorded(event: Event, applied: Applied, announce: Announce, limit: TableLimit) -> frozenset[str]:
    """Record an event of a rewrite and announce it. Return the ids of the groups that failed."""
    failed: frozenset[str] = frozenset()
    if isinstance(event, Notice):
        if event in applied.notices:
            return failed
        applied.notices.append(event)
    elif isinstance(event, GroupFailed):
        applied.failures.append(event)
        failed = frozenset(event.groups)
    else:
        applied.commits.append(event)
        limit.committed(event)
    announce(applied.table, event)
    return failed
