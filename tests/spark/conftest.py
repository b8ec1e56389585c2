"""One Spark session for all tests that need a JVM, with a Delta and an Iceberg catalog in a temporary folder.

Two more catalogs are in an S3 store, which the fixture `s3` starts for the tests that use it.
"""

import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from hive_metastore.ttypes import Database
from pyiceberg.catalog.sql import SqlCatalog
from pyspark.sql import SparkSession
from spark.arenas import DeltaArena, IcebergArena, SparkArena
from spark.catalogs import port_of, service_catalogs
from spark.faults.store import fault_catalogs, fault_conf
from spark.named import glue_client, metastore_client
from spark.projects import QUICK
from spark.subjects import DeltaSubject, IcebergSubject
from support.hive import hive_metastore
from support.mysql import mysql_server
from support.nessie import nessie_server
from support.postgres import postgres_server
from support.rest import rest_server
from support.servers import CREDENTIALS, free_port, s3_server

from zlayout.errors import Location
from zlayout.spark import versions
from zlayout.spark.session import SparkRuntime
from zlayout.spec.client_options import hadoop_conf
from zlayout.spec.model import CatalogConfig, Project, SparkConfig, TableName

BUCKET = "zlayout-tables"
CANARY = {"CANARY": "value-of-the-canary"}  # which no table, message or log may contain
NAMED_BUCKET = "zlayout-named"  # which no definition of a catalog names
_numbers = count(1)


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project without layouts: catalogs `lake` (Delta by path) and `ice` (Iceberg in SQLite), and both on S3."""
    root = tmp_path_factory.mktemp("project")
    place = Location("zlayout.yaml")
    catalogs = {
        "lake": CatalogConfig("lake", "delta", "path", {"warehouse": str(root / "delta")}, place),
        "ice": CatalogConfig(
            "ice",
            "iceberg",
            "sql",
            {"uri": f"sqlite:///{root / 'iceberg.db'}", "warehouse": f"file://{root / 'iceberg'}"},
            place,
        ),
    }
    storage = {"endpoint": f"http://127.0.0.1:{free_port()}", "region": "us-east-1"}
    catalogs |= {
        "s3lake": CatalogConfig(
            "s3lake", "delta", "path", {"warehouse": f"s3://{BUCKET}/delta", "storage": storage}, place
        ),
        "s3ice": CatalogConfig(
            "s3ice",
            "iceberg",
            "sql",
            {"uri": f"sqlite:///{root / 's3.db'}", "warehouse": f"s3://{BUCKET}/iceberg", "storage": storage},
            place,
        ),
    }
    catalogs["glake"] = CatalogConfig("glake", "delta", "glue", {"uri": storage["endpoint"], "storage": storage}, place)
    thrift = {"uri": f"thrift://127.0.0.1:{free_port()}", "storage": storage}
    catalogs["hlake"] = CatalogConfig("hlake", "delta", "hive", thrift, place)
    catalogs |= fault_catalogs(root, f"http://127.0.0.1:{free_port()}")
    catalogs |= service_catalogs(root, BUCKET, storage, thrift["uri"])
    os.environ.update(CREDENTIALS | CANARY)  # before the JVM starts, which reads them
    SqlCatalog("ice", **catalogs["ice"].options)  # which makes the tables of the catalog
    conf = {
        # Iceberg 1.10 looks for these tables with a query that it never closes: commits would find a locked database.
        "spark.sql.catalog.ice.jdbc.init-catalog-tables": "false",
        "spark.driver.memory": "4g",
        "spark.driver.extraJavaOptions": QUICK,
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.warehouse.dir": str(root / "warehouse"),
        "spark.databricks.delta.snapshotPartitions": "2",
        **fault_conf(),
    }
    return Project(root, catalogs, SparkConfig("local[2]", conf), ())


@pytest.fixture(scope="session")
def runtime(project: Project) -> Iterator[SparkRuntime]:
    runtime = SparkRuntime(project)
    if versions.installed().iceberg is not None:
        runtime.session.sql("create namespace if not exists ice.db")
    yield runtime
    runtime.stop()


@pytest.fixture(scope="session")
def spark(runtime: SparkRuntime) -> SparkSession:
    return runtime.session


@pytest.fixture(scope="session")
def s3(project: Project, runtime: SparkRuntime) -> Iterator[str]:
    """The URL of the S3 store of the catalogs `s3lake` and `s3ice`, which then has the namespace `db`."""
    endpoint = project.catalogs["s3lake"].options["storage"]["endpoint"]
    with s3_server(int(endpoint.rpartition(":")[2]), BUCKET, NAMED_BUCKET):
        local = f"file://{project.root}/glue/db"
        glue_client(endpoint).create_database(DatabaseInput={"Name": "db", "LocationUri": local})
        runtime.session.sql("create namespace if not exists s3ice.db")
        yield endpoint


@pytest.fixture(scope="session")
def clients(runtime: SparkRuntime) -> list[str]:
    """The jars of the session, among them the clients of S3."""
    return [urlsplit(jar).path for jar in runtime.session.conf.get("spark.jars").split(",")]


@pytest.fixture(scope="session")
def metastore(project: Project, clients: list[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URI of the Hive metastore of the catalogs `hlake` and `hms`, which then have the database `db`."""
    folder = tmp_path_factory.mktemp("metastore")
    # The metastore makes the folder of a new table itself, so it is configured for S3 as its operator does.
    to_s3 = {k.removeprefix("spark.hadoop."): v for k, v in hadoop_conf(project.catalogs["s3ice"]).items()}
    with hive_metastore(port_of(project.catalogs["hlake"]), folder, clients, to_s3) as uri:
        metastore_client(uri).create_database(Database(name="db", locationUri=f"file:{folder}/warehouse/db.db"))
        yield uri


