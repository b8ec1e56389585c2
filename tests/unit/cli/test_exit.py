"""The end of the process while a service does not answer, and by a signal while modules are imported."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ENDS = """
import sys
from zlayout.session import concurrent_reads
from zlayout.cli.main import _exit_at_once_if_waiting
concurrent_reads.is_waiting = lambda: True
sys.stdout.write("the plan")
_exit_at_once_if_waiting({code})
"""


@pytest.mark.parametrize(("out", "code", "expected"), [("null", 0, 0), ("full", 0, 1), ("null", 3, 3), ("full", 3, 3)])
def test_lost_output_is_an_error(out: str, code: int, expected: int) -> None:
    with open(f"/dev/{out}", "w") as device:
        environ = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
        command = [sys.executable, "-c", ENDS.format(code=code)]
        done = subprocess.run(command, stdout=device, env=environ, check=False)
    assert done.returncode == expected


@pytest.mark.parametrize("arguments", [["schema"], ["--help"]])
def test_a_full_disk_behind_stdout_is_reported(arguments: list[str]) -> None:
    with open("/dev/full", "w") as device:
        command = [sys.executable, "-m", "zlayout", *arguments]
        done = subprocess.run(command, stdout=device, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("error: ZL083 the output cannot be written: No space left on device (free space")
    assert len(done.stderr.splitlines()) == 1


INTERRUPTED = """
import os, signal, sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.{name})

sys.meta_path.insert(0, Finder())
from zlayout.cli.main import main
main(["plan"])
"""


@pytest.mark.parametrize(
    "module", ["zlayout.process", "typer", "zlayout.errors", "yaml.cyaml", "zlayout.session.session"]
)
@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)])
def test_a_signal_while_modules_are_imported(module: str, name: str, code: int, tmp_path: Path) -> None:
    (tmp_path / "zlayout.yaml").write_text("version: 1\ncatalogs: {lake: {format: delta, warehouse: tables}}\n")
    command = [sys.executable, "-c", INTERRUPTED.format(module=module, name=name)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    before_main = module in ("zlayout.process", "zlayout.errors") and name != "SIGINT"
    assert done.returncode == (-signal.Signals[name] if before_main else code)
    assert "Traceback" not in done.stderr
    assert ("interrupted" in done.stderr) != before_main
