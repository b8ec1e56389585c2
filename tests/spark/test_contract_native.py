"""The contract over Delta and Iceberg with the formats' own rewrites."""

from __future__ import annotations

from pathlib import Path

import pytest
from contract import Contract
from spark.arenas import DeltaArena, IcebergArena

from zlayout.spark.session import SparkRuntime
from zlayout.spec.model import Project, TableName


class TestDelta(Contract):
    @pytest.fixture
    def arena(self, project: Project, runtime: SparkRuntime, delta_table: TableName, tmp_path: Path) -> DeltaArena:
        return DeltaArena(project, runtime, delta_table, tmp_path, "native", "zorder")


class TestIceberg(Contract):
    @pytest.fixture(params=["zorder", "linear"])
    def arena(
        self,
        request: pytest.FixtureRequest,
        project: Project,
        runtime: SparkRuntime,
        iceberg_table: TableName,
        tmp_path: Path,
    ) -> IcebergArena:
        return IcebergArena(project, runtime, iceberg_table, tmp_path, "native", request.param)
