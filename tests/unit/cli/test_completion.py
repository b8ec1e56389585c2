"""What the shell completes: tables from the YAML, without an engine, and nothing at all when the YAML is wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROBE = """\
import sys
from zlayout.cli.main import main
import atexit
atexit.register(lambda: sys.stderr.write(' '.join(sorted({m.partition('.')[0] for m in sys.modules}))))
main([])
"""


def completed(*words: str) -> tuple[list[str], set[str]]:
    """The words that bash is offered after `words`, and the modules that it took."""
    environ = {**os.environ, "_ZLAYOUT_COMPLETE": "complete_bash", "COMP_CWORD": str(len(words) - 1)}
    environ["COMP_WORDS"] = " ".join(words)
    done = subprocess.run([sys.executable, "-c", PROBE], env=environ, capture_output=True, text=True, check=False)
    return done.stdout.split(), set(done.stderr.split())


@pytest.mark.usefixtures("root")
@pytest.mark.parametrize("command", ["plan", "apply", "drift", "inspect"])
def test_tables_are_completed_without_an_engine(command: str) -> None:
    words, modules = completed("zlayout", command, "lake.")
    assert words == ["lake.db.orders"]
    assert not modules & {"pyspark", "deltalake", "pyiceberg", "pyarrow", "numpy"}
    assert "zlayout" in modules


@pytest.mark.usefixtures("root")
def test_tags_are_completed_and_other_words_are_not() -> None:
    assert completed("zlayout", "plan", "tag:")[0] == ["tag:nightly"]
    assert completed("zlayout", "plan", "--exclude", "l")[0] == ["lake.db.orders"]
    assert completed("zlayout", "plan", "x")[0] == []


@pytest.mark.usefixtures("root")
def test_wrong_yaml_completes_nothing_and_says_nothing() -> None:
    Path("layouts/orders.yaml").write_text("version: [")
    words, _ = completed("zlayout", "plan", "l")
    assert words == []
