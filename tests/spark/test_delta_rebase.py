"""A rewrite of a Delta table is rebased onto deletion vectors that other writers commit meanwhile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from deltalake import DeltaTable, QueryBuilder
from spark.sample_tables import VALUES, append_delta, create_delta
from spark.subjects import DeltaSubject
from support.builders import make_layout

from zlayout.errors import CommitConflict, EngineError
from zlayout.formats.base import Commit, GroupFailed, Notice, PlannedTable, Stage
from zlayout.formats.delta.write.jvm import AddFiles, DeltaJvm
from zlayout.formats.delta.write.transaction import begin
from zlayout.formats.kernel import rebase
from zlayout.spark.java_errors import Py4JJavaError
from zlayout.spark.jvm import scala_map, scala_object, session_conf

LAYOUT = make_layout("a", "b", target_size=20_000)
ALL = "id, a, b, m['k'], p, _metadata.row_id, _metadata.row_commit_version"


@pytest.fixture
def table(delta: DeltaSubject) -> DeltaSubject:
    return replace(delta, layout=LAYOUT, files=4)


def before_commits(monkeypatch: pytest.MonkeyPatch, *changes: Callable[[], object]) -> list[int]:
    """Let one change happen right before each of the first commits is sent. Return the versions they were based on."""
    commit: Callable[..., int] = DeltaJvm.commit
    waiting, based = list(changes), []

    def commit_after_it(self: DeltaJvm, transaction: Any, *arguments: Any) -> int:
        based.append(int(transaction.snapshot().version()))
        if waiting:
            waiting.pop(0)()
        return commit(self, transaction, *arguments)

    monkeypatch.setattr(DeltaJvm, "commit", commit_after_it)
    return based


def elsewhere(table: DeltaSubject, version: int, columns: str = "id, a, b, p") -> Counter[str]:
    """The rows of a version, as deltalake reads them."""
    query = QueryBuilder().register("t", DeltaTable(str(table.path), version=version))
    found = query.execute(f"SELECT {columns} FROM t").read_all()
    return Counter(map(repr, zip(*(column.to_pylist() for column in found.columns), strict=True)))


@pytest.mark.long
@pytest.mark.parametrize(
    ("change", "rebased"),
    [
        ("delete from {t} where id in (10, 11, 13)", 3),
        ("update {t} set a = a + 1 where id between 20 and 29", 10),
        (
            "merge into {t} t using (select id from range(30, 40)) s on t.id = s.id when matched and t.id % 2 = 0 then "
            "delete when matched then update set b = 7",
            10,
        ),
    ],
)
def test_rows_that_are_deleted_before_the_commit_are_deleted_from_the_new_files(
    table: DeltaSubject, monkeypatch: pytest.MonkeyPatch, change: str, rebased: int
) -> None:
    create_delta(table, 600)
    work = table.work()
    based = before_commits(monkeypatch, lambda: table.sql(change.format(t=table)))
    (commit,) = table.execute(work)
    assert isinstance(commit, Commit)
    read = work.version
    assert (based, commit.version, commit.groups) == ([read, read + 1], read + 2, ("g0", "g1"))
    assert commit.rebased == rebased
    assert commit.rows == 599 - rebased
    expected = table.sql(f"select {ALL} from {table} version as of {read + 1}").collect()
    assert table.rows(ALL) == sorted(map(tuple, expected), key=repr)
    assert elsewhere(table, commit.version) == elsewhere(table, read + 1)

    after = table.observe("a", "b")
    laid_out = after.files.layout >= 0
    assert (int(laid_out.sum()), int(after.files.deleted[laid_out].sum())) == (8, rebased)
    assert commit.files_added == 8
    changes = table.spark.read.option("readChangeFeed", "true").option("startingVersion", commit.version)
    assert changes.format("delta").load(str(table.path)).count() == 0

    table.sql(f"alter table {table} set tblproperties ('delta.checkpointInterval' = '1')")
    table.sql(f"delete from {table} where id = 8")
    assert list((table.path / "_delta_log").glob("*.checkpoint*.parquet")), "a checkpoint could be written"
    assert table.rows("id") == [row for row in sorted(((r[0],) for r in expected), key=repr) if row[0] != 8]


def test_rows_that_are_deleted_between_plan_and_apply_are_no_conflict(table: DeltaSubject) -> None:
    create_delta(table, 600)
    work = table.work(rebases=True)
    table.sql(f"delete from {table} where id in (10, 11, 13)")
    table.sql(f"update {table} set a = a + 1 where id between 20 and 29")
    read = table.observe().version
    (commit,) = table.execute(work)
    assert isinstance(commit, Commit)
    assert (commit.version, commit.groups, commit.rows, commit.rebased) == (read + 1, ("g0", "g1"), 599 - 13, 0)
    expected = table.sql(f"select {ALL} from {table} version as of {read}").collect()
    assert table.rows(ALL) == sorted(map(tuple, expected), key=repr)
    assert elsewhere(table, commit.version) == elsewhere(table, read)

    work = table.work(rebases=True)
    table.sql(f"optimize {table} zorder by (id)")
    (failed,) = table.execute(work)
    assert isinstance(failed, GroupFailed)
    assert failed.error.diagnostics[0].code == "ZL320"


def delete_positions(table: DeltaSubject, chosen: Callable[[int, int], np.ndarray[Any, Any]]) -> int:
    """Commit deletion vectors as another writer. chosen: the positions to delete by number and rows of a file.

    Files are numbered in the order of their paths. Its rows are all that a file was written with.
    """
    delta = DeltaJvm(table.spark, str(table.path))
    snapshot = delta.snapshot()
    live = delta.live_files(snapshot)
    old = delta.files.select(live, np.argsort(delta.files.paths(live).to_pylist()))
    rows = [int(file.numPhysicalRecords().get()) for file in old]
    positions = [chosen(number, count).astype(np.int64) for number, count in enumerate(rows)]
    at = np.flatnonzero([len(some) for some in positions])
    removed = delta.files.select(old, at)
    added = delta.files.marked(removed, [positions[n] for n in at])
    actions = delta.seq(delta.files.replacing(added, removed, 0, data_change=True))
    manual = scala_object(delta._delta, "DeltaOperations$ManualUpdate")
    return int(begin(delta, snapshot, removed).commit(actions, manual, scala_map(delta._jvm, {})))


def test_equal_rows_of_every_type_are_deleted_as_often_as_they_were(
    table: DeltaSubject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """420 combinations, each of them in five equal rows. Without row ids, any of the equal rows may be deleted.

    Only as many rows as were deleted are collected, however many are equal to them. The second rebase reads no file,
    and does not delete the rows again that the first one has deleted.
    """
    values = ", ".join(VALUES)
    ids = "select id % 420 id from range(0, 2100, 1, 3)"
    with session_conf(table.spark, {"spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED"}):  # for Spark 3.5
        table.sql(
            f"create table {table} using delta tblproperties ('delta.enableDeletionVectors' = 'true') as "
            f"select {values} from ({ids})"
        )
    work = table.work(layout=make_layout("k", "dt", target_size=20_000))
    random = np.random.default_rng(3)

    def some(first: int, number: int, rows: int) -> Any:
        """Every other row may be chosen, and in the first file only at the second time."""
        count = rows // 4 if first or number else 0
        return np.sort(random.choice(rows // 2, count, replace=False)) * 2 + first

    match, found, sizes = rebase.match, list[tuple[int, int]](), list[list[int]]()

    def counted(group: Any, digests: Any, *rows: Any) -> Any:
        found.append((len(digests), len(rows[1])))
        return match(group, digests, *rows)

    check = rebase.require_same_difference

    def first_with_other_rows(reader: Any, sides: list[rebase.Lost]) -> None:
        for side in sides:
            chosen = reader.delta.files.newly_deleted(side.before, side.after)
            rows = [(int(file.numPhysicalRecords().get()), of) for file, of in zip(side.before, chosen, strict=True)]
            others = [np.setdiff1d(np.arange(count), of)[: len(of)] for count, of in rows]
            wrong = replace(side, after=reader.delta.files.marked(side.before, others))
            with pytest.raises(EngineError, match=r"ZL310 .* other rows from the new files"):
                check(reader, [each if each is not side else wrong for each in sides])
        sizes.append([len(side.at) for side in sides])
        check(reader, sides)

    monkeypatch.setattr(rebase, "match", counted)
    monkeypatch.setattr(rebase, "require_same_difference", first_with_other_rows)
    aside = table.path.with_suffix(".aside")

    def second() -> None:
        """What the first rebase has read is not read again."""
        delete_positions(table, partial(some, 1))
        aside.mkdir()
        for file in files[1:]:
            file.rename(aside / file.name)

    files = [table.path / path for path in sorted(work.groups[0].files.path.to_pylist())]
    before_commits(monkeypatch, partial(delete_positions, table, partial(some, 0)), second)
    read, columns = work.version, "k, d, f, s, m, b, t, n, ts, dt"
    commit, *others = table.execute(work)
    assert not others, "\n".join(map(repr, (commit, *others)))
    assert isinstance(commit, Commit)
    assert (commit.version, commit.rebased, commit.rows) == (read + 3, 875, 1225)
    assert found == [(350, 350), (525, 525)]
    assert (len(files), [len(counts) for counts in sizes], sizes[1]) == (3, [2, 1], [1])
    for file in files[1:]:
        (aside / file.name).rename(file)
    expected = table.sql(f"select {columns} from {table} version as of {read + 2}").collect()
    assert Counter(map(repr, table.sql(f"select {columns} from {table}").collect())) == Counter(map(repr, expected))
    assert elsewhere(table, commit.version, "k, d, b, t, n, dt") == elsewhere(table, read + 2, "k, d, b, t, n, dt")
    assert table.spark._jsparkSession.sharedState().cacheManager().isEmpty(), "Spark keeps no rows after the commit"


@pytest.mark.parametrize("cloned", [pytest.param(False, marks=pytest.mark.long), True])
def test_commits_leave_the_files_that_the_newest_snapshot_has(table: DeltaSubject, *, cloned: bool) -> None:
    """A shallow clone has absolute paths."""
    create_delta(table, 200)
    path = table.path.parent / "clone" if cloned else table.path
    if cloned:
        table.sql(f"create table delta.`{path}` shallow clone {table}")
    delta = DeltaJvm(table.spark, str(path))
    first = delta.snapshot()
    files = delta.live_files(first)
    lived = list[int]()
    for change in (
        "delete from {t} where id in (10, 11)",
        "insert into {t} select * from {t} where id = 12",
        "update {t} set b = 7 where id = 13",
        "delete from {t} where p is null",
        "restore table {t} to version as of {first}",
        "delete from {t} where id = 10",
        "optimize {t}",
    ):
        table.sql(change.format(t=f"delta.`{path}`", first=first.version()))
        now = delta.snapshot()
        live = dict(zip(delta.files.paths(delta.live_files(now)).to_pylist(), delta.live_files(now), strict=True))
        found = [
            delta.files.after(delta.files.select(files, np.array([at])), first.version(), now.version())
            for at in range(len(files))
        ]
        expected = [live.get(path) for path in delta.files.paths(files).to_pylist()]
        for one, file in zip(found, expected, strict=True):
            assert delta.files.missing(one).tolist() == [file is None]
            if file is not None:
                assert one[0].stats() == file.stats()
                assert one[0].getDeletionVectorUniqueId().equals(file.getDeletionVectorUniqueId())
                assert delta.files.same_ids(one, [file])
        whole = delta.files.after(files, first.version(), now.version())
        assert delta.files.missing(whole).tolist() == [file is None for file in expected]
        lived.append(sum(file is not None for file in expected))
    assert lived == [len(files)] * 3 + [lived[3], *[len(files)] * 2, 0]
    assert 0 < lived[3] < len(files)
    assert delta.files.after(files, first.version(), first.version()).equals(files)
    (path / "_delta_log" / f"{first.version() + 1:020}.json").unlink()
    with pytest.raises(Py4JJavaError, match=r"IllegalState|does not have version|VersionNotFound|not contiguous"):
        delta.files.after(files, first.version(), delta.snapshot().version())


@pytest.mark.long
def test_each_rebase_works_on_the_changes_since_the_one_before_it(
    table: DeltaSubject, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_delta(table, 600)
    work, read = table.work(), table.observe().version
    searched: list[int] = []
    match = rebase.match

    def counted(group: Any, digests: Any, *found: Any) -> Any:
        searched.append(len(digests))
        return match(group, digests, *found)

    monkeypatch.setattr(rebase, "match", counted)
    changes = ("delete from {t} where id < 5", "update {t} set a = 0 where id = 12", "delete from {t} where id = 13")
    based = before_commits(monkeypatch, *[partial(table.sql, change.format(t=table)) for change in changes])
    (commit,) = table.execute(work)
    assert isinstance(commit, Commit)
    assert based == [read, read + 1, read + 2, read + 3]
    assert searched == [5, 1, 1]
    assert commit.rebased == 7
    expected = table.sql(f"select {ALL} from {table} version as of {read + 3}").collect()
    assert table.rows(ALL) == sorted(map(tuple, expected), key=repr)
    monkeypatch.undo()
    backend = table.backend
    undone = backend.roll_back(backend.undo(table.name, None), "undo", {}, lambda _: None)
    assert undone.version == commit.version + 1
    assert table.rows(ALL) == sorted(map(tuple, expected), key=repr)
    assert elsewhere(table, undone.version) == elsewhere(table, read + 3)


@pytest.mark.long
def test_the_number_of_rebases_and_of_their_rows_is_limited(
    table: DeltaSubject, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_delta(table, 200)
    deletes = [partial(table.sql, f"delete from {table} where id in ({id}, {id + 2})") for id in (20, 30, 40)]
    work = table.work()
    monkeypatch.setattr(rebase, "MAX_REBASES", 1)
    before_commits(monkeypatch, *deletes[:2])
    conflicts(table, work)
    work = table.work()
    monkeypatch.setattr(rebase, "MAX_ROWS", 1)
    before_commits(monkeypatch, deletes[2])
    conflicts(table, work)


def conflicts(table: DeltaSubject, work: PlannedTable) -> None:
    """Carry out the work, of which at least one group must be in conflict, and which must not change any row."""
    outcomes = list(table.execute(work))
    failed = [o for o in outcomes if isinstance(o, GroupFailed)]
    assert failed
    assert all(isinstance(o.error, CommitConflict) for o in failed)
    by_others = max(v for v, row in table.history().items() if row.operation != "OPTIMIZE")
    expected = table.sql(f"select id, p from {table} version as of {by_others}").collect()
    assert table.rows("id, p") == sorted(map(tuple, expected), key=repr)


@pytest.mark.long
@pytest.mark.parametrize(
    "changes",
    [
        ["delete from {t} where id = 10", "alter table {t} add column c int"],
        [
            "alter table {t} set tblproperties ('delta.enableDeletionVectors' = 'false')",
            "delete from {t} where id = 10",
        ],
        ["delete from {t} where id = 10", "delete from {t} where p is null"],
        ["delete from {t} where id in (10, 11)", "restore table {t} to version as of {before}"],
        ["delete from {t} where id = 10", "optimize {t}"],
    ],
    ids=["schema", "no vectors", "all files", "restored", "compacted"],
)
def test_what_is_no_deletion_vector_alone_stays_a_conflict(
    table: DeltaSubject, monkeypatch: pytest.MonkeyPatch, changes: list[str]
) -> None:
    create_delta(table, 100)
    before = table.observe().version
    if any("restore" in change for change in changes):
        table.sql(f"delete from {table} where id = 20")
    work = table.work()

    def change() -> None:
        for statement in changes:
            table.sql(statement.format(t=table, before=before))

    before_commits(monkeypatch, change)
    conflicts(table, work)


COPY_ON_WRITE = {
    f"spark.databricks.delta.{statement}.deletionVectors.persistent": "false" for statement in ("delete", "update")
}


@pytest.mark.parametrize(
    "changes",
    [
        ["update {t} set a = a + 1 where id in (21, 22)", "delete from {t} where id in (23, 24)"],
        pytest.param(["delete from {t} where id in ({ids})"], marks=pytest.mark.long),
        pytest.param(["delete from {t} where id in (10, 11)", "reorg table {t} apply (purge)"], marks=pytest.mark.long),
    ],
    ids=["copy-on-write", "all rows of a file", "purged"],
)
def test_files_that_were_replaced_are_left_to_the_other_writer(
    table: DeltaSubject, monkeypatch: pytest.MonkeyPatch, changes: list[str]
) -> None:
    """All rows of such a file are deleted from the new files. The file that replaces it is laid out the next time."""
    create_delta(table, 100)
    for start in (100, 200, 300):
        append_delta(table, start, start + 100)
    work = table.work()
    before = paths(table)
    path = table.sql(f"select _metadata.file_path from {table} where id = 30").first()[0]
    ids = ", ".join(
        str(row.id) for row in table.sql(f"select id from {table} where _metadata.file_path = '{path}'").collect()
    )

    def change() -> None:
        with session_conf(table.spark, COPY_ON_WRITE):
            for statement in changes:
                table.sql(statement.format(t=table, ids=ids))

    later = partial(table.sql, f"delete from {table} where id in (40, 41)")
    before_commits(monkeypatch, change, later)
    commit, *others = table.execute(work)
    assert not others, "\n".join(map(repr, (commit, *others)))
    assert isinstance(commit, Commit)
    assert commit.groups == ("g0", "g1")
    left = paths(table, commit.version - 1)
    replaced = len(before - left)
    assert replaced > 0
    assert commit.files_removed == len(before) - replaced
    assert paths(table) & left == left - before
    assert commit.rebased > 2
    version = f"{table} version as of {commit.version - 1}"
    assert table.rows(ALL) == sorted(map(tuple, table.sql(f"select {ALL} from {version}").collect()), key=repr)
    assert elsewhere(table, commit.version) == elsewhere(table, commit.version - 1)


def paths(table: DeltaSubject, version: int | None = None) -> set[str]:
    return set(table.observe(version=version).files.path.to_pylist())


@pytest.mark.long
def test_of_a_group_at_most_a_quarter_is_replaced(table: DeltaSubject, monkeypatch: pytest.MonkeyPatch) -> None:
    create_delta(table, 600)
    work = table.work()

    def change() -> None:
        with session_conf(table.spark, COPY_ON_WRITE):
            table.sql(f"delete from {table} where id = 30")

    before_commits(monkeypatch, change)
    conflicts(table, work)


def test_groups_are_committed_beside_one_whose_rebase_fails(
    table: DeltaSubject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A VACUUM without retention has removed a deletion vector that the rewrite has read."""
    create_delta(table, 200)
    known = set(table.path.rglob("deletion_vector*"))
    table.sql(f"delete from {table} where id in (21, 41)")  # p is null
    vectors = set(table.path.rglob("deletion_vector*")) - known
    work = table.work()

    def change() -> None:
        table.sql(f"delete from {table} where id in (10, 11, 12, 31)")
        for vector in vectors:
            vector.unlink()

    before_commits(monkeypatch, change)
    stages: list[Stage] = []
    expected = table.sql(f"select id from {table}").count() - 4
    outcomes = list(table.execute(work, lambda progress: stages.append(progress.stage)))
    (failed,), (commit,) = ([o for o in outcomes if isinstance(o, kind)] for kind in (GroupFailed, Commit))
    assert isinstance(failed.error, CommitConflict)
    assert set(failed.groups) | set(commit.groups) == {"g0", "g1"}
    assert commit.rebased == 2
    notes = [o.diagnostic for o in outcomes if isinstance(o, Notice)]
    assert {note.code for note in notes} == {"ZL435"}
    assert all("FileNotFoundException" in note.text for note in notes)
    assert stages[-7:] == [Stage.COMMITTING, *[Stage.REBASING, Stage.COMMITTING] * 3]
    version = f"{table} version as of {commit.version - 1}"
    assert table.rows(ALL) == sorted(map(tuple, table.sql(f"select {ALL} from {version}").collect()), key=repr)
    assert len(table.rows("id")) == expected


