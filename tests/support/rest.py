"""Iceberg's own REST catalog on the loopback address, with its database in a folder.

Ivy, which Spark has, downloads the jars of pinned versions once, to `build/ivy`.
"""

from __future__ import annotations

import fcntl
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from support.hive import JARS
from support.servers import wait_for_port

_JAVA = Path(__file__).parent / "java"
_BUILD = Path(__file__).parents[2] / "build"
_OPTIONS = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
# Of pyspark: Hadoop for local files, and Janino, which compiles and runs the source without a JDK.
_OF_SPARK = ("hadoop-client-api", "hadoop-client-runtime", "commons-logging", "janino", "commons-compiler")


@contextmanager
def rest_catalog(
    port: int, folder: Path, warehouse: str, jars: Iterable[str] = (), properties: Mapping[str, str] | None = None
) -> Iterator[str]:
    """The URL of a catalog.

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
    classes = ":".join((*rest_jars(), *of_spark, *jars))
    compiled = ("org.codehaus.janino.SimpleCompiler", str(_JAVA / "Rest.java"), "Rest")
    arguments = [str(port), *(f"{key}={value}" for key, value in settings.items())]
    log = folder / "rest.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["java", *_OPTIONS, "-cp", classes, *compiled, *arguments], stdout=output, stderr=output, cwd=folder
        )
    try:
        wait_for_port(port, process, log)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def rest_jars() -> list[str]:
    """The class path of the catalog."""
    return ivy_jars("rest")


def polaris_jars() -> list[str]:
    """The jars of Apache Polaris with the code by which its server commits."""
    return ivy_jars("polaris")


def ivy_jars(name: str) -> list[str]:
    """The jars that `NAME-ivy.xml` names, downloaded if necessary, as `NAME-ivysettings.xml` states if there is one.

    Other processes wait meanwhile.
    """
    _BUILD.mkdir(exist_ok=True)
    cache, source = _BUILD / "ivy", _JAVA / f"{name}-ivy.xml"
    listed, settings = cache / f"{name}-classpath", _JAVA / f"{name}-ivysettings.xml"
    with (_BUILD / "ivy.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        known = listed.exists() and listed.stat().st_mtime > source.stat().st_mtime
        if not known or not all(Path(jar).exists() for jar in listed.read_text().split(":")):
            chosen = ("-settings", settings) if settings.exists() else ()
            arguments = (*chosen, "-ivy", source, "-cache", cache, "-cachepath", listed, "-confs", "default", "-warn")
            command = ["java", "-cp", f"{JARS}/*", "org.apache.ivy.Main", *map(str, arguments)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode or not listed.exists():
                raise RuntimeError(f"the jars of {source.name} cannot be downloaded: {done.stdout[-2000:]}")
    return listed.read_text().strip().split(":")


if __name__ == "__main__":  # make servers
    print(len(rest_jars()), "jars of the REST catalog,", len(polaris_jars()), "of Polaris")  # noqa: T201
