"""Applying one table: what is retried, what is reported, with which exit code."""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from contract import make_rows
from support.builders import make_layout, make_spec
from support.memory_format.backend import MemoryBackend
from support.memory_format.store import MemoryCatalog, MemoryTable
from support.runs import apply_planned

from zlayout.errors import CommitConflict, Location, Refused, TableError
from zlayout.formats.base import Commit, GroupFailed, Notify, PlannedTable
from zlayout.planner import document
from zlayout.planner.diff import PlanOptions
from zlayout.planner.model import Plan, PropertyChange, PropertyReason, Reason, SetProperties, Status, TablePlan, Wait
from zlayout.session.plan import as_plan, plan_table
from zlayout.session.plan_file import check_saved
from zlayout.session.results import Applied, exit_code, result_of
from zlayout.spec.model import TableName, ZorderColumn
from zlayout.table.state import TableState

SPEC = make_spec(make_layout("a", target_size=2000), "mem.db.t")
OPTIONS = PlanOptions()


class Disturbed(MemoryBackend):
    """Before each of the first `conflicts` rewrites, another tool compacts the table; or the engine breaks.

    refuses: the number of rewrites before which the settings of the table changed.
    """

    def __init__(
        self, table: MemoryTable, conflicts: int = 0, breaks: Exception | None = None, refuses: int = 0
    ) -> None:
        super().__init__(MemoryCatalog({"db.t": table}))
        self.table, self.conflicts, self.breaks, self.runs, self.refuses = table, conflicts, breaks, 0, refuses

    def execute(self, work: PlannedTable, notify: Notify) -> Iterator[Commit | GroupFailed]:
        self.runs += 1
        if self.breaks is not None:
            raise self.breaks
        if self.runs <= self.refuses:
            raise CommitConflict.of("ZL320", "is partitioned by b since the plan")
        if self.runs <= self.conflicts:
            self.table.append(make_rows(50, start=10_000 * self.runs))
            conflict = CommitConflict.of("ZL321", "someone was faster")
            yield GroupFailed(tuple(g.id for g in work.groups), conflict)
            return
        yield from super().execute(work, notify)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zlayout.session.apply.RETRY_SECONDS", 0.0)


@pytest.fixture
def table() -> MemoryTable:
    rows = make_rows(200)
    stored = MemoryTable(rows.schema)
    stored.append(rows, files=4)
    return stored


def run(backend: Disturbed, attempts: int = 3) -> Applied:
    planned = plan_table(SPEC, backend, OPTIONS)
    return apply_planned(planned, backend, attempts=attempts)


def test_a_rewrite_has_the_declared_time_zone_of_partition_values(table: MemoryTable) -> None:
    planned = plan_table(replace(SPEC, partition_timezone="UTC"), Disturbed(table), OPTIONS)
    assert planned.spec.partition_timezone == "UTC"


def test_a_conflict_is_planned_again_and_then_done(table: MemoryTable) -> None:
    backend = Disturbed(table, conflicts=2)
    applied = run(backend)
    assert (backend.runs, len(applied.failures), len(applied.commits), applied.exit_code) == (3, 2, 1, 0)


def test_settings_that_changed_are_planned_again(table: MemoryTable) -> None:
    """The partitioning changes between the plan and the rewrite, before any group."""
    backend = Disturbed(table, refuses=2)
    applied = run(backend)
    assert (backend.runs, len(applied.failures), len(applied.commits), applied.exit_code) == (3, 2, 1, 0)
    assert applied.error is None


@pytest.mark.parametrize(("refuses", "attempts"), [(3, 3), (1, 1)])
def test_settings_that_change_all_the_time_are_an_error(table: MemoryTable, refuses: int, attempts: int) -> None:
    applied = run(Disturbed(table, refuses=refuses), attempts)
    assert (applied.commits, applied.exit_code) == ([], 1)
    assert isinstance(applied.error, CommitConflict)
    assert [problem.code for problem in result_of(applied).problems] == ["ZL320"], "each problem is named once"


