"""Finds Delta tables by name: in a Hive metastore, in Glue, in Unity Catalog, and in the folders of a warehouse.

`Names` looks up and lists the tables of one catalog. A catalog with a service has a `NameService`, which returns what
the service states for a name as an `Entry`.
"""

from __future__ import annotations

import os
import re
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from urllib.parse import quote, urlsplit

import pyarrow.fs as pa_fs
from deltalake.exceptions import DeltaError

from zlayout import reading
from zlayout.errors import Diagnostic, TableError, ZlayoutError
from zlayout.formats.access import (
    ATTEMPTS,
    CONNECT_SECONDS,
    DENIED,
    READ_SECONDS,
    each_listed,
    explained,
    limit_responses,
    unanswered,
)
from zlayout.formats.base import Listed
from zlayout.formats.delta.read.log import LOG, LogFiles, decoded, local_path, log_files, table_files
from zlayout.reading import TooLargeError, joined, parse_json, require_parsable
from zlayout.secrets import remember
from zlayout.spec.client_options import Vended, deltalake_options, properties, s3_access, stores, vended_conf
from zlayout.spec.model import CatalogConfig, TableName
from zlayout.table.external import maintained_by
from zlayout.table.location import GCS_SCHEME, S3_SCHEMES, canonical

if TYPE_CHECKING:
    from requests import Response

# Entries: what a catalog states for a name, and the location of a Delta table that follows from it.


# For an external table of a data source, Spark stores a location with this ending, and the actual one as `path`.
_PLACEHOLDER = "-__PLACEHOLDER__"
_PROVIDER = "spark.sql.sources.provider"
_TABLE_TYPE = "table_type"
_VIEWS = frozenset({"VIEW", "VIRTUAL_VIEW", "MATERIALIZED_VIEW", "METRIC_VIEW"})
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/.*")
# deltalake has clients of some forty schemes. Others than these do not use the declared storage: `opendal+s3` sends the
# credentials of this machine to AWS instead, and `sftp` starts ssh.
_SCHEMES = frozenset({"file", *S3_SCHEMES, GCS_SCHEME, "abfs", "abfss", "hdfs", "viewfs"})
# Characters that have a meaning in a URL, but belong to the name of a folder in a path of Hadoop.
_AMBIGUOUS = "%?#\\"


@dataclass(frozen=True, slots=True)
class Entry:
    """One name of a catalog.

    Attributes:
        name: The name within its namespace.
        provider: The format of the table in lower case; empty if the catalog does not state it.
        locations: The locations that the catalog states, in its own notation.
        maintainers: The services of the catalog that rewrite files of the table, as warnings (ZL433).
    """

    name: str
    provider: str
    is_view: bool
    locations: tuple[str, ...]
    maintainers: tuple[Diagnostic, ...] = ()


def metastore_entry(
    name: str,
    type_: str | None,
    parameters: Mapping[str, str] | None,
    location: str | None,
    storage: Mapping[str, str] | None,
) -> Entry:
    """Make the entry of a table in a Hive metastore or in Glue, which have the same fields.

    Args:
        type_: The type, for example EXTERNAL_TABLE.
        parameters: The parameters of the table. Spark states the format in `spark.sql.sources.provider`, Athena and
            the crawlers of Glue in `table_type`.
        location: The location in the storage descriptor.
        storage: The parameters of the serde. Spark stores the location as `path` there.
    """
    parameters, paths = parameters or {}, [v for k, v in (storage or {}).items() if k.lower() == "path"]
    provider = parameters.get(_PROVIDER) or parameters.get(_TABLE_TYPE) or ""
    if location and not location.endswith(_PLACEHOLDER):
        paths.append(location)
    return Entry(name, provider.lower(), (type_ or "").upper() in _VIEWS, tuple(path for path in paths if path))


def unity_entry(fields: Mapping[str, object]) -> Entry:
    """Make the entry of a table of Unity Catalog from its fields in the REST API."""
    type_, flag = str(fields.get("table_type")).upper(), fields.get("effective_predictive_optimization_flag")
    optimized = type_ == "MANAGED" and isinstance(flag, dict) and flag.get("value") == "ENABLE"
    off = "run ALTER TABLE ... DISABLE PREDICTIVE OPTIMIZATION in Databricks"
    maintainers = (maintained_by("predictive optimization of Databricks", off),) if optimized else ()
    location = fields.get("storage_location")
    provider = str(fields.get("data_source_format") or "").lower()
    locations = (str(location),) if location else ()
    return Entry(str(fields.get("name")), provider, type_ in _VIEWS, locations, maintainers)


