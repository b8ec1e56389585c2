"""A server of Spark Connect on this machine, with Delta and Iceberg, which requires a token."""

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.servers import free_port, wait_for_port

from zlayout.spark import versions
from zlayout.spark.jars import cache_folder, closure, provide

TOKEN = "token-of-the-test"
_OPENED = ("java.lang", "java.nio", "java.net", "java.util", "java.util.concurrent", "sun.nio.ch", "sun.util.calendar")
DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


@dataclass
class ConnectServer:
    """A running server.

    Attributes:
        place: Host and port.
        process: Its process.
    """

    place: str
    process: "subprocess.Popen[bytes]"

    @property
    def url(self) -> str:
        return f"sc://{self.place}/;token={TOKEN}"

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


@contextmanager
def connect_server(log: Path, conf: Mapping[str, str] = DELTA, *, delta: bool = True) -> Iterator[ConnectServer]:
    """Start a server, and end it after the block. delta: whether the jars of Delta are on its class path."""
    home, port = versions.spark_home(), free_port()
    jars = provide(closure([versions.installed().delta_package]), cache_folder(os.environ), os.environ) if delta else []
    whole = {
        "spark.connect.authenticate.token": TOKEN,
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.shuffle.partitions": "1",
        "spark.ui.enabled": "false",
        **conf,
    }
    command = [
        "java",
        "-Xmx2g",
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        "-Dderby.system.home=" + str(log.parent),
        *(f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in _OPENED),
        *("-cp", os.pathsep.join([f"{home}/jars/*", *map(str, jars)])),
        "org.apache.spark.deploy.SparkSubmit",
        *("--master", "local[2]"),
        *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
        *(part for key, value in whole.items() for part in ("--conf", f"{key}={value}")),
        "spark-internal",
    ]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, cwd=log.parent)
    try:
        wait_for_port(port, process, log)
        yield ConnectServer(f"localhost:{port}", process)
    finally:
        process.kill()
        process.wait()
