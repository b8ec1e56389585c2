"""Carry out the actions of a plan table by table, and observe each table again.

A run ends in time if it has a time limit, and can work on several tables at the same time.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from queue import Empty, SimpleQueue
from random import uniform
from typing import TypeVar

import pyarrow.compute as pc

from zlayout.errors import CommitConflict
from zlayout.formats.base import Backend, Commit, Event, Group, GroupFailed, Notice, Notify, Progress, Stage
from zlayout.planner import passes
from zlayout.planner.model import Reason, Status, TablePlan, Wait
from zlayout.planner.work import PlannedTable, PlanOptions
from zlayout.process import give_back_freed_memory
from zlayout.session.concurrent_reads import TIMEOUT, read_one
from zlayout.session.history import keep_commits
from zlayout.session.plan import ProjectPlan, backends_of, plan_table_in_time
from zlayout.session.results import (
    Applied,
    ApplyEvent,
    OnEvent,
    TableEvent,
    TableFinished,
    TableStarted,
    Verify,
    new_run,
    recorded,
    reporting,
    result_of,
)
from zlayout.session.sampling import begin_predictions
from zlayout.spark.session import SparkRuntime
from zlayout.spec.model import Maintenance
from zlayout.table.state import TableState

# The time limit: which rewrites a run may still start, and the parts of a plan that fit the time that is left.


NOTHING_LEFT = timedelta(0)


@dataclass(slots=True)
class Rate:
    """The bytes and the seconds of rewrites. Several threads may add to it."""

    bytes: int = 0
    seconds: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @property
    def per_second(self) -> float | None:
        """Bytes per second; None if nothing was measured."""
        return self.bytes / self.seconds if self.bytes and self.seconds else None

    def add(self, size: int, seconds: float) -> None:
        """Add a rewrite of `size` bytes."""
        with self._lock:
            self.bytes += size
            self.seconds += seconds


@dataclass(frozen=True, slots=True)
class TimeLimit:
    """When a run ends, and how fast it rewrites. A rewrite is started only if it is expected to end in time.

    Attributes:
        ends: When the run must end, in the seconds of `clock`; infinity for no limit.
        clock: Returns the present time in seconds.
        rate: What this run has rewritten of all tables. The seconds of concurrent rewrites are added up, so it is the
            rate of one table.
    """

    ends: float = math.inf
    clock: Callable[[], float] = time.monotonic
    rate: Rate = field(default_factory=Rate)

    @classmethod
    def of(cls, max_minutes: float | None, start: float, window: timedelta | None = None) -> TimeLimit:
        """Return the limit of a run.

        Args:
            max_minutes: The limit in minutes, None for no limit.
            start: The value of `time.monotonic()` at the start of the run.
            window: What is left of the maintenance window, from `left_of_window`.
        """
        ends = math.inf if max_minutes is None else start + 60 * max_minutes
        return cls(ends if window is None else min(ends, time.monotonic() + window.total_seconds()))

    @property
    def is_set(self) -> bool:
        return self.ends < math.inf

    @property
    def left(self) -> float:
        """The seconds that are left, negative after the end."""
        return self.ends - self.clock()

    def of_table(self, stored: float | None = None) -> TableLimit:
        """Return the limit for one table. stored: The bytes per second of its last run; None if they are unknown."""
        return TableLimit(self, stored)


@dataclass(slots=True)
class TableLimit:
    """The time limit for one table, which measures how fast the table is rewritten.

    The time before the first rewrite, in which Spark starts, does not count.
    """

    run: TimeLimit
    stored: float | None
    _rate: Rate = field(default_factory=Rate)
    _since: float | None = None

    def progressed(self, progress: Progress) -> None:
        """Record the start of a stage. A rewrite is measured from the start of its stage to its commit."""
        if progress.stage is Stage.REWRITING and self._since is None:
            self._since = self.run.clock()

    def committed(self, commit: Commit) -> None:
        """Record a commit, which ends the time of a rewrite and begins that of the next one."""
        if commit.kind != "rewrite":
            return
        now = self.run.clock()
        seconds = 0.0 if self._since is None else now - self._since
        self._since = now
        for rate in (self.run.rate, self._rate):
            rate.add(commit.bytes_removed, seconds)

    @property
    def per_second(self) -> float | None:
        """The expected bytes per second; None if they are unknown.

        It is the rate of this run at this table. Before the first commit to the table, it is the lower one of the rate
        of its last run and the rate of this run at other tables.
        """
        if (now := self._rate.per_second) is not None:
            return now
        return min((rate for rate in (self.stored, self.run.rate.per_second) if rate is not None), default=None)

    def allows(self, size: int) -> bool:
        """Return whether a rewrite of `size` bytes may be started now."""
        rate = self.per_second
        return self.run.left > (size / rate if rate else 0)

    def next_part(
        self, work: PlannedTable, max_bytes: int | None, *, begun: bool
    ) -> tuple[PlannedTable | None, PlannedTable | None]:
        """Divide a plan into the part to carry out now and the rest.

        Groups whose bounds must become longer are carried out together or not at all, because a later run would not
        select those that are deferred (docs/adr/0004-cut-bounds.md).

        Args:
            work: What is left of the plan of one table.
            max_bytes: The maximum size of a part, None for no limit.
            begun: Whether a part of the plan was carried out already.

        Returns:
            The part, None if no part may be started in the time that is left; and the rest, None if there is none.
        """
        if not self.run.is_set:
            first, *others = work.in_parts(max_bytes)
            return first, _joined(others)
        together = any(rewrite.reason is Reason.BOUNDS_TRUNCATED for rewrite in work.plan.groups)
        first, *others = work.in_parts(max_bytes if together else _smaller(max_bytes, self._room()))
        if not (together and begun) and not self.allows((work if together else first).plan.rewrite_bytes):
            return None, work
        return first, _joined(others)

    def _room(self) -> int | None:
        rate = self.per_second
        return max(int(self.run.left * rate), 1) if rate else None


def left_of_window(maintenance: Maintenance | None) -> timedelta | None:
    """Return what is left of the maintenance window, NOTHING_LEFT outside of all windows; None if none is declared."""
    if maintenance is None or not maintenance.windows:
        return None
    now = datetime.now(UTC)
    return (maintenance.end(now) or now) - now


def _smaller(one: int | None, other: int | None) -> int | None:
    return min((size for size in (one, other) if size is not None), default=None)


def _joined(works: list[PlannedTable]) -> PlannedTable | None:
    """The acceptance is that of the last part."""
    return works[-1].with_actions(*(action for work in works for action in work.plan.actions)) if works else None


# The plan of one table, which is carried out in parts.


Announce = Callable[[str, Event], None]


def limit_of(planned: PlannedTable, backend: Backend, applied: Applied, limit: TimeLimit, timeout: float) -> TableLimit:
    """Return the time limit for one table.

    If it leaves no time for any part of the work, `applied.begun` and `applied.deferred` are set. timeout: The limit on
    reading the metrics of the last run, in seconds.
    """
    if not limit.is_set:
        return limit.of_table()
    of_table = limit.of_table(_stored_rate(planned, backend, timeout))
    if of_table.next_part(planned, planned.spec.commit_bytes, begun=False)[0] is None:
        applied.begun, applied.deferred = False, planned.plan.groups
    return of_table


def _stored_rate(planned: PlannedTable, backend: Backend, timeout: float) -> float | None:
    spec, state = planned.spec, planned.state
    if state is None:
        return None
    try:
        run = read_one(lambda: backend.last_run(spec.table, state), spec.table, timeout)
    except Exception:  # the run does not depend on the rate
        return None
    return run.bytes_per_second if run else None


def forgets(before: PlannedTable, failed: frozenset[str], after: PlannedTable) -> bool:
    """Return whether a failed group needs longer bounds, and one of its live files is in no group of the new plan.

    `Applied.forgotten` states how that happens.
    """
    indistinct = {g.id for g in before.plan.groups if g.reason is Reason.BOUNDS_TRUNCATED} & failed
    if not indistinct or after.state is None:
        return False
    left = set(after.state.files.path.to_pylist()) - _paths(after.groups)
    return not left.isdisjoint(_paths(group for group in before.groups if group.id in indistinct))


def _has_news(group: Group, planned: TableState | None) -> bool:
    """Return whether other writers have added a file of a group, or deleted rows of one, since the plan."""
    if planned is None:
        return False
    known = pc.is_in(group.files.identity(), value_set=planned.files.identity()).to_numpy(zero_copy_only=False)
    return bool((~known & ((group.files.layout < 0) | (group.files.deleted > 0))).any())


def _paths(groups: Iterable[Group]) -> set[str]:
    return {path for group in groups for path in group.files.path.to_pylist()}


def execute(
    planned: PlannedTable,
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
    whole = replace(
        planned,
        run_id=applied.run_id,
        verify=verify,
        predictions=applied.predictions,
        has_time=lambda: limit.run.left > 0,
    )
    failed: frozenset[str] = frozenset()
    applied.deferred = ()
    give_back_freed_memory()  # the JVM of Spark needs the memory

    def progressed(progress: Progress) -> None:
        limit.progressed(progress)
        notify(progress)

    rest: PlannedTable | None = whole
    while rest is not None:
        part, rest = limit.next_part(rest, planned.spec.commit_bytes, begun=rest is not whole)
        if part is None:
            applied.deferred = rest.plan.groups if rest else ()
            break
        # No acceptance is stored if groups of an earlier part failed.
        events = backend.execute(replace(part, completes=False) if failed else part, progressed)
        try:
            for event in events:
                failed |= _recorded(event, applied, announce, limit)
        except CommitConflict as conflict:
            done = {group for commit in applied.commits for group in commit.groups}
            left = tuple(r.id for work in (part, rest) if work for r in work.plan.groups if r.id not in done)
            return failed | _recorded(GroupFailed(left, conflict), applied, announce, limit), conflict
    return failed, None


def _recorded(event: Event, applied: Applied, announce: Announce, limit: TableLimit) -> frozenset[str]:
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


# Several tables at the same time.
#
# Each thread has a Spark session of its own, and the functions for events are called in the thread of the caller.


E = TypeVar("E")
_POLL_SECONDS = 0.2


def by_gain(tables: Iterable[PlannedTable]) -> list[PlannedTable]:
    """Sort tables by what `apply` may gain per rewritten byte, the largest gain first."""
    return sorted(tables, key=lambda planned: (-gain(planned.plan), planned.plan.table))


def gain(plan: TablePlan) -> float:
    """Return by how much `apply` may lower touched per rewritten byte, summed over the columns."""
    decrease = sum(max(column.touched - column.low, 0.0) for column in plan.columns if column.low is not None)
    return decrease / max(plan.rewrite_bytes, 1)


def at_the_same_time(
    work: Callable[[SparkRuntime, Callable[[E], None]], None],
    threads: int,
    runtime: SparkRuntime,
    on_event: Callable[[E], None],
) -> None:
    """Call `work` in several threads and wait for all of them.

    Args:
        work: Called with the runtime of its thread, and with a function that calls `on_event` in the calling thread.
        threads: The number of threads.
        runtime: The runtime that provides those of the threads.
        on_event: Its exceptions are raised in the thread that made the event.

    Raises:
        Refused: ZL210, see `SparkRuntime.for_threads`.
        KeyboardInterrupt: A thread ended with it and no thread with another exception; or it was raised in the calling
            thread, which then does not wait for the other threads.
        BaseException: A thread ended with this exception.
    """
    workers = runtime.for_threads(threads)
    asked: SimpleQueue[tuple[E, Future[None]]] = SimpleQueue()
    ended: list[BaseException] = []

    def relay(event: E) -> None:
        answer: Future[None] = Future()
        asked.put((event, answer))
        answer.result()

    def work_alone(worker: SparkRuntime) -> None:
        try:
            with worker:
                work(worker, relay)
        except BaseException as error:
            ended.append(error)

    running = [threading.Thread(target=work_alone, args=(worker,), daemon=True) for worker in workers]
    runtime.workers = workers
    try:
        for thread in running:
            thread.start()
        while any(thread.is_alive() for thread in running):
            with suppress(Empty):
                _answer(*asked.get(timeout=_POLL_SECONDS), on_event)
    finally:
        runtime.workers = ()
    for error in sorted(ended, key=lambda error: isinstance(error, KeyboardInterrupt)):
        raise error


def _answer(event: E, answer: Future[None], on_event: Callable[[E], None]) -> None:
    try:
        on_event(event)
    except BaseException as error:
        answer.set_exception(error)
    else:
        answer.set_result(None)


# The run: all tables of a plan, and new plans after conflicts.


# The number of times that one run tries a group that conflicts. The run plans again before each further attempt. It
# waits about RETRY_SECONDS before the second attempt, and twice as long before each later one.
MAX_ATTEMPTS = 3
# The stages whose Spark jobs may be cancelled, because nothing is being committed.
_CANCELLABLE = (Stage.REWRITING, Stage.REBASING)
RETRY_SECONDS = 1.0


def carry_out(
    plan: ProjectPlan,
    runtime: SparkRuntime,
    on_event: OnEvent,
    verify: Verify = "gate",
    stop_requested: Callable[[], bool] = lambda: False,
    concurrent_tables: int = 1,
    limit: TimeLimit | None = None,
) -> tuple[tuple[Applied, ...], bool]:
    """Carry out the changes of a plan on a runtime that the caller stops. Tables with the largest gain come first.

    A KeyboardInterrupt ends the run and is not raised again. After each table, the run ends if `stop_requested` returns
    true. `on_event` is called in this thread, also for several concurrent tables. Tables for which `limit` leaves no
    time are deferred, without events.

    Returns:
        One entry for each table that was begun or deferred; and whether the run was interrupted.
    """
    changing = by_gain([p for p in plan.planned if p.plan.status is Status.CHANGES])
    left, done = iter(changing), list[Applied]()  # threads take from one iterator, each table once

    def carry_out_next(runtime: SparkRuntime, on_event: OnEvent) -> None:
        """Carry out tables until none is left, on a runtime that no other thread uses."""
        backends = backends_of(plan.project, runtime, [p.spec for p in changing])
        while not stop_requested() and (planned := next(left, None)) is not None:
            applied = new_run(planned)
            done.append(applied)
            backend = backends[planned.spec.table.catalog]
            of_table = limit_of(planned, backend, applied, limit or TimeLimit(), plan.timeout)
            if not applied.begun:
                continue
            report = reporting(on_event, applied, planned)
            try:
                _carry_out_one(planned, plan, runtime, backend, report, applied, verify, of_table)
            except KeyboardInterrupt:
                applied.interrupted = applied.after is None
                raise
            applied.interrupted = stop_requested() and applied.exit_code != 0
            with recorded(applied, planned):
                report(TableFinished(applied))

    try:
        if concurrent_tables == 1 or len(changing) == 1:
            carry_out_next(runtime, on_event)
        else:
            at_the_same_time(carry_out_next, min(concurrent_tables, len(changing)), runtime, on_event)
    except KeyboardInterrupt:
        return tuple(done), True
    return tuple(done), stop_requested()


def _carry_out_one(
    planned: PlannedTable,
    plan: ProjectPlan,
    runtime: SparkRuntime,
    backend: Backend,
    on_event: OnEvent,
    applied: Applied,
    verify: Verify,
    limit: TableLimit,
) -> None:
    def report(event: ApplyEvent) -> None:
        runtime.cancellable = isinstance(event, Progress) and event.stage in _CANCELLABLE
        if isinstance(event, Progress) and event.stage is Stage.STARTING and not runtime.started:
            event = replace(event, stage=Stage.STARTING_SPARK)
        on_event(event)
        runtime.resume()

    def announce(table: str, event: Event) -> None:
        if isinstance(event, Commit):
            runtime.committed(planned.spec.table)
            keep_commits(plan.project, planned, result_of(applied))
        report(TableEvent(table, event))

    with recorded(applied, planned):
        report(TableStarted(applied.table, applied.run_id))
    if applied.error is None:
        attempts = 1 if plan.reviewed else MAX_ATTEMPTS
        try:
            apply_table(
                planned, backend, plan.options, applied, report, announce, verify, attempts, plan.timeout, limit
            )
        finally:
            runtime.cancellable = False


def apply_table(
    planned: PlannedTable,
    backend: Backend,
    options: PlanOptions,
    applied: Applied,
    notify: Notify,
    announce: Announce,
    verify: Verify = "gate",
    attempts: int = MAX_ATTEMPTS,
    timeout: float = TIMEOUT,
    limit: TableLimit | None = None,
) -> None:
    """Carry out one decision and record what was done in `applied`. Plan again after a conflict.

    A conflict concerns the files of groups, or the table itself, such as its partitioning. An error ends the work on
    this table and is stored in `applied.error`; earlier commits remain in `applied.commits`.

    Args:
        attempts: How often a conflicting group is tried; 1 for a reviewed plan, because a new plan would not be
            reviewed.
        timeout: The limit on each read of the table, in seconds. Commits have none.
        limit: The time limit; the groups that it defers are stored in `applied.deferred`. Default: none.
    """
    current, limit = planned, limit or TimeLimit().of_table()
    # A partition that waited when the plan was made also waits in the plans of this run.
    options = passes.again(options, planned.plan, planned.state)
    with recorded(applied, planned):
        applied.predictions = begin_predictions(planned, backend, timeout)
        for attempt in range(attempts):
            is_last = attempt + 1 == attempts
            notify(Progress(applied.table, Stage.STARTING))
            failed, conflict = execute(current, backend, applied, notify, announce, verify, limit)
            if conflict and is_last:
                raise conflict
            if (failed or conflict) and not is_last:
                time.sleep(uniform(0.5, 1.5) * RETRY_SECONDS * 2**attempt)  # concurrent runs retry at different times
            notify(Progress(applied.table, Stage.OBSERVING))
            after = plan_table_in_time(planned.spec, backend, replace(options, max_rewrite_bytes=None), timeout)
            if conflict and after.identity != planned.identity:  # the name leads to another table now
                raise conflict
            applied.after, applied.again = after.plan, after
            applied.forgotten |= forgets(current, failed, after)
            if not failed and not conflict:
                applied.complete = all(_has_news(group, planned.state) for group in after.groups)
                applied.within_budget = planned.plan.that_wait(Wait.BUDGET) is not None
                break
            if is_last:
                break
            if options.max_rewrite_bytes is not None:
                size = sum(int(g.files.bytes.sum()) for g in current.groups if g.id in failed)
                size = size or options.max_rewrite_bytes
                after = plan_table_in_time(planned.spec, backend, replace(options, max_rewrite_bytes=size), timeout)
            if after.plan.status in (Status.REFUSED, Status.ERROR):
                break
            current = after