def delta_location_of(entry: Entry, catalog: CatalogConfig, table: TableName) -> str:
    """Return the location of a Delta table: a path for a local folder, else a URL.

    Raises:
        TableError: ZL135 if the entry is not a Delta table, ZL136 if its location cannot be used.
    """
    if entry.is_view or entry.provider != "delta":
        found = "a view" if entry.is_view else f"a table of format {entry.provider or 'unknown'}"
        raise TableError.of(
            "ZL135",
            f"expected a Delta table for {table} in catalog {catalog.name}, found {found}",
            hint="name a table for which the catalog states spark.sql.sources.provider=delta or table_type=delta",
            location=catalog.location,
        )
    by_canonical_form = {canonical(location): location for location in reversed(entry.locations)}
    if reason := _unusable(by_canonical_form.values()):
        message = f"the location of {table} in catalog {catalog.name} cannot be used: {reason}"
        hint = "correct the location in the catalog, or declare the table in a catalog of type path"
        raise TableError.of("ZL136", message, hint=hint, location=catalog.location)
    ((path, location),) = by_canonical_form.items()
    return path if location.lower().startswith("file:") else location


def _unusable(locations: Iterable[str]) -> str:
    locations = tuple(locations)
    if not locations:
        return "the catalog states no location"
    if len(locations) > 1:
        return f"the catalog states several locations: {' and '.join(sorted(locations))}"
    (location,) = locations
    parts = urlsplit(location)
    if parts.password:
        return "it contains credentials"
    if not _URL.fullmatch(location) or not location.isprintable():
        return f"expected a URL, found {location!r}"
    if parts.scheme not in _SCHEMES:
        return f"expected a location of the schemes {', '.join(sorted(_SCHEMES))}, found {parts.scheme}:"
    if found := [character for character in _AMBIGUOUS if character in location]:
        return f"readers differ in how they treat {found[0]!r} in {location}"
    if {".", ".."} & set(parts.path.split("/")):
        return f"it contains relative parts: {location}"
    return ""


class NameService(Protocol):
    """A catalog that stores the locations of tables. Each method raises an error of the catalog's own library."""

    def entry(self, namespace: str, name: str) -> Entry | None:
        """Return the entry of a table, None if the catalog has none."""
        ...

    def namespaces(self) -> Iterable[str]:
        """Return the names of all namespaces."""
        ...

    def entries(self, namespace: str) -> Iterable[Entry]:
        """Return the entries of all tables in a namespace."""
        ...


# The tables of a catalog of type `path`: those in its `tables`, and the folders of its warehouse.


HIDDEN = "ZL140"  # the code for a table in a hidden folder


def list_folders(catalog: CatalogConfig, pattern: TableName) -> Iterator[Listed]:
    """Yield the tables whose namespace and name match globs.

    A folder that is not a table, or that cannot be listed, is yielded with an error. For a folder of a namespace, the
    other parts of the name are those of the pattern.

    Raises:
        TableError: ZL114, if the warehouse cannot be listed.
    """
    globs = pattern.identifier
    found: dict[tuple[str, ...], TableError | None] = {}
    for name in catalog.options.get("tables", {}):
        parts = tuple(name.split("."))
        if len(parts) == len(globs) and all(map(fnmatchcase, parts, globs)):
            found[parts] = None
    if warehouse := catalog.options.get("warehouse"):
        try:
            storage = log_files(str(warehouse), table_files(str(warehouse), deltalake_options(catalog)))
            folders, failed = _folders(storage, catalog, globs)
            problems = failed | {parts: _problem(storage, catalog, parts) for parts in folders}
            for parts, problem in problems.items():
                if not _is_hidden(parts):
                    found.setdefault(parts, problem)
                elif problem is None:
                    found.setdefault(parts, _hidden(catalog, parts))
        except (OSError, ValueError, DeltaError) as error:
            cause = explained(error, "check the access to the warehouse")
            message = f"the warehouse of catalog {catalog.name} cannot be listed: {cause.reason}"
            raise TableError.of("ZL114", message, hint=cause.hint, location=catalog.location) from error
    for parts, problem in sorted(found.items()):
        yield Listed(TableName(catalog.name, parts[:-1], parts[-1]), problem)


