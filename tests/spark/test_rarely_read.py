"""Partitions that the workload rarely reads, on real tables: plan, plan file, apply, and an empty plan."""

from pathlib import Path

import pyarrow as pa
import pytest
from contract import Contract, make_rows
from spark.arenas import DeltaArena, IcebergArena, SparkArena

from zlayout.planner import document
from zlayout.planner.model import Wait
from zlayout.planner.work import PlanOptions
from zlayout.session.plan import PlannedTable, as_plan, plan_tables
from zlayout.session.plan_file import check_saved
from zlayout.spec.model import Tolerance

CASES = {
    "delta": (DeltaArena, "zlayout", "kd"),
    "delta-native": (DeltaArena, "native", "zorder"),
    "iceberg": (IcebergArena, "zlayout", "kd"),
    "iceberg-native": (IcebergArena, "native", "zorder"),
}


@pytest.mark.parametrize(
    "arena",
    [pytest.param(case, id=name, marks=[pytest.mark.long] * (name == "delta-native")) for name, case in CASES.items()],
    indirect=True,
)
def test_partitions_that_no_query_reads_wait_and_the_next_plan_is_empty(arena: SparkArena, tmp_path: Path) -> None:
    contract, workload = Contract(), tmp_path / "asked.sql"

    def ask(region: str) -> None:
        workload.write_text(f"SELECT * FROM {arena.table.name} WHERE region = '{region}' AND a = 500;\n")

    def planned() -> PlannedTable:
        (found,) = plan_tables([spec], {spec.table.catalog: arena.backend})
        return found

    ask("north")
    arena.create(make_rows(contract.rows), contract.files, ("region",))
    spec = contract.spec(arena, tolerance=Tolerance(rarely_read=0.0), workload=(workload,))
    contract.apply(arena, contract.plan(arena, spec))
    appended = make_rows(contract.rows // 4, start=contract.rows, seed=2)
    arena.append(appended, 2)

    saved = document.from_json(document.to_json(as_plan([planned()])), "plan.json").plan.tables[0]
    assert [group.partition for group in saved.groups] == ["region=north"]
    assert saved.that_wait(Wait.RARELY_READ).partition_numbers == (1, 3)
    ask("west")
    checked = check_saved(saved, contract.plan(arena, spec), arena.backend, PlanOptions(), "compatible")
    applied = contract.apply(arena, checked)
    assert sum(c.files_removed for c in applied.commits) == saved.groups[0].files
    assert applied.exit_code == 0
    ask("north")
    after = planned().plan
    assert (after.status, after.that_wait(Wait.RARELY_READ)) == ("unchanged", saved.that_wait(Wait.RARELY_READ))
    expected = pa.concat_tables([make_rows(contract.rows), appended])
    assert arena.rows().sort_by("id").equals(expected.combine_chunks())

    ask("west")
    contract.apply(arena, planned())
    after = planned().plan
    assert (after.status, after.that_wait(Wait.RARELY_READ).partition_numbers) == ("unchanged", (1,))
