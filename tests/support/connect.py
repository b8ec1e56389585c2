"""A server of Spark Connect on this machine, with Delta and Iceberg, which requires a token."""

import os
import signal
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.servers import free_port, wait_for_port

from zlayout.spark import versions
from zlayout.spark.jars import cache_folder, closure, provide

TOKEN = "token-of-the-test"
_OPENED = ("java.lang", "java.nio", "java.net", "java.util", "java.util.concurrent", "sun.nio.ch", "sun.util.calendar")
# For tests, which run for a short time.
_JAVA = (
    "-Xmx2g",
    "-XX:TieredStopAtLevel=1",
    "-XX:ReservedCodeCacheSize=240m",  # of 48 MB with this level, which a long run fills
    "-XX:+UseSerialGC",
)
_DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
_ICEBERG = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"


def both_formats(folder: Path) -> dict[str, str]:
    """The configuration for Delta, and for Iceberg with the catalog `ice` in a folder: `ice.db` and `iceberg`."""
    ice = {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".type": "jdbc",
        ".uri": f"jdbc:sqlite:{folder}/ice.db",
        ".jdbc.schema-version": "V1",
        ".warehouse": f"file://{folder}/iceberg",
    }
    extensions = f"{_DELTA['spark.sql.extensions']},{_ICEBERG}"
    named = {f"spark.sql.catalog.ice{key}": value for key, value in ice.items()}
    return _DELTA | {"spark.sql.extensions": extensions} | named


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
def connect_server(log: Path, conf: Mapping[str, str], java: Iterable[str] = _JAVA) -> Iterator[ConnectServer]:
    """Start a server with the jars of Delta, Iceberg and SQLite, and end it after the block. java: options of Java."""
    home, port, release = versions.spark_home(), free_port(), versions.installed()
    assert release.iceberg_package
    packages = [release.delta_package, release.iceberg_package, versions.JDBC_PACKAGES["sqlite"]]
    jars = provide(closure(packages), cache_folder(os.environ), os.environ)
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
        *java,
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
