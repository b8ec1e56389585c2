"""`zlayout apply` in a process of its own on one table of an S3 store."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from spark.faults.tables import TARGET_SIZE, Table
from spark.projects import ENTRY, end, start
from support.servers import CREDENTIALS

DEAD = 60  # seconds that a JVM may take to notice that its Python is gone
SPARK = {"master": "local[2]", "conf": {"spark.sql.shuffle.partitions": "2"}}


@dataclass
class StoreApply:
    """A running `zlayout apply` of one table.

    Attributes:
        folder: Its project.
        process: The process of Python.
        jvm: The process id of its JVM; 0 until a victim was killed.
    """

    folder: Path
    process: subprocess.Popen[str]
    jvm: int = 0

    def kill(self, victim: str) -> None:
        """SIGKILL. victim: jvm, python or both."""
        self.jvm = _child(self.process.pid)
        if victim in ("jvm", "both"):
            os.kill(self.jvm, signal.SIGKILL)
        if victim in ("python", "both"):
            os.kill(self.process.pid, signal.SIGKILL)

    def finished(self) -> tuple[int, str, str]:
        """Return exit code, stdout and stderr, when Python and its JVM have ended."""
        code = self.process.wait(300)
        deadline = time.monotonic() + DEAD
        while self.jvm and _is_running(self.jvm):
            assert time.monotonic() < deadline, "the JVM outlives its Python"
            time.sleep(0.05)
        return code, (self.folder / "out.txt").read_text(), (self.folder / "err.txt").read_text()


@contextmanager
def store_apply(table: Table, folder: Path) -> Iterator[StoreApply]:
    """Start `zlayout apply` with the table's catalog and layout. It is not running after the block."""
    catalog = table.catalog
    entry = {"format": catalog.format, "type": catalog.type, **catalog.options}
    entry = {key: str(value) if key in ("uri", "warehouse") else value for key, value in entry.items()}
    (folder / "layouts").mkdir()
    project = {"version": 1, "catalogs": {catalog.name: entry}, "spark": SPARK}
    (folder / "zlayout.yaml").write_text(json.dumps(project))
    layout = {
        "version": 1,
        "table": str(table.name),
        "zorder": {"columns": ["a", "b"]},
        "files": {"target_size": TARGET_SIZE},
    }
    (folder / "layouts" / "t.yaml").write_text(json.dumps(layout))
    arguments = ("apply", "--auto-approve", "--output", "json")
    process = start([sys.executable, "-c", ENTRY, *arguments], folder, **CREDENTIALS)
    try:
        yield StoreApply(folder, process)
    finally:
        end(process)


def _child(parent: int) -> int:
    """Return the process id of the JVM that a Python process started."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            name, _, rest = stat.read_text().partition("(")[2].rpartition(")")
            if name == "java" and int(rest.split()[1]) == parent:
                return int(stat.parent.name)
    raise RuntimeError(f"process {parent} has no JVM")


def _is_running(process: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False