def _folders(
    storage: pa_fs.FileSystem, catalog: CatalogConfig, globs: tuple[str, ...]
) -> tuple[list[tuple[str, ...]], dict[tuple[str, ...], TableError | None]]:
    """Return the folders that match the globs, and the errors of folders above them that cannot be listed."""
    found: list[tuple[str, ...]] = [()]
    failed: dict[tuple[str, ...], TableError | None] = {}
    for depth, glob in enumerate(globs):
        below: list[tuple[str, ...]] = []
        for above in found:
            try:
                inside = storage.get_file_info(pa_fs.FileSelector("/".join(above), allow_not_found=True))
            except (OSError, ValueError) as error:
                if not above:
                    raise
                failed[(*above, *globs[depth:])] = _not_listed(catalog, above, error)
                continue
            below += [
                (*above, info.base_name)
                for info in inside
                if info.type == pa_fs.FileType.Directory and info.base_name != LOG and fnmatchcase(info.base_name, glob)
            ]
        found = below
    return found, failed


def _not_listed(catalog: CatalogConfig, parts: tuple[str, ...], error: Exception) -> TableError:
    cause = explained(error, "check the access to the folder")
    message = f"the folder {'/'.join(parts)} in the warehouse of {catalog.name} cannot be listed: {cause.reason}"
    return TableError.of("ZL114", message, hint=cause.hint, location=catalog.location)


def _is_hidden(parts: tuple[str, ...]) -> bool:
    return any(part.startswith(("_", ".")) for part in parts)


def _hidden(catalog: CatalogConfig, parts: tuple[str, ...]) -> TableError:
    folder = "/".join(parts)
    message = f"{folder} in the warehouse of {catalog.name} is hidden from patterns: a folder begins with _ or ."
    return TableError.of(HIDDEN, message, hint="name the table itself, for example with `table:`")


def _problem(storage: pa_fs.FileSystem, catalog: CatalogConfig, parts: tuple[str, ...]) -> TableError | None:
    try:
        if LogFiles(pa_fs.SubTreeFileSystem("/".join(parts), storage)).sizes:
            return None
    except (OSError, ValueError) as error:
        return _not_listed(catalog, parts, error)
    message = f"expected a Delta table at {'/'.join(parts)} in the warehouse of {catalog.name}, found none"
    return TableError.of("ZL110", message, hint="a Delta table has a folder _delta_log", location=catalog.location)


def is_missing(folder: str) -> bool:
    """Return whether there is no folder of this path. A folder that must not be read is not missing."""
    try:
        os.stat(os.path.join(folder, ""))  # the ending makes a file an error too
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def warehouse_above(catalog: CatalogConfig, path: str) -> str:
    """Return the warehouse of a local folder that does not exist. Raises TableError ZL114 if there is none, either."""
    warehouse = local_path(decoded(str(catalog.options.get("warehouse", "")))) or path
    above = warehouse if Path(warehouse) in Path(path).parents else path
    if not is_missing(above):
        return above
    hint = f"check warehouse and tables of catalogs.{catalog.name}"
    raise TableError.of("ZL114", f"there is no folder {above}", hint=hint, location=catalog.location)


# The AWS Glue Data Catalog, read through boto3.


class Glue:
    """See `NameService`. boto3 finds the credentials in its usual chain."""

    def __init__(self, catalog: CatalogConfig) -> None:
        import boto3
        from botocore.config import Config

        limits = Config(
            connect_timeout=CONNECT_SECONDS,
            read_timeout=READ_SECONDS,
            retries={"total_max_attempts": ATTEMPTS, "mode": "standard"},
        )
        self._client = boto3.Session().client(
            "glue", region_name=s3_access(catalog).region, endpoint_url=catalog.options.get("uri"), config=limits
        )
        limit_responses(self._client)

    def entry(self, namespace: str, name: str) -> Entry | None:
        try:
            return _glue_entry(self._client.get_table(DatabaseName=namespace, Name=name)["Table"])
        except self._client.exceptions.EntityNotFoundException:
            return None

    def namespaces(self) -> Iterator[str]:
        for page in self._client.get_paginator("get_databases").paginate():
            yield from (database["Name"] for database in page["DatabaseList"])

    def entries(self, namespace: str) -> Iterator[Entry]:
        for page in self._client.get_paginator("get_tables").paginate(DatabaseName=namespace):
            yield from map(_glue_entry, page["TableList"])


