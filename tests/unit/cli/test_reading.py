"""The progress of reading: one line that is replaced on a terminal, few lines elsewhere."""

from pathlib import Path

import pytest
from support.projects import Cli

from zlayout.cli.console import MIN_TABLES, Console, ReadingShown
from zlayout.session.concurrent_reads import Reading, read_tables
from zlayout.spec.model import TableName

TABLE = TableName("lake", ("db",), "t")


def test_the_first_line_comes_before_the_first_table(capsys: pytest.CaptureFixture[str]) -> None:
    with ReadingShown(Console()) as shown:
        seen: list[str] = []

        def read(_number: int) -> int:
            seen.append(capsys.readouterr().err)
            return 0

        read_tables(range(MIN_TABLES), lambda _: TABLE, read, Reading(1, on_progress=shown))
    assert seen[0] == f"reading {MIN_TABLES} tables\n"
    assert set(seen[1:]) == {""}


def test_few_tables_need_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    with ReadingShown(Console()) as shown:
        shown(0, MIN_TABLES - 1)
    assert capsys.readouterr().err == ""


def test_a_terminal_shows_one_line_and_removes_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Console, "live", True)
    monkeypatch.setattr("zlayout.cli.console.SECONDS_BETWEEN_UPDATES", 0)
    with ReadingShown(Console()) as shown:
        for done in range(0, 101, 50):
            shown(done, 100)
    err = capsys.readouterr().err
    assert "\n" not in err
    texts = ["reading the layouts ...", "reading 100 tables ..."]
    texts += ["reading 100 tables: 50 done ...", "reading 100 tables: 100 done ...", ""]
    assert err.split("\r\x1b[2K")[1:] == texts


def test_progress_counts_every_table_once() -> None:
    counts: list[tuple[int, int]] = []
    read_tables(range(5), lambda _: TABLE, lambda n: n, Reading(2, on_progress=lambda *count: counts.append(count)))
    assert counts == sorted(counts)
    assert counts[0] == (0, 5)


def test_a_terminal_shows_that_modules_are_imported(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Console, "live", True)
    with Console().starting():
        assert capsys.readouterr().err == "\r\x1b[2Kstarting ..."
    assert capsys.readouterr().err == "\r\x1b[2K"


def test_a_log_does_not_show_that_modules_are_imported(capsys: pytest.CaptureFixture[str]) -> None:
    with Console().starting():
        pass
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("command", "table"),
    [("inspect", "lake.db.t"), ("import", "lake.db.t"), ("import", "lake.db.*"), ("rollback", "lake.db.t")],
)
def test_commands_for_one_table_have_a_limit_too(
    command: str, table: str, cli: Cli, hung: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their error names the option."""
    catalog = f"{{format: iceberg, type: rest, uri: 'http://127.0.0.1:{hung}'}}"
    (tmp_path / "zlayout.yaml").write_text(f"version: 1\ncatalogs:\n  lake: {catalog}\n")
    monkeypatch.chdir(tmp_path)
    options = ["--dry-run"] if command == "rollback" else []
    error = cli(command, table, "--timeout", "0.2", *options, code=1).err
    assert "could not be read within 0.2 s" in error
    assert "use a larger --timeout" in error


@pytest.mark.usefixtures("root")
def test_a_plan_file_that_does_not_exist_is_no_misspelled_table(cli: Cli) -> None:
    assert "this file does not exist; write a plan file" in cli("apply", "plan.json", "--auto-approve", code=1).err
