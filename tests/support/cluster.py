"""A standalone cluster of Spark on the loopback interface: a master, and workers with one core and one executor."""

import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pyspark
from spark.projects import end, start

SPARK_HOME = str(Path(pyspark.__file__).parent)
# What a driver needs to reach the cluster, and what makes small tables quick.
CLUSTER_CONF = {
    "spark.driver.host": "127.0.0.1",
    "spark.executor.memory": "700m",
    "spark.sql.shuffle.partitions": 4,
    "spark.databricks.delta.snapshotPartitions": 1,
}
# Executors need no Python: there is none where Spark would look for it.
NO_PYTHON = {"PYSPARK_PYTHON": "/nonexistent/python"}


@dataclass(frozen=True)
class Worker:
    """A worker: its process id, and the folder in which its executors keep what they shuffle."""

    pid: int
    local: Path

    def executors(self) -> list[int]:
        """Ids of the processes of the executors that this worker started."""
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(FileNotFoundError, ProcessLookupError):
                parent = (process / "stat").read_text().rpartition(")")[2].split()[1]
                if int(parent) == self.pid and b"CoarseGrainedExecutorBackend" in (process / "cmdline").read_bytes():
                    found.append(int(process.name))
        return found


@dataclass(frozen=True)
class Cluster:
    """The URL of the master, and the workers."""

    url: str
    workers: tuple[Worker, ...]


@contextmanager
def standalone_cluster(folder: Path, workers: int, **environment: str) -> Iterator[Cluster]:
    """Start a cluster on free ports.

    Args:
        folder: The folder for logs and local files.
        workers: The number of workers.
        environment: Further variables of the environment, which executors inherit.
    """
    daemons: list[subprocess.Popen[str]] = []

    def daemon(kind: str, name: str, host: str, *arguments: str) -> tuple[Worker, Path]:
        home = folder / name
        home.mkdir()
        command = [f"{SPARK_HOME}/bin/spark-class", f"org.apache.spark.deploy.{kind.lower()}.{kind}"]
        spark = {
            "SPARK_HOME": SPARK_HOME,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_LOCAL_DIRS": str(home / "local"),
            "SPARK_LOCAL_IP": host,
        }
        here = ("--host", host, "--port", "0", "--webui-port", "0")
        daemons.append(start([*command, *here, *arguments], home, **spark, **environment))
        return Worker(daemons[-1].pid, home / "local"), home / "err.txt"

    try:
        _, log = daemon("Master", "master", "127.0.0.1")
        url = _found(log, r"Starting Spark master at (spark://127\.0\.0\.1:\d+)")
        started = []
        for number in range(workers):
            work = ("--cores", "1", "--memory", "1g", "--work-dir", str(folder / f"work{number}"))
            # Spark never runs two attempts of a task on the same host
            worker, log = daemon("Worker", f"worker{number}", f"127.0.0.{number + 1}", *work, url)
            _found(log, r"(Successfully registered with master)")
            started.append(worker)
        yield Cluster(url, tuple(started))
    finally:
        for process in reversed(daemons):
            end(process)


def _found(log: Path, pattern: str) -> str:
    until = time.monotonic() + 60
    while not (found := re.search(pattern, log.read_text())):
        assert time.monotonic() < until, log.read_text()
        time.sleep(0.1)
    return found[1]
