"""The contract over Delta and Iceberg with the zlayout engine, for each curve."""

from __future__ import annotations

from pathlib import Path

import pytest
from contract import Contract
from spark.arenas import DeltaArena, IcebergArena

from zlayout.backends.spark import SparkRuntime
from zlayout.spec.model import Project, TableName

CURVES = ["kd", "zorder", "hilbert", "linear"]


class TestDelta(Contract):
    @pytest.fixture(params=CURVES)
    def arena(
        self,
        request: pytest.FixtureRequest,
        project: Project,
        runtime: SparkRuntime,
        delta_table: TableName,
        tmp_path: Path,
    ) -> DeltaArena:
        return DeltaArena(project, runtime, delta_table, tmp_path, "zlayout", request.param)


class TestIceberg(Contract):
    @pytest.fixture(params=CURVES)
    def arena(
        self,
        request: pytest.FixtureRequest,
        project: Project,
        runtime: SparkRuntime,
        iceberg_table: TableName,
        tmp_path: Path,
    ) -> IcebergArena:
        return IcebergArena(project, runtime, iceberg_table, tmp_path, "zlayout", request.param)
