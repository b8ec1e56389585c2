"""A server with the part of Unity Catalog's REST API that reads tables, as `api/all.yaml` of version 0.6 defines it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from support.servers import serving

API = "/api/2.1/unity-catalog"
PAGE = 2  # tables


@dataclass
class UnityServer:
    """The tables by full name, the token that a client must send ('' for none), and the requests so far."""

    url: str = ""
    token: str = ""
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
            "table_id": "6f3b8f4e-0000-0000-0000-000000000000",
        }

    def answer(self, path: str, query: dict[str, str], token: str) -> tuple[int, dict[str, Any]]:
        if self.token and token != f"Bearer {self.token}":
            return 401, {"error_code": "UNAUTHENTICATED", "message": "no or wrong token"}
        if path == f"{API}/schemas":
            names = {t["schema_name"] for t in self.tables.values() if t["catalog_name"] == query["catalog_name"]}
            return 200, {"schemas": [{"name": name} for name in sorted(names)]}
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


@contextmanager
def unity_server(token: str = "") -> Iterator[UnityServer]:
    """A Unity Catalog on a free port of the loopback address."""
    state = UnityServer(token=token)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            state.requests.append(parts.path)
            query = {key: values[0] for key, values in parse_qs(parts.query).items()}
            status, body = state.answer(unquote(parts.path), query, self.headers.get("Authorization", ""))
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
