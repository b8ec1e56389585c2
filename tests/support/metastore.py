"""A Hive metastore on the loopback address: that of the pyspark wheel, with an embedded database."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark

from zlayout.errors import Location
from zlayout.formats.delta.read.names.hive import Hive
from zlayout.spec.model import CatalogConfig

JARS = Path(pyspark.__file__).parent / "jars"
SOURCE = Path(__file__).with_name("Metastore.java")
SETTINGS = {
    "datanucleus.connectionPoolingType": "hikaricp",
    "datanucleus.schema.autoCreateAll": "true",
    "hive.async.log.enabled": "false",
    "hive.metastore.schema.verification": "false",
}


@contextmanager
def hive_metastore(folder: Path, port: int) -> Iterator[str]:
    """The URI of a metastore that keeps its database and its default warehouse in a folder."""
    settings = SETTINGS | {
        "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder}/metastore;create=true",
        "hive.metastore.warehouse.dir": f"file:{folder}/warehouse",
    }
    properties = "".join(f"<property><name>{k}</name><value>{v}</value></property>" for k, v in settings.items())
    (folder / "hive-site.xml").write_text(f"<configuration>{properties}</configuration>")
    # Janino compiles the source, because a machine may have no Java compiler.
    options = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", f"{folder}:{JARS}/*"]
    command = ["java", *options, "org.codehaus.janino.SimpleCompiler", str(SOURCE), "Metastore", str(port)]
    with (folder / "metastore.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
    uri = f"thrift://127.0.0.1:{port}"
    try:
        _wait(uri, process, folder)
        yield uri
    finally:
        process.kill()
        process.wait()


def metastore_client(uri: str) -> Any:
    """A client with one method for each request, which opens a connection for it."""
    hive = Hive(CatalogConfig("test", "delta", "hive", {"uri": uri}, Location("")))

    class Client:
        def __getattr__(self, name: str) -> Any:
            return lambda *arguments: hive._ask(lambda client: getattr(client, name)(*arguments))

    return Client()


def _wait(uri: str, process: subprocess.Popen[bytes], folder: Path, seconds: float = 180) -> None:
    client, end = metastore_client(uri), time.monotonic() + seconds
    while time.monotonic() < end:
        if process.poll() is not None:
            raise RuntimeError(f"the metastore ended: {(folder / 'metastore.log').read_text()[-2000:]}")
        try:
            client.get_all_databases()
            return
        except OSError:
            time.sleep(0.2)
    raise TimeoutError(f"no answer of {uri}")
