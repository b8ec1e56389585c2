"""Delta commits whose answer is lost: found in the log is done, all that the log does not tell is unknown."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow.fs as pa_fs
import pytest
from pyspark.sql import SparkSession
from spark.subjects import DeltaSubject
from support.builders import make_layout

from zlayout.errors import CommitUnknown, EngineError, Refused
from zlayout.formats.base import Commit, GroupFailed
from zlayout.formats.delta import backend as delta_backend
from zlayout.formats.delta.write import optimize as native
from zlayout.formats.delta.write import transaction
from zlayout.formats.delta.write.jvm import DeltaJvm
from zlayout.table.state import PartitionField

LAYOUTS = {e: make_layout("a", "b", curve="zorder", target_size=20_000, engine=e) for e in ("zlayout", "native")}


@pytest.fixture
def table(delta: DeltaSubject) -> Iterator[DeltaSubject]:
    delta.sql(f"create table {delta} using delta as select id, id a, 2 b, 3 p from range(0, 30, 1, 2)")
    yield replace(delta, layout=LAYOUTS["zlayout"], files=1)
    assert delta.sql(f"select count(*) n, sum(id) s from {delta}").collect()[0] == (30, 435)


def instead(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, sends: bool, error: Exception) -> None:
    """Let a call raise `error`, after it did its work or without."""
    call = getattr(owner, name)

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
    table: DeltaSubject, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    state = table.observe()
    with monkeypatch.context() as patch:
        instead(patch, DeltaJvm, "commit", True, error)
        (commit,) = table.run(state)
    assert isinstance(commit, Commit)
    assert commit.version == state.version + 1 == table.observe().version

    now = table.observe()
    with monkeypatch.context() as patch:
        instead(patch, DeltaJvm, "commit", False, error)
        with pytest.raises(CommitUnknown, match=r"ZL331 .*run-.*does not have the commit yet"):
            table.run(now)
    with monkeypatch.context() as patch:
        instead(patch, DeltaJvm, "commit", True, error)
        patch.setattr(transaction, "version_with_marker", unreadable)
        with pytest.raises(CommitUnknown, match=r"ZL331 .*run-.*the store is away"):
            table.run(now)


def test_repartitioning_found_in_the_log_is_done_and_any_other_is_unknown(
    table: DeltaSubject, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = table.observe()
    by_p = {"partition_by": (PartitionField("p"),), "groups": ()}
    with monkeypatch.context() as patch:
        instead(patch, DeltaJvm, "commit", False, LOST)
        with pytest.raises(CommitUnknown, match=r"ZL331 .*does not have the commit yet"):
            table.run(state, **by_p)
    instead(monkeypatch, DeltaJvm, "commit", True, LOST)
    first, *_ = table.run(state, **by_p)
    assert isinstance(first, Commit)
    assert (first.version, first.rows) == (state.version + 1, 30)
    assert [field.source for field in table.observe().partition_fields] == ["p"]


def test_optimize_that_committed_and_then_failed_is_recorded(
    table: DeltaSubject, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, sql = table.observe(), SparkSession.sql

    def lose(self: SparkSession, statement: str, *rest: Any, **named: Any) -> Any:
        result = sql(self, statement, *rest, **named)
        if statement.startswith(("OPTIMIZE", "ALTER")):
            result.collect()
            raise LOST
        return result

    monkeypatch.setattr(type(table.spark), "sql", lose)
    work = table.work(state, LAYOUTS["native"], properties=(("team", "x"),))
    outcomes = list(table.execute(work))
    assert [o.kind for o in outcomes if isinstance(o, Commit)] == ["settings", "rewrite", "record"]
    assert not [o for o in outcomes if isinstance(o, GroupFailed)]
    assert [o.groups for o in outcomes if isinstance(o, Commit)][1:] == [(), ("g0",)]
    after = table.observe()
    assert (after.version, after.properties["team"]) == (state.version + 3, "x")
    assert (after.files.layout >= 0).all()


def test_optimize_that_failed_before_its_commit_is_an_error_and_a_lost_answer_is_unknown(
    table: DeltaSubject, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = pa_fs.SubTreeFileSystem(str(table.path), pa_fs.LocalFileSystem())
    log = transaction.Log(DeltaJvm(table.spark, str(table.path)), lambda: storage, "t", "r")
    with pytest.raises(EngineError, match=r"ZL314 .*OPTIMIZE .*failed") as failed:
        log.run(f"OPTIMIZE {table} ZORDER BY (none_such)", {}, 0, "OPTIMIZE")
    assert not isinstance(failed.value, CommitUnknown)
    with monkeypatch.context() as patch:
        instead(patch, type(table.spark), "sql", False, LOST)
        with pytest.raises(CommitUnknown, match=r"ZL331 .*does not have the commit yet"):
            log.run("OPTIMIZE", {}, 0, "OPTIMIZE")


def test_repartitioning_is_reported_though_the_driver_dies_right_after_it(
    table: DeltaSubject, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, commit = table.observe(), DeltaJvm.commit
    client = table.spark.sparkContext._gateway._gateway_client  # type: ignore[union-attr]

    def gone(*_: Any, **__: Any) -> None:
        raise LOST

    with monkeypatch.context() as patch:

        def then_dies(self: DeltaJvm, *arguments: Any) -> int:
            version = commit(self, *arguments)
            patch.setattr(client, "send_command", gone)
            return version

        patch.setattr(DeltaJvm, "commit", then_dies)
        first = next(table.execute(table.work(state, partition_by=(PartitionField("p"),), groups=())))
    assert isinstance(first, Commit)
    assert (first.version, first.rows, first.bytes_added > 0) == (state.version + 1, 30, True)


def test_optimize_is_reported_though_the_table_cannot_be_read_after_it(
    table: DeltaSubject, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = table.observe()
    outcomes = table.execute(table.work(state, LAYOUTS["native"]))
    with monkeypatch.context() as patch:
        patch.setattr(native, "run_native", partial(run_after, native.run_native))
        assert isinstance(done := next(outcomes), Commit)
        assert (done.kind, done.version, done.groups) == ("rewrite", state.version + 1, ("g0",))
        with pytest.raises(OSError, match="the store is away"):
            next(outcomes)


def run_after(run: Callable[..., Any], *arguments: Any) -> Any:
    """Engine native, which cannot read the table after OPTIMIZE."""
    *others, _ = arguments
    return run(*others, unreadable)


def test_a_refusal_by_delta_before_it_writes_is_an_error_and_not_an_unknown_outcome(
    delta: DeltaSubject, monkeypatch: Any
) -> None:
    table = replace(delta, layout=LAYOUTS["zlayout"], files=1)
    compatible = "'delta.columnMapping.mode' = 'name', 'delta.enableIcebergCompatV2' = 'true'"
    table.sql(
        f"create table {table} using delta partitioned by (p) tblproperties ({compatible}) "
        "as select id, id a, 2 b, 3 p from range(0, 30, 1, 2)"
    )
    state = table.observe()
    table.run(state)
    state = table.observe()
    work = table.work(state, partition_by=(PartitionField("b"),), groups=())
    with pytest.raises(Refused, match=r"ZL219 .*delta\.enableIcebergCompatV2"):
        list(table.execute(work))
    monkeypatch.setattr(delta_backend, "partition_refusals", lambda *_, **__: ())
    with pytest.raises(EngineError, match=r"ZL314 .*repartitioning .*failed") as failed:
        list(table.execute(work))
    assert not isinstance(failed.value, CommitUnknown)
    assert table.observe().version == state.version
