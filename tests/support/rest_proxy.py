"""An HTTP proxy in front of an Iceberg REST catalog: it asks for OAuth2 tokens, has a prefix, and vends S3 credentials.

Tokens and credentials are random. `Vending.denied` is the check that the S3 store makes of credentials.
"""

import base64
import http.client
import json
import re
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from support.servers import serving

CLIENT, SECRET = "zlayout", "client-secret-of-the-tests"
PREFIX = "zones/eu"
_NOT_FORWARDED = {"connection", "content-length", "transfer-encoding", "accept-encoding", "host"}


@dataclass
class Vending:
    """What a proxy gives to clients, and for how long.

    Attributes:
        store: The S3 endpoint that clients are sent to.
        seconds: How long tokens and credentials are said to be valid. They are until `expire`, so that no request can
            be late.
        renews: Whether tables name the address of new credentials, which the clients of Java ask before they expire.
        signs: Whether tables ask clients to have each request signed by the catalog instead.
        forged: What tables say about their store to Spark alone, instead of the above.
    """

    store: str
    seconds: float = 600
    renews: bool = True
    signs: bool = False
    forged: dict[str, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    _tokens: dict[str, float] = field(default_factory=dict)
    _keys: dict[str, tuple[str, float]] = field(default_factory=dict)
    _expired: float = 0.0

    def token(self) -> str:
        token = secrets.token_hex(16)
        self._tokens[token] = time.time()
        return token

    def expire(self, before: float) -> None:
        """End tokens and credentials that were given before this time."""
        self._expired = before

    def accepts(self, header: str) -> bool:
        return self._tokens.get(header.removeprefix("Bearer "), 0.0) > self._expired

    def key(self) -> dict[str, str]:
        """New credentials for S3, in the words of Iceberg."""
        key, session, now = secrets.token_hex(8), secrets.token_hex(16), time.time()
        self._keys[key] = (session, now)
        return {
            "s3.access-key-id": key,
            "s3.secret-access-key": secrets.token_hex(8),
            "s3.session-token": session,
            "s3.session-token-expires-at-ms": str(int((now + self.seconds) * 1000)),
        }

    def denied(self, headers: Mapping[str, str]) -> str | None:
        """Return the code of the error with which the store answers a request, None for one with valid credentials."""
        used = re.search(r"Credential=([^/]+)/", headers.get("Authorization", ""))
        session, given = self._keys.get(used[1] if used else "", ("", 0.0))
        if not session or headers.get("x-amz-security-token") != session:
            return "InvalidAccessKeyId"
        return "ExpiredToken" if given <= self._expired else None


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    catalog: int
    vending: Vending

    def log_message(self, *_: object) -> None:
        """Log nothing."""

    def do_GET(self) -> None:
        with suppress(OSError):
            self._answer(self.rfile.read(int(self.headers.get("Content-Length") or 0)))

    do_HEAD = do_POST = do_DELETE = do_GET

    def _answer(self, body: bytes) -> None:
        vending, path = self.vending, urlsplit(self.path).path
        vending.asked.append(f"{self.command} {path}")
        if path == "/v1/oauth/tokens":
            self._give_token(dict(parse_qsl(body.decode())))
        elif not vending.accepts(self.headers.get("Authorization", "")):
            self._refuse(401, "NotAuthorizedException", "the token is missing, unknown or expired")
        elif path == "/v1/config":
            status, config = self._forward(body)
            config.setdefault("overrides", {})["prefix"] = PREFIX
            self._send(status, config)
        elif not path.startswith(f"/v1/{PREFIX}/"):
            self._refuse(404, "NotFoundException", "the prefix is missing")
        elif path.endswith("/credentials"):
            self._send(200, {"storage-credentials": [{"prefix": "s3", "config": vending.key()}]})
        else:
            self.path = self.path.replace(f"/{PREFIX}", "", 1)
            status, found = self._forward(body)
            if status == 200 and "metadata" in found and self.command != "HEAD":
                found["config"] = {**found.get("config", {}), **self._config(path)}
            self._send(status, found)

    def _config(self, path: str) -> dict[str, str]:
        """What a table's answer says about its store."""
        if self.vending.forged and "PyIceberg" not in self.headers.get("User-Agent", ""):
            return self.vending.forged
        to_store = {"s3.endpoint": self.vending.store, "client.region": "us-east-1", "s3.path-style-access": "true"}
        if self.vending.signs:
            return to_store | {"s3.remote-signing-enabled": "true"}
        if "vended-credentials" not in self.headers.get("X-Iceberg-Access-Delegation", ""):
            return {}
        renewal = {"client.refresh-credentials-endpoint": f"{path.lstrip('/')}/credentials"}
        return to_store | self.vending.key() | (renewal if self.vending.renews else {})

    def _give_token(self, form: Mapping[str, str]) -> None:
        exchange = form.get("grant_type", "").endswith("token-exchange")
        header = self.headers.get("Authorization", "")
        basic = f"Basic {base64.b64encode(f'{CLIENT}:{SECRET}'.encode()).decode()}"
        known = header == basic or (form.get("client_id"), form.get("client_secret")) == (CLIENT, SECRET)
        if not (known or (exchange and self.vending.accepts(form.get("subject_token", "")))):
            self._send(401, {"error": "invalid_client", "error_description": "unknown client or wrong secret"})
            return
        answer: dict[str, Any] = {"access_token": self.vending.token(), "token_type": "bearer"}
        if exchange:
            answer["issued_token_type"] = "urn:ietf:params:oauth:token-type:access_token"
        self._send(200, answer | {"expires_in": int(self.vending.seconds)})

    def _forward(self, body: bytes) -> tuple[int, dict[str, Any]]:
        headers = {name: value for name, value in self.headers.items() if name.lower() not in _NOT_FORWARDED}
        upstream = http.client.HTTPConnection("127.0.0.1", self.catalog, timeout=60)
        try:
            upstream.request(self.command, self.path, body or None, headers)
            answer = upstream.getresponse()
            content = answer.read()
        finally:
            upstream.close()
        return answer.status, json.loads(content) if content else {}

    def _refuse(self, status: int, kind: str, message: str) -> None:
        self._send(status, {"error": {"message": message, "type": kind, "code": status}})

    def _send(self, status: int, answer: Mapping[str, Any]) -> None:
        content = b"" if status == 204 else json.dumps(answer).encode()
        self.send_response_only(status)
        if status != 204:
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)
            self.wfile.flush()


@contextmanager
def rest_proxy(catalog: int, vending: Vending) -> Iterator[str]:
    """The URL of a proxy for the REST catalog on port `catalog`."""
    handler = type("Handler", (_Handler,), {"catalog": catalog, "vending": vending})
    with serving(ThreadingHTTPServer(("127.0.0.1", 0), handler)) as server:
        yield f"http://127.0.0.1:{server.server_address[1]}"
