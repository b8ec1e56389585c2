"""Delta commits whose answer is lost: found in the log is done, all that the log does not tell is unknown."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.fs as pa_fs
import pytest
from pyspark.sql import SparkSession
from support.builders import make_layout

from zlayout.errors import CommitUnknown, EngineError, Refused
from zlayout.formats.base import Commit, Group, GroupFailed, Progress, Work
from zlayout.formats.delta import backend as delta_backend
from zlayout.formats.delta.backend import DeltaBackend
from zlayout.formats.delta.write import native, outcome
from zlayout.formats.delta.write.jvm import DeltaJvm
from zlayout.spark.session import SparkRuntime
from zlayout.spec.model import Project, TableName
from zlayout.table.state import PartitionField, TableState

Send = Callable[..., Any]


@pytest.fixture
def backend(project: Project, runtime: SparkRuntime) -> DeltaBackend:
    return DeltaBackend(project.catalogs["lake"], runtime)


@pytest.fixture
def table(spark: SparkSession, delta_path: Path, delta_table: TableName) -> Iterator[TableName]:
    spark.sql(f"create table delta.`{delta_path}` using delta as select id, id a, 2 b, 3 p from range(0, 30, 1, 2)")
    yield delta_table
    assert spark.sql(f"select count(*) n, sum(id) s from delta.`{delta_path}`").collect()[0] == (30, 435)


def silent(_: Progress) -> None:
    """No progress wanted."""


def work_for(table: TableName, state: TableState, engine: Any, **changes: Any) -> Work:
    layout = make_layout("a", "b", curve="zorder", target_size=20_000, engine=engine)
    settings: dict[str, Any] = {"properties": (), "partition_by": None, "covers_table": True}
    settings["groups"] = (Group("g", state.files.take(np.arange(len(state.files))), 1),)
    return Work(table, layout, f"run-{table.name}-{state.version}", state.version, **(settings | changes))


def instead(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, sends: bool, error: Exception) -> None:
    """Let a call raise `error`, after it did its work or without."""
    call: Send = getattr(owner, name)

    def fail(*arguments: Any, **named: Any) -> None:
        if sends:
            call(*arguments, **named)
        raise error

    monkeypatch.setattr(owner, name, fail)


def unreadable(*_: Any) -> None:
    raise OSError("the store is away")


LOST = ConnectionRefusedError("the gateway is gone")


@pytest.mark.parametrize("error", [LOST, TimeoutError("no answer in time"), RuntimeError("a hook failed")])
def test_a_rewrite_found_in_the_log_is_done_and_any_other_is_unknown(
    backend: DeltaBackend, table: TableName, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    state = backend.observe(table, ())
    with monkeypatch.context() as patch:
        instead(patch, DeltaJvm, "commit", True, error)
        (commit,) = backend.execute(work_for(table, state, "zlayout"), silent)
    assert isinstance(commit, Commit)
    assert commit.version == state.version + 1 == backend.observe(table, ()).version

    now = backend.observe(table, ())
    with monkeypatch.context() as patch:
        instead(patch, DeltaJvm, "commit", False, error)
        with pytest.raises(CommitUnknown, match=r"ZL331 .*does not have the commit yet .*run-"):
            list(backend.execute(work_for(table, now, "zlayout"), silent))
    with monkeypatch.context() as patch:
        instead(patch, DeltaJvm, "commit", True, error)
        patch.setattr(outcome, "version_marked", unreadable)
        with pytest.raises(CommitUnknown, match=r"ZL331 .*the store is away.*run-"):
            list(backend.execute(work_for(table, now, "zlayout"), silent))


def test_repartitioning_found_in_the_log_is_done_and_any_other_is_unknown(
    backend: DeltaBackend, table: TableName, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = backend.observe(table, ())
    by_p = {"partition_by": (PartitionField("p"),), "groups": ()}
    with monkeypatch.context() as patch:
        instead(patch, DeltaJvm, "commit", False, LOST)
        with pytest.raises(CommitUnknown, match=r"ZL331 .*does not have the commit yet"):
            list(backend.execute(work_for(table, state, "zlayout", **by_p), silent))
    instead(monkeypatch, DeltaJvm, "commit", True, LOST)
    first, *_ = backend.execute(work_for(table, state, "zlayout", **by_p), silent)
    assert isinstance(first, Commit)
    assert (first.version, first.rows) == (state.version + 1, 30)
    assert [field.source for field in backend.observe(table, ()).partition_fields] == ["p"]


def test_optimize_that_committed_and_then_failed_is_recorded(
    spark: SparkSession, backend: DeltaBackend, table: TableName, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, sql = backend.observe(table, ()), SparkSession.sql

    def lose(self: SparkSession, statement: str, *rest: Any, **named: Any) -> Any:
        result = sql(self, statement, *rest, **named)
        if statement.startswith(("OPTIMIZE", "ALTER")):
            result.collect()
            raise LOST
        return result

    monkeypatch.setattr(type(spark), "sql", lose)
    work = work_for(table, state, "native", properties=(("team", "x"),))
    outcomes = list(backend.execute(work, silent))
    assert [o.kind for o in outcomes if isinstance(o, Commit)] == ["settings", "rewrite", "record"]
    assert not [o for o in outcomes if isinstance(o, GroupFailed)]
    assert [o.groups for o in outcomes if isinstance(o, Commit)][1:] == [(), ("g",)]
    after = backend.observe(table, ())
    assert (after.version, after.properties["team"]) == (state.version + 3, "x")
    assert (after.files.layout >= 0).all()


@pytest.mark.usefixtures("table")
def test_optimize_that_failed_before_its_commit_is_no_riddle_but_a_lost_one_is(
    spark: SparkSession, delta_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = pa_fs.SubTreeFileSystem(str(delta_path), pa_fs.LocalFileSystem())
    log = outcome.Log(DeltaJvm(spark, str(delta_path)), storage, "t", "r")
    with pytest.raises(EngineError, match=r"ZL314 .*OPTIMIZE failed") as failed:
        log.run(f"OPTIMIZE delta.`{delta_path}` ZORDER BY (none_such)", {}, 0, "OPTIMIZE")
    assert not isinstance(failed.value, CommitUnknown)
    with monkeypatch.context() as patch:
        instead(patch, type(spark), "sql", False, LOST)
        with pytest.raises(CommitUnknown, match=r"ZL331 .*does not have the commit yet"):
            log.run("OPTIMIZE", {}, 0, "OPTIMIZE")


def test_repartitioning_is_told_though_the_driver_dies_right_after_it(
    spark: SparkSession, backend: DeltaBackend, table: TableName, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, commit = backend.observe(table, ()), DeltaJvm.commit
    client = spark.sparkContext._gateway._gateway_client  # type: ignore[union-attr]

    def gone(*_: Any, **__: Any) -> None:
        raise LOST

    with monkeypatch.context() as patch:

        def then_dies(self: DeltaJvm, *arguments: Any) -> int:
            version = commit(self, *arguments)
            patch.setattr(client, "send_command", gone)
            return version

        patch.setattr(DeltaJvm, "commit", then_dies)
        first = next(
            backend.execute(work_for(table, state, "zlayout", partition_by=(PartitionField("p"),), groups=()), silent)
        )
    assert isinstance(first, Commit)
    assert (first.version, first.rows, first.bytes_added > 0) == (state.version + 1, 30, True)


def test_optimize_is_told_though_the_table_cannot_be_read_after_it(
    backend: DeltaBackend, table: TableName, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = backend.observe(table, ())
    outcomes = backend.execute(work_for(table, state, "native"), silent)
    with monkeypatch.context() as patch:
        patch.setattr(native, "run_native", partial(run_after, native.run_native))
        assert isinstance(done := next(outcomes), Commit)
        assert (done.kind, done.version, done.groups) == ("rewrite", state.version + 1, ("g",))
        with pytest.raises(OSError, match="the store is away"):
            next(outcomes)


def run_after(run: Callable[..., Any], *arguments: Any) -> Any:
    """Engine native, which cannot read the table after OPTIMIZE."""
    *others, _ = arguments
    return run(*others, unreadable)


def test_what_delta_refuses_before_it_writes_is_no_riddle(
    spark: SparkSession, backend: DeltaBackend, delta_path: Path, delta_table: TableName, monkeypatch: Any
) -> None:
    compatible = "'delta.columnMapping.mode' = 'name', 'delta.enableIcebergCompatV2' = 'true'"
    spark.sql(
        f"create table delta.`{delta_path}` using delta partitioned by (p) tblproperties ({compatible}) "
        "as select id, id a, 2 b, 3 p from range(0, 30, 1, 2)"
    )
    state = backend.observe(delta_table, ())
    list(backend.execute(work_for(delta_table, state, "zlayout"), silent))
    state = backend.observe(delta_table, ())
    work = work_for(delta_table, state, "zlayout", partition_by=(PartitionField("b"),), groups=())
    with pytest.raises(Refused, match=r"ZL219 .*delta\.enableIcebergCompatV2"):
        list(backend.execute(work, silent))
    monkeypatch.setattr(delta_backend, "partition_refusals", lambda *_, **__: ())
    with pytest.raises(EngineError, match=r"ZL314 .*repartitioning failed") as failed:
        list(backend.execute(work, silent))
    assert not isinstance(failed.value, CommitUnknown)
    assert backend.observe(delta_table, ()).version == state.version
