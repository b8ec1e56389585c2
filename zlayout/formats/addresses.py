"""Determines the network addresses of the services that a catalog needs."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from zlayout.formats.storage import Store, gcs_endpoint, properties, s3_access, stores
from zlayout.spec.model import CatalogConfig

# The default port of each URL scheme.
_PORTS = {"http": 80, "https": 443, "thrift": 9083, "postgresql": 5432, "mysql": 3306}


@dataclass(frozen=True, slots=True)
class Address:
    """The address of one service.

    Attributes:
        service: "catalog", or "store" for the object store.
    """

    service: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def addresses(catalog: CatalogConfig) -> tuple[Address, ...]:
    """Return the addresses of the catalog and of its S3 or GCS store, except URLs without a host or a known port."""
    url = _catalog_url(catalog)
    # The uri of a catalog of type hive may list several metastores that serve the same tables.
    found = [_address("catalog", one.strip()) for one in (url.split(",") if catalog.type == "hive" else [url])]
    if Store.S3 in stores(catalog):
        s3 = s3_access(catalog)
        found.append(_address("store", s3.endpoint or f"https://s3.{s3.region or 'us-east-1'}.amazonaws.com"))
    if Store.GCS in stores(catalog):
        found.append(_address("store", gcs_endpoint(catalog) or "https://storage.googleapis.com"))
    return tuple(dict.fromkeys(address for address in found if address is not None))


def store_of(catalog: CatalogConfig) -> str:
    """Return the S3 store of a catalog, as part of a sentence; '' if each table may have another store."""
    own = any(key.endswith("endpoint") for key in properties(catalog))
    if catalog.type not in ("sql", "glue") or own or Store.S3 not in stores(catalog):
        return ""
    return f" at {s3_access(catalog).endpoint or 'AWS'}"


def _catalog_url(catalog: CatalogConfig) -> str:
    uri = str(catalog.options.get("uri", ""))
    if catalog.type == "glue" and not uri:
        return f"https://glue.{s3_access(catalog).region or 'us-east-1'}.amazonaws.com"
    return uri


def _address(service: str, url: str) -> Address | None:
    parts = urlsplit(url)
    scheme = parts.scheme.partition("+")[0]
    if not parts.hostname or scheme not in _PORTS:
        return None
    return Address(service, parts.hostname, parts.port or _PORTS[scheme])
