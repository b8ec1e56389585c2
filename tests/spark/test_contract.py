"""The contract over Delta and Iceberg, with the engine zlayout along each curve and with the formats' own rewrites."""

import pytest
from contract import Arena, Contract, make_rows
from spark.arenas import DeltaArena, IcebergArena

from zlayout.table.state import PartitionField

KINDS = {"delta": DeltaArena, "iceberg": IcebergArena}
CASES = [(name, "zlayout", curve) for name in KINDS for curve in ("kd", "zorder", "hilbert", "linear")]
CASES += [("delta", "native", "zorder"), ("iceberg", "native", "zorder"), ("iceberg", "native", "linear")]


@pytest.mark.parametrize(
    "arena", [(KINDS[name], engine, curve) for name, engine, curve in CASES], ids=map("-".join, CASES), indirect=True
)
class TestEngines(Contract):
    """Every test of the contract."""

    @pytest.mark.long  # test_rollback tries both formats every day
    def test_a_rollback_returns_the_files_and_the_plan_and_keeps_an_append(self, arena: Arena) -> None:
        super().test_a_rollback_returns_the_files_and_the_plan_and_keeps_an_append(arena)


@pytest.mark.parametrize("arena", [IcebergArena], indirect=True)
def test_iceberg_adds_declared_partition_fields_behind_those_it_has(arena: IcebergArena) -> None:
    contract = Contract()
    arena.create(make_rows(contract.rows), contract.files, partition_by=("region",))
    bucket, region = PartitionField("id", "bucket[2]"), PartitionField("region")
    spec = contract.spec(arena, partition_by=(bucket, region))
    contract.apply(arena, contract.plan(arena, spec))
    assert arena.backend.observe(arena.table, ()).partition_fields == (region, bucket)
    after = contract.plan(arena, spec)
    assert after.plan.status == "unchanged"
    assert contract.apply(arena, after).commits == []
    assert arena.rows().num_rows == contract.rows
