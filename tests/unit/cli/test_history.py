"""The history of a project: which commands fill it, how `zlayout history` shows it, and what its failures change."""

import json
import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from support.projects import Cli, Scripted
from support.records import START, make_record

import zlayout
from zlayout.history_records import Command, Record, SqliteStore

TABLE = "lake.db.orders"


def keeping(setting: str = "{}") -> Path:
    """Let the project in the current folder keep a history; return its file."""
    with Path("zlayout.yaml").open("a") as project:
        project.write(f"history: {setting}\n")
    return Path(".zlayout/history.db")


def kept(path: Path) -> list[Record]:
    return SqliteStore(path, 400).read([TABLE], 99).get(TABLE, [])


@pytest.mark.usefixtures("memory")
def test_each_command_appends_one_record_per_table(cli: Cli) -> None:
    path = keeping()
    for command in (["plan"], ["drift"], ["apply", "--auto-approve"], ["apply", "--auto-approve"], ["drift"]):
        cli(*command, code=2 if command == ["drift"] and not kept(path)[1:] else 0)
    found = kept(path)
    assert [(r.command.value, r.state.value, r.rewrite_bytes > 0) for r in found] == [
        ("plan", "first_layout", True),
        ("drift", "first_layout", True),
        ("apply", "as_declared", True),
        ("apply", "as_declared", False),
        ("drift", "as_declared", False),
    ]
    assert len({record.run_id for record in found}) == 5
    assert len({record.layout_id for record in found}) == 1
    (column,) = found[2].columns
    assert column.measured is not None
    assert column.measured < column.touched
    assert column.predicted is not None
    assert (found[4].columns[0].touched, found[4].files) == (column.measured, found[2].files)


@pytest.mark.usefixtures("memory")
def test_programs_append_the_same_records() -> None:
    path = keeping()
    project = zlayout.load_project(".")
    plan = zlayout.plan(project)
    zlayout.apply(plan)
    zlayout.drift(project)
    assert [record.command for record in kept(path)] == [Command.PLAN, Command.APPLY, Command.DRIFT]
    assert zlayout.history(project, TABLE, limit=2).records == tuple(kept(path)[1:])


@pytest.mark.usefixtures("memory")
def test_without_the_setting_nothing_is_kept(cli: Cli) -> None:
    cli("plan")
    assert not Path(".zlayout").exists()
    assert "ZL052 the project keeps no history" in cli("history", TABLE, code=1).err


