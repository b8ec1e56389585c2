"""An Iceberg REST catalog whose responses a test chooses, and servers that record what reaches them."""

import gzip
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from support.servers import serving


@dataclass
class Responses:
    """What the catalog returns for its only table, `db.t`.

    Attributes:
        metadata: The metadata of the table.
        metadata_location: The location of the metadata file.
        defaults: `defaults` of /v1/config.
        overrides: `overrides` of /v1/config.
        config: `config` of the table.
        credentials: `storage-credentials` of the table.
        gzipped: The body of every response instead, compressed by gzip.
        forbidden: The paths that are answered by 403.
        redirect: The status and the URL to which every request is redirected instead; its path is kept.
        endpoints: `endpoints` of /v1/config, besides those of tables; empty for a server that lists none.
        policies: What Polaris answers about the policies that apply to the table, None for an error.
        requests: The requests, as `METHOD PATH`.
        queries: The query of each request.
    """

    metadata: dict[str, Any]
    metadata_location: str
    defaults: dict[str, Any] = field(default_factory=dict)
    overrides: dict[str, Any] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    credentials: list[dict[str, Any]] = field(default_factory=list)
    gzipped: bytes | None = None
    forbidden: tuple[str, ...] = ()
    redirect: tuple[int, str] | None = None
    endpoints: list[str] = field(default_factory=list)
    policies: list[dict[str, Any]] | None = None
    requests: list[str] = field(default_factory=list)
    queries: list[str] = field(default_factory=list)

    def body(self, path: str) -> dict[str, Any] | None:
        if path == "/v1/config":
            listed = ["GET /v1/{prefix}/namespaces/{namespace}/tables/{table}", *self.endpoints]
            return {"defaults": self.defaults, "overrides": self.overrides} | (
                {"endpoints": listed} if self.endpoints else {}
            )
        prefix = f"/{self.overrides['prefix']}" if "prefix" in self.overrides else ""
        if path == f"/polaris/v1{prefix}/applicable-policies" and self.policies is not None:
            return {"applicable-policies": self.policies}
        if path == f"/v1{prefix}/namespaces/db/tables/t":
            table = {"metadata-location": self.metadata_location, "metadata": self.metadata, "config": self.config}
            return table | ({"storage-credentials": self.credentials} if self.credentials else {})
        return None


@contextmanager
def fake_rest(responses: Responses) -> Iterator[str]:
    """The URL of the catalog."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            path = urlsplit(self.path).path
            responses.requests.append(f"{self.command} {path}")
            responses.queries.append(urlsplit(self.path).query)
            body = responses.body(path)
            content = json.dumps(body).encode() if body is not None else b"{}"
            if responses.redirect is not None:
                self.send_response(responses.redirect[0])
                self.send_header("Location", responses.redirect[1] + self.path)
            else:
                self.send_response(403 if path in responses.forbidden else 404 if body is None else 200)
            if responses.gzipped is not None:
                content = responses.gzipped
                self.send_header("Content-Encoding", "gzip")
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        do_HEAD = do_POST = do_GET

        def log_message(self, *_: object) -> None:
            pass

    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Answer)) as server:
        yield f"http://127.0.0.1:{server.server_address[1]}"


@dataclass(frozen=True)
class Canary:
    """A server that nobody should ask.

    Attributes:
        url: Its URL, on the loopback address.
        requests: What reached it: the first line and the headers of each request.
    """

    url: str
    requests: list[str]


@contextmanager
def canary() -> Iterator[Canary]:
    """A server that records every request and refuses it."""
    found: list[str] = []

    class Refuse(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found.append(f"{self.requestline}\n{self.headers}")
            self.send_response(403)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_HEAD = do_POST = do_PUT = do_DELETE = do_CONNECT = do_GET

        def log_message(self, *_: object) -> None:
            pass

    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Refuse)) as server:
        yield Canary(f"http://127.0.0.1:{server.server_address[1]}", found)


def bomb(size: int) -> bytes:
    """JSON of `size` bytes without content, compressed by gzip to about a thousandth."""
    return gzip.compress(b'{"a":"' + b" " * size + b'"}', 6)
