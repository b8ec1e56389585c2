"""Services that tests start on this machine, on the loopback address: an S3 store with Glue, and one that hangs."""

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from socketserver import BaseServer
from typing import Any, TypeVar
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import pytest

Server = TypeVar("Server", bound=BaseServer)
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test-secret", "AWS_REGION": "us-east-1"}


def free_port() -> int:
    """A port that no process listens on."""
    with closing(socket.socket()) as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def s3_server(port: int, *buckets: str) -> Iterator[str]:
    """The URL of an S3 store with these buckets."""
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ | CREDENTIALS
    )
    try:
        url = f"http://127.0.0.1:{port}"
        _wait(url, process)
        import boto3

        client = boto3.client(
            "s3",
            endpoint_url=url,
            region_name="us-east-1",
            aws_access_key_id="test",
            aws_secret_access_key="test-secret",
        )
        for bucket in buckets:
            client.create_bucket(Bucket=bucket)
        yield url
    finally:
        process.kill()
        process.wait()


def _wait(url: str, process: subprocess.Popen[bytes], seconds: float = 120) -> None:
    """Return when the server answers."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if process.poll() is not None:
            raise RuntimeError(f"the server at {url} ended with {process.returncode}")
        try:
            with urlopen(url, timeout=5):
                return
        except HTTPError:
            return
        except (URLError, OSError):
            time.sleep(0.2)
    raise TimeoutError(f"no answer of {url}")


def wait_for_port(port: int, process: subprocess.Popen[bytes], log: Path, seconds: float = 120) -> None:
    """Return when a server accepts connections on its port of the loopback address."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and process.poll() is None:
        with closing(socket.socket()) as tried:
            if tried.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise RuntimeError(f"the server does not answer: {log.read_text(errors='replace')[-2000:]}")


@contextmanager
def running(command: Sequence[object], port: int, log: Path, **options: Any) -> Iterator[None]:
    """Run a server, which has a port and a log, until the end of the block. options: of `subprocess.Popen`."""
    with log.open("wb") as file:
        process = subprocess.Popen([*map(str, command)], stdout=file, stderr=subprocess.STDOUT, **options)
    try:
        wait_for_port(port, process, log)
        yield
    finally:
        process.kill()
        process.wait()


@contextmanager
def serving(server: Server) -> Iterator[Server]:
    """Serve in a thread, which ends with the block without waiting for the next request."""
    with server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def _listening(answer: Callable[[socket.socket], None]) -> Iterator[int]:
    """The port of a server that calls `answer` with each connection."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:

        def accept() -> None:
            while True:
                try:
                    answer(server.accept()[0])
                except OSError:
                    return

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield int(server.getsockname()[1])
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.fixture
def hung() -> Iterator[int]:
    """The port of a server that accepts connections and never answers."""
    kept: list[socket.socket] = []
    with _listening(kept.append) as port:
        yield port
    for connection in kept:
        connection.close()


@pytest.fixture
def plain_http() -> Iterator[int]:
    """The port of a server that answers every connection in plain http, also one that begins TLS."""

    def answer(connection: socket.socket) -> None:
        with closing(connection), suppress(OSError):
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with _listening(answer) as port:
        yield port
