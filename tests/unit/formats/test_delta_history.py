"""Commit infos read from the heads of commits: equal to those of deltalake, and from logs written by hand."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pa_fs
import pytest
from deltalake import DeltaTable, write_deltalake

from zlayout.formats.delta.read.history import (
    MAX_OLDER_COMMITS,
    RUN,
    External,
    commit_infos,
    external,
)
from zlayout.formats.delta.read.log import HEAD_BYTES, MAX_CONCURRENT_READS, LogFiles
from zlayout.formats.delta.read.observe import observe_delta
from zlayout.spec.model import TableName
from zlayout.table.external import MAX_CLOCK_SKEW


def read(root: Path, version: int = 10**6, max_commits: int = 1000) -> list[dict[str, Any]]:
    storage = pa_fs.SubTreeFileSystem(str(root), pa_fs.LocalFileSystem())
    return list(commit_infos(LogFiles(storage), version, max_commits))


def commit(root: Path, version: int, *lines: str) -> None:
    (root / "_delta_log").mkdir(exist_ok=True)
    (root / "_delta_log" / f"{version:020}.json").write_text("\n".join(lines) + "\n")


def info(**says: Any) -> str:
    return json.dumps({"commitInfo": says})


def test_commit_infos_equal_those_of_deltalake(tmp_path: Path) -> None:
    for start in range(3):
        write_deltalake(str(tmp_path), pa.table({"a": [start, 2], "b": [1, start]}), mode="append")
    table = DeltaTable(str(tmp_path))
    table.optimize.compact()
    table.delete("a = 1")
    expected = [(h["version"], h["operation"], h["operationParameters"]) for h in DeltaTable(str(tmp_path)).history()]
    assert [(i["version"], i["operation"], i["operationParameters"]) for i in read(tmp_path)] == expected


def test_newest_first_up_to_a_version_and_a_number(tmp_path: Path) -> None:
    for version in range(2 * MAX_CONCURRENT_READS + 3):
        commit(tmp_path, version, info(operation=f"W{version}"))
    (tmp_path / "_delta_log" / f"{7:020}.checkpoint.parquet").write_text("")
    assert [i["version"] for i in read(tmp_path)] == [*reversed(range(2 * MAX_CONCURRENT_READS + 3))]
    found = read(tmp_path, version=MAX_CONCURRENT_READS + 5, max_commits=MAX_CONCURRENT_READS + 2)
    assert [(i["version"], i["operation"]) for i in found] == [
        (n, f"W{n}") for n in range(MAX_CONCURRENT_READS + 5, 3, -1)
    ]


@pytest.mark.parametrize("before", [HEAD_BYTES - 300, HEAD_BYTES - 20, HEAD_BYTES - 1, HEAD_BYTES, 3 * HEAD_BYTES])
def test_a_writer_may_put_it_behind_what_it_did(tmp_path: Path, before: int) -> None:
    empty = len(json.dumps({"add": {"path": ""}}))
    for left in range(before - 3, before + 1):  # bytes before the line, so that the head ends all around its start
        said = info(operation="WRITE", userMetadata="x" * 100)
        commit(tmp_path, 0, json.dumps({"add": {"path": "x" * (left - empty - 1)}}), said)
        assert read(tmp_path) == [{"operation": "WRITE", "userMetadata": "x" * 100, "version": 0}]


def test_words_elsewhere_are_not_it(tmp_path: Path) -> None:
    commit(tmp_path, 0, json.dumps({"add": {"path": "a", "partitionValues": {"commitInfo": "{}"}}}))
    commit(tmp_path, 1, json.dumps({"add": {"path": '{"commitInfo":{}}'}}), ' { "commitInfo" : {"operation": "W"}}')
    commit(tmp_path, 2, json.dumps({"commitInfo": ["W"]}))
    assert read(tmp_path) == [{"operation": "W", "version": 1}]


def test_commits_before_the_one_that_is_wanted_are_not_read(tmp_path: Path) -> None:
    commit(tmp_path, 0, '{"commitInfo": {')
    for version in range(1, MAX_CONCURRENT_READS + 1):
        commit(tmp_path, version, info(operation="OPTIMIZE", tags={"zlayout.run": "r"}))
    storage = pa_fs.SubTreeFileSystem(str(tmp_path), pa_fs.LocalFileSystem())
    assert external(commit_infos(LogFiles(storage), MAX_CONCURRENT_READS, 1000)).known
    with pytest.raises(ValueError, match="line 1"):
        read(tmp_path)


def test_parameters_that_make_no_sense_say_nothing() -> None:
    assert external([{"operation": "OPTIMIZE", "operationParameters": "zOrderBy"}]).ordering is None


def commits_up_to(wanted: int) -> Iterator[dict[str, Any]]:
    """Yield appends of one per day, newest first; none may be read that is older than day `wanted`."""
    for day in range(30, -1, -1):
        assert day >= wanted, "a commit is read that cannot have added a live file"
        yield {"operation": "WRITE", "timestamp": day * MAX_CLOCK_SKEW, "version": day}


def test_commits_older_than_every_live_file_are_not_read() -> None:
    assert external(commits_up_to(18), oldest=20 * MAX_CLOCK_SKEW).rewrites == ()
    with pytest.raises(AssertionError):
        external(commits_up_to(18))


def test_after_a_rewrite_the_search_goes_on_to_the_last_run_of_zlayout() -> None:
    optimize = {"operation": "OPTIMIZE", "timestamp": 30 * MAX_CLOCK_SKEW, "version": 31}
    run = {"operation": "OPTIMIZE", "timestamp": 0, "version": 0, "tags": {RUN: "r"}}
    found = external([optimize, *commits_up_to(0), run], oldest=30 * MAX_CLOCK_SKEW)
    assert (found.known, len(found.rewrites)) == (True, 1)


def test_after_a_rewrite_few_older_commits_are_read() -> None:
    read = []

    def history() -> Iterator[dict[str, Any]]:
        yield {"operation": "WRITE", "operationParameters": {"mode": "Overwrite"}, "timestamp": 9 * MAX_CLOCK_SKEW}
        for version in range(1000):
            read.append(version)
            yield {"operation": "WRITE", "timestamp": version}

    assert len(external(history(), oldest=9 * MAX_CLOCK_SKEW).rewrites) == 1
    assert len(read) == MAX_OLDER_COMMITS + 1


def test_the_oldest_live_file_limits_the_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_deltalake(str(tmp_path), pa.table({"a": [1]}))
    before = time.time() * 1000
    write_deltalake(str(tmp_path), pa.table({"a": [2]}), mode="overwrite")
    found: list[int] = []
    monkeypatch.setattr(
        "zlayout.formats.delta.read.observe.external",
        lambda _, oldest: [found.append(oldest), External(None, (), known=False)][1],
    )
    observe_delta(TableName("lake", ("db",), "t"), str(tmp_path), ["a"])
    assert before - 1000 <= found[0] <= time.time() * 1000
