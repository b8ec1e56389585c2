"""The addresses of a catalog: check that they fit its type, and that nothing is sent without encryption."""

from __future__ import annotations

import os.path
from collections.abc import Iterator, Mapping, Set
from typing import Any
from urllib.parse import SplitResult, urlsplit

from zlayout.errors import Diagnostic
from zlayout.formats.registry import FORMATS
from zlayout.spec.validation import Violation
from zlayout.table.location import GCS_SCHEME, S3_ENDPOINT_VARIABLES, S3_SCHEMES

_THIS_MACHINE = ("localhost", "127.0.0.1", "::1")
_NAMED = ("rest", "unity")  # catalog types whose warehouse is often a name
_REMOTE = ("rest", "unity", "hive", "glue")  # services that have no working directory
_WEB_TYPES = ("rest", "unity", "glue")
_WEB = ("http", "https")
_PLAIN_HTTP = Diagnostic(
    "ZL037",
    "expected https to another machine, found http",
    hint="use https, or set allow_http: true in the catalog, which sends credentials without encryption",
)
_OF_S3 = frozenset({"region", "path_style"})  # keys of storage that GCS does not have


def check_locations(key: str, type_: str, data: Mapping[str, Any]) -> Iterator[Violation]:
    """Yield ZL029 for a warehouse or an address that belongs to another type of catalog.

    Args:
        key: The dotted key of the catalog.
        data: The keys and values of the catalog, with variables replaced.
    """
    of_type = FORMATS[data["format"]].traits.catalog_types
    scheme = _scheme(data.get("uri", "")).partition("+")[0]
    expected = of_type[type_].uri_schemes
    if scheme and expected and scheme not in expected and any(scheme in keys.uri_schemes for keys in of_type.values()):
        other = next(name for name, keys in of_type.items() if scheme in keys.uri_schemes)
        message = f"expected {' or '.join(f'{name}:' for name in expected)} for type {type_}, found {scheme}:"
        yield f"{key}.uri", Diagnostic("ZL029", message, hint=f"use type {other}, or correct the address")
    yield from _check_warehouse(f"{key}.warehouse", type_, data)


def _check_warehouse(key: str, type_: str, data: Mapping[str, Any]) -> Iterator[Violation]:
    warehouse = data.get("warehouse", "")
    if type_ in _NAMED:
        # A name, or a location of the server. A relative folder of this project cannot be either.
        scheme, is_relative = "", warehouse.startswith(("./", "../"))
    else:
        scheme = _scheme(warehouse)
        is_relative = type_ in _REMOTE and bool(warehouse) and not scheme and not os.path.isabs(warehouse)
    if is_relative:
        hint = "use the URL of an object store, or remove it if the catalog knows its warehouse"
        message = f"expected an absolute location for type {type_}, found a relative path"
        yield key, Diagnostic("ZL029", message, hint=hint)
    elif scheme.partition("+")[0] in _service_schemes(data["format"]):
        message = f"expected a folder or the URL of an object store, found the address of a service, {scheme}:"
        yield key, Diagnostic("ZL029", message, hint="use the location below which tables are stored")
    elif type_ == "glue" and scheme and scheme not in S3_SCHEMES:
        message = f"expected a warehouse on S3 for type glue, found {scheme}:"
        yield key, Diagnostic("ZL029", message, hint="use s3://BUCKET/PATH")


def _service_schemes(format_: str) -> frozenset[str]:
    """Return the schemes of catalogs. deltalake reads https://ACCOUNT.blob.core.windows.net as a storage location."""
    types = [keys for each in FORMATS.values() for keys in each.traits.catalog_types.values()]
    found = frozenset(scheme for keys in types for scheme in keys.uri_schemes) | {"jdbc"}
    return found - {*_WEB} if format_ == "delta" else found


