"""A server with the part of Unity Catalog's REST API that reads tables, as `api/all.yaml` of version 0.6 defines it.

It issues tokens to a service principal as a workspace of Databricks does, and temporary credentials for S3.
"""

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from support.rest_proxy import CLIENT, SECRET, Vending
from support.servers import serving

API = "/api/2.1/unity-catalog"
PAGE = 2  # tables


@dataclass
class UnityServer:
    """The tables by full name, and the requests so far.

    Attributes:
        token: The token that a client must send; '' for none.
        vending: What issues credentials for tables, and tokens to the service principal `CLIENT`, `SECRET`.
        grants: The operations for which credentials are issued.
        forbidden: The schemas whose tables may not be listed.
        redirect: Where all requests for tokens and credentials are sent instead, '' for nowhere.
    """

    url: str = ""
    token: str = ""
    vending: Vending | None = None
    grants: tuple[str, ...] = ("READ", "READ_WRITE")
    forbidden: tuple[str, ...] = ()
    redirect: str = ""
    tables: dict[str, dict[str, Any]] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)

    def add(self, full_name: str, location: str | None, format: str | None = "DELTA", type: str = "EXTERNAL") -> None:
        catalog, schema, name = full_name.split(".")
        self.tables[full_name] = {
            "name": name,
            "catalog_name": catalog,
            "schema_name": schema,
            "table_type": type,
            "data_source_format": format,
            "columns": [],
            "storage_location": location,
            "properties": {},
            "table_id": f"6f3b8f4e-0000-0000-0000-{len(self.tables):012}",
        }

    def answer(self, path: str, query: dict[str, str], token: str) -> tuple[int, dict[str, Any]]:
        if not self._accepts(token):
            return 401, {"error_code": "UNAUTHENTICATED", "message": "no or wrong token"}
        if path == f"{API}/schemas":
            names = {t["schema_name"] for t in self.tables.values() if t["catalog_name"] == query["catalog_name"]}
            return 200, {"schemas": [{"name": name} for name in sorted(names)]}
        if path == f"{API}/tables" and query["schema_name"] in self.forbidden:
            return 403, {"error_code": "PERMISSION_DENIED", "message": "User does not have USE SCHEMA"}
        if path == f"{API}/tables":
            prefix = f"{query['catalog_name']}.{query['schema_name']}."
            found = [table for name, table in self.tables.items() if name.startswith(prefix)]
            start = int(query.get("page_token", "0"))
            more = str(start + PAGE) if start + PAGE < len(found) else None
            return 200, {"tables": found[start : start + PAGE], "next_page_token": more}
        if (table := self.tables.get(path.removeprefix(f"{API}/tables/"))) is not None:
            return 200, table
        if path.startswith(f"{API}/tables/"):
            return 404, {"error_code": "TABLE_NOT_FOUND", "message": f"Table not found: {path}"}
        return 404, {}

    def post(self, path: str, body: bytes, login: str) -> tuple[int, dict[str, Any]]:
        """Answer a request for a token or for credentials."""
        if self.vending is not None and path == "/oidc/v1/token":
            form = {key: values[0] for key, values in parse_qs(body.decode()).items()}
            basic = f"Basic {base64.b64encode(f'{CLIENT}:{SECRET}'.encode()).decode()}"
            if login != basic or form != {"grant_type": "client_credentials", "scope": "all-apis"}:
                return 401, {"error": "invalid_client"}
            return 200, {"access_token": self.vending.token(), "expires_in": int(self.vending.seconds)}
        if not self._accepts(login):
            return 401, {"error_code": "UNAUTHENTICATED", "message": "no or wrong token"}
        asked = json.loads(body)
        table = next((table for table in self.tables.values() if table["table_id"] == asked["table_id"]), None)
        if self.vending is None or path != f"{API}/temporary-table-credentials" or table is None:
            return 404, {"error_code": "NOT_FOUND"}
        self.requests.append(asked["operation"])
        if asked["operation"] not in self.grants:
            return 403, {"error_code": "PERMISSION_DENIED", "message": f"no {asked['operation']}"}
        key = self.vending.key()
        names = ("access_key_id", "secret_access_key", "session_token")
        aws = {name: key[f"s3.{name.replace('_', '-')}"] for name in names}
        expires = int(key["s3.session-token-expires-at-ms"])
        return 200, {"aws_temp_credentials": aws, "expiration_time": expires, "url": table["storage_location"]}

    def _accepts(self, login: str) -> bool:
        known = not self.token or login == f"Bearer {self.token}"
        return known if self.vending is None else (bool(self.token) and known) or self.vending.accepts(login)


@contextmanager
def unity_server(token: str = "", vending: Vending | None = None) -> Iterator[UnityServer]:
    """A Unity Catalog on a free port of the loopback address."""
    state = UnityServer(token=token, vending=vending)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"  # after an answer of HTTP/1.0, Java may use the closed connection again
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            state.requests.append(parts.path)
            query = {key: values[0] for key, values in parse_qs(parts.query).items()}
            self._respond(*state.answer(unquote(parts.path), query, self.headers.get("Authorization", "")))

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            state.requests.append(self.path)
            if state.redirect:
                self.send_response(307)
                self.send_header("Location", state.redirect + self.path)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self._respond(*state.post(self.path, body, self.headers.get("Authorization", "")))

        def _respond(self, status: int, body: dict[str, Any]) -> None:
            content = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            pass

    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as server:
        state.url = f"http://127.0.0.1:{server.server_port}"
        yield state
