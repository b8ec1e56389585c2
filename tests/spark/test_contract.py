"""The contract over Delta and Iceberg, with the engine zlayout along each curve and with the formats' own rewrites."""

from collections.abc import Sequence

import pytest
from contract import Arena, Contract, make_rows
from spark.arenas import DeltaArena, IcebergArena

from zlayout.table.state import PartitionField

KINDS = {"delta": DeltaArena, "iceberg": IcebergArena}
CASES = [(name, "zlayout", "kd") for name in KINDS] + [(name, "native", "zorder") for name in KINDS]
OTHER_CURVES = [(name, "zlayout", curve) for name in KINDS for curve in ("zorder", "hilbert", "linear")]
OTHER_CURVES += [("iceberg", "native", "linear")]


def each(cases: Sequence[tuple[str, str, str]]) -> pytest.MarkDecorator:
    arenas = [(KINDS[name], engine, curve) for name, engine, curve in cases]
    return pytest.mark.parametrize("arena", arenas, ids=map("-".join, cases), indirect=True)


@each(CASES)
class TestEngines(Contract):
    """Every test of the contract."""

    @pytest.mark.long  # test_rollback tries both formats every day
    def test_a_rollback_returns_the_files_and_the_plan_and_keeps_an_append(self, arena: Arena) -> None:
        super().test_a_rollback_returns_the_files_and_the_plan_and_keeps_an_append(arena)


@pytest.mark.long
@each(OTHER_CURVES)
class TestOtherCurves(Contract):
    """Every test of the contract."""


@each(OTHER_CURVES)
def test_each_curve_reaches_the_layout_and_the_next_plan_is_empty(arena: Arena) -> None:
    Contract().test_apply_reaches_the_layout_and_the_next_plan_is_empty(arena)


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
