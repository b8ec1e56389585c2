"""zlayout on a cluster of two workers with tables in an S3 store, while workers fail: right rows, once.

Spark's event log shows that each disturbance had its effect: an executor was lost, a block of a shuffle could not be
fetched, a task ran twice at the same time.
"""

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import boto3
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog import Catalog, load_catalog
from spark.projects import DELTA, ICEBERG, SCHEMA, DiskProject, end, make_events, wait_while_running
from support.cluster import CLUSTER_CONF, NO_PYTHON, Cluster, Worker, standalone_cluster
from support.s3_proxy import Failure, Fault, Proxy, s3_proxy
from support.servers import CREDENTIALS, free_port, s3_server

from zlayout.errors import Location
from zlayout.spec.client_options import deltalake_options, pyiceberg_properties
from zlayout.spec.model import CatalogConfig

pytestmark = pytest.mark.long

BUCKET = "cluster"
FILES = 8
ROWS = make_events(100_000)
TABLE = f"s3://{BUCKET}/delta/db/events"
# What a platform sets for all of its sessions.
DEFAULTS = """\
spark.speculation true
spark.speculation.interval 100ms
spark.speculation.quantile 0.5
spark.speculation.minTaskRuntime 100ms
spark.eventLog.enabled true
spark.eventLog.compress false
spark.eventLog.rolling.enabled false
spark.eventLog.dir file://{folder}
"""
DELAY = 15.0  # seconds


@dataclass(frozen=True)
class S3Project:
    """A project of two tables in an S3 store, of the same rows, in FILES files each.

    Attributes:
        folder: The folder of the project.
        url: The URL of the store, which the test uses: a request through the proxy may let no other thread of this
            process run, such as the proxy.
        proxy: The proxy in front of the store.
        proxy_url: The URL of the proxy, which zlayout and Spark use.
    """

    folder: Path
    url: str
    proxy: Proxy
    proxy_url: str

    @property
    def disk(self) -> DiskProject:
        return DiskProject(self.folder)

    def catalogs(self, endpoint: str) -> dict[str, dict[str, Any]]:
        storage = {"endpoint": endpoint, "region": "us-east-1"}
        uri = f"sqlite:///{self.folder / 'ice.db'}"
        return {
            "lake": {"format": "delta", "type": "path", "warehouse": f"s3://{BUCKET}/delta", "storage": storage},
            "ice": {
                "format": "iceberg",
                "type": "sql",
                "uri": uri,
                "warehouse": f"s3://{BUCKET}/iceberg",
                "storage": storage,
            },
        }

    @property
    def delta_options(self) -> dict[str, str]:
        return dict(deltalake_options(self._config("lake")))

    def iceberg(self) -> Catalog:
        return load_catalog("ice", **pyiceberg_properties(self._config("ice")))

    def rows(self, table: str) -> pa.Table:
        """The live rows by id."""
        if table == DELTA:
            found = DeltaTable(TABLE, storage_options=self.delta_options).to_pyarrow_table()
        else:
            found = self.iceberg().load_table("db.events").scan().to_arrow()
        return found.select(SCHEMA.names).cast(SCHEMA).sort_by("id").combine_chunks()

    def data_files(self, table: str) -> set[str]:
        """The keys of all data files of the table in the store, live or not."""
        client = boto3.client("s3", endpoint_url=self.url)
        prefix = "delta/" if table == DELTA else "iceberg/"
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
        keys = chain.from_iterable((each["Key"] for each in page.get("Contents", ())) for page in pages)
        return {key for key in keys if key.endswith(".parquet") and "_delta_log" not in key}

    def events(self) -> list[dict[str, Any]]:
        """The events of all sessions of Spark."""
        lines = chain.from_iterable(log.read_text().splitlines() for log in (self.folder / "events").iterdir())
        return [json.loads(line) for line in lines]

    def _config(self, name: str) -> CatalogConfig:
        options = dict(self.catalogs(self.url)[name])
        return CatalogConfig(name, options.pop("format"), options.pop("type"), options, Location("zlayout.yaml"))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Project]:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    store, port = free_port(), free_port()
    with s3_server(store, BUCKET) as url, s3_proxy(store, port) as (proxy, proxy_url):
        made = S3Project(tmp_path, url, proxy, proxy_url)
        size = len(ROWS) // FILES
        catalog = made.iceberg()
        catalog.create_namespace("db")
        table = catalog.create_table("db.events", SCHEMA)
        for at in range(FILES):
            part = ROWS.slice(at * size, size)
            write_deltalake(TABLE, part, mode="append", storage_options=made.delta_options)
            table.append(part)
        yield made