def check_addresses(key: str, type_: str, data: Mapping[str, Any], environ: Mapping[str, str]) -> Iterator[Violation]:
    """Yield ZL037 for a storage that does not fit the tables, an endpoint that is no URL, and plain http elsewhere.

    Args:
        key: The dotted key of the catalog.
        data: The keys and values of the catalog, with variables replaced.
        environ: Environment variables. Their endpoint of S3 is used if the catalog has none.
    """
    if type_ in _WEB_TYPES and _is_plain(urlsplit(data.get("uri", ""))) and not data.get("allow_http"):
        yield f"{key}.uri", _PLAIN_HTTP
    yield from _check_rest(f"{key}.properties", type_, data)
    storage = data.get("storage")
    schemes = {place.partition("://")[0] for place in _places(data) if "://" in place}
    on_gcs = GCS_SCHEME in schemes
    if storage is not None:
        yield from _check_store(f"{key}.storage", storage, schemes)
    if storage is not None and "endpoint" in storage:
        yield from _check_endpoint(f"{key}.storage.endpoint", storage, on_gcs)
    elif (storage is not None and not on_gcs) or schemes & S3_SCHEMES or type_ == "glue":
        variable = next((name for name in S3_ENDPOINT_VARIABLES if environ.get(name)), None)
        allowed = (storage or {}).get("allow_http") or environ.get("AWS_ALLOW_HTTP", "").lower() in ("true", "1")
        if variable and _is_plain(urlsplit(environ[variable])) and not allowed:
            hint = "use https, or set storage.allow_http: true in the catalog, which sends data without encryption"
            yield (
                key,
                Diagnostic(
                    "ZL037",
                    f"expected https to another machine, found http in {variable} of the environment",
                    hint=hint,
                ),
            )


def _check_rest(key: str, type_: str, data: Mapping[str, Any]) -> Iterator[Violation]:
    """Yield ZL037 for an OAuth2 server that gets the credential in plain http, ZL029 for remote signing alone."""
    for name, value in data.get("properties", {}).items() if type_ == "rest" else ():
        if name == "oauth2-server-uri" and _is_plain(urlsplit(str(value))) and not data.get("allow_http"):
            yield f"{key}.{name}", _PLAIN_HTTP
        elif name.lower() == "header.x-iceberg-access-delegation" and "vended-credentials" not in str(value):
            message = "expected vended-credentials, because pyiceberg reads no table whose requests the catalog signs"
            yield f"{key}.{name}", Diagnostic("ZL029", message, hint="remove the property")


def _check_store(key: str, storage: Mapping[str, Any], schemes: Set[str]) -> Iterator[Violation]:
    """Yield ZL037 for a storage that describes another object store than that of the tables, or several of them."""
    if other := sorted(schemes - S3_SCHEMES - {GCS_SCHEME}):
        message = f"expected tables on S3 or GCS for storage, found {other[0]}://"
        yield key, Diagnostic("ZL037", message, hint="remove storage, or use s3:// or gs:// for the warehouse")
    elif GCS_SCHEME in schemes and schemes & S3_SCHEMES:
        message = "expected tables on one object store for storage, found S3 and GCS"
        yield key, Diagnostic("ZL037", message, hint="declare one catalog for each object store")
    elif GCS_SCHEME in schemes:
        for name in sorted(_OF_S3 & storage.keys()):
            message = f"key '{name}' is not allowed for tables on GCS"
            yield f"{key}.{name}", Diagnostic("ZL037", message, hint="remove it")


def _check_endpoint(key: str, storage: Mapping[str, Any], on_gcs: bool) -> Iterator[Violation]:
    endpoint = urlsplit(storage["endpoint"])
    if endpoint.scheme not in _WEB or not endpoint.hostname or endpoint.query or endpoint.fragment:
        yield key, Diagnostic("ZL037", "expected https://HOST[:PORT], found another form of text")
    elif endpoint.username or endpoint.password:
        variables = "GOOGLE_APPLICATION_CREDENTIALS" if on_gcs else "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        hint = f"remove them, and set {variables} in the environment"
        yield key, Diagnostic("ZL037", "an endpoint must not contain credentials", hint=hint)
    elif _is_plain(endpoint) and not storage.get("allow_http"):
        hint = "use https, or set allow_http: true, which sends data without encryption"
        yield key, Diagnostic("ZL037", "expected https to another machine, found http", hint=hint)


def _is_plain(url: SplitResult) -> bool:
    return url.scheme == "http" and url.hostname not in _THIS_MACHINE


def _scheme(text: str) -> str:
    scheme, colon, rest = text.partition(":")
    return scheme.lower() if colon and rest.startswith("/") else ""


def _places(data: Mapping[str, Any]) -> Iterator[str]:
    yield data.get("warehouse", "")
    yield from data.get("tables", {}).values()
