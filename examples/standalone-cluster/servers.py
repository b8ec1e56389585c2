"""Make a Delta and an Iceberg table, and start a standalone Spark cluster of one worker on this machine.

README.md has the commands that use it.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyspark
from deltalake import write_deltalake
from pyiceberg.catalog import load_catalog

from zlayout import load_project

HERE = Path(__file__).resolve().parent
SPARK_HOME = Path(pyspark.__file__).parent
ROWS, FILES = 40_000, 8


def main() -> None:
    project = load_project(HERE)
    lake, ice = (project.catalogs[name].options for name in ("lake", "ice"))
    root = Path(lake["warehouse"]).parent
    root.mkdir(parents=True)
    daemons: list[subprocess.Popen[bytes]] = []
    try:
        make_tables(str(lake["warehouse"]), str(ice["uri"]), str(ice["warehouse"]))
        port = str(project.spark.master).rpartition(":")[2]
        daemons.append(daemon(root, "Master", "--port", port))
        daemons.append(daemon(root, "Worker", "--cores", "2", "--memory", "1g", str(project.spark.master)))
        print("ready", flush=True)
        with suppress(KeyboardInterrupt):
            signal.pause()
    finally:
        for process in reversed(daemons):
            process.terminate()
            process.wait()
        shutil.rmtree(root)


def make_tables(delta: str, uri: str, warehouse: str) -> None:
    """Write the same rows to both tables, in several files each."""
    random = np.random.default_rng(1)
    day = np.datetime64("2026-01-01")
    rows = pa.table(
        {
            "order_id": np.arange(ROWS),
            "customer_id": random.integers(0, 50_000, ROWS),
            "order_date": day + random.integers(0, 365, ROWS),
        }
    )
    catalog = load_catalog("ice", type="sql", uri=uri, warehouse=warehouse)
    catalog.create_namespace("sales")
    table = catalog.create_table("sales.orders", rows.schema)
    for start in range(0, ROWS, ROWS // FILES):
        part = rows.slice(start, ROWS // FILES)
        write_deltalake(f"{delta}/sales/orders", part, mode="append")
        table.append(part)


def daemon(root: Path, kind: str, *arguments: str) -> subprocess.Popen[bytes]:
    """Start a master or a worker on the loopback address, and return when it is registered."""
    log = root / f"{kind}.log"
    command = [f"{SPARK_HOME}/bin/spark-class", f"org.apache.spark.deploy.{kind.lower()}.{kind}"]
    local = {"SPARK_HOME": str(SPARK_HOME), "SPARK_DAEMON_MEMORY": "256m", "SPARK_WORKER_DIR": str(root / "work")}
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--webui-port", "0", *arguments],
            env=os.environ | local,
            stdout=output,
            stderr=output,
        )
    while not any(line in log.read_text() for line in ("New state: ALIVE", "Successfully registered")):
        if process.poll() is not None:
            raise SystemExit(log.read_text())
        time.sleep(0.1)
    return process


if __name__ == "__main__":
    main()
