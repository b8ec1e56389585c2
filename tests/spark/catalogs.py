"""Iceberg catalogs in PostgreSQL, MySQL, REST, Nessie, Hive and Glue, for the contract suite.

Their tables are on this machine or on S3.
The Spark session knows all of them from its start. A fixture of the service starts it for the first test that uses it.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from spark.arenas import IcebergArena, S3IcebergArena
from support.mysql import OWNER as MYSQL_OWNER
from support.nessie import WAREHOUSE
from support.postgres import OWNER
from support.servers import free_port

from zlayout.errors import Location
from zlayout.spec.model import CatalogConfig

S3_FOLDER = "s3://zlayout-tables/catalogs"


def service_catalogs(root: Path, bucket: str, storage: Mapping[str, Any], metastore: str) -> dict[str, CatalogConfig]:
    """The definitions, by name. Those with the prefix `s3` have their tables on S3, `hms` and `glue` also elsewhere."""
    types = {
        "pg": ("sql", f"postgresql+psycopg2://{OWNER}@127.0.0.1:{free_port()}/postgres"),
        "mysql": ("sql", f"mysql+pymysql://{MYSQL_OWNER}@127.0.0.1:{free_port()}/iceberg"),
        "rest": ("rest", f"http://127.0.0.1:{free_port()}"),
    }
    found = {}
    for name, (type_, uri) in types.items():
        options: dict[str, Any] = {"uri": uri, "warehouse": f"file://{root / name}"}
        on_s3 = {"uri": uri, "warehouse": f"s3://{bucket}/{name}", "storage": storage}
        if type_ == "rest":  # which chooses the warehouse itself
            options, on_s3 = ({key: value for key, value in o.items() if key != "warehouse"} for o in (options, on_s3))
        for each, its in ((name, options), (f"s3{name}", on_s3)):
            found[each] = CatalogConfig(each, "iceberg", type_, its, Location("zlayout.yaml"))
    nessie = {"uri": f"http://127.0.0.1:{free_port()}/iceberg", "warehouse": WAREHOUSE, "storage": storage}
    found["nessie"] = CatalogConfig("nessie", "iceberg", "rest", nessie, Location("zlayout.yaml"))
    for name, type_, uri in (("hms", "hive", metastore), ("glue", "glue", storage["endpoint"])):
        found[name] = CatalogConfig(name, "iceberg", type_, {"uri": uri, "storage": storage}, Location("zlayout.yaml"))
    return found


def port_of(catalog: CatalogConfig) -> int:
    port = urlsplit(catalog.options["uri"]).port
    assert port is not None
    return port


class PostgresArena(IcebergArena):
    catalog = "pg"
    services = ("postgres",)


class S3PostgresArena(IcebergArena):
    catalog = "s3pg"
    services = ("postgres", "s3")


class MysqlArena(IcebergArena):
    catalog = "mysql"
    services = ("mysql",)


class S3MysqlArena(IcebergArena):
    catalog = "s3mysql"
    services = ("mysql", "s3")


class RestArena(IcebergArena):
    catalog = "rest"
    services = ("rest",)


class S3RestArena(IcebergArena):
    catalog = "s3rest"
    services = ("rest", "s3")
    location = S3_FOLDER


class NessieArena(IcebergArena):
    """Nessie has tables in object stores only, and shows their newest snapshot alone."""

    catalog = "nessie"
    services = ("s3", "nessie")
    has_history = False


class HiveArena(IcebergArena):
    catalog = "hms"
    services = ("metastore",)


class S3HiveArena(HiveArena):
    services = ("s3", "metastore")
    location = S3_FOLDER


class GlueArena(IcebergArena):
    catalog = "glue"
    services = ("s3",)


class S3GlueArena(GlueArena):
    location = S3_FOLDER


PAIRS = {
    "sqlite": IcebergArena,
    "sqlite-s3": S3IcebergArena,
    "postgres": PostgresArena,
    "postgres-s3": S3PostgresArena,
    "mysql": MysqlArena,
    "mysql-s3": S3MysqlArena,
    "rest": RestArena,
    "rest-s3": S3RestArena,
    "nessie-s3": NessieArena,
    "hive": HiveArena,
    "hive-s3": S3HiveArena,
    "glue": GlueArena,
    "glue-s3": S3GlueArena,
}
