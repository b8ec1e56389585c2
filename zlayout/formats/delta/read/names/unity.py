"""Reads Unity Catalog, open source or of Databricks, through its REST API."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from zlayout.formats.delta.read.names.entry import Entry, unity_entry
from zlayout.formats.time_limits import CONNECT_SECONDS, READ_SECONDS
from zlayout.reading import TooLargeError, parse_json, require_parsable
from zlayout.spec.model import CatalogConfig

if TYPE_CHECKING:
    from requests import Response

MAX_RESPONSE_BYTES = 64 << 20  # after decompression; a page of Unity Catalog has at most some hundred entries
MAX_PAGES = 10_000
_PART = 1 << 14
_API = "/api/2.1/unity-catalog"
TOKENS = ("UNITY_CATALOG_TOKEN", "DATABRICKS_TOKEN")


class Unity:
    """See `zlayout.formats.delta.read.names.entry.NameService`. An environment variable in `TOKENS` has the token."""

    def __init__(self, catalog: CatalogConfig, environ: Mapping[str, str] = os.environ) -> None:
        self._base = str(catalog.options["uri"]).rstrip("/").removesuffix(_API) + _API
        self._catalog = str(catalog.options["warehouse"])
        self._token = next((environ[name] for name in TOKENS if environ.get(name)), "")

    def entry(self, namespace: str, name: str) -> Entry | None:
        found = self._get(f"/tables/{quote(f'{self._catalog}.{namespace}.{name}', safe='')}", {})
        return None if found is None else unity_entry(found)

    def namespaces(self) -> Iterator[str]:
        for schema in self._pages("schemas", {"catalog_name": self._catalog}):
            yield str(schema["name"])

    def entries(self, namespace: str) -> Iterator[Entry]:
        yield from map(unity_entry, self._pages("tables", {"catalog_name": self._catalog, "schema_name": namespace}))

    def _pages(self, resource: str, query: Mapping[str, str]) -> Iterator[Mapping[str, Any]]:
        token = ""
        for _ in range(MAX_PAGES):
            page = self._get(f"/{resource}", {**query, **({"page_token": token} if token else {})}) or {}
            yield from page.get(resource) or ()
            token = page.get("next_page_token") or ""
            if not token:
                return
        raise ValueError(f"expected at most {MAX_PAGES:,} pages of {resource}, found more")

    def _get(self, path: str, query: Mapping[str, str]) -> Mapping[str, Any] | None:
        """Return the JSON object of the response, None if the name does not exist."""
        import requests

        with requests.get(
            self._base + path,
            params=query,
            auth=self._authorize,  # without `auth`, requests sends the password of ~/.netrc
            timeout=(CONNECT_SECONDS, READ_SECONDS),
            allow_redirects=False,
            stream=True,
        ) as answer:
            text = _text_of(answer)
        if answer.status_code == requests.codes.not_found and "error_code" in text:
            return None
        answer.raise_for_status()
        if answer.status_code != requests.codes.ok:
            raise ValueError(f"expected an answer of Unity Catalog, found HTTP status {answer.status_code}")
        found = parse_json(text)
        if not isinstance(found, dict):
            raise ValueError("expected a JSON object of Unity Catalog, found other JSON")
        return found

    def _authorize(self, request: Any) -> Any:
        if self._token:
            request.headers["Authorization"] = f"Bearer {self._token}"
        return request


def _text_of(answer: Response) -> str:
    content = bytearray()
    for part in answer.iter_content(_PART):
        content += part
        if len(content) > MAX_RESPONSE_BYTES:
            raise TooLargeError("the response", MAX_RESPONSE_BYTES)
    require_parsable(content, "the response")
    return content.decode("utf-8", "replace")
