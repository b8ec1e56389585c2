"""An HTTP proxy in front of an S3 store: it counts requests, delays them, and lets chosen ones fail.

The clients use the URL of the proxy as their endpoint. The proxy sends each request to the store unchanged, so the
store must not verify signatures (moto does not).
"""

import http.client
import re
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from support.servers import serving

_ERROR = '<?xml version="1.0" encoding="UTF-8"?><Error><Code>{code}</Code><Message>{message}</Message></Error>'
_NOT_FORWARDED = {"connection", "keep-alive", "transfer-encoding", "content-length", "date", "server"}


@dataclass(frozen=True)
class Request:
    """One request of a client: the method, the path with the bucket, and the query."""

    method: str
    path: str
    query: str

    @property
    def text(self) -> str:
        """Method, path and query, which the pattern of a fault is searched in."""
        return f"{self.method} {self.path}" + (f"?{self.query}" if self.query else "")


class Failure(StrEnum):
    """What happens to a request."""

    ERROR = "500"  # the store answers InternalError and does nothing
    SLOW_DOWN = "503"  # the store answers SlowDown and does nothing
    RESET = "reset"  # the connection is reset before the store does anything
    LOST_ANSWER = "lost answer"  # the store carries out the request, then the connection is reset
    TRUNCATED = "truncated"  # the client gets half of the answer, then the connection is reset
    DIES = "dies"  # the store ends in the middle of the request, and is away from then on
    DIES_AFTER = "dies after"  # the store carries out the request, ends without an answer, and is away from then on


ANSWERS = {Failure.ERROR: (500, "InternalError"), Failure.SLOW_DOWN: (503, "SlowDown")}


class Fault:
    """Lets the requests that match a pattern fail, the first ones or all."""

    def __init__(
        self, pattern: str, failure: Failure, times: int | None = 1, then: Callable[[], object] = lambda: None
    ) -> None:
        """then: called after the failure, before any answer, such as to kill the client."""
        self.failure = failure
        self.then = then
        self.met = 0
        self._pattern = re.compile(pattern)
        self._times = times

    def meets(self, request: Request) -> bool:
        if (self._times is not None and self.met >= self._times) or not self._pattern.search(request.text):
            return False
        self.met += 1
        return True


_AWAY = Fault("", Failure.RESET, None)


