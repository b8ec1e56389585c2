"""A key behind the columns with statistics: one apply enables statistics of the key, and of no other column."""

import numpy as np
import pyarrow as pa
import pytest
from contract import Contract
from spark.arenas import DeltaArena, IcebergArena, SparkArena
from support.ranges import files_touched

FILES = 8
COLUMNS = 130
KEY = "c120"


def wide(count: int) -> pa.Table:
    """A boolean and 130 columns of integers, of which the key is in random order."""
    rng = np.random.default_rng(3)
    columns = {f"c{at}": pa.array(np.arange(count) + at) for at in range(COLUMNS)}
    columns[KEY] = pa.array(rng.permutation(count))
    return pa.table({"id": np.arange(count), "yes": np.arange(count) % 2 == 0} | columns)


ROWS = wide(800)


class WideContract(Contract):
    rows = len(ROWS)
    files = FILES
    __test__ = False


@pytest.mark.parametrize(
    "arena",
    [pytest.param(DeltaArena, id="delta", marks=pytest.mark.long), pytest.param(IcebergArena, id="iceberg")],
    indirect=True,
)
def test_a_key_far_behind_gets_statistics(arena: SparkArena) -> None:
    contract = WideContract()
    arena.create(ROWS, FILES)
    spec = contract.spec(arena, (KEY,))
    before = contract.plan(arena, spec)
    key = before.state.column(KEY)
    assert not key.stats
    (change,) = before.plan.properties
    if before.state.format == "delta":
        # 32 columns have statistics, one of which is a boolean without min and max
        listed = ["`id`", *(f"`c{at}`" for at in range(30)), f"`{KEY}`"]
        assert (change.name, change.after) == ("delta.dataSkippingStatsColumns", ",".join(listed))
    contract.apply(arena, before)

    after = contract.plan(arena, spec)
    assert after.plan.status == "unchanged"
    names = (KEY, "c0", "c29", "c30", "c119", "c121")
    state = arena.backend.observe(arena.table, names)
    bounded = {name for name in names if state.files.bounds[name].lower.null_count < len(state.files)}
    assert bounded >= {KEY, "c0", "c29"}
    assert not bounded & {"c119", "c121"}
    assert files_touched(state.files, {KEY: (400, 400)}).sum() == 1
    assert contract.apply(arena, after).commits == []
