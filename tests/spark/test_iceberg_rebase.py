"""A rewrite of an Iceberg table is rebased onto position deletes and deletion vectors of other writers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from spark.sample_tables import MERGE_ON_READ, VALUES, create_iceberg
from spark.subjects import IcebergSubject
from spark.test_iceberg_equality import delete_equal
from support.builders import make_layout

from zlayout.errors import CommitConflict, EngineError
from zlayout.formats.base import Commit, GroupFailed, Notice
from zlayout.formats.iceberg.write.commit import Committer, DeleteFiles
from zlayout.formats.kernel import rebase

COPY_ON_WRITE = "alter table {t} set tblproperties ('write.delete.mode' = 'copy-on-write')"
DELETE = "delete from {t} where id = 10"
MERGE = (
    "merge into {t} t using (select id from range(30, 40)) s on t.id = s.id when matched and t.id % 2 = 0 then delete "
    "when matched then update set b = 7"
)


def before_commits(monkeypatch: pytest.MonkeyPatch, *changes: Callable[[], object]) -> list[int]:
    """Let one change happen right before each of the first commits. Return the snapshots they were validated from."""
    commit, waiting, based = Committer._commit, list(changes), list[int]()

    def commit_after_it(self: Committer, some: Any) -> Commit:
        based.append(self._rebase.snapshot(some))
        if waiting:
            waiting.pop(0)()
        return commit(self, some)

    monkeypatch.setattr(Committer, "_commit", commit_after_it)
    return based


def rows_at(table: IcebergSubject, version: int, columns: str = "*") -> Counter[str]:
    """The rows of a snapshot, as Spark reads them."""
    return Counter(map(repr, table.sql(f"select {columns} from {table} version as of {version}").collect()))


def columns_of(version: int) -> str:
    """All columns of a table of a format version, with those of row lineage."""
    return "*, _row_id, _last_updated_sequence_number" if version > 2 else "*"


def elsewhere(table: IcebergSubject, version: int) -> Counter[str]:
    """The rows of a snapshot, as pyiceberg reads them."""
    catalog = SqlCatalog("ice", **table.catalog.options)
    found = catalog.load_table(table.name.identifier).scan(snapshot_id=version).to_arrow()
    return Counter(map(repr, zip(*(column.to_pylist() for column in found.columns), strict=True)))


def parent(table: IcebergSubject, version: int) -> int:
    (row,) = table.sql(f"select parent_id from {table}.snapshots where snapshot_id = {version}").collect()
    return int(row[0])


@pytest.mark.parametrize(
    ("version", "change", "rebased"),
    [
        (2, "delete from {t} where id in (10, 11, 14)", 3),
        (3, MERGE, 9),
        pytest.param(2, "update {t} set a = a + 1 where id between 20 and 29", 9, marks=pytest.mark.long),
        pytest.param(3, "update {t} set a = a + 1 where id between 20 and 29", 9, marks=pytest.mark.long),
        pytest.param(2, MERGE, 9, marks=pytest.mark.long),
        pytest.param(3, "delete from {t} where id in (10, 11, 14)", 3, marks=pytest.mark.long),
    ],
)
def test_rows_that_are_deleted_before_the_commit_are_deleted_from_the_new_files(
    iceberg: IcebergSubject, monkeypatch: pytest.MonkeyPatch, version: int, change: str, rebased: int
) -> None:
    table = iceberg
    create_iceberg(table, version, "partitioned by (p)")
    table.sql(f"alter table {table} set tblproperties ('write.merge.mode' = 'merge-on-read')")
    work = table.work()
    based = before_commits(monkeypatch, lambda: table.sql(change.format(t=table)))
    commit, *others = table.execute(work)
    assert not others, "\n".join(map(repr, (commit, *others)))
    assert isinstance(commit, Commit)
    other = parent(table, commit.version)
    assert based == [work.version, other]
    assert (parent(table, other), commit.groups) == (work.version, ("g0", "g1"))
    assert rows_at(table, commit.version, columns_of(version)) == rows_at(table, other, columns_of(version))
    assert commit.rebased == rebased
    assert elsewhere(table, commit.version) == elsewhere(table, other)


@pytest.mark.parametrize("version", [2, 3])
def test_rows_that_are_deleted_between_plan_and_apply_are_no_conflict(iceberg: IcebergSubject, version: int) -> None:
    table = iceberg
    create_iceberg(table, version, "partitioned by (p)")
    work = table.work(rebases=True)
    table.sql(f"delete from {table} where id in (10, 11, 14)")
    table.sql(f"update {table} set a = a + 1 where id between 20 and 24")
    read = table.observe().version
    (commit,) = table.execute(work)
    assert isinstance(commit, Commit)
    assert (parent(table, commit.version), commit.groups, commit.rebased) == (read, ("g0", "g1"), 7)
    assert rows_at(table, commit.version, columns_of(version)) == rows_at(table, read, columns_of(version))
    assert elsewhere(table, commit.version) == elsewhere(table, read)

    work = table.work(rebases=True)
    options = "options => map('rewrite-all', 'true')"
    table.sql(f"call ice.system.rewrite_data_files(table => '{table.identifier}', {options})")
    failures = table.execute(work)
    assert {failed.error.diagnostics[0].code for failed in failures if isinstance(failed, GroupFailed)} == {"ZL320"}


def test_rows_that_are_restored_between_plan_and_apply_stay(iceberg: IcebergSubject) -> None:
    """Iceberg's validation does not know that a delete file was removed."""
    table = iceberg
    create_iceberg(table, 2, "partitioned by (p)")
    table.sql(f"alter table {table} set tblproperties ('write.delete.granularity' = 'partition')")
    before = table.rows("id")
    table.sql(f"delete from {table} where id in (10, 11, 14)")
    work, java = table.work(rebases=True), table.java_table()
    deletes = list(java.currentSnapshot().addedDeleteFiles(java.io()))
    change = java.newRowDelta()
    for delete in deletes:
        change.removeDeletes(delete)
    change.commit()
    assert table.rows("id") == before
    failures = [failed for failed in table.execute(work) if isinstance(failed, GroupFailed)]
    assert [failed.error.diagnostics[0].code for failed in failures] == ["ZL320"] * len(failures)
    assert failures
    assert table.rows("id") == before


