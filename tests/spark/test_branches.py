"""Branches of Iceberg tables: they are read and rewritten on their own, and main keeps its snapshot and its files."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from spark.sample_tables import create_iceberg
from spark.subjects import LAYOUT, IcebergSubject
from support.builders import make_spec
from support.runs import plan_and_apply

from zlayout.errors import CommitConflict, EngineError, Refused
from zlayout.formats.base import Commit, GroupFailed
from zlayout.formats.iceberg.read import state_property
from zlayout.formats.iceberg.write.commit import Committer
from zlayout.formats.iceberg.write.jvm import Swap
from zlayout.planner.model import Status
from zlayout.planner.work import PlanOptions
from zlayout.session.plan import plan_table
from zlayout.spec.model import LayoutSpec

OPTIONS = PlanOptions()


@pytest.fixture
def main(iceberg: IcebergSubject) -> IcebergSubject:
    """A table whose branch `audit` has 10 more rows than main, and other deleted rows."""
    create_iceberg(iceberg)
    iceberg.sql(f"alter table {iceberg} create branch audit")
    audit = iceberg.on("audit")
    rows = iceberg.spark.range(1000, 1010, 1, 1)
    audit.append(rows.selectExpr("id", "id a", "cast(id % 60 as int) b", "cast(id % 2 as int) p"))
    iceberg.sql(f"delete from {audit} where id in (4, 5)")
    return iceberg


@contextmanager
def unchanged(main: IcebergSubject) -> Iterator[None]:
    """Main has the same snapshot, files and rows afterwards, and no byte of its files has changed."""

    def seen() -> tuple[Any, ...]:
        state = main.observe()
        paths = state.files.path.to_pylist()
        bytes_of = [Path(path.removeprefix("file:")).read_bytes() for path in paths]
        return state.version, paths, state.files.version_key.to_pylist(), bytes_of, main.rows()

    before = seen()
    yield
    assert seen() == before


def spec_of(table: IcebergSubject) -> LayoutSpec:
    return make_spec(LAYOUT, table.name)


def snapshots(table: IcebergSubject) -> int:
    return len(list(table.java_table().snapshots()))


def test_a_branch_is_laid_out_and_main_is_not_touched(main: IcebergSubject) -> None:
    audit = main.on("audit")
    rows = audit.rows()
    assert len(rows) == len(main.ids()) + 8
    with unchanged(main):
        planned, applied = plan_and_apply(spec_of(audit), audit.backend)
        (commit,) = applied.commits
        after = audit.observe()
        assert (commit.version, commit.rows) == (after.version, len(rows))
        assert audit.rows() == rows
        assert set(after.files.layout) == {0}
        assert planned.plan.requirements.branch == "audit"
        assert planned.plan.table == f"{main.name}@audit"
        assert planned.plan.version == planned.state.version != main.observe().version  # type: ignore[union-attr]
        # the second plan is empty, and the work of the branch is not that of main
        made = snapshots(main)
        _, again = plan_and_apply(spec_of(audit), audit.backend)
        assert (again.commits, snapshots(main)) == ([], made)
        of_main = plan_table(spec_of(main), main.backend, OPTIONS)
        assert of_main.plan.status is Status.CHANGES
        assert of_main.state is not None
        assert main.backend.last_run(main.name, of_main.state) is None
        run = audit.backend.last_run(audit.name, after)
        assert run.run_id == applied.run_id
    with pytest.raises(Refused, match=f"ZL230 .* run {applied.run_id} rewrote branch audit"):
        main.backend.undo(main.name, applied.run_id)


def test_records_of_branches_and_of_main_live_side_by_side(main: IcebergSubject) -> None:
    audit = main.on("audit")
    _, first = plan_and_apply(spec_of(audit), audit.backend)
    _, second = plan_and_apply(spec_of(main), main.backend)  # drops the records of dead snapshots only
    state = state_property.parse(main.java_table().properties()[state_property.PROPERTY])
    made = {first.commits[0].version, second.commits[0].version}
    assert state_property.listed(state) == made
    assert {snapshot for entry in state.values() for snapshot, _ in entry.baselines} == made
    assert plan_table(spec_of(audit), audit.backend, OPTIONS).plan.status is Status.UNCHANGED
    # a rollback on main returns to its own records, and those of the branch stay
    back = main.backend.undo(main.name, None)
    assert back.run_id == second.run_id
    main.backend.roll_back(back, "back", {}, lambda _: None)
    assert plan_table(spec_of(main), main.backend, OPTIONS).plan.status is Status.CHANGES
    assert plan_table(spec_of(audit), audit.backend, OPTIONS).plan.status is Status.UNCHANGED
    kept = state_property.parse(main.java_table().properties()[state_property.PROPERTY])
    assert {snapshot for entry in kept.values() for snapshot, _ in entry.baselines} == {first.commits[0].version}
    # when the branch is published, main is laid out without a rewrite
    main.sql(f"call ice.system.fast_forward('{main.identifier}', 'main', 'audit')")
    published = plan_table(spec_of(main), main.backend, OPTIONS)
    assert published.plan.status is Status.UNCHANGED
    assert (published.state.version, len(published.state.files.baselines)) == (first.commits[0].version, 1)


def test_a_rollback_of_main_keeps_the_records_of_a_branch_made_after_the_run(iceberg: IcebergSubject) -> None:
    create_iceberg(iceberg)
    plan_and_apply(spec_of(iceberg), iceberg.backend)
    iceberg.sql(f"alter table {iceberg} create branch kept")
    iceberg.backend.roll_back(iceberg.backend.undo(iceberg.name, None), "back", {}, lambda _: None)
    assert plan_table(spec_of(iceberg), iceberg.backend, OPTIONS).plan.status is Status.CHANGES
    kept = iceberg.on("kept")
    assert plan_table(spec_of(kept), kept.backend, OPTIONS).plan.status is Status.UNCHANGED


def test_concurrent_changes_of_the_branch_conflict_and_those_of_main_do_not(main: IcebergSubject) -> None:
    audit = main.on("audit")
    rows = audit.rows()
    (rebased,) = audit.race(audit.observe(), lambda: main.sql(f"delete from {audit} where id = 7"))
    assert isinstance(rebased, Commit)
    assert rebased.rebased == 1
    assert audit.rows() == [row for row in rows if row[0] != 7]
    main.sql(f"alter table {main} set tblproperties ('write.delete.mode' = 'copy-on-write')")
    (failed,) = audit.race(audit.observe(), lambda: main.sql(f"delete from {audit} where id = 8"))
    assert isinstance(failed, GroupFailed)
    assert failed.error.diagnostics[0].code == "ZL321"
    rows, ids = audit.rows(), main.ids()

    def change_main_and_append() -> None:
        main.sql(f"delete from {main} where id = 9")
        main.sql(f"insert into {main} values (9999, 1, 1, 1)")
        main.sql(f"insert into {audit} values (8888, 1, 1, 1)")

    (done,) = audit.race(audit.observe(), change_main_and_append)
    assert isinstance(done, Commit)
    assert audit.rows() == sorted([*rows, (8888, 1, 1, 1)], key=repr)
    assert sorted(set(audit.observe().files.layout)) == [-1, 0]
    assert main.ids() == [*(i for i in ids if i != 9), 9999]
    assert set(main.observe().files.layout) == {-1}


def during_send(monkeypatch: pytest.MonkeyPatch, change: Callable[[], object]) -> None:
    """Let something happen once, after a commit was prepared and before it is sent."""
    send, waiting = Swap.commitTransaction, [change]

    def changed_and_sent(swap: Swap) -> None:
        if waiting:
            waiting.pop()()
        send(swap)

    monkeypatch.setattr(Swap, "commitTransaction", changed_and_sent)


def test_a_commit_is_prepared_again_but_not_to_a_dropped_branch(
    main: IcebergSubject, monkeypatch: pytest.MonkeyPatch
) -> None:
    audit = main.on("audit")
    rows = audit.rows()
    with monkeypatch.context() as patch:
        during_send(patch, lambda: main.sql(f"insert into {main} values (9999, 1, 1, 1)"))
        (done,) = audit.run()
    assert isinstance(done, Commit)
    assert audit.rows() == rows
    assert 9999 in main.ids()

    main.sql(f"alter table {main} create branch short")
    short = main.on("short")
    work = short.work()
    with unchanged(main), monkeypatch.context() as patch:
        during_send(patch, lambda: main.sql(f"alter table {main} drop branch short"))
        (failed,) = short.execute(work)
    assert isinstance(failed, GroupFailed)
    assert "ZL320" in str(failed.error)
    assert "dropped" in str(failed.error)
    assert main.java_table().refs().get("short") is None
    with pytest.raises(Refused, match=r"ZL238 expected branch 'short' .* no such branch"):
        short.observe()
    main.sql(f"alter table {main} create tag short")
    with pytest.raises(Refused, match=r"ZL238 .* a tag of this name .*main, audit"):
        list(short.execute(work))


def test_a_lost_answer_on_a_branch_is_settled_by_its_run(main: IcebergSubject, monkeypatch: pytest.MonkeyPatch) -> None:
    audit = main.on("audit")
    state, send = audit.observe(), Swap.commitTransaction
    main.sql(f"insert into {audit} values (8888, 1, 1, 1)")  # which is no change of the planned files
    rows = audit.rows()

    def answerless(swap: Swap) -> None:
        send(swap)
        raise ConnectionResetError("no answer")

    with unchanged(main):
        with monkeypatch.context() as patch:
            patch.setattr(Swap, "commitTransaction", answerless)
            (done,) = audit.run(state)
        assert isinstance(done, Commit)
        assert done.version == audit.observe().version
        assert audit.rows() == rows

        def unsent(_: Swap) -> None:
            raise ConnectionResetError("no answer")

        with monkeypatch.context() as patch:
            patch.setattr(Swap, "commitTransaction", unsent)
            with pytest.raises(EngineError, match="ZL331"):
                audit.run(run_id="lost")
        assert audit.observe().version == done.version


def test_settings_of_the_whole_table_are_refused_on_a_branch(main: IcebergSubject) -> None:
    audit = main.on("audit")
    main.sql(f"alter table {main} set tblproperties ('write.metadata.metrics.column.a' = 'none')")
    with unchanged(main):
        plan = plan_table(spec_of(audit), audit.backend, OPTIONS).plan
        assert plan.status is Status.REFUSED
        (refusal,) = [d for d in plan.diagnostics if d.severity == "refused"]
        assert refusal.code == "ZL239"
        assert "write.metadata.metrics.column.a" in refusal.message
        with pytest.raises(Refused, match="ZL239"):
            list(audit.execute(audit.work(properties=(("team", "x"),))))


@pytest.mark.long
@pytest.mark.parametrize("curve", ["zorder", "linear"])
def test_engine_native_rewrites_a_branch(main: IcebergSubject, curve: str) -> None:
    audit = main.on("audit")
    rows = audit.rows()
    spec = replace(spec_of(audit), layout=replace(LAYOUT, engine="native", curve=curve))
    with unchanged(main):
        _, applied = plan_and_apply(spec, audit.backend)
        assert [c.kind for c in applied.commits] == ["rewrite", "record"]
        assert applied.commits[0].version == audit.observe().version
        assert audit.rows() == rows
        assert plan_table(spec, audit.backend, OPTIONS).plan.status is Status.UNCHANGED


@pytest.mark.long
def test_row_ids_and_partitions_of_a_branch_are_kept(iceberg: IcebergSubject) -> None:
    create_iceberg(iceberg, 3, "partitioned by (p)")
    iceberg.sql(f"alter table {iceberg} create branch audit")
    audit = iceberg.on("audit")
    iceberg.sql(f"delete from {audit} where id = 6")
    lineage, rows = audit.lineage(), audit.rows()
    with unchanged(iceberg):
        plan_and_apply(spec_of(audit), audit.backend, verify="full")
        assert audit.lineage() == lineage
        assert audit.rows() == rows
    # a column that is added later is seen on the branch, as on main
    iceberg.sql(f"alter table {iceberg} add column c int")
    assert audit.observe().column("c") is not None
    assert plan_table(spec_of(audit), audit.backend, OPTIONS).plan.status is Status.UNCHANGED


@pytest.mark.long
def test_a_branch_with_several_partition_specs_is_accepted_on_its_own(main: IcebergSubject) -> None:
    main.sql(f"alter table {main} add partition field bucket(4, id)")
    audit = main.on("audit")
    rows = audit.rows()
    with unchanged(main):
        plan_and_apply(spec_of(audit), audit.backend)
        assert audit.rows() == rows
        assert plan_table(spec_of(audit), audit.backend, OPTIONS).plan.status is Status.UNCHANGED
        properties = main.java_table().properties()
        assert properties["zlayout.accepted.audit"]
        assert "zlayout.accepted" not in properties


@pytest.mark.long
def test_a_conflict_while_others_commit_all_the_time_is_reported(
    main: IcebergSubject, monkeypatch: pytest.MonkeyPatch
) -> None:
    audit = main.on("audit")
    state, prepare = audit.observe(), Committer.prepare

    numbers = count()

    def overtaken(*arguments: Any) -> Any:
        prepared = prepare(*arguments)
        main.sql(f"alter table {main} set tblproperties ('n' = '{next(numbers)}')")
        return prepared

    monkeypatch.setattr(Committer, "prepare", overtaken)
    with unchanged(main):
        (failed,) = audit.run(state)
    assert isinstance(failed, GroupFailed)
    assert isinstance(failed.error, CommitConflict)
    assert audit.observe().version == state.version


@pytest.mark.long
def test_engine_native_is_refused_while_main_has_no_snapshot(iceberg: IcebergSubject) -> None:
    iceberg.sql(f"create table {iceberg} (a int, b int) using iceberg")
    iceberg.sql(f"alter table {iceberg} create branch audit")
    audit = iceberg.on("audit")
    audit.append(iceberg.spark.range(10).selectExpr("cast(id as int) a", "cast(id as int) b"))
    assert iceberg.observe().version == -1
    spec = replace(spec_of(audit), layout=replace(LAYOUT, engine="native", curve="linear"))
    plan = plan_table(spec, audit.backend, OPTIONS).plan
    assert plan.status is Status.REFUSED
    assert "ZL229" in [d.code for d in plan.diagnostics]
    with pytest.raises(Refused, match=r"ZL229 .* while main has no snapshot"):
        audit.run(layout=spec.layout)
