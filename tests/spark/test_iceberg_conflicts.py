"""Engine `zlayout` on Iceberg: what a change since the plan, or during the run, does to it."""

from typing import Any

import pytest
from spark.sample_tables import create_iceberg
from spark.subjects import IcebergSubject

from zlayout.errors import CommitConflict, CommitUnknown
from zlayout.formats.base import Commit, GroupFailed, Stage
from zlayout.formats.iceberg.read.history import commits_to, run_commits
from zlayout.formats.iceberg.write import commit
from zlayout.table.state import PartitionField


@pytest.fixture
def table(iceberg: IcebergSubject) -> IcebergSubject:
    return iceberg


@pytest.mark.parametrize("version", [pytest.param(2, marks=pytest.mark.long), 3])
def test_a_concurrent_rewrite_of_files_is_a_conflict_and_an_append_is_kept(table: IcebergSubject, version: int) -> None:
    create_iceberg(table, version)
    name = table.identifier
    expected = table.ids()

    compaction = f"call ice.system.rewrite_data_files(table => '{name}', options => map('rewrite-all', 'true'))"
    rivals = [
        (f"delete from {table} where id = 5", 5),
        (f"update {table} set b = -1 where id = 7", None),
        (compaction, None),
    ]
    modes = ", ".join(f"'write.{change}.mode'='copy-on-write'" for change in ("delete", "update"))
    table.sql(f"alter table {table} set tblproperties ({modes})")
    for statement, deleted in rivals:
        state = table.observe()
        (failed,) = table.race(state, lambda: table.spark.sql(statement))  # noqa: B023
        assert isinstance(failed, GroupFailed), statement
        assert failed.error.diagnostics[0].code == "ZL321"
        expected = [i for i in expected if i != deleted]
        assert table.ids() == expected
        assert -1 in table.observe().files.layout

    state = table.observe()
    (done,) = table.race(state, lambda: table.sql(f"insert into {table} values (9999, 1, 1, 1)"))
    assert isinstance(done, Commit)
    assert table.ids() == [*expected, 9999]
    assert sorted(set(table.observe().files.layout)) == [-1, 0]


def test_only_the_group_in_conflict_is_dropped(table: IcebergSubject) -> None:
    create_iceberg(table, 2, "partitioned by (p)")
    state = table.observe()
    odd = next(f"g{i}" for i, p in enumerate(state.files.partitions) if p.values == (1,))
    even = next(f"g{i}" for i, p in enumerate(state.files.partitions) if p.values == (0,))
    before = table.ids()
    table.sql(f"alter table {table} set tblproperties ('write.delete.mode'='copy-on-write')")
    done = table.race(state, lambda: table.sql(f"delete from {table} where id = 5"))
    assert [d.groups for d in done if isinstance(d, GroupFailed)] == [(odd,)]
    assert [d.groups for d in done if isinstance(d, Commit)] == [(even,)]
    assert table.ids() == [i for i in before if i != 5]


def test_a_partitioning_that_somebody_else_changed_stays(table: IcebergSubject) -> None:
    create_iceberg(table)
    state = table.observe()
    table.sql(f"alter table {table} add partition field b")
    by_p = (PartitionField("p"),)
    wanted = table.work(state, partition_by=by_p)
    with pytest.raises(CommitConflict, match=r"ZL320 .* is partitioned by b since the plan"):
        list(table.execute(wanted))
    assert table.observe().partition_fields == (PartitionField("b"),)
    table.sql(f"alter table {table} set tblproperties ('team' = 'b')")
    by_b, team_x = ("b",), (("team", "x"),)
    wanted = table.work(state, partition_by=by_p, properties=team_x, partitioning=by_b)
    with pytest.raises(CommitConflict, match=r"ZL320 .* has team = b since the plan"):
        list(table.execute(wanted))
    assert table.observe().partition_fields == (PartitionField("b"),)
    (settings, done) = table.run(state, partition_by=by_p, properties=team_x, partitioning=by_b, had={"team": "b"})
    assert (settings.kind, done.kind) == ("settings", "rewrite")


