"""Engine `zlayout` on Delta: what the commit keeps, and what it refuses."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from deltalake import write_deltalake
from spark.sample_tables import create_delta
from spark.subjects import DeltaSubject, shifted_files
from support.builders import make_layout

from zlayout.errors import CommitConflict, EngineError
from zlayout.formats.base import Commit, Notice
from zlayout.formats.delta.write import commit, transaction
from zlayout.formats.delta.write.jvm import DeltaJvm
from zlayout.formats.delta.write.transaction import PinnedFiles

LAYOUT = make_layout("a", "b", target_size=20_000)
ALL = "id, a, b, m['k'], p, _metadata.row_id, _metadata.row_commit_version"


@pytest.fixture
def table(delta: DeltaSubject) -> DeltaSubject:
    return replace(delta, layout=LAYOUT, files=4)


def test_a_key_larger_than_two_files_is_reported(table: DeltaSubject) -> None:
    table.spark.range(500).selectExpr("id", "1 a", "if(id < 400, 1, id) b").write.format("delta").save(str(table.path))
    done = table.run(files=10)
    assert [d.diagnostic.code for d in done if isinstance(d, Notice)] == ["ZL402"]
    assert str(table.name) in str(done)


def test_a_new_file_that_vanished_before_the_commit_stops_it(
    table: DeltaSubject, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.sql(f"create table {table} using delta as select id, id * 3 % 50 a, 2 b from range(50)")
    state = table.observe()
    write: Callable[..., list[Any]] = DeltaJvm.write_files

    def vanish(self: DeltaJvm, transaction: Any, frame: Any) -> list[Any]:
        written = write(self, transaction, frame)
        Path(table.path, written[0].path()).unlink()
        return written

    (commit,) = table.run(state, files=2)
    assert isinstance(commit, Commit), "a table without any feature works"
    assert (commit.rows, commit.files_added) == (50, 2)
    assert sorted(r.id for r in table.sql(f"select id from {table}").collect()) == list(range(50))
    state = table.observe()

    monkeypatch.setattr(DeltaJvm, "write_files", vanish)
    with pytest.raises(EngineError, match=r"ZL316 .*is missing"):
        table.run(state, files=2)
    assert table.observe().version == state.version


@pytest.mark.parametrize("wrong", ["added", "removed"])
def test_other_files_than_those_of_the_groups_are_not_committed(
    table: DeltaSubject, monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    """The lists of a commit are made by positions. An error in these would remove or add other files."""
    create_delta(table, 40)
    state = table.observe()

    if wrong == "added":
        monkeypatch.setattr(commit, "new_files", shifted_files)
    else:
        monkeypatch.setattr(
            PinnedFiles, "of", lambda _self, groups: np.zeros(sum(len(g.files) for g in groups), np.int64)
        )
    with pytest.raises(EngineError, match=r"ZL310 .*not those of its groups"):
        table.run(state, files=2)
    assert table.observe().version == state.version


def test_pinned_files_are_found_with_their_deletion_vectors_or_not_at_all(
    table: DeltaSubject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a filter and, as for many files, by a join."""
    create_delta(table, 40, "'delta.enableDeletionVectors'='true'")
    state, delta = table.observe(), DeltaJvm(table.spark, str(table.path))
    groups = table.work(state).groups
    snapshot = delta.snapshot()
    table.sql(f"delete from {table} where id = 9")
    for few in (1000, 0):
        monkeypatch.setattr(transaction, "_MAX_PATH_LITERALS", few)
        found = transaction.pinned_files(delta, snapshot, "t", groups[1:], len(state.files))
        assert sorted(found.path.to_pylist()) == sorted(groups[1].files.path.to_pylist())
        chosen = delta.files.select(found.adds, found.of([groups[1]]))
        assert delta.files.paths(chosen).equals(groups[1].files.path.cast(pa.string()))
        whole = transaction.pinned_files(delta, snapshot, "t", groups, len(state.files))
        assert len(whole.path) == len(whole.adds) == len(state.files)
        with pytest.raises(CommitConflict, match="ZL320"):
            transaction.pinned_files(delta, delta.snapshot(), "t", groups, len(state.files))


