"""Translates the definition of an Iceberg catalog to the properties of pyiceberg and the configuration of Spark."""

from __future__ import annotations

from urllib.parse import quote, unquote, urlsplit

from zlayout.formats.storage import iceberg_conf, pyiceberg_options
from zlayout.spec.model import CatalogConfig

DELEGATION, VENDED = "header.X-Iceberg-Access-Delegation", "vended-credentials"
ICEBERG_SPARK_CATALOG = "org.apache.iceberg.spark.SparkCatalog"
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
    """Return the Spark configuration that defines the same catalog under the same name."""
    prefix = f"spark.sql.catalog.{catalog.name}"
    conf = {
        prefix: ICEBERG_SPARK_CATALOG,
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
    """Return the header with which Iceberg asks a REST catalog for credentials, as pyiceberg does by default."""
    own = {key.lower() for key in catalog.options.get("properties", {})}
    return {DELEGATION: VENDED} if catalog.type == "rest" and DELEGATION.lower() not in own else {}


def _key(catalog: CatalogConfig, key: str) -> str:
    return "glue.endpoint" if catalog.type == "glue" and key == "uri" else key


def _jdbc(uri: str, file: str) -> dict[str, str]:
    """Return the properties of the JDBC catalog for a SQLAlchemy URI. file: the path of the SQLite file."""
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
