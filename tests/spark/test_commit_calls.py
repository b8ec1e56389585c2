"""A rewrite makes as many calls to the JVM for many files as for few. Each takes time and memory."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from spark.subjects import DeltaSubject, IcebergSubject, SparkSubject

from zlayout.formats.base import Commit, Stage

ROWS, FEW, MANY = 4000, 6, 46


@pytest.fixture
def calls(spark: Any, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """The calls so far, by the name of the method. Objects that Python no longer needs are not counted."""
    counted: Counter[str] = Counter()
    client = type(spark.sparkContext._gateway._gateway_client)
    send = client.send_command

    def count(self: Any, command: str, *others: Any, **named: Any) -> Any:
        kind, *parts = command.split("\n")
        if kind != "m":
            counted[parts[1] if kind == "c" else kind] += 1
        return send(self, command, *others, **named)

    monkeypatch.setattr(client, "send_command", count)
    return counted


def _rewritten(
    table: SparkSubject, files: int, calls: Counter[str], *, rows: int = ROWS, **changes: Any
) -> Counter[str]:
    """Rewrite a table of so many files into as many, and return the calls that this took."""
    work = table.work(table.observe("a", "b"), files=files, **changes)
    calls.clear()
    (commit,) = list(table.execute(work))
    assert isinstance(commit, Commit)
    assert (commit.files_removed, commit.files_added, commit.rows) == (files, files, rows)
    return Counter(calls)


@pytest.mark.parametrize("verify", ["gate", "full"])
def test_delta(delta: DeltaSubject, verify: str, calls: Counter[str]) -> None:
    found = []
    for files in (FEW, MANY):
        table = replace(delta, name=replace(delta.name, name=f"{delta.name.name}{files}"))
        table.sql(
            f"create table {table} using delta tblproperties ('delta.enableRowTracking'='true') as "
            f"select id, id * 7 % 3989 a, id b from range(0, {ROWS}, 1, {files})"
        )
        found.append(_rewritten(table, files, calls, verify=verify))
    few, many = found
    assert many - few == Counter()


@pytest.mark.parametrize(
    ("version", "deletes", "branch", "verify"),
    [(2, False, "", "gate"), (2, True, "", "full"), (3, True, "audit", "gate"), (3, False, "", "full")],
)
def test_iceberg(
    iceberg: IcebergSubject, version: int, deletes: bool, branch: str, verify: str, calls: Counter[str]
) -> None:
    found = []
    for files in (FEW, MANY):
        table = replace(iceberg, name=replace(iceberg.name, name=f"{iceberg.name.name}_{files}"))
        table.sql(
            f"create table {table} using iceberg tblproperties "
            f"('format-version'='{version}', 'write.delete.mode'='merge-on-read') as "
            f"select id, id * 7 % 3989 a, id b from range(0, {ROWS}, 1, {files})"
        )
        if deletes:  # a delete file or a deletion vector for each file
            table.sql(f"delete from {table} where id % 10 = 0")
        if branch:
            table.sql(f"alter table {table} create branch {branch}")
            table = table.on(branch)
        found.append(_rewritten(table, files, calls, rows=ROWS - ROWS // 10 * deletes, verify=verify))
    few, many = found
    assert many - few == Counter()


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_a_slow_sample_is_awaited_before_the_commit_begins(format: str, request: pytest.FixtureRequest) -> None:
    """A commit is not interrupted, and another writer may commit meanwhile."""
    table: SparkSubject = request.getfixturevalue(format)
    table.sql(f"create table {table} using {format} as select id, id * 7 % 39 a, id b from range(0, 400, 1, 4)")
    stages: list[Stage] = []
    at: list[Stage] = []

    def predictions() -> dict[str, float]:
        at.append(stages[-1])
        return {}

    work = replace(table.work(table.observe("a", "b")), predictions=predictions)
    (commit,) = list(table.execute(work, lambda progress: stages.append(progress.stage)))
    assert isinstance(commit, Commit)
    assert at == [Stage.REWRITING, Stage.COMMITTING]  # the second call returns what the first one has waited for