@pytest.fixture(scope="session")
def postgres(project: Project, runtime: SparkRuntime, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URI of the database of the catalogs `pg` and `s3pg`, which then have the namespace `db`."""
    with postgres_server(port_of(project.catalogs["pg"]), tmp_path_factory.mktemp("postgres")) as uri:
        for name in ("pg", "s3pg"):
            runtime.session.sql(f"create namespace {name}.db")
        yield uri


@pytest.fixture(scope="session")
def mysql(project: Project, runtime: SparkRuntime, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URI of the database of the catalogs `mysql` and `s3mysql`, which then have the namespace `db`."""
    with mysql_server(port_of(project.catalogs["mysql"]), tmp_path_factory.mktemp("mysql")) as uri:
        for name in ("mysql", "s3mysql"):
            runtime.session.sql(f"create namespace {name}.db")
        yield uri


@pytest.fixture(scope="session")
def nessie(project: Project, runtime: SparkRuntime, s3: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of the catalog `nessie`, which then has the namespace `db`."""
    folder, port = tmp_path_factory.mktemp("nessie"), port_of(project.catalogs["nessie"])
    with nessie_server(port, folder, f"s3://{BUCKET}/nessie", s3) as url:
        runtime.session.sql("create namespace nessie.db")
        yield url


@pytest.fixture(scope="session")
def rest(
    project: Project, runtime: SparkRuntime, clients: list[str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The URL of the REST catalog of `rest` and `s3rest`, which then has the namespace `db`."""
    storage = project.catalogs["s3rest"].options["storage"]
    to_s3 = {"s3.endpoint": storage["endpoint"], "client.region": storage["region"], "s3.path-style-access": "true"}
    folder = tmp_path_factory.mktemp("rest")
    with rest_server(port_of(project.catalogs["rest"]), folder, f"file://{folder}/tables", clients, to_s3) as server:
        runtime.session.sql("create namespace rest.db")
        yield server.url


@pytest.fixture
def delta_table() -> TableName:
    """A fresh name in the Delta catalog."""
    return TableName("lake", ("db",), f"t{next(_numbers)}")


@pytest.fixture
def delta_path(project: Project, delta_table: TableName) -> Path:
    """Where `delta_table` lives."""
    return project.root / "delta" / "db" / delta_table.name


@pytest.fixture
def iceberg_table() -> TableName:
    """A fresh name in the Iceberg catalog; its Spark name is str(name)."""
    return TableName("ice", ("db",), f"t{next(_numbers)}")


@pytest.fixture
def delta(project: Project, runtime: SparkRuntime, delta_table: TableName) -> DeltaSubject:
    return DeltaSubject(project, runtime, delta_table)


@pytest.fixture
def iceberg(project: Project, runtime: SparkRuntime, iceberg_table: TableName) -> IcebergSubject:
    if versions.installed().iceberg is None:
        pytest.skip("Iceberg has no jar for this Spark")
    return IcebergSubject(project, runtime, iceberg_table)


@pytest.fixture(params=[DeltaArena, IcebergArena], ids=["delta", "iceberg"])
def arena(
    request: pytest.FixtureRequest,
    project: Project,
    runtime: SparkRuntime,
    delta_table: TableName,
    iceberg_table: TableName,
    tmp_path: Path,
) -> SparkArena:
    """A fresh table of each format, to be laid out by engine zlayout along kd. Its parameter may name both, too."""
    kind, engine, curve = request.param if isinstance(request.param, tuple) else (request.param, "zlayout", "kd")
    for service in kind.services:
        request.getfixturevalue(service)
    name = (delta_table if issubclass(kind, DeltaArena) else iceberg_table).name
    table = TableName(kind.catalog, ("db",), name)
    return kind(project, runtime, table, tmp_path, engine, curve)
