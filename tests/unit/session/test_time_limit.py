"""The time limit of a run: which rewrites are started, what is left for a later run, and how that is reported."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from contract import make_rows
from support.builders import make_layout, make_spec
from support.memory_format.backend import MemoryBackend
from support.memory_format.store import MemoryCatalog, MemoryTable
from support.runs import apply_planned

from zlayout.formats.base import Commit, GroupFailed, Notify, PlannedTable, Progress, Stage
from zlayout.planner.model import Plan, Reason
from zlayout.planner.work import PlanOptions
from zlayout.session.apply import TimeLimit
from zlayout.session.plan import plan_table
from zlayout.session.results import Applied, exit_code, result_of

SPEC = replace(make_spec(make_layout("a", target_size=2000), "mem.db.t"), max_group_size=None)
OPTIONS = PlanOptions()


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Slow(MemoryBackend):
    """Rewrites one group after the other, each in `seconds` of the clock."""

    def __init__(self, table: MemoryTable, clock: Clock, seconds: float = 60.0) -> None:
        super().__init__(MemoryCatalog({"db.t": table}))
        self.stored_table, self.clock, self.seconds = table, clock, seconds
        self.parts: list[list[str]] = []
        self.had_time: list[bool] = []

    def execute(self, work: PlannedTable, notify: Notify) -> Iterator[Commit | GroupFailed]:
        self.parts.append([group.id for group in work.groups])
        notify(Progress(str(work.table), Stage.STARTING))
        for event in super().execute(work, notify):
            self.clock.now += self.seconds
            self.had_time.append(work.has_time())
            yield event


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def backend(clock: Clock) -> Slow:
    """A table of three partitions, and so of three groups, of which each takes a minute."""
    rows = make_rows(399)
    stored = MemoryTable(rows.schema, ["region"])
    stored.append(rows, files=2)
    return Slow(stored, clock)


def planned_on(backend: Slow) -> PlannedTable:
    planned = plan_table(SPEC, backend, OPTIONS)
    assert len(planned.groups) == 3
    return planned


def run(planned: PlannedTable, backend: Slow, seconds: float, rate: float | None) -> Applied:
    """Apply with `seconds` left. rate: bytes per second of the last run."""
    limit = TimeLimit(backend.clock.now + seconds, backend.clock)
    return apply_planned(planned, backend, limit=limit.of_table(rate))


def one_group_a_minute(planned: PlannedTable) -> float:
    return max(group.bytes for group in planned.plan.groups) / 60


def test_the_groups_that_fit_into_the_time_are_rewritten_and_the_others_are_left(backend: Slow) -> None:
    planned = planned_on(backend)
    *first, last = planned.plan.groups
    applied = run(planned, backend, 150, one_group_a_minute(planned))
    assert backend.parts == [[group.id for group in first]]
    result = result_of(applied)
    assert (result.outcome, result.succeeded, applied.exit_code) == ("out_of_time", True, 0)
    assert (result.deferred_groups, result.deferred_bytes) == (1, last.bytes)
    again = plan_table(SPEC, backend, OPTIONS)
    assert [group.partition for group in again.plan.groups] == [last.partition]
    rest = run(again, backend, 150, None)
    assert (result_of(rest).outcome, result_of(rest).deferred_groups) == ("as_declared", 0)


def test_without_a_known_rate_a_rewrite_starts_while_time_is_left(backend: Slow) -> None:
    applied = run(planned_on(backend), backend, 0.5, None)
    assert (len(backend.parts), result_of(applied).outcome) == (1, "as_declared")


def test_a_rewrite_knows_when_the_time_is_over(backend: Slow) -> None:
    run(planned_on(backend), backend, 130, None)
    assert backend.had_time == [True, True, False]
    backend.had_time.clear()
    stored = MemoryTable(make_rows(1).schema)
    stored.append(make_rows(399), files=4)
    unlimited = Slow(stored, backend.clock, seconds=10_000)
    apply_planned(plan_table(SPEC, unlimited, OPTIONS), unlimited)
    assert unlimited.had_time == [True]


def test_nothing_starts_after_the_end(backend: Slow) -> None:
    applied = run(planned_on(backend), backend, 0, None)
    assert (backend.parts, applied.commits, result_of(applied).outcome) == ([], [], "out_of_time")


def test_a_run_that_is_faster_than_the_last_one_goes_on(backend: Slow) -> None:
    """The last run took a minute for a group; this one takes a second, and so has time for more than was expected."""
    planned = planned_on(backend)
    backend.seconds = 1
    applied = run(planned, backend, 70, one_group_a_minute(planned))
    assert [len(part) for part in backend.parts] == [1, 2]
    assert result_of(applied).outcome == "as_declared"


def test_a_run_that_is_slower_than_the_last_one_ends_sooner(backend: Slow) -> None:
    planned = planned_on(backend)
    in_parts = replace(planned, spec=replace(SPEC, max_group_size=planned.plan.groups[0].bytes))
    backend.seconds = 100
    applied = run(in_parts, backend, 190, one_group_a_minute(planned) * 60)
    assert [len(part) for part in backend.parts] == [1]
    assert result_of(applied).deferred_groups == 2


def test_the_lower_rate_counts_and_the_start_of_spark_is_no_part_of_it(clock: Clock) -> None:
    run = TimeLimit(clock.now + 100, clock)
    limit = run.of_table(50.0)
    assert (limit.allows(4999), limit.allows(5000)) == (True, False)
    limit.progressed(Progress("t", Stage.STARTING_SPARK))
    clock.now += 10
    limit.committed(Commit("settings", 1))
    clock.now += 10
    limit.progressed(Progress("t", Stage.REWRITING))
    clock.now += 10
    limit.committed(Commit("rewrite", 2, bytes_removed=200))
    for stored in (50.0, None):
        assert run.of_table(stored).per_second == 20.0
    other = run.of_table(50.0)
    assert (other.allows(1399), other.allows(1400)) == (True, False)
    assert run.of_table(10.0).per_second == 10.0


def test_without_a_limit_nothing_is_divided(backend: Slow) -> None:
    planned = planned_on(backend)
    work = replace(planned, run_id="run")
    assert TimeLimit.of(None, 0.0).of_table(1e-9).next_part(work, None, begun=False) == (work, None)


@pytest.mark.parametrize(("seconds", "done"), [(179, 0), (185, 3)])
def test_groups_that_need_longer_bounds_are_rewritten_together_or_not_at_all(
    backend: Slow, seconds: float, done: int
) -> None:
    """A later run would not select those that are left, because the property of the table is set by then."""
    planned = planned_on(backend)
    groups = planned.plan.groups
    rate = sum(group.bytes for group in groups) / 180
    reasons = (Reason.NOT_LAID_OUT, Reason.BOUNDS_TRUNCATED, Reason.BOUNDS_TRUNCATED)
    actions = tuple(replace(group, reason=reason) for group, reason in zip(groups, reasons, strict=True))
    planned = planned.with_actions(*actions)
    spec = replace(SPEC, max_group_size=groups[0].bytes)
    backend.seconds = 90  # slower than expected, and carried out to the end nevertheless
    applied = run(replace(planned, spec=spec), backend, seconds, rate)
    assert (len(applied.commits), len(applied.deferred)) == (done, 3 - done)
    assert len(backend.parts) == done


def test_groups_of_a_conflict_are_left_if_no_time_is_left_to_try_again(
    backend: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zlayout.session.apply.RETRY_SECONDS", 0.0)
    planned = planned_on(backend)
    stored = backend.stored_table
    stored.append(make_rows(9, start=1000))
    stored.compact()  # the files of the plan are gone
    backend.seconds = 200
    applied = run(planned, backend, 150, None)
    assert len(backend.parts) == 1
    assert (result_of(applied).outcome, applied.exit_code) == ("out_of_time", 0)
    assert len(applied.deferred) == 3


def test_tables_that_were_not_begun_are_no_failure_of_the_run() -> None:
    applied = Applied("mem.db.t", "run", begun=False)
    assert (result_of(applied).outcome, applied.exit_code) == ("out_of_time", 0)
    assert exit_code(Plan("0", ()), [applied]) == 0
