"""Compares the S3 endpoint of a given Spark session with the one that a catalog of the project declares.

A plan that was read from one store must not be carried out on another one that has a bucket of the same name.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from zlayout.errors import Diagnostic
from zlayout.formats.registry import FORMATS
from zlayout.formats.storage import RESOLVING_FILE_IO, S3_FILE_IO, Store, buckets, s3_access, stores
from zlayout.spark.jvm import jvm_of
from zlayout.spec.model import CatalogConfig
from zlayout.table.location import S3_ENDPOINT_VARIABLES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OWN_CLIENT = "com.amazon.ws.emr."  # EMRFS reads other settings
_OF_AWS = (".amazonaws.com", ".amazonaws.com.cn")


def store_problems(session: SparkSession, catalog: CatalogConfig) -> Iterator[Diagnostic]:
    """Yield ZL208 for each bucket of the catalog that the session reads at another endpoint than zlayout."""
    if Store.S3 not in stores(catalog):
        return
    wanted = s3_access(catalog).endpoint
    for key, found in _endpoints(session, catalog):
        if _host(found) != _host(wanted):
            yield Diagnostic(
                "ZL208",
                f"the S3 store of catalog {catalog.name} differs in the Spark session: expected {wanted or 'AWS'}, "
                f"found {found or 'AWS'} ({key})",
                "refused",
                "set the same endpoint in storage of the catalog and in the session",
                catalog.location,
            )


def _endpoints(session: SparkSession, catalog: CatalogConfig) -> Iterator[tuple[str, str]]:
    """Yield the settings that decide about the endpoint, with their values in the session."""
    environment = jvm_of(session).java.lang.System.getenv
    default = next(filter(None, (environment(name) for name in S3_ENDPOINT_VARIABLES)), "")
    if FORMATS[catalog.format].catalog_conf(catalog):
        prefix = f"spark.sql.catalog.{catalog.name}"
        own = session.conf.get(f"{prefix}.s3.endpoint", None)
        by_s3_file_io = session.conf.get(f"{prefix}.io-impl", None) in (S3_FILE_IO, RESOLVING_FILE_IO)
        if own or by_s3_file_io or catalog.type == "glue":
            yield f"{prefix}.s3.endpoint", own or default
            return
        if catalog.type == "rest":  # the server may declare it
            return
    java: Any = session._jsparkSession
    hadoop = java.sessionState().newHadoopConf()
    if str(hadoop.get("fs.s3.impl", "")).startswith(_OWN_CLIENT):
        return
    for bucket in sorted(buckets(catalog)):
        key = f"fs.s3a.bucket.{bucket}.endpoint"
        yield key, str(hadoop.get(key) or hadoop.get("fs.s3a.endpoint") or default)


def _host(endpoint: str | None) -> str:
    """Return host and port, empty for the endpoints of AWS."""
    text = endpoint or ""
    url = urlsplit(text if "://" in text else f"https://{text}")
    of_aws = (url.hostname or "").endswith(_OF_AWS)
    port = url.port or {"http": 80}.get(url.scheme, 443)
    return "" if of_aws or not url.hostname else f"{url.hostname}:{port}"
