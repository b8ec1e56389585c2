"""A maker of tables for the fault tests."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pytest
from spark.faults.tables import DELTA, Delta, Iceberg, Table

from zlayout.formats.delta.backend import DeltaBackend
from zlayout.formats.iceberg.backend import IcebergBackend
from zlayout.spark.session import SparkRuntime
from zlayout.spec.model import Project, TableName

_numbers = count(1)


@pytest.fixture
def named(project: Project, runtime: SparkRuntime) -> Callable[[str], Table]:
    """A table of a variant that is not created yet."""

    def name(variant: str) -> Table:
        table = f"faults{next(_numbers)}"
        if variant in DELTA:
            catalog, backend = project.catalogs["lake"], DeltaBackend(project.catalogs["lake"], runtime)
            folder = project.root / "delta" / "db" / table
            return Delta(runtime.session, backend, catalog, TableName("lake", ("db",), table), variant, folder)
        catalog, iceberg = project.catalogs["ice"], IcebergBackend(project.catalogs["ice"], runtime)
        folder = project.root / "iceberg" / "db" / table
        return Iceberg(runtime.session, iceberg, catalog, TableName("ice", ("db",), table), variant, folder)

    return name


@pytest.fixture
def create(named: Callable[[str], Table]) -> Callable[[str], Table]:
    """A fresh table of a variant."""

    def make(variant: str) -> Table:
        table = named(variant)
        table.create()
        return table

    return make
