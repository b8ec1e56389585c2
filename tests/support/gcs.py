"""fake-gcs-server, an emulator of Google Cloud Storage, on the loopback address. `make servers-long` builds it."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote
from urllib.request import Request, urlopen

import pytest
from support.servers import wait_for_port

# Neither the emulator nor the clients check who sends a request.
CREDENTIALS = {"GOOGLE_SKIP_SIGNATURE": "true", "GCS_TOKEN": "none", "GCS_TOKEN_ENDS": "4102444800000"}


def emulator() -> str | None:
    """The path of the program; None if it is not installed."""
    return shutil.which("fake-gcs-server", path=os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])))


@contextmanager
def gcs_server(port: int, folder: Path, bucket: str) -> Iterator[str]:
    """The URL of a store with one bucket. Skips the test where the emulator is not installed."""
    program = emulator()
    if not program:
        pytest.skip("needs fake-gcs-server, which make servers-long builds")
    host = f"127.0.0.1:{port}"
    url, log = f"http://{host}", folder / "gcs.log"
    options = ("-scheme=http", "-host=127.0.0.1", f"-port={port}", "-backend=memory", f"-public-host={host}")
    with log.open("wb") as output:
        process = subprocess.Popen([program, *options, f"-external-url={url}"], stdout=output, stderr=output)
    try:
        wait_for_port(port, process, log)
        _post(f"{url}/storage/v1/b?project=test", json.dumps({"name": bucket}).encode(), "application/json")
        yield url
    finally:
        process.kill()
        process.wait()


def upload(url: str, bucket: str, name: str, content: bytes) -> None:
    """Store an object. deltalake cannot write to the emulator."""
    address = f"{url}/upload/storage/v1/b/{bucket}/o?uploadType=media&name={quote(name, safe='')}"
    _post(address, content, "application/octet-stream")


def _post(url: str, body: bytes, type_: str) -> None:
    with urlopen(Request(url, body, {"Content-Type": type_}, method="POST"), timeout=30):
        pass
