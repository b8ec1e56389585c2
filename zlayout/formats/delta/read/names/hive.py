"""Reads a Hive metastore through the Thrift client that pyiceberg ships."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from typing import Any, TypeVar
from urllib.parse import urlsplit

from zlayout.formats.delta.read.names.entry import Entry, metastore_entry
from zlayout.formats.time_limits import CONNECT_SECONDS, READ_SECONDS
from zlayout.reading import TooLargeError
from zlayout.spec.model import CatalogConfig

MAX_TABLES_PER_REQUEST = 100
MAX_RESPONSE_BYTES = 256 << 20  # of one request
_PORT = 9083

Result = TypeVar("Result")


class Hive:
    """See `zlayout.formats.delta.read.names.entry.NameService`. A connection is opened for each request."""

    def __init__(self, catalog: CatalogConfig) -> None:
        self._uris = [uri.strip() for uri in str(catalog.options["uri"]).split(",")]

    def entry(self, namespace: str, name: str) -> Entry | None:
        from hive_metastore.ttypes import NoSuchObjectException

        try:
            return _entry(self._ask(lambda client: client.get_table(namespace, name)))
        except NoSuchObjectException:
            return None

    def namespaces(self) -> Iterator[str]:
        yield from self._ask(lambda client: client.get_all_databases())

    def entries(self, namespace: str) -> Iterator[Entry]:
        names = self._ask(lambda client: client.get_all_tables(namespace))
        for at in range(0, len(names), MAX_TABLES_PER_REQUEST):
            yield from map(_entry, self._tables(namespace, names[at : at + MAX_TABLES_PER_REQUEST]))

    def _tables(self, namespace: str, names: list[str]) -> list[Any]:
        return self._ask(lambda client: client.get_table_objects_by_name(namespace, names))

    def _ask(self, request: Callable[[Any], Result]) -> Result:
        from hive_metastore.ThriftHiveMetastore import Client
        from thrift.protocol.TBinaryProtocol import TBinaryProtocol
        from thrift.transport.TSocket import TSocket
        from thrift.transport.TTransport import TBufferedTransport

        class LimitedSocket(TSocket):  # type: ignore[misc]
            left = MAX_RESPONSE_BYTES

            def read(self, sz: int) -> bytes:
                data: bytes = super().read(sz)
                self.left -= len(data)
                if self.left < 0:
                    raise TooLargeError("the response", MAX_RESPONSE_BYTES)
                return data

        with closing(self._connection()) as connection:
            transport = LimitedSocket()
            transport.setHandle(connection)
            return request(Client(TBinaryProtocol(TBufferedTransport(transport))))

    def _connection(self) -> socket.socket:
        *others, last = ((url.hostname, url.port or _PORT) for url in map(urlsplit, self._uris))
        for address in others:
            with suppress(OSError):
                return _connect(address)
        return _connect(last)


def _connect(address: tuple[str | None, int]) -> socket.socket:
    connection = socket.create_connection(address, CONNECT_SECONDS)
    connection.settimeout(READ_SECONDS)
    return connection


def _entry(table: Any) -> Entry:
    storage = table.sd
    serde = storage.serdeInfo.parameters if storage and storage.serdeInfo else None
    location = storage.location if storage else None
    return metastore_entry(table.tableName, table.tableType, table.parameters, location, serde)