@pytest.mark.long
def test_the_counter_of_an_identity_column_is_no_other_definition(
    table: DeltaSubject, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.sql(
        f"create table {table} (number bigint generated always as identity, a int, b int) using delta "
        "tblproperties ('delta.enableDeletionVectors' = 'true')"
    )
    insert = f"insert into {table} (a, b) select cast(id as int), cast(id * 7 % 50 as int) from range({{}}, {{}})"
    table.sql(insert.format(0, 100))
    delta = DeltaJvm(table.spark, str(table.path))
    read = delta.snapshot()
    work = table.work()

    def change() -> None:
        table.sql(f"delete from {table} where a in (10, 12)")
        table.sql(insert.format(100, 120))

    before_commits(monkeypatch, change)
    (commit,) = table.execute(work)
    assert (commit.rebased, commit.rows) == (2, 98)
    now = delta.snapshot()
    assert not read.metadata().equals(now.metadata())
    assert delta.same_definition(read, now)
    version = f"{table} version as of {commit.version - 1}"
    assert table.rows() == sorted(map(tuple, table.sql(f"select * from {version}").collect()), key=repr)
    table.sql(insert.format(120, 130))
    assert table.sql(f"select count(distinct number) from {table}").collect()[0][0] == 128
    before = delta.snapshot()
    table.sql(f"alter table {table} alter column a comment 'x'")
    assert not delta.same_definition(before, delta.snapshot())


@pytest.mark.long
def test_a_group_that_cannot_be_rebased_does_not_keep_the_others_from_it(
    table: DeltaSubject, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_delta(table, 200)
    state = table.observe()
    named = next(at for at, p in enumerate(state.files.partitions) if p.values[0] is not None)

    def change() -> None:
        table.sql(f"delete from {table} where id in (10, 12)")
        table.sql(f"optimize {table} where p is null")

    before_commits(monkeypatch, change)
    outcomes = table.run(state)
    (failed,), (commit,) = ([o for o in outcomes if isinstance(o, kind)] for kind in (GroupFailed, Commit))
    assert (failed.groups, commit.groups, commit.rebased) == ((f"g{1 - named}",), (f"g{named}",), 2)
    assert table.rows("id") == sorted(((id,) for id in range(200) if id not in (7, 10, 12)), key=repr)


@pytest.mark.long
def test_rows_that_are_wrongly_chosen_do_not_pass_the_gate(
    table: DeltaSubject, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_delta(table, 100)
    work = table.work()
    marked = AddFiles.marked

    def next_rows(self: AddFiles, files: Any, positions: Any) -> Any:
        return marked(self, files, [rows + 1 for rows in positions])

    monkeypatch.setattr(AddFiles, "marked", next_rows)
    before_commits(monkeypatch, lambda: table.sql(f"delete from {table} where id = 10"))
    with pytest.raises(EngineError, match=r"ZL310 .* other rows from the new files"):
        list(table.execute(work))
    assert table.observe().version == work.version + 1


@pytest.mark.long
def test_new_vectors_must_still_exist_at_the_commit(table: DeltaSubject, monkeypatch: pytest.MonkeyPatch) -> None:
    create_delta(table, 100)
    work = table.work()
    known = set(table.path.rglob("deletion_vector*"))
    marked = AddFiles.marked

    def then_removed(self: AddFiles, files: Any, positions: Any) -> Any:
        known.update(table.path.rglob("deletion_vector*"))
        return marked(self, files, positions)

    check = rebase.require_same_difference

    def then_vacuumed(*arguments: Any) -> None:
        check(*arguments)
        (vector,) = set(table.path.rglob("deletion_vector*")) - known
        vector.unlink()

    monkeypatch.setattr(AddFiles, "marked", then_removed)
    monkeypatch.setattr(rebase, "require_same_difference", then_vacuumed)
    before_commits(monkeypatch, lambda: table.sql(f"delete from {table} where id = 10"))
    with pytest.raises(EngineError, match=r"ZL316 .* deletion vectors"):
        list(table.execute(work))