class Answerless:
    """A transaction that is committed, after which no answer arrives but `error`."""

    def __init__(self, transaction: Any, error: Exception) -> None:
        self._transaction, self._error = transaction, error

    def commitTransaction(self) -> None:
        self._transaction.commitTransaction()
        raise self._error


def test_a_commit_without_an_answer_is_found_by_its_run(table: IcebergSubject, monkeypatch: Any) -> None:
    create_iceberg(table)
    prepared = commit.Committer.prepare
    for error in (ConnectionResetError("no answer"), CommitConflict.of("ZL321", "Iceberg tried a second time")):

        def answerless(*arguments: Any) -> Any:
            transaction, snapshot = prepared(*arguments)
            return Answerless(transaction, error), snapshot  # noqa: B023

        state = table.observe()
        monkeypatch.setattr(commit.Committer, "prepare", answerless)
        run_id = f"run-{type(error).__name__}"
        (done,) = table.run(state, run_id=run_id)
        assert isinstance(done, Commit)
        assert done.version == table.observe().version != state.version
        assert (done.groups, done.files_removed, done.files_added) == (("g0",), len(state.files), 2)

    monkeypatch.setattr(commit, "run_commits", lambda *_: 1 / 0)
    unknown = table.work(run_id="lost")
    with pytest.raises(CommitUnknown, match=r"ZL331 .*run lost .*cannot be read"):
        list(table.execute(unknown))


def test_known_commit_equals_what_a_fresh_reader_finds(table: IcebergSubject) -> None:
    create_iceberg(table, 3, "partitioned by (p)")
    wanted = table.work()
    (reported,) = table.execute(wanted)
    (found,) = run_commits(table.catalog, table.name, wanted.run_id)
    assert [reported] == [*commits_to(wanted.groups, [found])]


def test_an_empty_table_accepts_settings_and_a_concurrent_append(table: IcebergSubject) -> None:
    table.sql(f"create table {table} (id bigint, p int) using iceberg")
    empty = table.observe()
    assert empty.version == -1
    (changed,) = table.run(empty, properties=(("note", "one"),))
    assert (changed.kind, changed.version) == ("settings", -1)
    table.sql(f"insert into {table} values (1, 1)")
    change, had = (("note", "two"),), {"note": "one"}
    wanted = table.work(empty, properties=change, had=had, partition_by=(PartitionField("p"),))
    (changed,) = table.execute(wanted)
    after = table.observe()
    assert changed.version == after.version
    assert (after.properties["note"], after.partition_fields) == ("two", (PartitionField("p"),))


def test_groups_changed_since_the_plan_are_not_even_written(table: IcebergSubject) -> None:
    create_iceberg(table, 2, "partitioned by (p)")
    state = table.observe()
    group = {p.values: f"g{i}" for i, p in enumerate(state.files.partitions)}
    table.sql(f"delete from {table} where id = 5")
    before = table.ids()
    stages: list[Stage] = []
    failed, done = table.execute(table.work(state), lambda p: stages.append(p.stage))
    assert isinstance(failed, GroupFailed)
    assert failed.groups == (group[(1,)],)
    assert "ZL320" in str(failed.error)
    assert Stage.REWRITING in stages
    assert isinstance(done, Commit)
    assert done.groups == (group[(0,)],)
    assert table.ids() == before

    table.sql(f"insert overwrite {table} select * from {table} where id < 100")
    gone = table.run(state, run_id="again")
    assert [(type(g), g.groups) for g in gone] == [(GroupFailed, ("g0",)), (GroupFailed, ("g1",))]


def test_a_table_that_took_the_place_of_the_planned_one_is_left_alone(table: IcebergSubject) -> None:
    create_iceberg(table)
    state = table.observe()
    wanted = table.work(state, properties=(("team", "x"),), groups=(), table_id="another")
    with pytest.raises(CommitConflict, match=f"ZL320 .* expected the table another, found {state.table_id}"):
        list(table.execute(wanted))
    assert "team" not in table.observe().properties
