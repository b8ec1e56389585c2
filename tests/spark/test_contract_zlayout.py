"""The contract over Delta and Iceberg with the zlayout engine, for each curve."""

from __future__ import annotations

from pathlib import Path

import pytest
from contract import Contract, make_rows
from spark.arenas import DeltaArena, IcebergArena

from zlayout.spark.session import SparkRuntime
from zlayout.spec.model import Project, TableName
from zlayout.table.state import PartitionField

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


def test_iceberg_adds_declared_partition_fields_behind_those_it_has(
    project: Project, runtime: SparkRuntime, iceberg_table: TableName, tmp_path: Path
) -> None:
    contract, arena = Contract(), IcebergArena(project, runtime, iceberg_table, tmp_path, "zlayout", "kd")
    arena.create(make_rows(contract.rows), contract.files, partition_by=("region",))
    bucket, region = PartitionField("id", "bucket[2]"), PartitionField("region")
    spec = contract.spec(arena, partition_by=(bucket, region))
    contract.apply(arena, contract.plan(arena, spec))
    assert arena.backend.observe(arena.table, ()).partition_fields == (region, bucket)
    after = contract.plan(arena, spec)
    assert after.decision.plan.status == "unchanged"
    assert contract.apply(arena, after).commits == []
    assert arena.rows().num_rows == contract.rows
