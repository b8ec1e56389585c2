"""The tables and projects of the tests over Spark Connect, which deltalake and pyiceberg make and read.

The server is given by CONNECT_PLACE, CONNECT_TOKEN and CONNECT_PROCESS, the folder of its Iceberg catalog by
CONNECT_CATALOG, and that of its event log by CONNECT_EVENTS.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog import load_catalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField

import zlayout
from zlayout.formats.base import Progress, Stage

PLACE, TOKEN = os.environ["CONNECT_PLACE"], os.environ["CONNECT_TOKEN"]
CATALOG, EVENTS = os.environ["CONNECT_CATALOG"], Path(os.environ["CONNECT_EVENTS"])
URL = f"sc://{PLACE}/;token={TOKEN}"
PARTS, ROWS = 2, 200


class Table:
    """A project with one layout of engine native, and its Delta table, which deltalake has written."""

    name = "lake.db.t"

    def __init__(self, root: Path, engine: str = "native", *, parts: int = PARTS) -> None:
        self.root, self.path = root, root / "lake" / "db" / "t"
        (root / "layouts").mkdir()
        (root / "zlayout.yaml").write_text(f"version: 1\ncatalogs: {self.catalogs()}\n")
        layout = f"version: 1\ntable: {self.name}\nengine: {engine}\nzorder: {{columns: [a, b], curve: zorder}}\n"
        (root / "layouts" / "t.yaml").write_text(layout)
        self._parts, self._rows = parts, 0
        for _ in range(3):
            self.append()

    def append(self) -> None:
        rows = pa.table(self.new_rows())
        write_deltalake(str(self.path), rows, mode="append", partition_by=["part"] if self._parts else None)

    def new_rows(self) -> dict[str, Any]:
        random = np.random.default_rng(self._rows)
        ids = np.arange(self._rows, self._rows + ROWS)
        self._rows += ROWS
        return {
            "part": ids % max(self._parts, 1),
            "a": random.integers(0, 999, ROWS),
            "b": random.integers(0, 999, ROWS),
            "id": ids,
        }

    def catalogs(self) -> str:
        return f"{{lake: {{format: delta, type: path, warehouse: {self.root / 'lake'}}}}}"

    @property
    def project(self) -> zlayout.Project:
        return zlayout.load_project(self.root)

    def plan(self) -> Any:
        return zlayout.plan(self.project)

    def changes(self) -> int:
        return DeltaTable(str(self.path)).version()

    def rows(self) -> list[dict[str, int]]:
        found = DeltaTable(str(self.path)).to_pyarrow_table().sort_by("id").to_pylist()
        return [{name: int(row[name]) for name in ("part", "a", "b", "id")} for row in found]

    def exists(self) -> bool:
        return DeltaTable.is_deltatable(str(self.path))  # a rewrite that fails may leave new files without a log

    def status(self) -> str:
        return str(self.plan().document.tables[0].status)


def iceberg_catalog() -> Any:
    return load_catalog("ice", type="sql", uri=f"sqlite:///{CATALOG}/ice.db", warehouse=f"file://{CATALOG}/iceberg")


def rewrites(folder: Path) -> int:
    """The number of commits of rewrites in the history of the table in a folder."""
    if (folder / "_delta_log").exists():
        return sum(commit["operation"] == "OPTIMIZE" for commit in DeltaTable(str(folder)).history())
    snapshots = iceberg_catalog().load_table((folder.parent.name, folder.name)).metadata.snapshots
    return sum(one.summary.operation.value == "replace" for one in snapshots)


class IcebergTable(Table):
    """The same with an Iceberg table, which pyiceberg has written to the catalog of the server."""

    def __init__(self, root: Path, *, parts: int = PARTS) -> None:
        namespace = f"n{uuid.uuid4().hex[:8]}"
        self.name = f"ice.{namespace}.t"
        self.files = iceberg_catalog()
        self.files.create_namespace(namespace)
        self.create()
        super().__init__(root, parts=parts)
        self.path = Path(self.loaded.location().removeprefix("file://"))

    def create(self) -> None:
        columns = [NestedField(at, name, LongType()) for at, name in enumerate(("part", "a", "b", "id"), 1)]
        by_part = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "part"))
        self.files.create_table(self.name.removeprefix("ice."), Schema(*columns), partition_spec=by_part)

    def catalogs(self) -> str:
        options = f"type: sql, uri: 'sqlite:///{CATALOG}/ice.db', warehouse: 'file://{CATALOG}/iceberg'"
        return f"{{ice: {{format: iceberg, {options}}}}}"

    def append(self) -> None:
        self.loaded.append(pa.table(self.new_rows()))

    @property
    def loaded(self) -> Any:
        return self.files.load_table(self.name.removeprefix("ice."))

    def exists(self) -> bool:
        return bool(self.files.table_exists(self.name.removeprefix("ice.")))

    def snapshots(self) -> list[str]:
        return [one.summary.operation.value for one in self.loaded.metadata.snapshots]

    def changes(self) -> int:
        return len(self.snapshots())

    def rows(self) -> list[dict[str, int]]:
        scan = self.loaded.scan(selected_fields=("part", "a", "b", "id"))
        return [dict(row) for row in scan.to_arrow().sort_by("id").to_pylist()]


def code_of(result: Any) -> str:
    (only,) = result.results.values()
    return str(only.problems[0].code)


def during_rewrite(table: Table, work: Callable[[], None]) -> Callable[[Any], None]:
    """Return a function for `on_event` that calls `work` after the server has written a file, and before it commits."""
    before = set(table.path.rglob("*.parquet"))

    def wait() -> None:
        end = time.monotonic() + 60
        while time.monotonic() < end and set(table.path.rglob("*.parquet")) == before:
            time.sleep(0.002)
        work()

    def follow(event: Any) -> None:
        if isinstance(event, Progress) and event.stage is Stage.REWRITING and not started:
            started.append(threading.Thread(target=wait))
            started[0].start()

    started: list[threading.Thread] = []
    return follow


@contextmanager
def stopped() -> Iterator[None]:
    """Stop the server, which goes on after the block."""
    os.kill(int(os.environ["CONNECT_PROCESS"]), signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(int(os.environ["CONNECT_PROCESS"]), signal.SIGCONT)


def running(*ends: str) -> set[str]:
    """The statements and jobs that have begun and not ended, by the event log of the server.

    ends: the events that end a statement, if not only "Closed", which takes minutes without a client.
    """
    (log,) = EVENTS.iterdir()
    found: set[str] = set()
    ended = {"SparkListenerJobEnd", *(f"SparkListenerConnectOperation{end}" for end in ("Closed", *ends))}
    for line in log.read_text().splitlines():
        with suppress(ValueError):  # the server is writing the last line
            event = json.loads(line)
            name = str(event["Event"]).rpartition(".")[2]
            one = str(event.get("operationId", event.get("Job ID")))
            if name in ("SparkListenerConnectOperationStarted", "SparkListenerJobStart"):
                found.add(one)
            elif name in ended:
                found.discard(one)
    return found