def _glue_entry(table: Mapping[str, Any]) -> Entry:
    storage = table.get("StorageDescriptor", {})
    serde = storage.get("SerdeInfo", {}).get("Parameters")
    return metastore_entry(
        table["Name"], table.get("TableType"), table.get("Parameters"), storage.get("Location"), serde
    )


# A Hive metastore, read through the Thrift client that pyiceberg ships.


MAX_TABLES_PER_REQUEST = 100
MAX_HIVE_RESPONSE_BYTES = 256 << 20  # of one request
_PORT = 9083

Result = TypeVar("Result")


class Hive:
    """See `NameService`. A connection is opened for each request."""

    def __init__(self, catalog: CatalogConfig) -> None:
        self._uris = [uri.strip() for uri in str(catalog.options["uri"]).split(",")]
        own = properties(catalog)
        by_ticket = own.get("hive.kerberos-authentication", "").lower() == "true"
        self._service = own.get("hive.kerberos-service-name", "hive") if by_ticket else None

    def entry(self, namespace: str, name: str) -> Entry | None:
        from hive_metastore.ttypes import NoSuchObjectException

        try:
            return _hive_entry(self._ask(lambda client: client.get_table(namespace, name)))
        except NoSuchObjectException:
            return None

    def namespaces(self) -> Iterator[str]:
        yield from self._ask(lambda client: client.get_all_databases())

    def entries(self, namespace: str) -> Iterator[Entry]:
        names = self._ask(lambda client: client.get_all_tables(namespace))
        for at in range(0, len(names), MAX_TABLES_PER_REQUEST):
            yield from map(_hive_entry, self._tables(namespace, names[at : at + MAX_TABLES_PER_REQUEST]))

    def _tables(self, namespace: str, names: list[str]) -> list[Any]:
        return self._ask(lambda client: client.get_table_objects_by_name(namespace, names))

    def _ask(self, request: Callable[[Any], Result]) -> Result:
        from hive_metastore.ThriftHiveMetastore import Client
        from thrift.protocol.TBinaryProtocol import TBinaryProtocol
        from thrift.transport.TSocket import TSocket
        from thrift.transport.TTransport import TBufferedTransport, TSaslClientTransport

        class LimitedSocket(TSocket):  # type: ignore[misc]
            left = MAX_HIVE_RESPONSE_BYTES

            def read(self, sz: int) -> bytes:
                data: bytes = super().read(sz)
                self.left -= len(data)
                if self.left < 0:
                    raise TooLargeError("the response", MAX_HIVE_RESPONSE_BYTES)
                return data

        host, connected = self._connection()
        with closing(connected) as connection:
            transport = LimitedSocket()
            transport.setHandle(connection)
            if self._service is None:
                return request(Client(TBinaryProtocol(TBufferedTransport(transport))))
            secured = TSaslClientTransport(transport, host, self._service)
            secured.open()
            return request(Client(TBinaryProtocol(secured)))

    def _connection(self) -> tuple[str | None, socket.socket]:
        *others, last = ((url.hostname, url.port or _PORT) for url in map(urlsplit, self._uris))
        for address in others:
            with suppress(OSError):
                return address[0], _connect(address)
        return last[0], _connect(last)


def _connect(address: tuple[str | None, int]) -> socket.socket:
    connection = socket.create_connection(address, CONNECT_SECONDS)
    connection.settimeout(READ_SECONDS)
    return connection


def _hive_entry(table: Any) -> Entry:
    storage = table.sd
    serde = storage.serdeInfo.parameters if storage and storage.serdeInfo else None
    location = storage.location if storage else None
    return metastore_entry(table.tableName, table.tableType, table.parameters, location, serde)


# Unity Catalog, open source or of Databricks, read through its REST API.


