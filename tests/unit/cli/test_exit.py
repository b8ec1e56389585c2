"""The end of the process while a service does not answer."""

import os
import subprocess
import sys

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
