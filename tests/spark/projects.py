"""Whole projects on disk for tests that run zlayout in processes of their own; their tables are made without a JVM."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, QueryBuilder, write_deltalake
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform

ENTRY = "from zlayout.cli.main import main; main()"
DELTA, ICEBERG = "lake.db.events", "ice.db.events"
# A JVM of a test runs much code a few times: the second compiler takes half of the time and never pays.
QUICK = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m"
_NUMBER = re.compile(r"(?:part-)?(\d{5})-")


@dataclass(frozen=True)
class DiskProject:
    """`zlayout.yaml`, two layouts and the tables lake.db.events and ice.db.events of the same rows."""

    root: Path

    def run(self, *arguments: str, entry: str = ENTRY, **environment: str) -> subprocess.Popen[str]:
        """Start the command line in this project. Output goes to out.txt and err.txt, which `finished` reads."""
        return start([sys.executable, "-c", entry, *arguments], self.root, **environment)

    def finished(self, process: subprocess.Popen[str], timeout: float = 300) -> tuple[int, str, str]:
        """(exit code, stdout, stderr) of a process that `run` started."""
        code = process.wait(timeout)
        return code, (self.root / "out.txt").read_text(), (self.root / "err.txt").read_text()

    def call(self, *arguments: str, **environment: str) -> tuple[int, str, str]:
        process = self.run(*arguments, **environment)
        try:
            return self.finished(process)
        finally:
            end(process)

    @property
    def delta_folder(self) -> Path:
        return self.root / "delta" / "db" / "events"

    @property
    def iceberg_folder(self) -> Path:
        """Where data files of the Iceberg table are, those that it was made of and those that Spark writes."""
        return self.root / "iceberg" / "db" / "events" / "data"

    def folder(self, table: str) -> Path:
        """Where data files of the table are."""
        return self.delta_folder if table == DELTA else self.iceberg_folder

    def iceberg_table(self) -> Table:
        return _catalog(self.root).load_table("db.events")

    def files(self, table: str) -> list[Path]:
        """The live data files by the number of the Spark partition that wrote them."""
        if table == DELTA:
            paths = [Path(p) for p in DeltaTable(str(self.delta_folder)).file_uris()]
        else:
            paths = [Path(t.file.file_path.removeprefix("file:")) for t in self.iceberg_table().scan().plan_files()]
        return sorted(paths, key=lambda path: (partition_number(path), str(path)))

    def rows(self, table: str) -> pa.Table:
        """The live rows by id."""
        if table == DELTA:
            query = QueryBuilder().register("t", DeltaTable(str(self.delta_folder)))
            found = pa.table(query.execute("SELECT * FROM t").read_all())
        else:
            found = self.iceberg_table().scan().to_arrow()
        return found.select(["id", "a", "b", "region"]).cast(SCHEMA).sort_by("id").combine_chunks()

    def version(self, table: str) -> int:
        if table == DELTA:
            return DeltaTable(str(self.delta_folder)).version()
        snapshot = self.iceberg_table().current_snapshot()
        return snapshot.snapshot_id if snapshot else -1


SCHEMA = pa.schema([("id", pa.int64()), ("a", pa.int64()), ("b", pa.string()), ("region", pa.string())])


def make_events(count: int) -> pa.Table:
    """Two uncorrelated keys, a number and a text, and two regions, sorted by region."""
    random = np.random.default_rng(5)
    half = np.arange(count) < count // 2
    return pa.table(
        {
            "id": pa.array(np.arange(count), pa.int64()),
            "a": pa.array(random.integers(0, 1_000_000, count), pa.int64()),
            "b": pa.array([f"key-{n:07}" for n in random.integers(0, 1_000_000, count)], pa.string()),
            "region": pa.array(np.where(half, "east", "west"), pa.string()),
        },
        schema=SCHEMA,
    )


def make_project(
    root: Path,
    rows: pa.Table,
    files: int,
    spark: Mapping[str, Any],
    *,
    target_size: str,
    iceberg_properties: Mapping[str, str] | None = None,
    like: DiskProject | None = None,
) -> DiskProject:
    """Both tables hold `rows` in `files` files and are partitioned by region. spark: the entry of zlayout.yaml.

    like: a project made of the same rows and not changed yet, to have the same file names (deltalake draws them).
    """
    project = DiskProject(root)
    (root / "layouts").mkdir(parents=True)
    catalogs = {
        "lake": {"format": "delta", "type": "path", "warehouse": "./delta"},
        "ice": {
            "format": "iceberg",
            "type": "sql",
            "uri": f"sqlite:///{root}/ice.db",
            "warehouse": f"file://{root}/iceberg",
        },
    }
    # JSON is YAML
    (root / "zlayout.yaml").write_text(json.dumps({"version": 1, "catalogs": catalogs, "spark": spark}))
    for name in (DELTA, ICEBERG):
        layout = {
            "version": 1,
            "table": name,
            "zorder": {"columns": ["a", "b"]},
            "files": {"target_size": target_size},
        }
        (root / "layouts" / f"{name.partition('.')[0]}.yaml").write_text(json.dumps(layout))
    parts = [
        rows.slice(at * len(rows) // files, (at + 1) * len(rows) // files - at * len(rows) // files)
        for at in range(files)
    ]
    if like is not None:
        shutil.copytree(like.delta_folder, project.delta_folder)
    for part in parts if like is None else ():
        write_deltalake(str(project.delta_folder), part, mode="append", partition_by=["region"])
    _make_iceberg(project, parts, dict(iceberg_properties or {}))
    return project


def _make_iceberg(project: DiskProject, parts: Sequence[pa.Table], properties: dict[str, str]) -> None:
    project.iceberg_folder.mkdir(parents=True)
    catalog = _catalog(project.root)
    catalog.create_namespace("db")
    table = catalog.create_table(
        "db.events", SCHEMA, properties={"format-version": "2", "write.distribution-mode": "none", **properties}
    )
    with table.update_spec() as update:
        update.add_field("region", IdentityTransform(), "region")
    paths = []
    for at, part in enumerate(parts):
        path = project.iceberg_folder / f"source-{at:03}.parquet"
        # several row groups, so that a file can be read in several splits
        pq.write_table(part, path, row_group_size=max(len(part) // 4, 1))
        paths.append(f"file://{path}")
    table.add_files(paths)


def _catalog(root: Path) -> Any:
    return load_catalog("ice", type="sql", uri=f"sqlite:///{root}/ice.db", warehouse=f"file://{root}/iceberg")


def partition_number(path: Path) -> int:
    """-1 for a file that Spark did not write."""
    found = _NUMBER.match(path.name)
    return int(found[1]) if found else -1


def start(command: Sequence[str], folder: Path, **environment: str) -> subprocess.Popen[str]:
    """A process with its output in out.txt and err.txt of `folder`, in a process group of its own for `end`."""
    outer = {k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK", "SPARK", "COLUMNS"))}
    with (folder / "out.txt").open("w") as out, (folder / "err.txt").open("w") as err:
        return subprocess.Popen(
            command,
            cwd=folder,
            env={**outer, "SPARK_LOCAL_IP": "127.0.0.1", "JDK_JAVA_OPTIONS": QUICK, **environment},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            text=True,
            start_new_session=True,
        )


def wait_while_running(process: subprocess.Popen[str], reached: Callable[[], bool], seconds: float = 300) -> None:
    """Return when something is reached that a process, which `start` started, is about to do."""
    until = time.monotonic() + seconds
    while not reached():
        assert process.poll() is None, "the process ended before"
        assert time.monotonic() < until
        time.sleep(0.02)


def end(process: subprocess.Popen[str]) -> None:
    """Make sure that the process and what it started are gone."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(30)
