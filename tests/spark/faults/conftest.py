"""Tables for the fault tests."""

from __future__ import annotations

from itertools import count

import pytest
from spark.faults.tables import DELTA, SOME_VARIANTS, Delta, Iceberg, Table

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
