"""Tables for the fault tests."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest
from spark.faults.store import BUCKET, ICE, LAKE, S3Delta, S3Iceberg, Store
from spark.faults.tables import DELTA, SOME_VARIANTS, Delta, Iceberg, Table
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