MAX_UNITY_RESPONSE_BYTES = 64 << 20  # after decompression; a page of Unity Catalog has at most some hundred entries
MAX_PAGES = 10_000
_VENDED_FIELDS = ("access_key_id", "secret_access_key", "session_token")
_PART = 1 << 14
_API = "/api/2.1/unity-catalog"
TOKENS = ("UNITY_CATALOG_TOKEN", "DATABRICKS_TOKEN")
PRINCIPAL = ("DATABRICKS_CLIENT_ID", "DATABRICKS_CLIENT_SECRET")
_LOGIN = "/oidc/v1/token"  # of a workspace of Databricks
_SCOPE = "all-apis"
# Tokens and credentials are renewed this many seconds before they expire, because a table is read with them meanwhile.
RENEWAL_SECONDS = 300
# Hadoop would replace variables in an id.
_TABLE_ID = re.compile(r"[0-9A-Za-z_-]{1,100}")


class Unity:
    """See `NameService`. The environment has the token (`TOKENS`), or the service principal (`PRINCIPAL`)."""

    def __init__(self, catalog: CatalogConfig, environ: Mapping[str, str] = os.environ) -> None:
        self.context = uuid.uuid4().hex
        self.uri = str(catalog.options["uri"]).rstrip("/").removesuffix(_API)
        self._base = self.uri + _API
        self._catalog = str(catalog.options["warehouse"])
        self._token = next((environ[name] for name in TOKENS if environ.get(name)), "")
        principal = tuple(environ.get(name, "") for name in PRINCIPAL)
        self._principal = principal if all(principal) and not self._token else ()
        self._expires = 0.0  # when the token of the principal expires
        self._ids: dict[tuple[str, str], str] = {}
        self._vended: dict[tuple[str, str], Vended] = {}
        self._lock = threading.Lock()
        remember([("token", self._token), ("client_secret", principal[1])])

    @property
    def login(self) -> dict[str, str]:
        """How the client of Unity Catalog in Java logs in."""
        if not self._principal:
            return {"type": "static", "token": self._token}
        client, secret = self._principal
        uri = self.uri + _LOGIN
        return {"type": "oauth", "oauth.uri": uri, "oauth.clientId": client, "oauth.clientSecret": secret}

    def entry(self, namespace: str, name: str) -> Entry | None:
        found = self._get(f"/tables/{quote(f'{self._catalog}.{namespace}.{name}', safe='')}", {})
        if found is None:
            return None
        self._ids[namespace, name] = str(found.get("table_id") or "")
        return unity_entry(found)

    def vended(self, table: TableName, operation: str) -> tuple[str, Vended]:
        """Return the id of a table and temporary credentials for it, which are requested if there are none yet.

        Args:
            operation: READ or READ_WRITE.

        Raises:
            ValueError: If the response has no credentials for S3.
            Exception: An error of requests.
        """
        named = table.namespace[0], table.name
        if named not in self._ids and self.entry(*named) is None:
            raise ValueError("the table does not exist any more")
        table_id = self._ids[named]
        if not _TABLE_ID.fullmatch(table_id):
            raise ValueError("expected a table_id of the table, found none or other characters than letters and digits")
        known = self._vended.get((table_id, operation))
        if known is None or known.expires / 1000 < time.time() + RENEWAL_SECONDS:
            known = self._ask_for_credentials(table_id, operation)
            self._vended[table_id, operation] = known
        return table_id, known

    def _ask_for_credentials(self, table_id: str, operation: str) -> Vended:
        url = f"{self._base}/temporary-table-credentials"
        answer = self._send("POST", url, self._authorize, json={"table_id": table_id, "operation": operation}) or {}
        found = answer.get("aws_temp_credentials")
        keys = [found.get(key) for key in _VENDED_FIELDS] if isinstance(found, dict) else []
        expires = answer.get("expiration_time")
        if not keys or not all(isinstance(key, str) and key for key in keys):
            raise ValueError(f"expected {', '.join(_VENDED_FIELDS)} in aws_temp_credentials, found others")
        access, secret, session = map(str, keys)
        remember((field, key) for field, key in zip(_VENDED_FIELDS, (access, secret, session), strict=True))
        return Vended((access, secret, session), expires if type(expires) is int else 0)

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
        return self._send("GET", self._base + path, self._authorize, params=query)

    def _send(self, method: str, url: str, authorize: Any, **content: Any) -> Mapping[str, Any] | None:
        """Return the JSON object of the response, None if the name does not exist."""
        import requests

        with requests.request(
            method,
            url,
            auth=authorize,  # without `auth`, requests sends the password of ~/.netrc
            timeout=(CONNECT_SECONDS, READ_SECONDS),
            allow_redirects=False,
            stream=True,
            **content,
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
        if self._principal:
            self._log_in()
        if self._token:
            request.headers["Authorization"] = f"Bearer {self._token}"
        return request

    def _log_in(self) -> None:
        with self._lock:
            if time.time() + RENEWAL_SECONDS < self._expires:
                return
            form = {"grant_type": "client_credentials", "scope": _SCOPE}
            found = self._send("POST", self.uri + _LOGIN, self._principal, data=form) or {}
            token, seconds = found.get("access_token"), found.get("expires_in")
            if not isinstance(token, str) or not token:
                raise ValueError(f"expected an access_token of {_LOGIN}, found none")
            remember([("token", token)])
            self._token = token
            self._expires = time.time() + (seconds if isinstance(seconds, int | float) else 0)


def _text_of(answer: Response) -> str:
    content = joined(answer.iter_content(_PART), MAX_UNITY_RESPONSE_BYTES, "the response")
    require_parsable(content, "the response")
    return content.decode("utf-8", "replace")


# The lookup in any of these catalogs.


_OBJECT_BYTES = 500  # what an entry takes apart from its texts


def at_location(catalog: CatalogConfig, table: TableName, location: str) -> CatalogConfig:
    """Return a catalog of type `path` that has only this table, and the storage options of `catalog`."""
    kept = {key: catalog.options[key] for key in ("storage", "properties") if key in catalog.options}
    options = {**kept, "tables": {".".join(table.identifier): location}}
    return replace(catalog, type="path", options=options)


class Names:
    """Looks up the tables of one catalog by name. A catalog of type `path` has their locations itself."""

    def __init__(self, catalog: CatalogConfig) -> None:
        self._catalog = catalog
        self._maintainers: dict[TableName, tuple[Diagnostic, ...]] = {}

    def located(self, table: TableName) -> CatalogConfig:
        """Return a catalog of type `path` that has the table, with the location that the catalog's service states.

        A catalog that is of this type already is returned unchanged.

        Raises:
            TableError: ZL133, ZL134 if there is no such table, ZL135 if it is not a Delta table, ZL136.
        """
        if self._catalog.type == "path":
            return self._catalog
        self._require_namespace(table)
        with _service_errors(self._catalog):
            entry = self._service.entry(table.namespace[0], table.name)
        if entry is None:
            raise _missing(self._catalog, table, "check catalog, namespace and table name")
        self._maintainers[table] = entry.maintainers
        return _at_entry(self._catalog, table, entry)

    def maintainers(self, table: TableName) -> tuple[Diagnostic, ...]:
        """Return the services that rewrite files of a table, as the catalog stated when the table was located."""
        return self._maintainers.get(table, ())

    def listed(self, pattern: TableName) -> Iterator[Listed]:
        """Yield the tables whose namespace and name match globs, each with the error if it cannot be used.

        A namespace to which access is denied is yielded with an error, and the name of the pattern.

        Raises:
            TableError: ZL114 or ZL133, if the storage or the service cannot be reached.
        """
        if self._catalog.type == "path":
            yield from list_folders(self._catalog, pattern)
            return
        self._require_namespace(pattern)
        (glob,), limit = pattern.namespace, _ListLimit()

        def entries(namespace: str) -> Iterator[Entry]:
            every = limit.entries(self._service.entries(namespace))
            return (entry for entry in every if fnmatchcase(entry.name, pattern.name))

        with _service_errors(self._catalog):
            namespaces = [name for name in limit.names(self._service.namespaces()) if fnmatchcase(name, glob)]
            found, denied = each_listed(namespaces, entries)
        for namespace in sorted({*found, *denied}):
            if namespace in denied:
                problem = _service_error(self._catalog, denied[namespace], namespace)
                yield Listed(TableName(self._catalog.name, (namespace,), pattern.name), problem)
                continue
            for entry in sorted(found[namespace], key=lambda entry: entry.name):
                table = TableName(self._catalog.name, (namespace,), entry.name)
                try:
                    _at_entry(self._catalog, table, entry)
                except TableError as error:
                    yield Listed(table, error)
                else:
                    yield Listed(table)

    def deltalake_options(self, table: TableName, location: str) -> dict[str, str]:
        """Return the options with which deltalake reads the table at a location that was looked up before.

        Raises:
            TableError: ZL141.
        """
        if self._catalog.type == "path":
            return deltalake_options(self._catalog)
        options = deltalake_options(at_location(self._catalog, table, location))
        found = self._vended(table, location, "READ")
        return options if found is None else options | found[1].deltalake_options

    def spark_conf(self, table: TableName, location: str) -> dict[str, str]:
        """Return the configuration of Hadoop with the credentials that the catalog vends for a table.

        It is empty if the machine's own credentials are used.

        Raises:
            TableError: ZL141.
        """
        if (found := self._vended(table, location, "READ_WRITE")) is None:
            return {}
        table_id, vended = found
        unity: Any = self._service
        return vended_conf(unity.uri, unity.login, unity.context, table_id, urlsplit(location).netloc, vended)

    def _vended(self, table: TableName, location: str, operation: str) -> tuple[str, Vended] | None:
        if not self._catalog.options.get("vended_credentials") or local_path(location) is not None:
            return None
        unity: Any = self._service
        reason = f"the table is at {location}, and only those for S3 are supported"
        hint = f"remove vended_credentials of catalogs.{self._catalog.name}"
        if urlsplit(location).scheme in S3_SCHEMES:
            try:
                found: tuple[str, Vended] = unity.vended(table, operation)
                return found
            except Exception as error:
                cause = explained(error, hint)
                reason = cause.reason
                grants = "EXTERNAL USE SCHEMA and " + ("SELECT" if operation == "READ" else "MODIFY")
                hint = f"grant {grants}, or {hint}" if cause == DENIED else cause.hint
        message = f"no credentials for {table} from catalog {self._catalog.name}: {reason}"
        raise TableError.of("ZL141", message, hint=hint, location=self._catalog.location)

    def _require_namespace(self, table: TableName) -> None:
        if len(table.namespace) != 1:
            raise _missing(self._catalog, table, "write catalog.namespace.table, with one namespace")

    @cached_property
    def _service(self) -> NameService:
        """All threads share the client."""
        if self._catalog.type == "glue":
            return Glue(self._catalog)
        if self._catalog.type == "hive":
            return Hive(self._catalog)

        return Unity(self._catalog)


class _ListLimit:
    def __init__(self) -> None:
        self._left = reading.MAX_LISTED_BYTES

    def names(self, names: Iterable[str]) -> Iterator[str]:
        """Yield the names. Raises TooLargeError."""
        for name in names:
            self._take(name)
            yield name

    def entries(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        """Yield the entries. Raises TooLargeError."""
        for entry in entries:
            self._take(entry.name, entry.provider, *entry.locations)
            yield entry

    def _take(self, *texts: str) -> None:
        self._left -= _OBJECT_BYTES + sum(map(len, texts))
        if self._left < 0:
            raise reading.TooLargeError("the list of tables of the service", reading.MAX_LISTED_BYTES)


def _at_entry(catalog: CatalogConfig, table: TableName, entry: Entry) -> CatalogConfig:
    found = at_location(catalog, table, location := delta_location_of(entry, catalog, table))
    if missing := stores(found) - stores(catalog):
        raise TableError.of(
            "ZL136",
            f"{table} is at {location}, but catalogs.{catalog.name} does not state that its tables are on "
            f"{', '.join(sorted(missing))}",
            hint=f"add catalogs.{catalog.name}.storage, so that Spark gets the jars of this store",
            location=catalog.location,
        )
    return found


@contextmanager
def _service_errors(catalog: CatalogConfig) -> Iterator[None]:
    try:
        yield
    except ZlayoutError:
        raise
    except Exception as error:
        raise _service_error(catalog, error) from error


def _service_error(catalog: CatalogConfig, error: Exception, namespace: str = "") -> TableError:
    cause = explained(error, f"check uri and credentials of catalogs.{catalog.name}")
    message = f"{unanswered(catalog, namespace)}: {cause.reason}"
    return TableError.of("ZL133", message, hint=cause.hint, location=catalog.location)


def _missing(catalog: CatalogConfig, table: TableName, hint: str) -> TableError:
    message = f"table {table} does not exist in catalog {catalog.name}"
    return TableError.of("ZL134", message, hint=hint, location=catalog.location)
