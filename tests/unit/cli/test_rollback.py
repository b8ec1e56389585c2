"""The command rollback on a table in memory: what it shows, whether it asks, and what it leaves."""

import json
import signal

import pytest
from support.memory_format.store import MemoryTable
from support.projects import Cli, Scripted

from zlayout.cli.console import Console
from zlayout.formats.base import Commit, Notify, Progress, Stage
from zlayout.formats.undo import Undo

TABLE = "lake.db.orders"


@pytest.fixture
def table(memory: Scripted, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> MemoryTable:
    """The table after apply, whose four files of before are in its last version but one."""
    monkeypatch.setattr("zlayout.session.session.backend_for", lambda *_: memory)
    cli("apply", "--auto-approve")
    return memory._catalog.load(("db", "orders"))


def answer(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(Console, "interactive", property(lambda _: True))
    monkeypatch.setattr(Console, "ask", lambda _console, _question: text)


def test_a_dry_run_names_the_files_and_writes_nothing(table: MemoryTable, cli: Cli) -> None:
    version, before = table.current, table.log[-2]
    shown = cli("rollback", TABLE, "--dry-run")
    assert f"removes  {len(version.files)} files of the run" in shown.out
    assert "returns  4 files" in shown.out
    assert "rows     200 in both" in shown.out
    assert len(before.files) == 4
    assert all(path in shown.out for path in before.files)
    assert "nothing was written" in shown.err
    assert table.current is version


def test_only_yes_rolls_back(table: MemoryTable, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    version, before = table.current, table.log[-2]
    answer(monkeypatch, "y")
    assert "Not approved: nothing was written." in cli("rollback", TABLE, code=1).err
    assert table.current is version
    answer(monkeypatch, "yes")
    done = cli("rollback", TABLE)
    assert f"Rolled back in version {table.current.number}: " in done.out
    assert f"{len(version.files)} files removed, 4 files returned" in done.out
    assert set(table.current.files) == set(before.files)
    assert cli("drift", code=2).out
    assert "ZL231" in cli("rollback", TABLE, "--auto-approve", code=3).err


def test_progress_is_shown_in_words(
    table: MemoryTable, memory: Scripted, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    roll_back = memory.roll_back

    def notifying(undo: Undo, run_id: str, properties: dict[str, str], notify: Notify) -> Commit:
        notify(Progress(str(undo.table), Stage.STARTING_SPARK, "again"))
        return roll_back(undo, run_id, properties, notify)

    monkeypatch.setattr(memory, "roll_back", notifying)
    before = table.current
    assert f"starting Spark again: {TABLE}\n" in cli("rollback", TABLE, "--auto-approve").err
    assert table.current is not before


@pytest.mark.parametrize("signals", [1, 2])
def test_only_a_second_signal_interrupts_the_commit(
    table: MemoryTable, memory: Scripted, cli: Cli, monkeypatch: pytest.MonkeyPatch, signals: int
) -> None:
    roll_back = memory.roll_back

    def interrupted(undo: Undo, run_id: str, properties: dict[str, str], notify: Notify) -> Commit:
        commit = roll_back(undo, run_id, properties, notify)
        for _ in range(signals):
            signal.raise_signal(signal.SIGINT)
        return commit

    monkeypatch.setattr(memory, "roll_back", interrupted)
    before = table.current
    printed = cli("rollback", TABLE, "--auto-approve", code=0 if signals == 1 else 130)
    assert table.current is not before
    assert ("interrupted; a commit that was running may be in its table" in printed.err) == (signals == 2)


def test_json_states_what_was_done_and_the_text_goes_to_stderr(table: MemoryTable, cli: Cli) -> None:
    version, before = table.current, table.log[-2]
    planned = cli("rollback", TABLE, "--dry-run", "--json")
    assert "undoes   run" in planned.err
    shown = json.loads(planned.out)
    assert (shown["table"], shown["format"], shown["outcome"]) == (TABLE, "memory", "dry_run")
    assert (shown["commits"], shown["version"], shown["rows"], shown["kept"]) == (
        [version.number],
        version.number,
        200,
        [],
    )
    assert shown["removed"]["files"] == len(shown["removed"]["paths"]) == len(version.files)
    assert set(shown["returned"]["paths"]) == set(before.files)
    assert (shown["run_id"], shown["committed_version"]) == (None, None)
    done = json.loads(cli("rollback", TABLE, "--auto-approve", "--json").out)
    assert done["outcome"] == "rolled_back"
    assert done["committed_version"] == table.current.number
    assert done["run_id"] not in (None, done["undoes"])
    assert {key: done[key] for key in ("undoes", "removed", "returned")} == {
        key: shown[key] for key in ("undoes", "removed", "returned")
    }


def test_without_a_terminal_the_approval_is_an_option(table: MemoryTable, cli: Cli) -> None:
    version = table.current
    assert "ZL046" in cli("rollback", TABLE, code=1).err
    assert table.current is version
    cli("rollback", TABLE, "--auto-approve")
    assert table.current is not version


def test_a_run_that_is_not_in_effect_and_a_table_without_a_catalog_are_named(table: MemoryTable, cli: Cli) -> None:
    version = table.current
    assert "ZL231" in cli("rollback", TABLE, "--run", "absent", "--dry-run", code=3).err
    assert "ZL021" in cli("rollback", "elsewhere.db.orders", "--dry-run", code=1).err
    assert table.current is version