@pytest.fixture
def cluster(project: S3Project) -> Iterator[Cluster]:
    with standalone_cluster(project.folder, 2) as started:
        yield started


def _kill(_: ExitStack, worker: Worker, __: Proxy) -> None:
    (executor,) = worker.executors()
    os.kill(executor, signal.SIGKILL)


def _lose_shuffle_files(_: ExitStack, worker: Worker, __: Proxy) -> None:
    lost = list(worker.local.rglob("shuffle_*.data"))
    assert lost
    for file in lost:
        file.unlink()


def _delay_a_write(stack: ExitStack, _: Worker, proxy: Proxy) -> None:
    fault = Fault(r"^PUT .*\.parquet", Failure.LOST_ANSWER, then=partial(time.sleep, DELAY))
    stack.enter_context(proxy.failing(fault))


def _executor_lost(event: dict[str, Any]) -> bool:
    return "SparkListenerExecutorRemoved" in str(event["Event"])


def _fetch_failed(event: dict[str, Any]) -> bool:
    return str(event.get("Task End Reason", {}).get("Reason")) == "FetchFailed"


def _ran_twice(event: dict[str, Any]) -> bool:
    return event["Event"] == "SparkListenerTaskStart" and bool(event["Task Info"]["Speculative"])


@pytest.mark.parametrize("table", [DELTA, ICEBERG])
@pytest.mark.parametrize(
    ("disturb", "effect"),
    [(_kill, _executor_lost), (_lose_shuffle_files, _fetch_failed), (_delay_a_write, _ran_twice)],
    ids=["killed executor", "lost shuffle files", "delayed write"],
)
def test_rows_are_written_once_while_a_worker_fails(
    project: S3Project,
    cluster: Cluster,
    table: str,
    disturb: Callable[[ExitStack, Worker, Proxy], None],
    effect: Callable[[dict[str, Any]], bool],
) -> None:
    _write_yaml(project, cluster, table)
    before = project.data_files(table)
    environment = {**NO_PYTHON, "SPARK_CONF_DIR": str(project.folder / "conf")}
    process = project.disk.run("apply", "--auto-approve", **environment)
    with ExitStack() as stack:
        stack.callback(end, process)
        wait_while_running(process, lambda: len(project.data_files(table) - before) >= 3)
        disturb(stack, cluster.workers[0], project.proxy)
        code, out, err = project.disk.finished(process)
    assert code == 0, out + err
    assert any(map(effect, project.events()))
    assert project.rows(table) == ROWS
    assert project.disk.call("plan", "--detailed-exitcode")[0] == 0


def _write_yaml(project: S3Project, cluster: Cluster, table: str) -> None:
    for folder in ("events", "conf", "layouts"):
        (project.folder / folder).mkdir()
    (project.folder / "conf" / "spark-defaults.conf").write_text(DEFAULTS.format(folder=project.folder / "events"))
    spark = {"master": cluster.url, "conf": CLUSTER_CONF}
    catalogs = project.catalogs(project.proxy_url)
    (project.folder / "zlayout.yaml").write_text(json.dumps({"version": 1, "catalogs": catalogs, "spark": spark}))
    layout = {"version": 1, "table": table, "zorder": {"columns": ["a", "b"]}, "files": {"target_size": "100KiB"}}
    (project.folder / "layouts" / "events.yaml").write_text(json.dumps(layout))
