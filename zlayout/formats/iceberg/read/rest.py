"""The REST catalog of pyiceberg, with only those properties of its server that `server` accepts.

This module is apart from `catalog`, because it takes long to import, and only catalogs of type rest need it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.io import FileIO, load_file_io
from pyiceberg.table import Table
from requests import TooManyRedirects

from zlayout import reading
from zlayout.formats.iceberg.read.server import Declared, of_catalog, of_storage
from zlayout.formats.iceberg.read.unread_types import load_own_io, readable
from zlayout.text import quote_value

if TYPE_CHECKING:
    from pyiceberg.catalog.rest import TableResponse
    from pyiceberg.catalog.rest.auth import AuthManager
    from requests import PreparedRequest, Response, Session

_PART = 1 << 16  # bytes of a response that are read at a time


class ClosedRestCatalog(RestCatalog):
    """A REST catalog whose server adds accepted properties only, and never properties of tables."""

    def __init__(self, declared: Declared) -> None:
        """Request the configuration of the server. Raises TableError ZL137, and the errors of pyiceberg."""
        self._declared = declared
        self._sent: dict[str, Any] = {}
        self._is_listing, self._listed_bytes = False, 0
        super().__init__(declared.catalog, **declared.properties)

    def _create_session(self) -> Session:
        session = super()._create_session()
        session.hooks["response"] += [_refuse_redirect, _limit, self._limit_listing, _change]
        return session

    def _create_legacy_oauth2_auth_manager(self, session: Session) -> AuthManager:
        """pyiceberg requests a token here, before the session has a way to log in."""
        session.auth = _as_it_is  # without `auth`, requests sends the password of ~/.netrc
        session.hooks["response"] += [_refuse_redirect, _limit]
        try:
            return super()._create_legacy_oauth2_auth_manager(session)
        finally:
            session.hooks["response"].clear()

    def list_namespaces(self, *args: Any, **more: Any) -> list[tuple[str, ...]]:
        """See `RestCatalog.list_namespaces`. Raises TooLargeError."""
        with self._listing():
            return list(super().list_namespaces(*args, **more))

    def list_tables(self, *args: Any, **more: Any) -> list[tuple[str, ...]]:
        """See `RestCatalog.list_tables`. Raises TooLargeError."""
        with self._listing():
            return list(super().list_tables(*args, **more))

    @contextmanager
    def _listing(self) -> Iterator[None]:
        self._is_listing = True
        try:
            yield
        finally:
            self._is_listing = False

    def _limit_listing(self, response: Response, **_: Any) -> None:
        if self._is_listing:
            self._listed_bytes += len(response.content)
            if self._listed_bytes > reading.MAX_LISTED_BYTES:
                raise reading.TooLargeError("the list of tables of the server", reading.MAX_LISTED_BYTES)

    def _fetch_config(self) -> None:
        """pyiceberg merges the response into the properties here, and acts on them afterwards."""
        super()._fetch_config()
        own = self._declared.properties
        self._sent = {key: value for key, value in self.properties.items() if own.get(key) != value}
        self.properties = dict(own) | of_catalog(self._declared, self._sent)
        self.uri = own["uri"]

    def _load_file_io(self, properties: object = None, location: str | None = None) -> FileIO:  # noqa: ARG002
        """Return the access that is declared. `properties` has those of the table and of the server."""
        return load_file_io(dict(self._declared.properties), location)

    def _response_to_table(self, identifier_tuple: tuple[str, ...], table_response: TableResponse) -> Table:
        credentials = getattr(table_response, "storage_credentials", [])  # not before pyiceberg 0.12
        location = table_response.metadata_location
        best = self._resolve_storage_credentials(credentials, location) if credentials else {}
        access = of_storage(self._declared, {**self._sent, **table_response.config, **best})
        table = super()._response_to_table(identifier_tuple, table_response)
        table.io, table.config = load_own_io(access, location), {}
        return table


def _as_it_is(request: PreparedRequest) -> PreparedRequest:
    return request


def _refuse_redirect(response: Response, **_: Any) -> None:
    """Raise TooManyRedirects, because requests would send the credentials to the new address."""
    # the OAuth credentials in a form, AWS's session token in a header, and ~/.netrc's password for the new host
    if response.is_redirect:
        address = quote_value(response.headers["location"])
        raise TooManyRedirects(f"the server redirects to {address}, and zlayout follows no redirect")


def _limit(response: Response, **_: Any) -> None:
    """Read the body, which requests would read and decompress as a whole. Raises ValueError if it is too large."""
    what = "the response of the server"
    try:
        response._content = reading.joined(response.iter_content(_PART), reading.MAX_METADATA_BYTES, what)
        reading.require_parsable(response._content, what)
    except ValueError:
        response.close()
        raise


def _change(response: Response, **_: Any) -> None:
    if response.ok and b'"schemas"' in response.content:
        response._content = readable(response.content)
