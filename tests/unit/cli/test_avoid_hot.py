"""`--avoid-hot`: what plan and apply print and exit with while partitions wait."""

import json
from datetime import timedelta
from pathlib import Path

import pytest
from contract import make_rows
from support.projects import Cli, Scripted

import zlayout


@pytest.mark.usefixtures("memory")
def test_a_hot_table_is_left_for_a_later_run(cli: Cli) -> None:
    shown = cli("plan", "--avoid-hot", "1h").out
    line = " ".join(shown.split())  # at any width
    assert "hot 1 group of 7.49 KiB, 4 files, in 1 partition written after 2" in line
    assert "ZL415 the table is not partitioned" in shown
    assert "lake.db.orders  waits " in cli("plan", "--avoid-hot", "1h", "--summary").out
    assert "Plan: 1 waiting.\n" in shown
    assert "hot: partitions with recent writes" in shown
    assert "To apply" not in cli("plan", "--avoid-hot", "1h").err
    assert "To apply: zlayout apply --avoid-hot 0m" in cli("plan", "--avoid-hot", "0m").err
    cli("plan", "--avoid-hot", "1h", "--detailed-exitcode", code=2)
    cli("drift", code=2)


def test_apply_has_nothing_to_do_while_everything_waits(memory: Scripted, cli: Cli) -> None:
    memory.breaks = AssertionError("not to be begun")
    done = cli("apply", "--auto-approve", "--avoid-hot", "1h")
    assert "Nothing to apply now: all changes wait for a later run" in done.err
    memory.breaks = None
    assert "as declared; 1 commit" in cli("apply", "--auto-approve", "--avoid-hot", "0m").out
    assert "No changes." in cli("plan", "--avoid-hot", "1h").out


def test_programs_have_the_same_option(memory: Scripted) -> None:
    memory.breaks = AssertionError("not to be begun")
    project = zlayout.load_project(".")
    plan = zlayout.plan(project, avoid_hot=timedelta(hours=1))
    assert plan.document.only_waits
    assert zlayout.apply(plan).results == {}


@pytest.mark.usefixtures("memory")
def test_a_project_declares_it_without_windows(cli: Cli) -> None:
    with Path("zlayout.yaml").open("a") as file:
        file.write("maintenance: {avoid_hot: 1h}\n")
    assert "Nothing to apply now" in cli("apply", "--auto-approve").err
    assert "as declared; 1 commit" in cli("apply", "--auto-approve", "--avoid-hot", "0m").out


def test_files_that_arrive_while_the_run_rewrites_wait(memory: Scripted, cli: Cli) -> None:
    table = memory._catalog.load(("db", "orders"))
    for version in table.log:
        for path, file in version.files.items():
            object.__setattr__(file, "written", 1)
            assert version.files[path].written == 1
    memory.meanwhile = lambda: table.append(make_rows(200, start=1000), files=4)
    done = cli("apply", "--auto-approve", "--avoid-hot", "1h")
    assert "as declared except for hot partitions; 1 commit" in done.out


@pytest.mark.usefixtures("memory")
def test_a_saved_plan_is_applied_as_it_was_reviewed(cli: Cli) -> None:
    cli("plan", "--avoid-hot", "1h", "--out", "plan.json")
    hot = json.loads(Path("plan.json").read_text())["tables"][0]["waiting"][0]
    assert (hot["reason"], hot["partition_numbers"], hot["groups"], hot["files"]) == ("hot", [1], 1, 4)
    assert "Nothing to apply now" in cli("apply", "plan.json", "--auto-approve").err


@pytest.mark.usefixtures("memory")
@pytest.mark.parametrize("option", [["--avoid-hot", "0m"], ["--include-rarely-read"]])
def test_options_of_a_new_plan_are_refused_with_a_plan_file(cli: Cli, option: list[str]) -> None:
    cli("plan", "--out", "plan.json")
    said = cli("apply", "plan.json", "--auto-approve", *option, code=1).err
    assert f"ZL085 {option[0]} cannot change the plan file plan.json" in said


@pytest.mark.parametrize("text", ["an hour", "1.5h", ""])
def test_what_is_no_duration(memory: Scripted, cli: Cli, text: str) -> None:  # noqa: ARG001
    done = cli("plan", "--avoid-hot", text, code=1)
    assert "ZL056 expected a duration for --avoid-hot" in done.out + done.err
