"""Delta on S3 with commits that DynamoDB decides: two writers at the same version, and one that dies in between.

Such a commit is a temporary file, then an entry of DynamoDB, then a copy of the file to its name in the log.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from reliability import count
from spark.faults.audit import promised
from spark.faults.store import BUCKET
from spark.faults.store_apply import SPARK, StoreApply
from spark.projects import ENTRY, end, start
from support.dynamodb import dynamodb_conf
from support.s3_proxy import Failure, Fault, Proxy, s3_proxy
from support.servers import CREDENTIALS, free_port, s3_server

pytestmark = pytest.mark.long
PLACE = f"s3://{BUCKET}/delta/db/t"
TABLE = f"delta.`{PLACE}`"
ROWS, MORE = 4000, 50
MADE = ["WRITE"] * 4  # the operations that make the table
FIRST = r"0+4\.json"  # the first commit after these
# Executes a statement with the session of a project.
WRITER = """
import sys
from pathlib import Path
from zlayout import load_project
from zlayout.spark.session import SparkRuntime
with SparkRuntime(load_project(Path(sys.argv[1]))) as runtime:
    runtime.session.sql(sys.argv[2]).collect()
"""


@dataclass
class Writers:
    """zlayout and another writer of a table, in processes of their own, and the proxy in front of the store of both.

    Attributes:
        root: The project.
        conf: The folder of Spark's configuration.
        url: The URL of the store without the proxy.
        proxy: The proxy.
    """

    root: Path
    conf: Path
    url: str
    proxy: Proxy

    def sql(self, statement: str) -> None:
        """Let the other writer execute a statement, and return when it has."""
        folder = self.root / "writer"
        process = self._start(folder, WRITER, str(self.root), statement)
        try:
            assert process.wait(300) == 0, (folder / "err.txt").read_text()[-3000:]
        finally:
            end(process)

    def append(self) -> None:
        self.sql(f"INSERT INTO {TABLE} SELECT id, 5 AS a, 7 AS b FROM range({ROWS}, {ROWS + MORE}, 1, 1)")

    def apply(self) -> StoreApply:
        return StoreApply(self.root, self._start(self.root, ENTRY, "apply", "--auto-approve", "--output", "json"))

    def finished(self, applying: StoreApply) -> tuple[int, str]:
        """Return the exit code of `apply`, and what it printed."""
        try:
            code, out, err = applying.finished()
        finally:
            end(applying.process)
        return code, out[-3000:] + err[-3000:]

    def make(self) -> None:
        """Write rows with the ids below ROWS, in four files."""
        random = np.random.default_rng(1)
        for ids in np.split(np.arange(ROWS), len(MADE)):
            keys = {name: random.integers(0, 1_000_000, len(ids)) for name in ("a", "b")}
            write_deltalake(PLACE, pa.table({"id": ids, **keys}), mode="append", storage_options=self._options)

    def opened(self) -> DeltaTable:
        """The table as deltalake reads it, which does not know DynamoDB."""
        return DeltaTable(PLACE, storage_options=self._options)

    @property
    def _options(self) -> dict[str, str]:
        access = {key.lower(): value for key, value in CREDENTIALS.items()}
        return access | {"aws_endpoint_url": self.url, "aws_allow_http": "true"}

    def _start(self, folder: Path, *arguments: str) -> subprocess.Popen[str]:
        folder.mkdir(exist_ok=True)
        return start([sys.executable, "-c", *arguments], folder, SPARK_CONF_DIR=str(self.conf), **CREDENTIALS)


@pytest.fixture
def writers(tmp_path: Path) -> Iterator[Writers]:
    """The table has four files of rows with the ids below ROWS."""
    conf = tmp_path / "conf"
    conf.mkdir()
    with (
        s3_server(port := free_port(), BUCKET) as url,
        s3_proxy(port) as (proxy, endpoint),
        dynamodb_conf(conf),
    ):
        storage = {"endpoint": endpoint, "region": "us-east-1"}
        lake = {"format": "delta", "warehouse": f"s3://{BUCKET}/delta", "storage": storage}
        project = {"version": 1, "catalogs": {"lake": lake}, "spark": SPARK}
        layout = {
            "version": 1,
            "table": "lake.db.t",
            "zorder": {"columns": ["a", "b"]},
            "files": {"target_size": 16384},
        }
        (tmp_path / "zlayout.yaml").write_text(json.dumps(project))
        (tmp_path / "layouts").mkdir()
        (tmp_path / "layouts" / "t.yaml").write_text(json.dumps(layout))
        writers = Writers(tmp_path, conf, url, proxy)
        writers.make()
        yield writers


def operations(writers: Writers) -> list[str]:
    """The operations of the log from version 0, without changes of settings."""
    history = [commit["operation"] for commit in reversed(writers.opened().history())]
    return [operation for operation in history if operation != "SET TBLPROPERTIES"]


def converge(writers: Writers) -> None:
    """One more `apply` lays out what the other writer appended, and every row is there once."""
    code, output = writers.finished(writers.apply())
    assert code == 0, output
    ids = writers.opened().to_pyarrow_table(columns=["id"])["id"].to_pylist()
    assert sorted(ids) == list(range(ROWS + MORE))


def test_the_entry_decides_between_two_writers_of_one_version(writers: Writers) -> None:
    """The other writer commits while zlayout's temporary file is there and its entry is not."""
    count("faults")
    with promised():
        fault = Fault(rf"^PUT .*_delta_log/\.tmp/{FIRST}", Failure.LOST_ANSWER, then=writers.append)
        with writers.proxy.failing(fault):
            _, output = writers.finished(writers.apply())
        assert fault.met, output
        assert operations(writers) == [*MADE, "WRITE", "OPTIMIZE"], output
        converge(writers)


def test_another_writer_completes_the_commit_of_a_killed_run(writers: Writers) -> None:
    """The run is killed when its entry is there and the file of the commit is not."""
    count("kills")
    running: list[StoreApply] = []
    with promised():
        fault = Fault(rf"^PUT .*_delta_log/{FIRST}$", Failure.RESET, then=lambda: running[0].kill("both"))
        with writers.proxy.failing(fault):
            running.append(writers.apply())
            code, output = writers.finished(running[0])
        assert fault.met, output
        assert code == -9, output
        assert operations(writers) == MADE
        writers.append()
        assert operations(writers) == [*MADE, "OPTIMIZE", "WRITE"]
        converge(writers)
