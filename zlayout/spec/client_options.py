"""Translates a catalog, which is declared once, to the options of all libraries that read and write its tables.

The sources are `storage:` of a catalog and, for what it does not declare, the environment variables of AWS tools. Keys
of `properties:` have precedence. Credentials are not part of the result: each library finds them by itself, in the
environment, in a profile, or from the role of the machine. The exception is `Vended`: what Unity Catalog issues.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import quote, unquote, urlsplit

from zlayout.spec.formats import FORMATS
from zlayout.spec.model import CatalogConfig
from zlayout.table.location import GCS_SCHEME, S3_ENDPOINT_VARIABLES, S3_SCHEMES

S3_FILE_IO = "org.apache.iceberg.aws.s3.S3FileIO"
RESOLVING_FILE_IO = "org.apache.iceberg.io.ResolvingFileIO"  # It uses S3FileIO for S3.


class Store(StrEnum):
    """The object stores that zlayout configures."""

    S3 = "s3"
    GCS = "gcs"
    ADLS = "adls"


_STORE_OF_SCHEME = {
    **dict.fromkeys(S3_SCHEMES, Store.S3),
    GCS_SCHEME: Store.GCS,
    "abfs": Store.ADLS,
    "abfss": Store.ADLS,
}
# The names that deltalake accepts for each option. A property with any of them replaces the derived option.
_DELTALAKE_NAMES = {
    "aws_endpoint_url": ("aws_endpoint_url", "aws_endpoint", "aws_endpoint_url_s3", "endpoint_url", "endpoint"),
    "aws_region": ("aws_region", "region", "aws_default_region", "default_region"),
    "aws_virtual_hosted_style_request": ("aws_virtual_hosted_style_request", "virtual_hosted_style_request"),
    "aws_allow_http": ("aws_allow_http", "allow_http"),
}
# The connector of GCS does not register the scheme gs by itself.
_GCS_CONF = {
    "spark.hadoop.fs.gs.impl": "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem",
    "spark.hadoop.fs.AbstractFileSystem.gs.impl": "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFS",
}
# Each database of a metastore or of Glue has its own location, so that tables may be in several object stores. A REST
# catalog chooses the FileIO of each table itself, and may give it credentials for this table alone.
_FILE_IO = {"sql": S3_FILE_IO, "hive": RESOLVING_FILE_IO, "glue": RESOLVING_FILE_IO}
# By default, deltalake repeats a request for three minutes if the store does not answer, and 10 times if the store
# refuses the connection or throttles. It waits for a random time before each retry: at most 0.5 s with this setting,
# then at most twice the previous time, and at most 15 s. The waits last 3 to 30 s together, mostly less than 8.
_LIMITS = {"connect_timeout": "10s", "retry_timeout": "30s", "backoff_config.init_backoff": "250ms"}
_METASTORE = "hive."  # the prefix of properties for a Hive metastore, which deltalake does not ask
S3_KEYS = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")  # options of deltalake
# The names of the options that zlayout derives for S3. `properties` of the catalog may add others.
DELTALAKE_OPTIONS = frozenset({*_DELTALAKE_NAMES, *_LIMITS, *S3_KEYS})
# Classes of the package unitycatalog-hadoop, which delta-spark needs and thereby installs.
VENDED_FILES = "io.unitycatalog.hadoop.internal.fs.CredScopedFileSystem"
_VENDED_KEYS = "io.unitycatalog.hadoop.internal.auth.AwsVendedTokenProvider"
# S3FileIO waits a random time of at most 0.1 s before its first retry, and of at most twice as long before each further
# one, up to 20 s. By default, it retries 5 times, which lasts 1.6 s on average. 14 retries last 73 s on average, and at
# least 30 s in 999 of 1000 cases. The retries of S3A last 64 s on average. `s3.retry.*-wait-ms` changes the wait after
# throttling only.
_S3_RETRIES = {"s3.retry.num-retries": "14"}
# How often Arrow sends a request. Its four retries follow after random times of at most 1, 2, 4 and 8 s, which is 7.5 s
# on average.
S3_READ_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class Vended:
    """Temporary credentials for one table on S3, which Unity Catalog issued.

    Attributes:
        keys: The access key id, the secret access key and the session token.
        expires: When they expire, in milliseconds since 1970.
    """

    keys: tuple[str, str, str] = field(repr=False)
    expires: int

    @property
    def deltalake_options(self) -> dict[str, str]:
        return dict(zip(S3_KEYS, self.keys, strict=True))


@dataclass(frozen=True, slots=True)
class S3Access:
    """How an S3 store is reached.

    Attributes:
        endpoint: The URL of the store; None for AWS.
        region: The region; None if nothing declares it.
        path_style: Whether URLs of the store have the bucket in the path and not in the host name.
    """

    endpoint: str | None
    region: str | None
    path_style: bool

    @property
    def is_plain_http(self) -> bool:
        return self.endpoint is not None and self.endpoint.startswith("http://")


def properties(catalog: CatalogConfig) -> dict[str, str]:
    """Return `properties` of a catalog as the user wrote them."""
    return {str(k): str(v) for k, v in catalog.options.get("properties", {}).items()}


def kms_key(catalog: CatalogConfig) -> str | None:
    """Return the key of KMS by which clients encrypt new objects, as `properties` of a catalog name it; None if not."""
    own = properties(catalog)
    return own.get("s3.sse.key") or own.get("aws_sse_kms_key_id")


def stores(catalog: CatalogConfig) -> frozenset[Store]:
    """Return the object stores of a catalog's tables, as far as they follow from the definition of the catalog."""
    schemes = {urlsplit(location).scheme.lower() for location in _locations(catalog)}
    found = {_STORE_OF_SCHEME[scheme] for scheme in schemes if scheme in _STORE_OF_SCHEME}
    if catalog.type == "glue" or ("storage" in catalog.options and not found):
        found.add(Store.S3)
    return frozenset(found)


