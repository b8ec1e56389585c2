"""A server of Spark Connect on this machine, with Delta and Iceberg, which requires a token.

Its Spark is the installed pyspark, and its jars are those of zlayout, or the packages in PYSPARK_SUBMIT_ARGS, as
`make matrix` sets it.
"""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyiceberg.catalog.sql import SqlCatalog
from support.servers import free_port, wait_for_port

from zlayout.spark import versions
from zlayout.spark.jars import cache_folder, closure, provide

TOKEN = "token-of-the-test"
# The server of Spark 3.5, which is not among the jars of Spark. Maven Central has no later one.
SERVER_3_5 = "org.apache.spark:spark-connect_2.12:3.5.7"
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
    """The configuration for Delta, and for Iceberg with the catalog `ice` in a folder: `ice.db` and `iceberg`.

    That of Delta alone if Iceberg has no jar for the installed Spark. pyiceberg makes the tables of the catalog:
    Iceberg 1.10 looks for them with a query that it never closes, so that commits would find a locked database.
    """
    if versions.installed().iceberg is None:
        return _DELTA
    SqlCatalog("ice", uri=f"sqlite:///{folder}/ice.db", warehouse=f"file://{folder}/iceberg")
    ice = {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".type": "jdbc",
        ".uri": f"jdbc:sqlite:{folder}/ice.db",
        ".jdbc.schema-version": "V1",
        ".jdbc.init-catalog-tables": "false",
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
        command: See `server_of`.
    """

    place: str
    process: "subprocess.Popen[bytes]"
    command: tuple[str, ...]

    @property
    def url(self) -> str:
        return f"sc://{self.place}/;token={TOKEN}"

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


def _jars() -> tuple[list[str], list[Path]]:
    """The arguments of spark-submit that name packages, and the jars of the class path."""
    release = versions.installed()
    named = os.environ.get("PYSPARK_SUBMIT_ARGS", "").removesuffix(" pyspark-shell").split()
    if named[:1] != ["--packages"]:
        packages = [release.delta_package, release.iceberg_package, versions.JDBC_PACKAGES["sqlite"]]
        return [], provide(closure(filter(None, packages)), cache_folder(os.environ), os.environ)
    if release.spark == "3.5":
        named[1] += f",{SERVER_3_5}"
    return named, []


@contextmanager
def connect_server(log: Path, conf: Mapping[str, str], java: Iterable[str] = _JAVA) -> Iterator[ConnectServer]:
    """Start a server with the jars of both formats and of SQLite, and end it after the block. java: options of Java."""
    packages, jars = _jars()
    whole = {
        "spark.connect.authenticate.token": TOKEN,
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.shuffle.partitions": "1",
        "spark.ui.enabled": "false",
        **conf,
    }
    command = [
        shutil.which("java") or "java",
        *java,
        *(f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in _OPENED),
        *("-cp", os.pathsep.join([f"{versions.spark_home()}/jars/*", *map(str, jars)])),
        "org.apache.spark.deploy.SparkSubmit",
        *("--master", "local[2]"),
        *packages,
        *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
        *(part for key, value in whole.items() for part in ("--conf", f"{key}={value}")),
    ]
    with server_of(command, log) as server:
        yield server


@contextmanager
def server_of(command: Sequence[str], log: Path) -> Iterator[ConnectServer]:
    """Start a server by a command that has all but its port, and end it after the block."""
    port = free_port()
    of_port = ["--conf", f"spark.connect.grpc.binding.port={port}", "spark-internal"]
    java, *arguments = command
    whole = [java, f"-Dderby.system.home={log.parent}", *arguments, *of_port]
    with log.open("wb") as output:
        process = subprocess.Popen(whole, stdout=output, stderr=subprocess.STDOUT, cwd=log.parent)
    try:
        wait_for_port(port, process, log)
        yield ConnectServer(f"localhost:{port}", process, tuple(command))
    finally:
        process.kill()
        process.wait()