@pytest.mark.usefixtures("memory")
def test_a_plan_that_is_not_approved_is_not_kept_as_an_apply(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    path = keeping()
    monkeypatch.setattr("zlayout.cli.console.Console.interactive", property(lambda _: True))
    monkeypatch.setattr("zlayout.cli.console.Console.ask", lambda *_: "no")
    cli("apply", code=1)
    assert kept(path) == []


def test_what_a_failed_apply_did_is_kept(memory: Scripted, cli: Cli) -> None:
    path = keeping()
    memory.breaks = ZeroDivisionError("odd")
    cli("apply", "--auto-approve", code=1)
    assert [(r.state, r.rewrite_bytes) for r in kept(path)] == [("error", 0)]


@pytest.mark.usefixtures("memory")
def test_a_commit_is_kept_when_it_is_made(cli: Cli) -> None:
    """A process may be killed, or its terminal closed, before it can write anything."""
    path = keeping()
    during: list[list[Record]] = []
    plan = zlayout.plan(zlayout.load_project())
    zlayout.apply(plan, on_event=lambda event: during.append(kept(path)) if "TableEvent" in repr(event) else None)
    (_, record), (_, last) = during[0], kept(path)
    assert (record.state, record.rewrite_bytes, record.run_id) == ("interrupted", last.rewrite_bytes, last.run_id)
    assert (record.files, record.columns, record.decay) == (last.files, (), ())
    assert (last.state, len(last.columns)) == ("as_declared", 1)
    assert "interrupted" not in cli("history", TABLE).out
    with_one = SqliteStore(path, 400)
    with_one.append([replace(record, run_id="killed")])
    assert " apply    interrupted " in cli("history", TABLE).out


class TestFailures:
    @pytest.fixture(params=["not a database", "a folder", "no folder"])
    def broken(self, request: pytest.FixtureRequest, memory: Scripted) -> Scripted:
        path = keeping()
        if request.param == "no folder":
            path.parent.write_text("a file")
            return memory
        path.parent.mkdir()
        path.mkdir() if request.param == "a folder" else path.write_text("something else, long enough to look at")
        return memory

    @pytest.mark.usefixtures("broken")
    def test_a_history_that_cannot_be_written_is_a_warning_and_changes_no_exit_code(self, cli: Cli) -> None:
        for command, code in ((["plan"], 0), (["drift"], 2), (["apply", "--auto-approve"], 0), (["drift"], 0)):
            printed = cli(*command, code=code)
            assert printed.err.count("warning: ZL450 the history .zlayout/history.db could not be written: ") == 1
            assert "ZL450" not in printed.out

    @pytest.mark.usefixtures("broken")
    def test_programs_get_a_log_message(self, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level(logging.WARNING, "zlayout"):
            assert zlayout.plan(zlayout.load_project(".")).has_changes
        assert [record.getMessage()[:5] for record in caplog.records] == ["ZL450"]

    @pytest.mark.usefixtures("memory")
    def test_a_history_that_cannot_be_read_is_an_error(self, cli: Cli) -> None:
        path = keeping()
        path.parent.mkdir()
        path.write_text("something else, long enough to look at")
        assert "error: ZL106 the history .zlayout/history.db cannot be read" in cli("history", TABLE, code=1).err


@pytest.mark.usefixtures("root")
class TestShown:
    @pytest.fixture
    def fill(self) -> Callable[..., None]:
        keeping("{path: kept/h.db, keep: 99999d}")
        store = SqliteStore(Path("kept/h.db"), 99999)

        def filled(*records: Record) -> None:
            store.append(records)

        return filled

    def test_the_newest_records_are_a_table(self, fill: Callable[..., None], cli: Cli) -> None:
        fill(*(make_record(day, touched=4.0 + day, table=TABLE) for day in range(5)))
        assert cli("history", TABLE, "--limit", "3").out.splitlines()[:6] == [
            "lake.db.orders  3 records, 2026-03-03 to 2026-03-05, times in UTC",
            "",
            "  time              command  state        files  rewritten  a",
            "  2026-03-03 03:00  drift    as declared     10             6",
            "  2026-03-04 03:00  drift    as declared     10             7",
            "  2026-03-05 03:00  drift    as declared     10             8",
        ]

    def test_json_has_the_same_records(self, fill: Callable[..., None], cli: Cli) -> None:
        records = [make_record(day, table=TABLE) for day in range(3)]
        fill(*records)
        found = json.loads(cli("history", TABLE, "--json", "--limit", "2").out)
        assert [row["time"] for row in found["records"]] == [
            "2026-03-02T03:00:00.000+00:00",
            "2026-03-03T03:00:00.000+00:00",
        ]
        assert found["records"][0]["columns"][0]["touched"] == 4.0
        assert (found["table"], found["growing"]) == (TABLE, [])

    def test_growth_is_computed_from_more_records_than_are_shown(self, fill: Callable[..., None], cli: Cli) -> None:
        shift = datetime.now(UTC) - START - timedelta(days=6)
        fill(*(make_record(day + shift / timedelta(days=1), 0.01 * (day + 1), table=TABLE) for day in range(7)))
        out = cli("history", TABLE, "--limit", "2").out
        assert out.splitlines()[-1] == (
            "  unclustered 7.0% of 10%, growing: past the tolerance in about 3 days (7 records since the last rewrite)"
        )

    def test_a_table_without_records_is_no_error(self, fill: Callable[..., None], cli: Cli) -> None:
        fill(make_record(table="lake.db.other"))
        assert cli("history", TABLE).out == "lake.db.orders: no records yet\n"
        assert "ZL021" in cli("history", "nowhere.db.t", code=1).err


@pytest.mark.usefixtures("memory")
def test_no_value_of_a_row_is_kept(cli: Cli) -> None:
    """The bounds of column b are texts such as key-012345."""
    layout = Path("layouts/orders.yaml")
    layout.write_text(layout.read_text().replace("[a]", "[b]"))
    path = keeping()
    cli("plan")
    cli("apply", "--auto-approve")
    content = b"".join(file.read_bytes() for file in path.parent.iterdir())
    assert b"lake.db.orders" in content
    assert b"key-" not in content


@pytest.mark.parametrize("path", ["../h.db", "/tmp/h.db", "a/../../h.db", "link/h.db"])
@pytest.mark.usefixtures("root")
def test_the_file_is_in_the_folder_of_the_project(
    path: str, cli: Cli, tmp_path_factory: pytest.TempPathFactory
) -> None:
    Path("link").symlink_to(tmp_path_factory.mktemp("elsewhere"))
    keeping(f"{{path: {path}}}")
    assert "zlayout.yaml:4:11: ZL051 expected a file in the folder of the project for the history" in (
        cli("validate", code=1).err
    )


@pytest.mark.parametrize("keep", ["400", "0d", "4w", "d"])
@pytest.mark.usefixtures("root")
def test_the_time_to_keep_is_a_number_of_days(keep: str, cli: Cli) -> None:
    keeping(f"{{keep: '{keep}'}}")
    assert "ZL013 expected a number of days such as 400d" in cli("validate", code=1).err