class Proxy:
    """The state of a proxy; thread-safe."""

    def __init__(self, store: int) -> None:
        """store: the port of the store. `denied` returns the code of the error for the headers of a request."""
        self.store = store
        self.round_trip = 0.0  # seconds that each request and each new connection take in addition
        self.away = False
        self.denied: Callable[[Mapping[str, str]], str | None] = lambda _headers: None
        self._faults: Sequence[Fault] = ()
        self._requests: list[Request] = []
        self._lock = threading.Lock()
        self._open = 0
        self._most = [0]

    @contextmanager
    def failing(self, fault: Fault) -> Iterator[Fault]:
        """Let requests fail in the block. A store that died is back after it."""
        self._faults = (fault,)
        try:
            yield fault
        finally:
            self._faults, self.away = (), False

    @contextmanager
    def counting(self) -> Iterator[list[Request]]:
        """The requests of the block, in the order of their arrival."""
        with self._lock:
            self._requests = found = []
        yield found

    @contextmanager
    def busiest(self) -> Iterator[list[int]]:
        """The largest number of requests at the same time in the block, in a list of one."""
        self._most = [0]
        yield self._most

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Count a request that is being answered."""
        with self._lock:
            self._open += 1
            self._most[0] = max(self._most[0], self._open)
        try:
            yield
        finally:
            with self._lock:
                self._open -= 1

    def next_fault(self, request: Request) -> Fault | None:
        with self._lock:
            self._requests.append(request)
            if self.away:
                return _AWAY
            fault = next((fault for fault in self._faults if fault.meets(request)), None)
            self.away = fault is not None and fault.failure in (Failure.DIES, Failure.DIES_AFTER)
            return fault


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    proxy: Proxy

    def setup(self) -> None:
        super().setup()
        self._store = http.client.HTTPConnection("127.0.0.1", self.proxy.store, timeout=60)
        time.sleep(self.proxy.round_trip)

    def finish(self) -> None:
        self._store.close()
        with suppress(OSError):
            super().finish()

    def log_message(self, *_: object) -> None:
        """Log nothing."""

    def do_GET(self) -> None:
        with self.proxy.answering():
            try:
                self._answer()
            except (OSError, http.client.HTTPException):  # the client or the store is gone
                self._reset()

    do_HEAD = do_PUT = do_POST = do_DELETE = do_GET

    def handle_expect_100(self) -> bool:
        return True  # `_answer` sends it, if it reads the body

    def _answer(self) -> None:
        path, _, query = self.path.partition("?")
        fault = self.proxy.next_fault(Request(self.command, path, query))
        failure = fault.failure if fault else None
        time.sleep(self.proxy.round_trip)
        if fault and failure in (Failure.RESET, Failure.DIES):
            fault.then()
            self._reset()
            return
        if self.headers.get("Expect", "").lower() == "100-continue":
            self.send_response_only(http.HTTPStatus.CONTINUE)
            self.end_headers()
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        denied = self.proxy.denied(self.headers)
        if failure in ANSWERS or denied:
            status, code = ANSWERS.get(failure, (403, denied))
            message = "The provided token has expired." if code == "ExpiredToken" else "by the proxy"
            content = b"" if self.command == "HEAD" else _ERROR.format(code=code, message=message).encode()
            self._send(status, [("Content-Type", "application/xml")], content, len(content))
            return
        status, headers, content = self._forward(body)
        if fault and failure in (Failure.LOST_ANSWER, Failure.DIES_AFTER):
            fault.then()
            self._reset()
            return
        stated = next((int(value) for name, value in headers if name.lower() == "content-length"), len(content))
        kept = [(name, value) for name, value in headers if name.lower() not in _NOT_FORWARDED]
        if failure is Failure.TRUNCATED:
            self._send(status, kept, content[: len(content) // 2], stated)
            self._reset()
            return
        self._send(status, kept, content, stated)

    def _forward(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        headers = {name: value for name, value in self.headers.items() if name.lower() not in ("expect", "connection")}
        self._store.request(self.command, self.path, body or None, headers)
        answer = self._store.getresponse()
        return answer.status, answer.getheaders(), answer.read()

    def _send(self, status: int, headers: Sequence[tuple[str, str]], content: bytes, length: int) -> None:
        self.send_response_only(status)
        for name, value in headers:
            self.send_header(name, value)
        if status not in (204, 304):
            self.send_header("Content-Length", str(length))
        self.end_headers()
        self.wfile.write(content)
        self.wfile.flush()

    def _reset(self) -> None:
        """End the connection by RST instead of FIN, as a host that lost it does."""
        self.close_connection = True
        with suppress(OSError):
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, *_: object) -> None:
        """Print nothing: clients may close connections at any time."""


@contextmanager
def s3_proxy(store: int, port: int = 0) -> Iterator[tuple[Proxy, str]]:
    """A proxy on `port` for the store on port `store`, and its URL."""
    proxy = Proxy(store)
    handler = type("Handler", (_Handler,), {"proxy": proxy})
    with serving(_Server(("127.0.0.1", port), handler)) as server:
        yield proxy, f"http://127.0.0.1:{server.server_address[1]}"


def kinds(requests: Sequence[Request]) -> Counter[str]:
    """The number of requests by method and kind of object."""
    return Counter(f"{request.method} {kind(request)}" for request in requests)


_KINDS = (
    (r"_delta_log/\d+\.json$", "commit"),
    (r"_delta_log/.*checkpoint.*\.parquet$", "checkpoint"),
    (r"_delta_log/_last_checkpoint$", "last checkpoint"),
    (r"\.metadata\.json$", "table metadata"),
    (r"/snap-[^/]*\.avro$", "manifest list"),
    (r"\.avro$", "manifest"),
    (r"\.parquet$", "data file"),
    (r"^/[^/]+/?$", "bucket"),
)


def kind(request: Request) -> str:
    """The kind of the object, `list` for a listing."""
    if "list-type=" in request.query or "prefix=" in request.query:
        return "list"
    return next((name for pattern, name in _KINDS if re.search(pattern, request.path)), "other")