def s3_access(catalog: CatalogConfig, environ: Mapping[str, str] = os.environ) -> S3Access:
    """Return how the S3 store of a catalog is reached. environ: the environment variables."""
    declared = catalog.options.get("storage", {})
    named = (environ.get(variable) for variable in S3_ENDPOINT_VARIABLES)
    endpoint = declared.get("endpoint") or next(filter(None, named), None)
    region = declared.get("region") or environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION")
    return S3Access(endpoint or None, region or None, declared.get("path_style", bool(endpoint)))


def deltalake_options(catalog: CatalogConfig, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the options with which deltalake reaches the store. environ: the environment variables."""
    own = {name: value for name, value in properties(catalog).items() if not name.startswith(_METASTORE)}
    found = stores(catalog)
    limited = {**_LIMITS, **own} if found else own
    if Store.S3 not in found:
        endpoint = gcs_endpoint(catalog)
        plain = endpoint.startswith("http://")
        return ({"google_base_url": endpoint, "allow_http": _flag(plain)} if endpoint else {}) | limited
    s3 = s3_access(catalog, environ)
    derived = {"aws_region": s3.region or ""}
    if s3.endpoint:
        derived |= {
            "aws_endpoint_url": s3.endpoint,
            "aws_virtual_hosted_style_request": _flag(not s3.path_style),
            "aws_allow_http": _flag(s3.is_plain_http),
        }
    given = {name.lower() for name in own}
    return {k: v for k, v in derived.items() if v and given.isdisjoint(_DELTALAKE_NAMES[k])} | limited


def pyiceberg_options(catalog: CatalogConfig, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the properties with which pyiceberg reaches the store. environ: the environment variables."""
    return _iceberg(catalog, "s3.force-virtual-addressing", False, environ)


def iceberg_conf(catalog: CatalogConfig, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the properties with which Iceberg's Spark catalog reaches the store.

    environ: the environment variables.
    """
    conf, has_s3 = _iceberg(catalog, "s3.path-style-access", True, environ), Store.S3 in stores(catalog)
    if has_s3 and (file_io := _FILE_IO.get(catalog.type)):
        conf = {"io-impl": file_io} | conf
    return _S3_RETRIES | conf if has_s3 or catalog.type == "rest" else conf


def hadoop_conf(catalog: CatalogConfig, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the Spark configuration with which Hadoop's clients of S3 and GCS reach the buckets of a catalog.

    environ: the environment variables.
    """
    found = stores(catalog)
    gcs: dict[str, str] = {}
    if Store.GCS in found:
        endpoint = gcs_endpoint(catalog)
        gcs = _GCS_CONF | ({"spark.hadoop.fs.gs.storage.root.url": endpoint} if endpoint else {})
    if Store.S3 not in found:
        return gcs
    s3 = s3_access(catalog, environ)
    settings = {"endpoint": s3.endpoint or "", "endpoint.region": s3.region or ""}
    if s3.endpoint:
        settings["path.style.access"] = _flag(s3.path_style)
    return (
        gcs
        | {"spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem"}
        | {
            f"spark.hadoop.fs.s3a.bucket.{bucket}.{key}": value
            for bucket in sorted(buckets(catalog))
            for key, value in settings.items()
            if value
        }
    )


def vended_conf(
    uri: str, login: Mapping[str, str], context: str, table_id: str, bucket: str, vended: Vended
) -> dict[str, str]:
    """Return the configuration with which Hadoop's S3A uses the credentials of one table, and renews them.

    It belongs to one table, so it is set for a session or for one reader, and not for the whole application.

    Args:
        uri: The address of Unity Catalog, without the path of its API.
        login: How the JVM logs in there: see `TokenProvider` of Unity Catalog.
        context: What identifies the login in the caches of the JVM.
    """
    found = dict(zip(("access.key", "secret.key", "session.token"), vended.keys, strict=True))
    conf = {f"fs.s3a.init.{key}": value for key, value in found.items()}
    for scheme in ("s3", "s3a"):
        conf[f"fs.{scheme}.impl"] = VENDED_FILES  # has a client for each table
        conf[f"fs.{scheme}.impl.original"] = "org.apache.hadoop.fs.s3a.S3AFileSystem"
        conf[f"fs.{scheme}.impl.disable.cache"] = "true"  # Hadoop's cache has a client for each bucket
    return {
        **conf,
        "fs.s3a.init.credential.expired.time": str(vended.expires),
        f"fs.s3a.bucket.{bucket}.aws.credentials.provider": _VENDED_KEYS,
        "fs.unitycatalog.uri": uri,
        **{f"fs.unitycatalog.auth.{key}": value for key, value in login.items()},
        "fs.unitycatalog.cred.context.id": context,
        "fs.unitycatalog.credentials.type": "table",
        "fs.unitycatalog.table.id": table_id,
        "fs.unitycatalog.table.operation": "READ_WRITE",
    }


def _iceberg(catalog: CatalogConfig, style_key: str, style_is_path: bool, environ: Mapping[str, str]) -> dict[str, str]:
    """style_key: for the style of S3 URLs. style_is_path: whether "true" means that the path has the bucket."""
    if Store.S3 not in stores(catalog):
        endpoint = gcs_endpoint(catalog)
        return ({"gcs.service.host": endpoint} if endpoint else {}) | properties(catalog)
    s3 = s3_access(catalog, environ)
    derived = {"client.region": s3.region, "s3.endpoint": s3.endpoint}
    if s3.endpoint:
        derived[style_key] = _flag(s3.path_style is style_is_path)
    return {k: v for k, v in derived.items() if v} | properties(catalog)


def gcs_endpoint(catalog: CatalogConfig) -> str:
    """Return the declared URL of GCS; '' if none is declared, or if the catalog has no tables on GCS."""
    declared = catalog.options.get("storage", {}) if Store.GCS in stores(catalog) else {}
    return str(declared.get("endpoint", "")).rstrip("/")


def _locations(catalog: CatalogConfig) -> Iterator[str]:
    yield str(catalog.options.get("warehouse", ""))
    yield from map(str, catalog.options.get("tables", {}).values())


def buckets(catalog: CatalogConfig) -> frozenset[str]:
    """Return the S3 buckets in the definition of a catalog."""
    parts = [urlsplit(location) for location in _locations(catalog)]
    names = {p.netloc.rpartition("@")[2] for p in parts if _STORE_OF_SCHEME.get(p.scheme.lower()) is Store.S3}
    return frozenset(names - {""})


def _flag(value: bool) -> str:
    return "true" if value else "false"


# Translates the definition of an Iceberg catalog to the properties of pyiceberg and the configuration of Spark.


DELEGATION, VENDED = "header.X-Iceberg-Access-Delegation", "vended-credentials"
# The drivers of the extras of zlayout, for URIs that name no driver. The defaults of SQLAlchemy depend on its version.
_DRIVERS = {"postgresql": "postgresql+psycopg2", "mysql": "mysql+pymysql"}


def pyiceberg_properties(catalog: CatalogConfig) -> dict[str, str]:
    """Return the properties for `pyiceberg.catalog.load_catalog(catalog.name, **properties)`."""
    properties = {"type": catalog.type, **pyiceberg_options(catalog)}
    for key in ("uri", "warehouse"):
        if key in catalog.options:
            properties[_key(catalog, key)] = str(catalog.options[key])
    if catalog.type == "sql" and "uri" in properties:
        dialect, colon, rest = properties["uri"].partition(":")
        properties["uri"] = _DRIVERS.get(dialect, dialect) + colon + rest
    return properties


def spark_catalog_conf(catalog: CatalogConfig) -> dict[str, str]:
    """Return the Spark configuration that defines the catalog, empty if Spark addresses its tables by location."""
    if not (catalog_class := FORMATS[catalog.format].spark_catalog):
        return {}
    prefix = f"spark.sql.catalog.{catalog.name}"
    conf = {
        prefix: catalog_class,
        f"{prefix}.type": "jdbc" if catalog.type == "sql" else catalog.type,
        f"{prefix}.cache-enabled": "false",
    }
    if "warehouse" in catalog.options:
        conf[f"{prefix}.warehouse"] = str(catalog.options["warehouse"])
    if "uri" in catalog.options:
        uri = str(catalog.options["uri"])
        connection = _jdbc(uri, sqlite_file(catalog)) if catalog.type == "sql" else {_key(catalog, "uri"): uri}
        conf.update({f"{prefix}.{key}": value for key, value in connection.items()})
    properties = _delegation(catalog) | iceberg_conf(catalog)
    conf.update({f"{prefix}.{k}": v for k, v in properties.items()})
    return conf


def sqlite_file(catalog: CatalogConfig) -> str:
    """Return the path of the SQLite file of a catalog; empty if it has none."""
    uri = str(catalog.options.get("uri", ""))
    is_sqlite = catalog.type == "sql" and uri.startswith("sqlite")
    return unquote(uri.partition(":///")[2].partition("?")[0]) if is_sqlite else ""


def _delegation(catalog: CatalogConfig) -> dict[str, str]:
    own = {key.lower() for key in catalog.options.get("properties", {})}
    return {DELEGATION: VENDED} if catalog.type == "rest" and DELEGATION.lower() not in own else {}


def _key(catalog: CatalogConfig, key: str) -> str:
    return "glue.endpoint" if catalog.type == "glue" and key == "uri" else key


def _jdbc(uri: str, file: str) -> dict[str, str]:
    parts = urlsplit(uri)
    dialect = parts.scheme.partition("+")[0]
    conf = {"jdbc.schema-version": "V1"}
    if dialect == "sqlite":
        # The driver accepts a path with `?`, and a query with names that it does not know, only after `file:`. SQLite
        # decodes escapes only after `file:`.
        _, mark, query = uri.partition("?")
        path = f"file:{quote(file)}" if "?" in file + mark else file
        return conf | {"uri": f"jdbc:sqlite:{path}{mark}{query}"}
    host = parts.netloc.rpartition("@")[2]
    if parts.username:
        conf["jdbc.user"] = unquote(parts.username)
    if parts.password:
        conf["jdbc.password"] = unquote(parts.password)
    query = f"?{parts.query}" if parts.query else ""
    return conf | {"uri": f"jdbc:{dialect}://{host}{parts.path}{query}"}
