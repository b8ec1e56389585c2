"""A rewrite of a Delta table is rebased onto deletion vectors that other writers commit meanwhile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from deltalake import DeltaTable, QueryBuilder
from spark.sample_tables import append_delta, create_delta
from spark.subjects import DeltaSubject
from support.builders import make_layout

from zlayout.errors import CommitConflict, EngineError
from zlayout.formats.base import Commit, GroupFailed
from zlayout.formats.delta.write import rebase
from zlayout.formats.delta.write.jvm import AddFiles, DeltaJvm

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


def elsewhere(table: DeltaSubject, version: int) -> Counter[tuple[Any, ...]]:
    """The rows of a version, as deltalake reads them."""
    query = QueryBuilder().register("t", DeltaTable(str(table.path), version=version))
    found = query.execute("SELECT id, a, b, p FROM t").read_all()
    return Counter(zip(*(column.to_pylist() for column in found.columns), strict=True))


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
