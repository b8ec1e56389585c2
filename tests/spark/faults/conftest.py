"""Tables for the fault tests."""

from collections.abc import Iterator
from itertools import count

import pytest
from spark.catalogs import port_of
from spark.faults.store import BUCKET, ICE, LAKE, REST, RestStore, S3Delta, S3Iceberg, Store
from spark.faults.tables import DELTA, SOME_VARIANTS, Delta, Iceberg, Table
from support.rest import rest_server
from support.s3_proxy import s3_proxy
from support.servers import free_port, s3_server

from zlayout.formats.delta.backend import DeltaBackend
from zlayout.formats.iceberg.backend import IcebergBackend
from zlayout.spark.session import SparkRuntime
from zlayout.spec.model import Project, TableName

_numbers = count(1)


@pytest.fixture(params=SOME_VARIANTS)
def unmade(request: pytest.FixtureRequest, project: Project, runtime: SparkRuntime) -> Table:
    """A table of a variant that is not created yet."""
    variant, name = request.param, f"faults{next(_numbers)}"
    kind, catalog_name, folder = (Delta, "lake", "delta") if variant in DELTA else (Iceberg, "ice", "iceberg")
    catalog = project.catalogs[catalog_name]
    backend = (DeltaBackend if kind is Delta else IcebergBackend)(catalog, runtime)
    table = TableName(catalog_name, ("db",), name)
    return kind(runtime.session, backend, catalog, table, variant, project.root / folder / "db" / name)


@pytest.fixture
def table(unmade: Table) -> Table:
    """A fresh table of a variant."""
    unmade.create()
    return unmade


@pytest.fixture(scope="session")
def store(project: Project, runtime: SparkRuntime) -> Iterator[Store]:
    """The S3 store of the catalogs `faultlake` and `faultice`, behind a proxy."""
    endpoint = project.catalogs[LAKE].options["storage"]["endpoint"]
    with s3_server(port := free_port(), BUCKET) as url, s3_proxy(port, int(endpoint.rpartition(":")[2])) as (proxy, _):
        runtime.session.sql(f"create namespace if not exists {ICE}.db")
        yield Store(url, proxy)


@pytest.fixture
def s3_table(request: pytest.FixtureRequest, project: Project, runtime: SparkRuntime, store: Store) -> Table:
    """A fresh table of a variant in the store."""
    variant, name = request.param, f"faults{next(_numbers)}"
    catalog = project.catalogs[LAKE if variant in DELTA else ICE]
    folder, where = project.root / "delta" / "db" / name, TableName(catalog.name, ("db",), name)
    table: Table
    if variant in DELTA:
        table = S3Delta(runtime.session, DeltaBackend(catalog, runtime), catalog, where, variant, folder, store)
    else:
        table = S3Iceberg(runtime.session, IcebergBackend(catalog, runtime), catalog, where, variant, folder, store)
    table.create()
    return table


@pytest.fixture(scope="session")
def rest_store(
    project: Project, runtime: SparkRuntime, store: Store, clients: list[str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RestStore]:
    """The catalog `faultrest` behind a proxy. It uses the store through the store's proxy."""
    catalog, folder, port = project.catalogs[REST], tmp_path_factory.mktemp("rest"), free_port()
    storage = catalog.options["storage"]
    to_s3 = {"s3.endpoint": storage["endpoint"], "client.region": storage["region"], "s3.path-style-access": "true"}
    with (
        rest_server(port, folder, f"s3://{BUCKET}/rest", clients, to_s3) as server,
        s3_proxy(port, port_of(catalog)) as (proxy, _),
    ):
        runtime.session.sql(f"create namespace {REST}.db")
        yield RestStore(server, proxy, store)


@pytest.fixture
def rest_table(project: Project, runtime: SparkRuntime, rest_store: RestStore) -> Table:
    """A fresh table of the catalog `faultrest`."""
    catalog, name = project.catalogs[REST], TableName(REST, ("db",), f"faults{next(_numbers)}")
    variant, folder = "iceberg-3-merge-on-read", project.root / "iceberg" / "db" / name.name
    backend = IcebergBackend(catalog, runtime)
    table = S3Iceberg(runtime.session, backend, catalog, name, variant, folder, rest_store.store)
    table.create()
    return table
