"""apply as programs and people see it: events, lines, and what a signal does at which moment."""

import copy
import errno
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from contract import make_rows
from support.memory_format.store import MemoryTable
from support.projects import LAYOUT, Cli, Scripted

from zlayout.cli.apply import MAX_SECONDS_BETWEEN_LINES, ApplyProgress, Bars, Events, Lines, Moment
from zlayout.cli.console import Console
from zlayout.cli.main import run
from zlayout.formats.base import Commit, Progress, Stage
from zlayout.process import Handler, Interrupted, interrupting
from zlayout.session.results import Applied, TableStarted
from zlayout.session.session import Interrupts, cancel_jobs, ending
from zlayout.spark.session import SparkRuntime
from zlayout.spec.model import Project, SparkConfig


def events(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


class TestEvents:
    @pytest.mark.usefixtures("memory")
    def test_a_run_is_reported_from_its_version_to_its_summary(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["apply", "--auto-approve", "--output", "json"]) == 0
        reported = [e for e in events(capsys.readouterr().out) if e["type"] != "apply_progress"]
        kinds = ["version", "planned_change", "apply_start", "commit", "apply_complete", "change_summary"]
        assert [e["type"] for e in reported] == kinds
        assert (reported[1]["table"], reported[1]["files"], reported[1]["reasons"]) == (
            "lake.db.orders",
            4,
            ["not_laid_out"],
        )
        assert reported[2]["run_id"] == reported[4]["run_id"]
        assert (reported[4]["outcome"], reported[4]["files_removed"]) == ("as_declared", 4)
        assert reported[5] == {"type": "change_summary", "tables": 1, "outcomes": {"as_declared": 1}, "exit_code": 0}

    @pytest.mark.usefixtures("memory")
    def test_nothing_to_do_is_two_events(self, cli: Cli) -> None:
        cli("apply", "--auto-approve")
        done = cli("apply", "--auto-approve", "--output", "json")
        assert [e["type"] for e in events(done.out)] == ["version", "change_summary"]

    @pytest.mark.usefixtures("memory")
    def test_a_report_on_stdout_takes_their_place(self, cli: Cli) -> None:
        done = cli("apply", "--auto-approve", "--output", "json", "--report", "sarif=-")
        assert json.loads(done.out)["version"] == "2.1.0"

    def test_a_failure_is_an_event_with_its_problems(self, memory: Scripted, cli: Cli) -> None:
        memory.breaks = ZeroDivisionError("odd")
        out, err = cli("apply", "--auto-approve", "--output", "json", code=1)
        (failed,) = (e for e in events(out) if e["type"] == "apply_errored")
        assert failed["outcome"] == "failed"
        assert failed["problems"][0]["code"] == "ZL307"  # type: ignore[index]
        assert events(out)[-1]["exit_code"] == 1
        assert "ZL307" in err

    def test_a_reader_that_ends_stops_the_run_and_is_no_unexpected_error(
        self, memory: Scripted, monkeypatch: pytest.MonkeyPatch, cli: Cli
    ) -> None:
        def write(_: Console, text: str) -> None:
            if "apply_start" in text or "change_summary" in text:
                raise BrokenPipeError(errno.EPIPE, "Broken pipe")

        monkeypatch.setattr(Console, "result", write)
        before = memory._catalog._tables["db.orders"].log[-1]
        err = cli("apply", "--auto-approve", "--json", code=1).err
        assert "ZL083 the events cannot be written: Broken pipe (keep stdout open until apply has ended)" in err
        assert "ZL307" not in err
        assert memory._catalog._tables["db.orders"].log[-1] is before

    def test_progress_is_reported_at_each_stage_and_each_minute(self, capsys: pytest.CaptureFixture[str]) -> None:
        view = Events(Console())
        for stage, seconds in (("a", 0.0), ("a", 59.0), ("a", 60.0), ("a", 61.0), ("b", 62.0)):
            view.moved(Moment("t", 1, 1, stage, 3, 8, seconds))
        reported = [(e["stage"], e["seconds"], e["tasks_done"]) for e in events(capsys.readouterr().out)]
        assert reported == [("a", 0.0, 3), ("a", 60.0, 3), ("b", 62.0, 3)]


@pytest.mark.usefixtures("memory")
def test_a_reviewed_plan_is_tried_once_even_if_its_file_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(_: Console, _question: str) -> str:
        Path("plan.json").unlink(missing_ok=True)
        return "yes"

    attempts = []
    monkeypatch.setattr(Console, "interactive", property(lambda _: True))
    monkeypatch.setattr(Console, "ask", answer)
    monkeypatch.setattr("zlayout.session.apply.apply_table", lambda *given: attempts.append(given[7:9]))
    assert run(["plan", "--out", "plan.json"]) == 0
    run(["apply", "plan.json"])
    run(["apply", "--timeout", "7"])
    assert attempts == [(1, 60.0), (3, 7.0)]


class TestViews:
    def test_lines_come_at_the_start_each_minute_and_at_the_end(self, capsys: pytest.CaptureFixture[str]) -> None:
        view = Lines(Console())
        view.started(Moment("a.b", 1, 2, "starting Spark"), "r1")
        for seconds in (1.0, MAX_SECONDS_BETWEEN_LINES - 0.1, MAX_SECONDS_BETWEEN_LINES, MAX_SECONDS_BETWEEN_LINES + 1):
            view.moved(Moment("a.b", 1, 2, "rewriting", 3, 8, seconds))
        view.happened("a.b", Commit("rewrite", 5, files_removed=4, files_added=2, bytes_added=1024))
        view.finished(Applied("a.b", "r1"), 61.0)
        assert capsys.readouterr().err.splitlines() == [
            "[1/2] a.b: starting Spark, run r1",
            "      a.b: rewriting, 60s, 3 of 8 tasks",
            "      a.b: commit 5: 4 -> 2 files, 1 KiB",
            "      a.b: done in 61s",
        ]

    def test_lines_name_what_is_waited_for_while_spark_starts(self, capsys: pytest.CaptureFixture[str]) -> None:
        runtime = SparkRuntime(Project(Path(), {}, SparkConfig(), ()))
        with ApplyProgress(Lines(Console()), runtime, 1) as progress:
            progress(TableStarted("a", "r"))
            runtime.waiting("downloading jar 1 of 2: b.jar, 7.5 MiB")
            runtime.waiting("Java")
        assert capsys.readouterr().err.splitlines() == [
            "[1/1] a: starting Spark, run r",
            "      a: starting Spark: downloading jar 1 of 2: b.jar, 7.5 MiB",
            "      a: starting Spark: Java",
        ]

    def test_tables_are_numbered_in_the_order_in_which_they_start(self, capsys: pytest.CaptureFixture[str]) -> None:
        progress = ApplyProgress(Lines(Console()), SparkRuntime(Project(Path(), {}, SparkConfig(), ())), 2)
        for table in "ba":
            progress(TableStarted(table, "r"))
        assert [line.split(":")[0] for line in capsys.readouterr().err.splitlines()] == ["[1/2] b", "[2/2] a"]

    def test_bars_show_tasks_done(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("COLUMNS", "100")
        view = Bars()
        view.open()
        view.started(Moment("a.b", 1, 1, "rewriting"), "r1")
        view.moved(Moment("a.b", 1, 1, "rewriting", 3, 8, 1.0))
        view.close()
        err = capsys.readouterr().err
        assert "[1/1] rewriting: a.b" in err
        assert "3/8" in err

    def test_a_long_name_leaves_room_for_the_bar(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("COLUMNS", "80")
        view = Bars()
        view.open()
        view.started(Moment("a." + 80 * "b", 1, 1, "rewriting"), "r1")
        view.moved(Moment("a." + 80 * "b", 1, 1, "rewriting", 113, 1230, 1.0))
        view.close()
        (line,) = capsys.readouterr().err.splitlines()[-1:]
        assert line.startswith("[1/1] rewriting: a.bbbb")
        assert "113/1230" in line


def test_a_table_that_grew_during_the_run_has_a_hint_where_the_rest_is(memory: Scripted, cli: Cli) -> None:
    table = memory._catalog._tables["db.orders"]
    memory.meanwhile = lambda: table.append(make_rows(200, start=1000), files=4)
    out, err = cli("apply", "--auto-approve")
    assert "as planned, with more to do now; " in out
    assert "`zlayout plan` shows what is left, such as files that were added since the plan." in err


def test_a_saved_plan_is_carried_out_if_only_new_files_are_left(memory: Scripted, cli: Cli) -> None:
    """A later plan lays them out, so that the run of CI does not fail."""
    cli("plan", "--out", "plan.json")
    memory._catalog._tables["db.orders"].append(make_rows(200, start=1000), files=4)
    out, err = cli("apply", "plan.json", "--auto-approve")
    assert "as planned, with more to do now; " in out
    assert "`zlayout plan` shows what is left" in err
    cli("drift", code=2)


def test_a_plan_whose_rewrite_is_undone_is_not_carried_out(memory: Scripted, cli: Cli) -> None:
    cli("plan", "--out", "plan.json")
    for arguments in (("plan.json",), ()):
        memory.meanwhile = memory._catalog._tables["db.orders"].compact
        assert "not yet as declared; " in cli("apply", *arguments, "--auto-approve", code=1).out


def test_a_rewrite_of_what_has_decayed_that_is_lost_is_not_carried_out(memory: Scripted, cli: Cli) -> None:
    """What is left to do is not new then, though its reason is one that other writers cause."""
    cli("apply", "--auto-approve")
    table = memory._catalog._tables["db.orders"]
    table.append(make_rows(200, start=1000), files=4)
    memory.meanwhile = table.log.pop
    assert "not yet as declared; " in cli("apply", "--auto-approve", code=1).out


def another(table: MemoryTable) -> MemoryTable:
    """A table with the same files. Two names of one table would be refused."""
    found = copy.copy(table)
    found.table_id = "another"
    return found


class TestInterrupts:
    def press(self, number: int = signal.SIGINT) -> None:
        os.kill(os.getpid(), number)

    @pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)])
    def test_after_a_commit_it_ends_and_lists_the_commit(
        self, memory: Scripted, cli: Cli, name: str, code: int
    ) -> None:
        number = signal.Signals[name]
        memory.meanwhile = lambda: self.press(number)
        with interrupting():
            before = signal.getsignal(number)
            out, err = cli("apply", "--auto-approve", "--report", "json=done.json", code=code)
            assert signal.getsignal(number) is before
        assert "Another signal stops at once" in err
        assert "1 commit, 4 -> " in out
        assert f"Interrupted by {name}: 1 commit made before remains. To continue, plan and apply again." in err
        (result,) = [entry["result"] for entry in json.loads(Path("done.json").read_text())["results"]]
        assert (result["outcome"], result["commits"]) == ("interrupted", 1)

    def test_a_second_one_in_a_commit_leaves_it_unknown(self, memory: Scripted, cli: Cli) -> None:
        def twice() -> None:
            self.press()
            self.press()

        memory.meanwhile = twice
        err = cli("apply", "--auto-approve", code=130).err
        assert "SIGINT: 0 commits known, and a commit that was running may be in its table. To continue" in err

    def test_the_table_at_which_it_ends_has_a_last_event(self, memory: Scripted, cli: Cli) -> None:
        memory.meanwhile = self.press
        reported = events(cli("apply", "--auto-approve", "--json", code=130).out)
        ended, total = [e for e in reported if e["type"] in ("apply_complete", "apply_errored", "change_summary")]
        assert (ended["type"], ended["table"], ended["outcome"]) == ("apply_errored", "lake.db.orders", "interrupted")
        assert (ended["commits"], total["type"]) == (1, "change_summary")

    def test_tables_after_it_are_left_alone(self, memory: Scripted, capsys: pytest.CaptureFixture[str]) -> None:
        Path("layouts/other.yaml").write_text(LAYOUT.replace("orders", "zlast"))
        memory._catalog._tables["db.zlast"] = another(memory._catalog._tables["db.orders"])
        memory.meanwhile = self.press
        assert run(["apply", "--auto-approve", "--output", "json"]) == 130
        started = [e["table"] for e in events(capsys.readouterr().out) if e["type"] == "apply_start"]
        assert started == ["lake.db.orders"]

    def test_a_rewrite_that_was_cancelled_is_interrupted_and_not_failed(self, memory: Scripted, cli: Cli) -> None:
        Path("layouts/other.yaml").write_text(LAYOUT.replace("orders", "zlast"))
        memory._catalog._tables["db.zlast"] = another(memory._catalog._tables["db.orders"])
        memory.meanwhile, memory.breaks = self.press, RuntimeError("Job 3 cancelled")
        out, err = cli("apply", "--auto-approve", "--output", "json", code=130)
        reported = events(out)
        assert [e["table"] for e in reported if e["type"] == "apply_start"] == ["lake.db.orders"]
        (ended,) = (e for e in reported if e["type"] == "apply_errored")
        assert (ended["outcome"], ended["problems"]) == ("interrupted", [])
        assert "cancelled" not in err
        assert "Interrupted by SIGINT: nothing was committed. To continue" in err

    def test_the_second_one_stops_at_once(self) -> None:
        stops = []
        with Interrupts(lambda: stops.append(1)) as interrupts:
            self.press()
            assert interrupts.requested
            with pytest.raises(KeyboardInterrupt):
                self.press()
        assert stops == [1]

    def test_a_repeated_sigterm_within_a_second_is_one(self, monkeypatch: pytest.MonkeyPatch) -> None:
        now = 0.0
        monkeypatch.setattr("time.monotonic", lambda: now)
        with interrupting(), Interrupts(lambda: None) as interrupts:
            self.press(signal.SIGTERM)
            self.press(signal.SIGTERM)
            assert interrupts.requested
            now = 1.0
            with pytest.raises(Interrupted):
                self.press(signal.SIGTERM)
        assert interrupts.at_once

    def test_a_handler_of_the_host_program_stays(self) -> None:
        def of_host(_number: int, _frame: object) -> None: ...

        kept = signal.signal(signal.SIGTERM, of_host)
        try:
            with interrupting(), Interrupts(lambda: None):
                assert signal.getsignal(signal.SIGTERM) is of_host
                assert isinstance(signal.getsignal(signal.SIGINT), Handler)
        finally:
            signal.signal(signal.SIGTERM, kept)

    def test_a_handler_put_in_its_place_is_replaced_at_the_next_stage(self) -> None:
        runtime = SparkRuntime(Project(Path(), {}, SparkConfig(), ()))
        with Interrupts(lambda: None) as interrupts:
            follow = ending(interrupts, ApplyProgress(Lines(Console()), runtime, 1))
            follow(TableStarted("t", "run"))
            signal.signal(signal.SIGINT, signal.default_int_handler)
            follow(Progress("t", Stage.REWRITING))
            self.press()
            assert interrupts.requested
            with pytest.raises(KeyboardInterrupt):
                follow(Progress("t", Stage.COMMITTING))

    def test_jobs_are_cancelled_until_none_can_be(self) -> None:
        class Runtime(SparkRuntime):
            cancelled = 0

            def cancel_jobs(self, session: Any) -> None:
                assert session is self._session
                self.cancelled += 1
                # a loop without end would say less than a count
                self.cancellable = self.cancelled not in (3, 10)
                raise RuntimeError("no job just now")

        project = Project(Path(), {}, SparkConfig(), ())
        base, worker, other = (Runtime(project) for _ in range(3))
        base.workers, worker.cancellable, worker._session = (worker, other), True, object()
        cancel_jobs(base, pause=0)
        assert (base.cancelled, worker.cancelled, other.cancelled) == (0, 3, 0)
