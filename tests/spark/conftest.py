"""One Spark session for all tests that need a JVM, with a Delta and an Iceberg catalog in a temporary folder."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from spark.arenas import DeltaArena, IcebergArena, SparkArena
from spark.projects import QUICK
from spark.subjects import DeltaSubject, IcebergSubject

from zlayout.errors import Location
from zlayout.spark.session import SparkRuntime
from zlayout.spec.model import CatalogConfig, Project, SparkConfig, TableName

_numbers = count(1)


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project without layouts: catalogs `lake` (Delta by path) and `ice` (Iceberg in SQLite)."""
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
    conf = {
        "spark.driver.extraJavaOptions": QUICK,
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.warehouse.dir": str(root / "warehouse"),
        "spark.databricks.delta.snapshotPartitions": "2",
    }
    return Project(root, catalogs, SparkConfig("local[2]", conf), ())


@pytest.fixture(scope="session")
def runtime(project: Project) -> Iterator[SparkRuntime]:
    runtime = SparkRuntime(project)
    runtime.session.sql("create namespace if not exists ice.db")
    yield runtime
    runtime.stop()


@pytest.fixture(scope="session")
def spark(runtime: SparkRuntime) -> SparkSession:
    return runtime.session


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
    table = delta_table if kind is DeltaArena else iceberg_table
    return kind(project, runtime, table, tmp_path, engine, curve)