def test_escaped_characters_in_folder_names_are_read(table: DeltaSubject) -> None:
    """Without column mapping the partition values stand in the paths, encoded twice in the log."""
    create_delta(table, 60, "'delta.enableDeletionVectors'='true'")
    assert any("%" in path.name for path in table.path.iterdir())
    (commit,) = table.run(files=1)
    assert isinstance(commit, Commit)
    assert (commit.files_added, commit.rows) == (2, 59)
    assert table.sql(f"select count(*) n from {table} where p = 'x y/%ü+='").collect()[0].n == 30


def test_columns_whose_names_have_dots(table: DeltaSubject) -> None:
    columns = "id `a.b`, named_struct('x.y', cast(id * 7919 % 1009 as int), 'z', 1) s"
    table.sql(f"create table {table} using delta as select {columns} from range(0, 2000, 1, 4)")
    layout = make_layout("`a.b`", "s.`x.y`", target_size=20_000)
    assert any(isinstance(outcome, Commit) for outcome in table.run(layout=layout))
    assert table.sql(f"select sum(`a.b`), sum(s.`x.y`) from {table}").collect()[0][0] == 1999 * 1000
    assert (table.observe().files.layout >= 0).all()


def test_a_nested_column_is_not_confused_with_one_that_has_a_dot(table: DeltaSubject) -> None:
    columns = "-id `a.b`, named_struct('b', id * 7919 % 2003) a"
    table.sql(f"create table {table} using delta as select {columns} from range(0, 2000, 1, 4)")
    table.run(layout=make_layout("a.b", target_size=20_000))
    bounds = table.observe("a.b").files.bounds["a.b"]
    ends = sorted(zip(bounds.lower.to_pylist(), bounds.upper.to_pylist(), strict=True))
    assert len(ends) == 4
    assert all(before[1] < after[0] for before, after in pairwise(ends))


@pytest.mark.parametrize("engine", ["zlayout", "native"])
def test_columns_with_the_headers_of_a_csv_file(table: DeltaSubject, engine: str) -> None:
    """Spark creates no table with spaces in names, but delta-rs does. Spark rewrites it, and changes no metadata."""
    for start in range(0, 900, 300):
        ids = range(start, start + 300)
        rows = {" unit price ": [n * 7919 % 1009 for n in ids], "c=(d),e": [n * 31 % 997 for n in ids]}
        write_deltalake(str(table.path), pa.table(rows), mode="append")
    before = table.rows()
    layout = make_layout(" unit price ", "`c=(d),e`", curve="zorder", target_size=5000, engine=engine)
    assert any(isinstance(outcome, Commit) for outcome in table.run(layout=layout))
    assert table.rows() == before
    assert (table.observe().files.layout >= 0).all()
    with pytest.raises(EngineError, match=r"ZL314 .*DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES") as failed:
        table.run(layout=layout, properties=(("note", "zlayout"),))
    assert "delta.columnMapping.mode" in failed.value.diagnostics[0].hint


def test_a_column_may_have_the_name_of_the_metadata(table: DeltaSubject) -> None:
    """As tables have that took over what files a row came from."""
    columns = "id a, id * 7919 % 1009 b, named_struct('file_path', 'here', 'row_index', 1L) _metadata"
    table.sql(f"create table {table} using delta as select {columns} from range(0, 2000, 1, 4)")
    assert any(isinstance(o, Commit) for o in table.run())
    assert table.sql(f"select sum(a), max(_metadata.file_path) from {table}").collect()[0] == (
        1999000,
        "here",
    )
    assert (table.observe().files.layout >= 0).all()
