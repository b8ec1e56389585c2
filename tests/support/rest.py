"""Iceberg's own REST catalog on the loopback address, with its database in a folder."""

import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.hive import JARS
from support.ivy import JAVA, jars_of
from support.servers import wait_for_port

_OPTIONS = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
# Of pyspark: Hadoop for local files, and Janino, which compiles and runs the source without a JDK.
_OF_SPARK = ("hadoop-client-api", "hadoop-client-runtime", "commons-logging", "janino", "commons-compiler")


@dataclass
class RestServer:
    """A catalog that can be killed and started again on its database."""

    port: int
    folder: Path
    command: Sequence[str]
    _process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Return when it answers."""
        log = self.folder / "rest.log"
        with log.open("ab") as output:
            self._process = subprocess.Popen(self.command, stdout=output, stderr=output, cwd=self.folder)
        wait_for_port(self.port, self._process, log)

    def kill(self) -> None:
        """Kill it with SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


@contextmanager
def rest_server(
    port: int, folder: Path, warehouse: str, jars: Iterable[str] = (), properties: Mapping[str, str] | None = None
) -> Iterator[RestServer]:
    """A catalog that answers. It is not running after the block.

    Args:
        port: the port to listen on.
        folder: an empty folder, for its database and its log.
        warehouse: where it puts tables; a namespace can have another location.
        jars: more of the class path, such as the clients of AWS, which write the metadata of tables on S3.
        properties: more of its Iceberg catalog, such as how these clients reach S3.
    """
    settings = {
        "catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
        "uri": f"jdbc:sqlite:{folder / 'rest.db'}",
        "jdbc.schema-version": "V1",
        "warehouse": warehouse,
        "io-impl": "org.apache.iceberg.io.ResolvingFileIO",
        **(properties or {}),
    }
    of_spark = [str(path) for name in _OF_SPARK for path in JARS.glob(f"{name}-[0-9]*.jar")]
    classes = ":".join((*jars_of("rest"), *of_spark, *jars))
    compiled = ("org.codehaus.janino.SimpleCompiler", str(JAVA / "Rest.java"), "Rest")
    arguments = [str(port), *(f"{key}={value}" for key, value in settings.items())]
    server = RestServer(port, folder, ["java", *_OPTIONS, "-cp", classes, *compiled, *arguments])
    try:
        server.start()
        yield server
    finally:
        server.kill()


if __name__ == "__main__":  # make servers
    print(len(jars_of("rest")), "jars of the REST catalog,", len(jars_of("polaris")), "of Polaris")  # noqa: T201
