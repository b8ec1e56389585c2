"""One catalog definition, three readers: deltalake (a location), pyiceberg (properties), Spark (conf)."""

from __future__ import annotations

from pathlib import PurePosixPath
from urllib.parse import quote, unquote, urlsplit

from zlayout.errors import TableError
from zlayout.spec.model import CatalogConfig, TableName

ICEBERG_SPARK_CATALOG = "org.apache.iceberg.spark.SparkCatalog"


def delta_location(catalog: CatalogConfig, table: TableName) -> str:
    """Where a Delta table lives: its entry in `tables`, else warehouse/namespace/name. Raises TableError."""
    listed = catalog.options.get("tables", {}).get(".".join(table.identifier))
    if listed:
        return str(listed)
    warehouse = catalog.options.get("warehouse")
    if not warehouse:
        raise TableError.of(
            "ZL101",
            f"table {table} is not in catalogs.{catalog.name}.tables",
            hint="add its location there, or give the catalog a warehouse folder",
            location=catalog.location,
        )
    parts = [quote(part, safe=" ") if "/" in part else part for part in table.identifier]
    return str(warehouse).rstrip("/") + "/" + str(PurePosixPath(*parts))


def storage_options(catalog: CatalogConfig) -> dict[str, str]:
    """Object store settings for readers without a JVM, as the user wrote them under `properties`."""
    return {str(k): str(v) for k, v in catalog.options.get("properties", {}).items()}


def pyiceberg_properties(catalog: CatalogConfig) -> dict[str, str]:
    """Properties for `pyiceberg.catalog.load_catalog(catalog.name, **properties)`."""
    properties = {"type": catalog.type, **storage_options(catalog)}
    for key in ("uri", "warehouse"):
        if key in catalog.options:
            properties[key] = str(catalog.options[key])
    return properties


def spark_catalog_conf(catalog: CatalogConfig) -> dict[str, str]:
    """Spark conf that defines the same catalog under the same name; empty for Delta, whose tables go by path."""
    if catalog.format != "iceberg":
        return {}
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
        connection = _jdbc(uri) if catalog.type == "sql" else {"uri": uri}
        conf.update({f"{prefix}.{key}": value for key, value in connection.items()})
    conf.update({f"{prefix}.{k}": v for k, v in storage_options(catalog).items()})
    return conf


def _jdbc(uri: str) -> dict[str, str]:
    """A SQLAlchemy URI as the JDBC catalog's properties; user and password become properties of their own."""
    parts = urlsplit(uri)
    dialect = parts.scheme.partition("+")[0]
    conf = {"jdbc.schema-version": "V1"}
    if dialect == "sqlite":
        return conf | {"uri": f"jdbc:sqlite:{uri.partition(':///')[2]}"}
    host = parts.netloc.rpartition("@")[2]
    if parts.username:
        conf["jdbc.user"] = unquote(parts.username)
    if parts.password:
        conf["jdbc.password"] = unquote(parts.password)
    query = f"?{parts.query}" if parts.query else ""
    return conf | {"uri": f"jdbc:{dialect}://{host}{parts.path}{query}"}
