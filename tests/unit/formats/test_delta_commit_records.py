"""Layout records that commits of OPTIMIZE store, which sessions without a JVM write (ADR 0044)."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pa_fs
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from zlayout.formats.delta.read import history
from zlayout.formats.delta.read.log import LogFiles
from zlayout.formats.delta.read.observe import observe_delta
from zlayout.spec.model import TableName
from zlayout.table.state import TableState

NAME = TableName("lake", ("db",), "t")
MARKED = {"zlayout.records": "commits"}
SETTINGS = {"zorder.columns": ["a"]}
RECORD = {"zlayout.run": "r1", "zlayout.layout_id": "0123456789abcdef", "zlayout.layout": json.dumps(SETTINGS)}


def storage(path: Path) -> pa_fs.FileSystem:
    return pa_fs.SubTreeFileSystem(str(path), pa_fs.LocalFileSystem())


def append(path: Path, first: int, **options: Any) -> None:
    rows = pa.table({"part": [first % 2] * 100, "a": range(first, first + 100)})
    write_deltalake(path, rows, mode="append", partition_by=["part"], **options)


def mark(path: Path, configuration: dict[str, str]) -> None:
    if configuration:  # deltalake accepts other properties than those of Delta only after the table was made
        DeltaTable(path).alter.set_table_properties(configuration, raise_if_not_exists=False)


def stored(metadata: Any) -> CommitProperties:
    text = metadata if isinstance(metadata, str) else json.dumps(metadata)
    return CommitProperties(custom_metadata={"userMetadata": text})


def optimized(path: Path, metadata: Any = RECORD, configuration: dict[str, str] = MARKED) -> TableState:
    for first in range(4):
        append(path, first)
    mark(path, configuration)
    DeltaTable(path).optimize.compact(commit_properties=stored(metadata))
    return observe_delta(NAME, str(path), ["a"])


def test_files_have_the_record_of_the_commit_that_added_them(tmp_path: Path) -> None:
    files = optimized(tmp_path).files
    assert files.layout.tolist() == [0, 0]
    assert len(set(files.group.tolist())) == 2  # a group for each partition
    assert [(each.layout_id, each.settings) for each in files.layouts] == [("0123456789abcdef", SETTINGS)]

    append(tmp_path, 0)
    files = observe_delta(NAME, str(tmp_path), ["a"]).files
    assert sorted(files.layout.tolist()) == [-1, 0, 0]
    DeltaTable(tmp_path).create_checkpoint()
    append(tmp_path, 1)
    assert sorted(observe_delta(NAME, str(tmp_path), ["a"]).files.layout.tolist()) == [-1, -1, 0, 0]


def test_a_later_rewrite_replaces_the_record(tmp_path: Path) -> None:
    optimized(tmp_path)
    append(tmp_path, 0)
    newer = RECORD | {"zlayout.run": "r2", "zlayout.layout_id": "f" * 16}
    DeltaTable(tmp_path).optimize.compact(commit_properties=stored(newer))
    files = observe_delta(NAME, str(tmp_path), ["a"]).files
    by_id = {files.layouts[at].layout_id for at in files.layout.tolist()}
    assert by_id == {"f" * 16, "0123456789abcdef"}  # the second partition was not rewritten


def test_an_earlier_version_has_the_records_of_its_own_commits(tmp_path: Path) -> None:
    state = optimized(tmp_path)
    assert (observe_delta(NAME, str(tmp_path), ["a"], state.version - 1).files.layout == -1).all()


@pytest.mark.parametrize(
    ("metadata", "configuration"),
    [
        (RECORD, {}),  # the logs of tables without the property are not searched
        (RECORD, {"zlayout.records": "other"}),
        ({"zlayout.run": "r1"}, MARKED),
        (RECORD | {"zlayout.layout_id": 7}, MARKED),
        ('{"zlayout.layout_id": "0123456789abcdef"', MARKED),
        ('["zlayout.layout_id"]', MARKED),
    ],
)
def test_what_is_no_record(tmp_path: Path, metadata: Any, configuration: dict[str, str]) -> None:
    assert (optimized(tmp_path, metadata, configuration).files.layout == -1).all()


def test_settings_that_are_invalid_are_left_out(tmp_path: Path) -> None:
    files = optimized(tmp_path, RECORD | {"zlayout.layout": "no JSON"}).files
    assert [(each.layout_id, each.settings) for each in files.layouts] == [("0123456789abcdef", {})]


def test_an_append_with_the_metadata_of_a_run_has_no_record(tmp_path: Path) -> None:
    append(tmp_path, 0, commit_properties=stored(RECORD))
    mark(tmp_path, MARKED)
    assert (observe_delta(NAME, str(tmp_path), ["a"]).files.layout == -1).all()


def test_commits_that_are_older_than_the_files_without_a_record_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    optimized(tmp_path)
    append(tmp_path, 0)
    monkeypatch.setattr("zlayout.formats.delta.read.history.MAX_CLOCK_SKEW", 0)
    read: list[int] = []
    given = history.commit_infos

    def commit_infos(*arguments: Any) -> Any:
        for info in given(*arguments):
            read.append(info["version"])
            yield info

    monkeypatch.setattr(history, "commit_infos", commit_infos)
    assert [record.run_id for record in history.commit_records(LogFiles(storage(tmp_path)), 6, lambda: 0)] == ["r1"]
    assert read == [6, 5, 4, 3, 2, 1, 0]
    read.clear()
    oldest = iter([0, 0, 2**62])  # after the record was found, only a file of the newest commit is left
    assert len(list(history.commit_records(LogFiles(storage(tmp_path)), 6, lambda: next(oldest)))) == 1
    assert read == [6, 5, 4]
