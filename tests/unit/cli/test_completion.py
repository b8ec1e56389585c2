"""What the shell completes: tables from the YAML, without an engine, and nothing at all when the YAML is wrong."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROBE = """\
import atexit, os, sys
from zlayout.cli.main import main
atexit.register(lambda: sys.stderr.write(' '.join(sorted({m.partition('.')[0] for m in sys.modules}))))
for line in sys.argv[1:]:
    os.environ.update(COMP_WORDS=line, COMP_CWORD=str(len(line.split()) - 1))
    try:
        main([])
    except SystemExit:
        print(flush=True)
        print("--")
"""


def completed(*lines: str) -> tuple[list[list[str]], set[str]]:
    """The words that bash is offered at the end of each line, and the modules that it took."""
    command = [sys.executable, "-c", PROBE, *lines]
    environ = {**os.environ, "_ZLAYOUT_COMPLETE": "complete_bash"}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    return [words.split() for words in done.stdout.split("--")[:-1]], set(done.stderr.split())


@pytest.mark.usefixtures("root")
def test_tables_are_completed_without_an_engine() -> None:
    commands = ("plan", "apply", "drift", "inspect")
    words, modules = completed(*(f"zlayout {command} lake." for command in commands))
    assert words == [["lake.db.orders"]] * len(commands)
    assert not modules & {"pyspark", "deltalake", "pyiceberg", "pyarrow", "numpy"}
    assert "zlayout" in modules


@pytest.mark.usefixtures("root")
def test_tags_are_completed_and_other_words_are_not() -> None:
    words, _ = completed("zlayout plan tag:", "zlayout plan --exclude l", "zlayout plan x")
    assert words == [["tag:nightly"], ["lake.db.orders"], []]


@pytest.mark.usefixtures("root")
def test_wrong_yaml_completes_nothing_and_says_nothing() -> None:
    Path("layouts/orders.yaml").write_text("version: [")
    assert completed("zlayout plan l")[0] == [[]]