@pytest.mark.parametrize("other", [{"table_id": "another"}, {"location": "file:/another"}])
def test_a_table_that_took_the_place_of_the_planned_one_is_not_planned_again(
    table: MemoryTable, other: dict[str, str]
) -> None:
    backend = Disturbed(table, refuses=1)
    planned = plan_table(SPEC, backend, OPTIONS)
    assert planned.state is not None
    applied = apply_planned(replace(planned, state=replace(planned.state, **other)), backend)
    assert (backend.runs, applied.commits, type(applied.error)) == (1, [], CommitConflict)


def test_conflicts_without_end_are_given_up(table: MemoryTable, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr("zlayout.session.apply.time.sleep", waits.append)
    backend = Disturbed(table, conflicts=99)
    applied = run(backend)
    assert (backend.runs, applied.commits, applied.exit_code) == (3, [], 1)
    assert len(waits) == 2, "there is no wait after the last attempt"


def test_a_reviewed_plan_is_never_replaced_by_another(table: MemoryTable) -> None:
    backend = Disturbed(table, conflicts=1)
    applied = run(backend, attempts=1)
    assert (backend.runs, applied.commits, applied.exit_code) == (1, [], 1)


def test_whatever_an_engine_throws_is_reported_with_the_run(table: MemoryTable) -> None:
    applied = run(Disturbed(table, breaks=ZeroDivisionError("odd")))
    assert applied.exit_code == 1
    (diagnostic,) = applied.error.diagnostics
    assert diagnostic.code == "ZL307"
    assert "ZeroDivisionError: odd" in diagnostic.message
    assert applied.run_id in diagnostic.hint


class Silent(Disturbed):
    """After the first commit, the table can no longer be read."""

    release = threading.Event()

    def execute(self, work: PlannedTable, notify: Notify) -> Iterator[Commit | GroupFailed]:
        yield from super().execute(work, notify)
        self.runs = -1

    def observe(self, table: TableName, columns: Sequence[str], version: int | None = None) -> TableState:
        if self.runs < 0:
            self.release.wait(60)
        return super().observe(table, columns, version)


def test_a_table_that_cannot_be_read_after_the_commit_is_an_error_beside_the_commit(table: MemoryTable) -> None:
    backend = Silent(table)
    planned = plan_table(SPEC, backend, OPTIONS)
    applied = apply_planned(planned, backend, timeout=0.5)
    backend.release.set()
    assert [commit.kind for commit in applied.commits] == ["rewrite"]
    assert applied.after.status is Status.ERROR
    assert [d.code for d in applied.after.diagnostics] == ["ZL105"]
    assert applied.exit_code == 1


def test_a_refusal_afterwards_exits_with_3() -> None:
    after = TablePlan("mem.db.t", "memory", Location("x"), Status.REFUSED)
    assert Applied("mem.db.t", "run", after=after).exit_code == 3


def test_settings_of_a_saved_plan_must_still_be_the_ones_to_make(table: MemoryTable) -> None:
    backend = Disturbed(table)
    planned = plan_table(SPEC, backend, OPTIONS)
    change = SetProperties((PropertyChange("p", None, "full", PropertyReason.NO_STATISTICS, "a"),))
    plan = planned.plan
    saved = replace(plan, actions=(change, *plan.actions))
    with pytest.raises(Refused, match="plan would change other settings now"):
        check_saved(saved, planned, backend, OPTIONS, "compatible")
    again = replace(planned, plan=saved)
    assert check_saved(saved, again, backend, OPTIONS, "compatible") is again
    assert planned.state is not None
    elsewhere = replace(again, state=replace(planned.state, properties={"p": "counts"}))
    with pytest.raises(Refused, match="properties changed: p"):
        check_saved(saved, elsewhere, backend, OPTIONS, "compatible")


def test_a_saved_plan_whose_spec_does_not_fit_the_table_any_more_says_why(table: MemoryTable) -> None:
    backend = Disturbed(table)
    saved = plan_table(SPEC, backend, OPTIONS).plan
    spec = replace(SPEC, layout=replace(SPEC.layout, columns=(ZorderColumn("gone"),)))
    with pytest.raises(TableError, match="ZL012 unknown column 'gone'"):
        check_saved(saved, plan_table(spec, backend, OPTIONS), backend, OPTIONS, "compatible")


def test_rows_survive_all_of_it(table: MemoryTable) -> None:
    run(Disturbed(table, conflicts=1))
    expected = pa.concat_tables([make_rows(200), make_rows(50, start=10_000)])
    assert table.rows().sort_by("id").equals(expected.sort_by("id").combine_chunks())


def test_a_saved_plan_with_a_budget_is_carried_out_and_no_more(table: MemoryTable) -> None:
    backend = Disturbed(table)
    size = sum(f.rows.nbytes for f in table.current.files.values()) // 2
    options = PlanOptions(max_rewrite_bytes=size)
    saved = document.from_json(document.to_json(as_plan([plan_table(SPEC, backend, options)])), "p.json").plan.tables[0]
    assert saved.that_wait(Wait.BUDGET) is not None
    table.append(make_rows(10, start=10_000))
    checked = check_saved(saved, plan_table(SPEC, backend, OPTIONS), backend, OPTIONS, "compatible")
    applied = apply_planned(checked, backend, attempts=1)
    assert [c.files_removed for c in applied.commits] == [2]
    assert (result_of(applied).outcome, applied.exit_code) == ("within_budget", 0)
    with pytest.raises(Refused, match="stale"):
        check_saved(saved, plan_table(SPEC, backend, OPTIONS), backend, OPTIONS, "compatible")


def test_a_saved_plan_with_hot_partitions_is_carried_out_and_they_wait() -> None:
    """East was written a long time ago, the others just now."""
    rows, table = make_rows(300), MemoryTable(make_rows(0).schema, ("region",))
    table.append(rows.filter(pc.field("region") == "east"), files=4)
    for file in table.current.files.values():
        object.__setattr__(file, "written", 1)
    table.append(rows.filter(pc.field("region") != "east"), files=4)
    backend, options = MemoryBackend(MemoryCatalog({"db.t": table})), PlanOptions(hot_after=1)
    saved = document.from_json(document.to_json(as_plan([plan_table(SPEC, backend, options)])), "p.json").plan.tables[0]
    assert (saved.that_wait(Wait.HOT).groups, len(saved.groups)) == (2, 1)
    checked = check_saved(saved, plan_table(SPEC, backend, OPTIONS), backend, OPTIONS, "compatible")
    applied = apply_planned(checked, backend, attempts=1)
    assert [c.files_removed for c in applied.commits] == [4]
    assert (result_of(applied).outcome, applied.exit_code) == ("hot", 0)
    assert plan_table(SPEC, backend, OPTIONS).plan.status == "changes"


def test_a_conflict_under_a_budget_is_planned_again_within_it(table: MemoryTable) -> None:
    backend = Disturbed(table, conflicts=1)
    size = sum(f.rows.nbytes for f in table.current.files.values()) // 2
    options = PlanOptions(max_rewrite_bytes=size)
    planned = plan_table(SPEC, backend, options)
    applied = apply_planned(planned, backend, options)
    assert sum(c.bytes_removed for c in applied.commits) <= size
    assert (len(applied.commits), applied.exit_code) == (1, 0)


def test_what_no_longer_fits_the_budget_after_a_conflict_is_a_failure(table: MemoryTable) -> None:
    class Merged(Disturbed):
        """Another tool makes of the files that are being rewritten one that is larger than all that may be."""

        def execute(self, work: PlannedTable, notify: Notify) -> Iterator[Commit | GroupFailed]:  # noqa: ARG002
            self.runs += 1
            self.table.compact()
            yield GroupFailed(tuple(g.id for g in work.groups), CommitConflict.of("ZL321", "someone was faster"))

    backend = Merged(table)
    options = PlanOptions(max_rewrite_bytes=sum(f.rows.nbytes for f in table.current.files.values()) // 2)
    planned = plan_table(SPEC, backend, options)
    table.append(make_rows(150, start=10_000))
    applied = apply_planned(planned, backend, options)
    assert (backend.runs, applied.commits, applied.exit_code) == (1, [], 1)
    assert [d.code for d in result_of(applied).problems] == ["ZL321"]


@pytest.mark.parametrize("found_again", [True, False])
def test_a_group_that_a_conflict_leaves_with_short_bounds_is_a_failure(table: MemoryTable, found_again: bool) -> None:
    """Unless its files have another reason, so that the plan after the conflict takes them."""

    class Conflicting(Disturbed):
        def execute(self, work: PlannedTable, notify: Notify) -> Iterator[Commit | GroupFailed]:
            self.runs += 1
            if self.runs == 1:
                yield GroupFailed(tuple(g.id for g in work.groups), CommitConflict.of("ZL321", "someone was faster"))
            else:
                yield from super().execute(work, notify)

    first = plan_table(SPEC, Disturbed(table), OPTIONS)
    if not found_again:
        run(Disturbed(table))
    backend = Conflicting(table)
    now = plan_table(SPEC, backend, OPTIONS)
    plan = replace(first.plan, actions=tuple(replace(g, reason=Reason.BOUNDS_TRUNCATED) for g in first.plan.groups))
    indistinct = replace(first, plan=plan, pinned={first.groups[0].id: replace(first.groups[0], files=now.state.files)})
    applied = apply_planned(replace(now, plan=indistinct.plan, pinned=indistinct.pinned), backend)
    assert (len(applied.commits), applied.exit_code) == ((1, 0) if found_again else (0, 1))
    assert result_of(applied).outcome == ("as_declared" if found_again else "not_yet")
    assert [d.code for d in result_of(applied).problems] == ([] if found_again else ["ZL321"])


@pytest.mark.parametrize(
    ("ends", "code"),
    [
        ("", 0), ("done", 0), ("done failed", 1), ("refused", 3), ("refused nothing", 3), ("refused failed", 1),
        ("done refused", 4), ("part-refused", 4), ("done refused failed", 1),
        ("not-planned", 1), ("done not-planned", 1), ("not-allowed", 3), ("done not-allowed", 4),
        ("failed not-allowed", 1), ("done not-allowed not-planned", 1),
    ],
)  # fmt: skip
def test_exit_code_3_says_that_nothing_was_written_and_4_that_only_a_part_was(ends: str, code: int) -> None:
    after: dict[str, Status] = {"done": Status.UNCHANGED, "nothing": Status.UNCHANGED, "failed": Status.CHANGES}
    in_plan = {"not-planned": Status.ERROR, "not-allowed": Status.REFUSED}
    left_out = [TablePlan("mem.db.u", "memory", SPEC.location, in_plan[end]) for end in ends.split() if end in in_plan]
    applied = []
    for end in (end for end in ends.split() if end not in in_plan):
        one = Applied(
            "mem.db.t", "run", after=TablePlan("mem.db.t", "memory", SPEC.location, after.get(end, Status.REFUSED))
        )
        if end in ("done", "part-refused"):
            one.commits.append(Commit("rewrite", 1))
        applied.append(one)
    assert exit_code(Plan("0", tuple(left_out)), applied) == code


def test_groups_are_committed_in_parts_of_the_size_allowed(table: MemoryTable) -> None:
    size = sum(f.rows.nbytes for f in table.current.files.values()) // 2 + 100
    spec = replace(SPEC, max_group_size=size)
    backend = Disturbed(table)
    planned = plan_table(spec, backend, OPTIONS)
    applied = apply_planned(planned, backend)
    assert (backend.runs, len(applied.commits)) == (2, 2)


def test_memory_is_returned_to_the_system_before_every_rewrite(
    table: MemoryTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend, given_back = Disturbed(table, conflicts=1), []
    monkeypatch.setattr("zlayout.session.apply.give_back_freed_memory", lambda: given_back.append(backend.runs))
    run(backend)
    assert given_back == [0, 1]