@pytest.mark.long
@pytest.mark.parametrize("version", [2, 3])
def test_equal_rows_of_every_type_are_deleted_as_often_as_they_were(
    iceberg: IcebergSubject, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    """420 combinations, each of them in five equal rows; in version 2, any of the equal rows may be deleted."""
    table, values = replace(iceberg, layout=make_layout("k", "dt", target_size=20_000)), ", ".join(VALUES)
    table.sql(
        f"create table {table} using iceberg tblproperties ('format-version' = '{version}', {MERGE_ON_READ}) as "
        f"select {values} from (select id % 420 id from range(0, 2100, 1, 3))"
    )
    work = table.work()
    check = rebase.require_same_difference

    def first_with_other_rows(reader: Any, sides: list[rebase.Lost]) -> None:
        if sides:
            new, deletes, content = sides[-1], DeleteFiles(reader.files), reader.files.jvm.content
            counts = content.numbers(content.files(new.before), "rows").tolist()
            chosen = deletes.newly_deleted(new.before, new.after, reader.files.table, rebase.MAX_ROWS)
            others = [
                np.setdiff1d(np.arange(count), rows)[: len(rows)]
                for count, rows in zip(counts, chosen or [], strict=True)
            ]
            with pytest.raises(EngineError, match=r"ZL310 .* other rows from the new files"):
                check(reader, [*sides[:-1], replace(new, after=deletes.marked(new.before, others))])
        check(reader, sides)

    monkeypatch.setattr(rebase, "require_same_difference", first_with_other_rows)
    delete = f"delete from {table} where _pos % 3 = "
    before_commits(monkeypatch, *[partial(table.sql, f"{delete}{rest}") for rest in (1, 2)])
    commit, *others = table.execute(work)
    assert not others, "\n".join(map(repr, (commit, *others)))
    other = parent(table, commit.version)
    assert commit.rebased == 2100 - commit.rows == 1398
    assert rows_at(table, commit.version) == rows_at(table, other)
    assert elsewhere(table, commit.version) == elsewhere(table, other)


@pytest.mark.long
@pytest.mark.parametrize("version", [2, 3])
def test_each_rebase_works_on_the_changes_since_the_one_before_it(
    iceberg: IcebergSubject, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    table = iceberg
    create_iceberg(table, version)
    work, searched, match = table.work(), list[int](), rebase.match

    def counted(group: Any, digests: Any, *found: Any) -> Any:
        searched.append(len(digests))
        return match(group, digests, *found)

    monkeypatch.setattr(rebase, "match", counted)
    changes = ("delete from {t} where id < 6", "update {t} set a = 0 where id = 12", "delete from {t} where id = 14")
    based = before_commits(monkeypatch, *[partial(table.sql, change.format(t=table)) for change in changes])
    commit, *others = table.execute(work)
    assert not others, "\n".join(map(repr, (commit, *others)))
    other = parent(table, commit.version)
    assert (len(based), searched, commit.rebased) == (4, [5, 1, 1], 7)
    assert rows_at(table, commit.version, columns_of(version)) == rows_at(table, other, columns_of(version))
    assert elsewhere(table, commit.version) == elsewhere(table, other)
    monkeypatch.undo()
    backend = table.backend
    undone = backend.roll_back(backend.undo(table.name, None), "undo", {}, lambda _: None)
    assert undone.version == other
    assert rows_at(table, table.observe().version, columns_of(version)) == rows_at(table, other, columns_of(version))
    (again,) = table.execute(table.work())
    assert isinstance(again, Commit)
    table.sql(f"delete from {table} where id = 16")
    assert table.ids() == [n for n in range(600) if n % 10 != 3 and n not in (0, 1, 2, 4, 5, 14, 16)]


def create_with_int(table: IcebergSubject, version: int) -> None:
    """540 rows whose id is an int, for `delete_equal`."""
    table.sql(
        f"create table {table} using iceberg tblproperties ('format-version' = '{version}', {MERGE_ON_READ}) as "
        "select cast(id as int) id, id * 7919 % 600 a, cast(id % 60 as int) b from range(0, 600, 1, 3) "
        "where id % 10 <> 3"
    )


@pytest.mark.long
@pytest.mark.parametrize("version", [2, 3])
def test_equality_deletes_stay_applied(iceberg: IcebergSubject, monkeypatch: pytest.MonkeyPatch, version: int) -> None:
    """Those that were there before, and those that come after. Those that come meanwhile are a conflict."""
    create_with_int(iceberg, version)
    delete_equal(iceberg, [*range(0, 600, 7), 601])
    work = iceberg.work()
    before_commits(monkeypatch, lambda: iceberg.sql(f"delete from {iceberg} where id between 20 and 29"))
    commit, *others = iceberg.execute(work)
    assert not others, "\n".join(map(repr, (commit, *others)))
    assert commit.rebased == 7
    left = [n for n in range(600) if n % 10 != 3 and n % 7 and n not in range(20, 30)]
    assert iceberg.ids() == left
    delete_equal(iceberg, [1, 2])
    assert iceberg.ids() == left[2:]

    def both() -> None:
        iceberg.sql(f"delete from {iceberg} where id = 30")
        delete_equal(iceberg, [4])

    with monkeypatch.context() as patched:
        before_commits(patched, both)
        outcomes = list(iceberg.execute(iceberg.work()))
    assert [type(outcome) for outcome in outcomes] == [GroupFailed]
    assert iceberg.ids() == [n for n in left[2:] if n not in (4, 30)]


@pytest.mark.long
@pytest.mark.parametrize(
    ("changes", "version"),
    [
        ([DELETE, "alter table {t} add column c int"], 3),
        ([DELETE, "alter table {t} add partition field p"], 2),
        ([DELETE, "alter table {t} set tblproperties ('format-version' = '3')"], 2),
        ([COPY_ON_WRITE, DELETE], 3),
        (["call ice.system.rewrite_data_files(table => '{n}', options => map('rewrite-all', 'true'))"], 3),
    ],
)
def test_other_changes_stay_a_conflict(
    iceberg: IcebergSubject, monkeypatch: pytest.MonkeyPatch, changes: list[str], version: int
) -> None:
    table = iceberg
    create_iceberg(table, version)

    conflicts(table, monkeypatch, lambda: each(table, changes))


def each(table: IcebergSubject, changes: Iterable[str]) -> None:
    for statement in changes:
        table.sql(statement.format(t=table, n=table.identifier))


@pytest.mark.long
def test_a_new_format_version_after_a_rebase_is_a_conflict(
    iceberg: IcebergSubject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The position deletes of the rebase may not be added to a table of version 3."""
    create_iceberg(iceberg)
    upgrade = "alter table {t} set tblproperties ('format-version' = '3')"
    conflicts(iceberg, monkeypatch, *(partial(each, iceberg, [change]) for change in (DELETE, upgrade)))


@pytest.mark.long
def test_a_rebased_commit_is_sent_again_after_an_append_but_not_for_a_new_format_version(
    iceberg: IcebergSubject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both happen between the preparation of the commit and its request."""
    table, prepare = iceberg, Committer.prepare
    create_iceberg(table)
    upgrade = "alter table {t} set tblproperties ('format-version' = '3')"
    append = "insert into {t} values (700, 1, 1, 1)"
    waiting = [append]

    def change_after_it(self: Committer, some: Any, start: int) -> Any:
        prepared = prepare(self, some, start)
        if waiting and start != self._work.version:
            each(table, [waiting.pop()])
        return prepared

    monkeypatch.setattr(Committer, "prepare", change_after_it)
    before_commits(monkeypatch, partial(each, table, [DELETE]))
    commit, *others = table.execute(table.work())
    assert not others, "\n".join(map(repr, (commit, *others)))
    assert commit.rebased == 1
    assert table.ids() == [n for n in range(600) if n % 10 != 3 and n != 10] + [700]
    waiting.append(upgrade)
    conflicts(table, monkeypatch, partial(each, table, ["delete from {t} where id = 20"]), commits=1)
    assert not waiting


@pytest.mark.long
def test_a_file_that_was_added_again_is_a_conflict(iceberg: IcebergSubject, monkeypatch: pytest.MonkeyPatch) -> None:
    """Equality deletes between its two sequence numbers apply to the new files only."""
    create_with_int(iceberg, 2)

    def add_again() -> None:
        java = iceberg.java_table()
        file = java.newScan().planFiles().iterator().next().file()
        java.newDelete().deleteFile(file).commit()
        java.newAppend().appendFile(file).commit()
        each(iceberg, [DELETE])

    conflicts(iceberg, monkeypatch, add_again)


@pytest.mark.long
def test_a_rollback_after_a_rebase_is_a_conflict(iceberg: IcebergSubject, monkeypatch: pytest.MonkeyPatch) -> None:
    create_iceberg(iceberg, 3)
    back = "call ice.system.rollback_to_snapshot('{n}', " + f"{iceberg.observe().version})"
    conflicts(iceberg, monkeypatch, *(partial(each, iceberg, [change]) for change in (DELETE, back)))


@pytest.mark.long
@pytest.mark.parametrize("version", [2, 3])
def test_files_that_move_to_another_partition_spec_are_rebased(
    iceberg: IcebergSubject, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    """Without the sequence number of the old files. Equality deletes that come meanwhile are a conflict."""
    table = iceberg
    create_with_int(table, version)
    delete_equal(table, [1])
    table.sql(f"alter table {table} add partition field bucket(2, id)")
    work = table.work()
    before_commits(monkeypatch, partial(each, table, ["delete from {t} where id between 20 and 29"]))
    commit, *others = table.execute(work)
    assert not others, "\n".join(map(repr, (commit, *others)))
    other = parent(table, commit.version)
    assert rows_at(table, commit.version, columns_of(version)) == rows_at(table, other, columns_of(version))
    assert {p.spec_id for p in table.observe().files.partitions} == {1}
    monkeypatch.undo()
    table.sql(f"alter table {table} replace partition field bucket(2, id) with bucket(4, id)")

    def both() -> None:
        table.sql(f"delete from {table} where id = 30")
        delete_equal(table, [301])

    before = table.ids()
    conflicts(table, monkeypatch, both, commits=1)
    assert table.ids() == [n for n in before if n not in (30, 301)]


@pytest.mark.long
def test_position_deletes_that_only_files_together_have_are_a_conflict(
    iceberg: IcebergSubject, monkeypatch: pytest.MonkeyPatch
) -> None:
    properties = f"'format-version' = '2', 'write.delete.granularity' = 'partition', {MERGE_ON_READ}"
    iceberg.sql(
        f"create table {iceberg} using iceberg tblproperties ({properties}) as "
        "select id, id * 7919 % 600 a, cast(id % 60 as int) b from range(0, 600, 1, 3)"
    )
    conflicts(iceberg, monkeypatch, lambda: iceberg.sql(f"delete from {iceberg} where id in (10, 210, 410)"))


@pytest.mark.long
def test_the_number_of_rebases_and_of_their_rows_is_limited(
    iceberg: IcebergSubject, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_iceberg(iceberg, 3)
    monkeypatch.setattr(rebase, "MAX_ROWS", 1)
    conflicts(iceberg, monkeypatch, lambda: iceberg.sql(f"delete from {iceberg} where id in (10, 11)"))
    monkeypatch.setattr(rebase, "MAX_REBASES", 0)
    conflicts(iceberg, monkeypatch, lambda: iceberg.sql(f"delete from {iceberg} where id = 20"))


def conflicts(
    table: IcebergSubject, monkeypatch: pytest.MonkeyPatch, *changes: Callable[[], object], commits: int = 0
) -> None:
    """Carry out the work, all of which must be in conflict.

    changes: one before each of the first attempts to commit. commits: that the table has from zlayout.
    """
    work = table.work()
    with monkeypatch.context() as patched:
        before_commits(patched, *changes)
        outcomes = [o for o in table.execute(work) if not isinstance(o, Notice)]
    assert outcomes
    assert all(isinstance(o, GroupFailed) and isinstance(o.error, CommitConflict) for o in outcomes), outcomes
    found = table.sql(f"select 1 from {table}.snapshots where summary['zlayout.run'] is not null").collect()
    assert len(found) == commits
