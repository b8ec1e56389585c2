"""The catalogs of a project: checks of their keys and addresses, and resolution of relative paths."""

from __future__ import annotations

import os.path
import re
from collections.abc import Collection, Iterator, Mapping, Set
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from zlayout.errors import Diagnostic, Location
from zlayout.spec.allowed import PLAIN_HTTP, TYPES, USE_HTTPS, catalog_type, is_url, java_string
from zlayout.spec.check import Violation, suggestion
from zlayout.spec.formats import FORMATS
from zlayout.spec.model import CatalogConfig
from zlayout.table.location import GCS_SCHEME, S3_ENDPOINT_VARIABLES, S3_SCHEMES
from zlayout.text import quote_value

_SHOWN_SCHEMES = frozenset({*S3_SCHEMES, GCS_SCHEME, "abfs", "abfss", "file", "hdfs", "http", "https", "thrift"})
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
_SCHEME_ALONE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/*")
_SQLITE = re.compile(r"(?P<scheme>sqlite(?:\+\w+)?):(?P<rest>.*)", re.DOTALL)
_NO_SQLALCHEMY = re.compile(r"(?:jdbc|postgres(?:\+\w+)?):", re.IGNORECASE)
_THIS_MACHINE = ("localhost", "127.0.0.1", "::1")
_NAMED = ("rest", "unity")  # catalog types whose warehouse is often a name instead of a storage location
_REMOTE = ("rest", "unity", "hive", "glue")  # catalog types that are services, which know no folder of the project
_WEB_TYPES = ("rest", "unity", "glue")
_WEB = ("http", "https")
_SWITCHES = ("yield_to_writers", "vended_credentials")  # keys that are true or false
_OF_S3 = frozenset({"region", "path_style"})  # keys of storage that GCS does not have
# The location names the host to which Spark sends the credentials of Azure.
_AZURE = (
    r"(?:[a-z0-9$_-]{1,63}@[a-z0-9-]{1,63}\."
    r"(?:(?:dfs|blob)\.(?:core\.windows\.net|core\.chinacloudapi\.cn|core\.usgovcloudapi\.net|fabric\.microsoft\.com)"
    r"|z[0-9]{1,3}\.(?:dfs|blob)\.storage\.azure\.net)|[^@\\]*)"
)
# What `uri` of type sql may be. SQLAlchemy imports a driver by its name, and passes the parameters of the query to it;
# zlayout passes them to the JDBC driver too. Parameters of both load classes, read files, run SQL or choose a host.
_HOST = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,252})|\[[0-9A-Fa-f:.]{2,45}\]"
_SQL_URI = (
    r"(?P<dialect>sqlite|postgresql|mysql)(?:\+(?P<driver>\w+))?://"
    r"(?P<user>[^/@?#]*@)?"
    rf"(?P<host>(?:{_HOST})(?::[0-9]{{1,5}})?)?"
    r"/(?P<database>[^?#]*)(?:\?(?P<query>[^#]*))?"
)
_DRIVERS = {"sqlite": ("pysqlite",), "postgresql": ("psycopg2", "psycopg"), "mysql": ("pymysql",)}
_DATABASE = r"[A-Za-z0-9_$.-]{1,64}"
_SECONDS = r"[0-9]{1,6}"
_PARAMETERS = {
    "sqlite": {"timeout": r"[0-9]{1,6}(?:\.[0-9]{1,3})?"},
    "postgresql": {
        "sslmode": r"require|verify-ca|verify-full",
        "channel_binding": r"require",
        "connect_timeout": _SECONDS,
        "application_name": r"[A-Za-z0-9_. -]{1,63}",
    },
    "mysql": {
        "charset": r"utf8(?:mb[34])?",
        "ssl_check_hostname": r"true",
        **dict.fromkeys(("connect_timeout", "read_timeout", "write_timeout"), _SECONDS),
    },
}


def check_catalog(name: str, data: Mapping[str, Any], environ: Mapping[str, str]) -> Iterator[Violation]:
    """Check the keys and the addresses of a catalog.

    Args:
        name: The name of the catalog.
        data: Its keys and values, with variables replaced.
        environ: The environment variables. Their S3 endpoint is checked if the catalog declares none.

    Yields:
        ZL029 for a type that the format does not have, for a key that is missing or not allowed for the type, and for a
        warehouse, an address, a location or a property that does not suit the type; ZL037 for `storage` that does not
        suit the tables, an endpoint that is not a URL, and an address to which data is sent without encryption.
    """
    key = f"catalogs.{name}"
    types = FORMATS[data["format"]].catalog_types
    type_ = catalog_type(data)
    if type_ is None or type_ not in types:
        message = f"expected type {' or '.join(types)} for format {data['format']}, found "
        yield _misfit(f"{key}.type" if type_ else key, message + (f"'{type_}'" if type_ else "none"))
        return
    locations = {"uri": data.get("uri", ""), "warehouse": data.get("warehouse", "")}
    locations |= {f"tables.{name}": location for name, location in data.get("tables", {}).items()}
    malformed = [name for name, location in locations.items() if not _can_be_split(location)]
    for name in malformed:
        yield _misfit(f"{key}.{name}", "expected a URL, found brackets that do not enclose an IPv6 address")
    if malformed:
        return
    for name, location in locations.items():
        url = urlsplit(location)
        if url.scheme in ("abfs", "abfss") and not re.fullmatch(_AZURE, url.netloc):
            hint = "use abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/PATH"
            yield _misfit(f"{key}.{name}", "expected a host of Azure after the container, found another", hint)
    keys = types[type_]
    for wanted in keys.required:
        if wanted not in data:
            yield _misfit(key, f"key '{wanted}' is missing in {key}", f"add it for type {type_}")
    for other in ("warehouse", "uri", "tables", *_SWITCHES):
        if other in data and other not in keys.required + keys.optional:
            yield _misfit(f"{key}.{other}", f"key '{other}' is not allowed for type {type_}", "remove it")
    if keys.any_of and not any(data.get(name) for name in keys.any_of):
        message = f"expected {' or '.join(keys.any_of)} in {key}, found neither"
        yield _misfit(key, message, "add the storage location of the tables")
    yield from _check_file_locations(f"{key}.file_locations", data)
    yield from _check_uri(f"{key}.uri", type_, data)
    yield from _check_warehouse(f"{key}.warehouse", type_, data)
    yield from _check_delegation(f"{key}.properties", type_, data)
    yield from _check_storage(key, type_, data, environ)


def catalog(name: str, data: Mapping[str, Any], root: Path, location: Location) -> CatalogConfig:
    """Return the configuration of a catalog whose data conforms to the schema.

    Args:
        name: The name of the catalog.
        data: Its keys and values, with variables replaced.
        root: The absolute path of the folder of the project, against which relative paths are resolved.
        location: The location of the catalog in `zlayout.yaml`.
    """
    traits, type_ = FORMATS[data["format"]], catalog_type(data) or ""
    options: dict[str, Any] = {}
    if "warehouse" in data:
        options["warehouse"] = _warehouse(data["warehouse"], root, traits.local_warehouse_scheme, type_)
    if "uri" in data:
        options["uri"] = _uri(data["uri"], root)
    options |= {key: True for key in _SWITCHES if data.get(key)}
    if "tables" in data:
        options["tables"] = {table: _local(path, root) for table, path in data["tables"].items()}
    if "file_locations" in data:
        declared = data["file_locations"]
        options["file_locations"] = {table: [_local(each, root) for each in declared[table]] for table in declared}
    if "storage" in data:
        options["storage"] = dict(data["storage"])
    if "properties" in data:
        options["properties"] = {k: java_string(v) for k, v in data["properties"].items()}
    return CatalogConfig(name, traits.name, type_, options, location)


def unknown_catalog(name: str, catalogs: Collection[str], location: Location) -> Diagnostic:
    """Return ZL021 for the name of a catalog that is not one of `catalogs`."""
    hint = suggestion(name, catalogs) or f"catalogs of zlayout.yaml: {', '.join(catalogs) or 'none'}"
    return Diagnostic("ZL021", f"unknown catalog {quote_value(name)}", hint=hint, location=location)


def _warehouse(value: str, root: Path, scheme: str, type_: str) -> str:
    """scheme: the prefix of a local path."""
    if type_ in (*_NAMED, "glue"):
        return value
    return value if _URL.match(value) else scheme + _local(value, root)


def _local(value: str, root: Path) -> str:
    return value if _URL.match(value) else os.path.normpath(root / value)


def _uri(value: str, root: Path) -> str:
    sqlite = _SQLITE.fullmatch(value)
    if not sqlite or not sqlite["rest"].startswith("///"):
        return value
    path, mark, query = sqlite["rest"][3:].partition("?")
    resolved = os.path.normpath(root / unquote(path)).replace("%", "%25").replace("?", "%3F")
    return f"{sqlite['scheme']}:///{resolved}{mark}{query}"


def _misfit(key: str, message: str, hint: str = "") -> Violation:
    return key, Diagnostic("ZL029", message, hint=hint)


def _unsafe(key: str, message: str, hint: str = "") -> Violation:
    return key, Diagnostic("ZL037", message, hint=hint)


def _check_file_locations(key: str, data: Mapping[str, Any]) -> Iterator[Violation]:
    for table, locations in data.get("file_locations", {}).items():
        for number, location in enumerate(locations):
            if set("*?#") & set(location) or ".." in location.split("/") or _SCHEME_ALONE.fullmatch(location):
                message = f"expected the URL or the folder below which files are, found {quote_value(location)}"
                hint = "write it in full, without '..' and without patterns"
                yield _misfit(f"{key}.{table}[{number}]", message, hint)


def _check_uri(key: str, type_: str, data: Mapping[str, Any]) -> Iterator[Violation]:
    uri, of_type = data.get("uri", ""), FORMATS[data["format"]].catalog_types
    scheme, expected = _scheme(uri).partition("+")[0], of_type[type_].uri_schemes
    others = [name for name, keys in of_type.items() if scheme in keys.uri_schemes]
    if scheme and expected and scheme not in expected and others:
        message = f"expected {' or '.join(f'{name}:' for name in expected)} for type {type_}, found {scheme}:"
        yield _misfit(key, message, f"use type {others[0]}, or correct the address")
    elif type_ == "sql" and uri:
        yield from _check_sql_uri(key, uri)
    if type_ in _WEB_TYPES and _is_plain(uri) and not data.get("allow_http"):
        yield _unsafe(key, PLAIN_HTTP, USE_HTTPS)


def _check_sql_uri(key: str, uri: str) -> Iterator[Violation]:
    """Both SQLAlchemy and JDBC must be able to read the URI."""
    hint = "use sqlite:///FILE, postgresql://USER@HOST/DATABASE or mysql://USER@HOST/DATABASE"
    if other := _NO_SQLALCHEMY.match(uri):
        yield _misfit(key, f"expected a URI of SQLAlchemy for type sql, found {other[0]}", hint)
        return
    if _SQLITE.fullmatch(uri) and uri.partition(":///")[2].partition("?")[0] in ("", ":memory:"):
        message = "expected a catalog that Spark can read, found one in memory"
        yield _misfit(key, message, "use a file, for example sqlite:///catalog.db")
        return
    found = re.fullmatch(_SQL_URI, uri)
    if found is None:
        yield _misfit(key, "expected a URI of SQLite, PostgreSQL or MySQL for type sql, found another text", hint)
        return
    dialect, drivers = found["dialect"], _DRIVERS[found["dialect"]]
    if found["driver"] is not None and found["driver"] not in drivers:
        names = " or ".join(f"{dialect}+{driver}" for driver in drivers)
        yield _misfit(key, f"expected {dialect} or {names} for type sql, found another driver", hint)
    is_file = dialect == "sqlite"
    if (found["user"] or found["host"]) if is_file else not re.fullmatch(_DATABASE, found["database"]):
        where = "sqlite:///FILE" if is_file else f"the name of a database after {dialect}://USER@HOST/"
        yield _misfit(key, f"expected {where} for type sql, found another text", hint)
    allowed = _PARAMETERS[dialect]
    for parameter in found["query"].split("&") if found["query"] else ():
        name, _, value = parameter.partition("=")
        if name not in allowed:
            message = f"expected only the parameters {', '.join(allowed)} in the URI of {dialect}, found another"
            yield _misfit(key, message, "remove the others: they could load a class, read a file or choose a host")
        elif not re.fullmatch(allowed[name], value):
            message = f"expected another value for the parameter {name} of {dialect}"
            yield _misfit(key, message, "docs/spec.md has the parameters of type sql with their values")


def _check_warehouse(key: str, type_: str, data: Mapping[str, Any]) -> Iterator[Violation]:
    warehouse = data.get("warehouse", "")
    if type_ in _NAMED:
        # The warehouse is a name or a storage location, neither of which is a relative folder of the project.
        scheme, is_relative = "", warehouse.startswith(("./", "../"))
    else:
        scheme = _scheme(warehouse)
        is_relative = type_ in _REMOTE and bool(warehouse) and not scheme and not os.path.isabs(warehouse)
    if is_relative:
        message = f"expected an absolute location for type {type_}, found a relative path"
        yield _misfit(key, message, "use the URL of an object store, or remove it if the catalog knows its warehouse")
    elif scheme.partition("+")[0] in _service_schemes(data["format"]):
        message = f"expected a folder or the URL of an object store, found the address of a service, {scheme}:"
        yield _misfit(key, message, "use the location below which tables are stored")
    elif type_ == "glue" and scheme and scheme not in S3_SCHEMES:
        yield _misfit(
            key, f"expected a warehouse on S3 for type glue, found {_shown(scheme, ':')}", "use s3://BUCKET/PATH"
        )


def _service_schemes(format_: str) -> frozenset[str]:
    types = [keys for each in FORMATS.values() for keys in each.catalog_types.values()]
    found = frozenset(scheme for keys in types for scheme in keys.uri_schemes) | {"jdbc"}
    # deltalake reads https://ACCOUNT.blob.core.windows.net as a storage location.
    return found - {*_WEB} if format_ == "delta" else found


def _check_delegation(key: str, type_: str, data: Mapping[str, Any]) -> Iterator[Violation]:
    for name, value in data.get("properties", {}).items() if type_ == "rest" else ():
        if name.lower() == "header.x-iceberg-access-delegation" and "vended-credentials" not in str(value):
            message = "expected vended-credentials, because pyiceberg does not support requests that the catalog signs"
            yield _misfit(f"{key}.{name}", message, "remove the property")


def _check_storage(key: str, type_: str, data: Mapping[str, Any], environ: Mapping[str, str]) -> Iterator[Violation]:
    storage = data.get("storage")
    locations = (data.get("warehouse", ""), *data.get("tables", {}).values())
    schemes = {location.partition("://")[0] for location in locations if "://" in location}
    on_gcs = GCS_SCHEME in schemes
    if storage is not None:
        yield from _check_store(f"{key}.storage", storage, schemes)
    if storage is not None and not TYPES["name"].accepts(str(storage.get("region", "none"))):
        # Clients put the region into the host name of the endpoint.
        yield _unsafe(f"{key}.storage.region", "expected a region such as eu-central-1, found another text")
    if storage is not None and "endpoint" in storage:
        yield from _check_endpoint(f"{key}.storage.endpoint", storage, on_gcs)
    elif (storage is not None and not on_gcs) or schemes & S3_SCHEMES or type_ == "glue":
        variable = next((name for name in S3_ENDPOINT_VARIABLES if environ.get(name)), None)
        allowed = (storage or {}).get("allow_http") or environ.get("AWS_ALLOW_HTTP", "").lower() in ("true", "1")
        if variable and _is_plain(environ[variable]) and not allowed:
            hint = "use https, or set storage.allow_http: true in the catalog, which sends data without encryption"
            yield _unsafe(key, f"{PLAIN_HTTP} in {variable} of the environment", hint)


def _check_store(key: str, storage: Mapping[str, Any], schemes: Set[str]) -> Iterator[Violation]:
    if other := sorted(_shown(scheme, "://") for scheme in schemes - S3_SCHEMES - {GCS_SCHEME}):
        message = f"expected tables on S3 or GCS for storage, found {other[0]}"
        yield _unsafe(key, message, "remove storage, or use s3:// or gs:// for the warehouse")
    elif GCS_SCHEME in schemes and schemes & S3_SCHEMES:
        message = "expected tables on one object store for storage, found S3 and GCS"
        yield _unsafe(key, message, "declare one catalog for each object store")
    elif GCS_SCHEME in schemes:
        for name in sorted(_OF_S3 & storage.keys()):
            yield _unsafe(f"{key}.{name}", f"key '{name}' is not allowed for tables on GCS", "remove it")


def _check_endpoint(key: str, storage: Mapping[str, Any], on_gcs: bool) -> Iterator[Violation]:
    try:
        endpoint = urlsplit(storage["endpoint"])
    except ValueError:  # brackets in the host
        yield _unsafe(key, "expected https://HOST[:PORT], found another text")
        return
    if endpoint.scheme not in _WEB or not endpoint.hostname or endpoint.query or endpoint.fragment:
        yield _unsafe(key, "expected https://HOST[:PORT], found another text")
    elif endpoint.username or endpoint.password:
        variables = "GOOGLE_APPLICATION_CREDENTIALS" if on_gcs else "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        hint = f"remove them, and set {variables} in the environment"
        yield _unsafe(key, "an endpoint must not contain credentials", hint)
    elif not is_url(storage["endpoint"]):
        yield _unsafe(key, "expected https://HOST[:PORT], found another text")
    elif _is_plain(storage["endpoint"]) and not storage.get("allow_http"):
        yield _unsafe(key, PLAIN_HTTP, "use https, or set allow_http: true, which sends data without encryption")


def _can_be_split(location: str) -> bool:
    try:
        urlsplit(location)
    except ValueError:
        return False
    return True


def _is_plain(address: str) -> bool:
    """Return whether requests to an address leave this machine by plain http."""
    try:
        url = urlsplit(address)
    except ValueError:  # brackets in the host
        return address.startswith("http:")
    # Clients differ in how they read a backslash, and thus in which host they find.
    return url.scheme == "http" and (url.hostname not in _THIS_MACHINE or "\\" in address)


def _shown(scheme: str, end: str) -> str:
    """Return a scheme for a message, which shows no part of a value that a variable could contain."""
    return scheme + end if scheme in _SHOWN_SCHEMES else "another URL"


def _scheme(text: str) -> str:
    scheme, colon, rest = text.partition(":")
    return scheme.lower() if colon and rest.startswith("/") else ""
