"""While the JVM starts, its output goes to a file, and the progress of zlayout stays on stderr."""

import io
import subprocess
import sys
from pathlib import Path

import pytest

from zlayout.spark.session import jvm_log

START = """
import os, sys
from zlayout.spark.session import jvm_log
with jvm_log() as log:
    os.system("echo from Java >&2")
    print("progress", file=sys.stderr)
print("afterwards", file=sys.stderr)
print(log)
"""


def test_progress_is_shown_while_the_jvm_starts() -> None:
    done = subprocess.run([sys.executable, "-c", START], capture_output=True, text=True, check=True)
    assert done.stderr == "progress\nafterwards\n"
    log = Path(done.stdout.strip())
    assert log.read_text() == "from Java\n"
    log.unlink()


def test_a_captured_stderr_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    captured = io.StringIO()
    monkeypatch.setattr(sys, "stderr", captured)
    with jvm_log() as log:
        assert sys.stderr is captured
    log.unlink()
