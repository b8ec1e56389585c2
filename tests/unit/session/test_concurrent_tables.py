"""Tables that apply rewrites at the same time, and in which order."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from contract import make_rows
from support.memory_format.store import MemoryTable
from support.projects import LAYOUT, Cli, Scripted
from support.projects import cli as cli
from support.projects import memory as memory

import zlayout
from zlayout.errors import Refused
from zlayout.formats.base import Commit, GroupFailed, Notify, PlannedTable, Progress, Stage
from zlayout.planner.run_report import ResultStatus
from zlayout.session.apply import at_the_same_time, carry_out, gain
from zlayout.session.results import ApplyEvent, TableFinished, TableStarted
from zlayout.spark.session import SparkRuntime
from zlayout.spec.model import Project, SparkConfig

TOGETHER = 20.0  # seconds to wait for another thread, which takes a fraction of one


@pytest.fixture
def tables(memory: Scripted) -> Scripted:
    """The project of `memory` with three tables of four files each."""
    for name in ("two", "three"):
        Path(f"layouts/{name}.yaml").write_text(LAYOUT.replace("orders", name).replace("1KiB", "2000B"))
        table = memory._catalog._tables[f"db.{name}"] = MemoryTable(make_rows(1).schema)
        table.append(make_rows(200), files=4)
    return memory


def test_several_tables_are_rewritten_at_the_same_time(tables: Scripted) -> None:
    both = threading.Barrier(3)
    tables.meanwhile = lambda: both.wait(TOGETHER) and None  # type: ignore[method-assign]
    report = zlayout.apply(zlayout.plan(zlayout.load_project(Path())), concurrent_tables=3)
    assert {name: result.outcome for name, result in report.results.items()} == dict.fromkeys(
        ("lake.db.orders", "lake.db.three", "lake.db.two"), ResultStatus.AS_DECLARED
    )


@pytest.mark.usefixtures("tables")
def test_events_come_in_the_thread_of_the_caller() -> None:
    seen: list[tuple[str, int]] = []

    def see(event: ApplyEvent) -> None:
        seen.append((type(event).__name__, threading.get_ident()))

    zlayout.apply(zlayout.plan(zlayout.load_project(Path())), on_event=see, concurrent_tables=2)
    assert {thread for _, thread in seen} == {threading.get_ident()}
    assert [name for name, _ in seen].count("TableFinished") == 3


@pytest.mark.usefixtures("tables")
def test_what_the_caller_raises_fails_the_table_of_the_event_alone() -> None:
    def see(event: ApplyEvent) -> None:
        if isinstance(event, TableStarted) and event.table == "lake.db.two":
            raise ValueError("odd")

    report = zlayout.apply(zlayout.plan(zlayout.load_project(Path())), on_event=see, concurrent_tables=3)
    assert {name: result.outcome for name, result in report.results.items()} == {
        "lake.db.orders": ResultStatus.AS_DECLARED,
        "lake.db.three": ResultStatus.AS_DECLARED,
        "lake.db.two": ResultStatus.FAILED,
    }


def test_ctrl_c_lets_running_commits_finish_and_starts_no_other_table(tables: Scripted) -> None:
    both, ends = threading.Barrier(2), []

    def meanwhile() -> None:
        if both.wait(TOGETHER) == 0:
            os.kill(os.getpid(), signal.SIGINT)
        both.wait(TOGETHER)

    tables.meanwhile = meanwhile  # type: ignore[method-assign]
    plan = zlayout.plan(zlayout.load_project(Path()))
    with pytest.raises(KeyboardInterrupt):
        zlayout.apply(plan, on_event=lambda event: ends.append(event), concurrent_tables=2)
    assert len([event for event in ends if isinstance(event, TableStarted)]) == 2
    rewritten = [table for table in tables._catalog._tables.values() if len(table.log) > 2]
    assert len(rewritten) == 2


def test_the_table_that_gains_most_per_byte_comes_first(tables: Scripted) -> None:
    stored = tables._catalog._tables
    stored["db.three"].append(stored["db.three"].rows(), files=8)
    order: list[str] = []
    runtime = SparkRuntime(Project(Path(), {}, SparkConfig(), ()))
    plan = zlayout.plan(zlayout.load_project(Path()))
    gains = {p.plan.table: gain(p.plan) for p in plan.planned}
    carry_out(plan, runtime, lambda event: order.append(event.table) if isinstance(event, TableFinished) else None)
    assert order == sorted(gains, key=lambda name: (-gains[name], name))
    assert gains["lake.db.three"] != gains["lake.db.two"] == gains["lake.db.orders"]


def test_only_a_rewrite_and_a_rebase_can_be_cancelled(memory: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    execute = type(memory).execute

    def with_rebase(self: Scripted, work: PlannedTable, notify: Notify) -> Iterator[Commit | GroupFailed]:
        yield from execute(self, work, notify)
        notify(Progress(str(work.table), Stage.REBASING))
        notify(Progress(str(work.table), Stage.COMMITTING))

    monkeypatch.setattr(type(memory), "execute", with_rebase)
    runtime = SparkRuntime(Project(Path(), {}, SparkConfig(), ()))
    seen: dict[Stage, bool] = {}

    def see(event: ApplyEvent) -> None:
        if isinstance(event, Progress):
            seen[event.stage] = runtime.cancellable

    carry_out(zlayout.plan(zlayout.load_project(Path())), runtime, see)
    assert {stage for stage, cancellable in seen.items() if cancellable} == {Stage.REWRITING, Stage.REBASING}
    assert Stage.COMMITTING in seen
    assert not runtime.cancellable


def test_the_command_rewrites_several_tables(tables: Scripted, cli: Cli) -> None:
    both = threading.Barrier(3)
    tables.meanwhile = lambda: both.wait(TOGETHER) and None  # type: ignore[method-assign]
    _, err = cli("apply", "--auto-approve", "--concurrent-tables", "3")
    assert err.count(": done in") == 3


def test_threads_that_share_a_thread_of_the_jvm_are_refused(tables: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PIN_THREAD", "false")
    plan = zlayout.plan(zlayout.load_project(Path()))
    with pytest.raises(Refused, match="ZL210"):
        zlayout.apply(plan, concurrent_tables=2)
    assert {len(table.log) for table in tables._catalog._tables.values()} == {2}


def test_an_error_of_a_thread_is_raised_after_the_others_have_ended() -> None:
    done: list[str] = []

    def work(_runtime: SparkRuntime, say: Callable[[str], None]) -> None:
        if not done:
            done.append("first")
            raise ZeroDivisionError("odd")
        say("second")

    project = Project(Path(), {}, SparkConfig(), ())
    with pytest.raises(ZeroDivisionError):
        at_the_same_time(work, 2, SparkRuntime(project), done.append)
    assert done == ["first", "second"]
