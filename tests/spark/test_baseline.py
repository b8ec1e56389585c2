"""A rewrite stores what it left: baselines of its groups, and predicted beside measured touched, on both formats."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from spark.arenas import DeltaArena, IcebergArena, SparkArena
from support.builders import make_layout, make_spec
from support.runs import plan_and_apply

from zlayout.table.metrics import layout_metrics, measure_baselines
from zlayout.table.state import FileTable

KEYS = ("day", "price", "at", "name", "x")
ROWS = 3000


def make_rows(start: int = 0) -> pa.Table:
    """Keys of five types that all grow with the id, so that touched is far below theory."""
    ids = np.arange(start, start + ROWS)
    days = [date(2024, 1, 1) + timedelta(days=int(n) // 50) for n in ids]
    times = [datetime(2024, 1, 1, tzinfo=UTC) + timedelta(microseconds=int(n) * 1_234_567) for n in ids]
    return pa.table(
        {
            "id": ids,
            "day": pa.array(days, pa.date32()),
            "price": pa.array([Decimal(int(n)) / 100 for n in ids], pa.decimal128(12, 2)),
            "at": pa.array(times, pa.timestamp("us", "UTC")),
            "name": [f"key-{n:06}" for n in ids],
            "x": ids / 7,
            "region": np.array(["east", "west"])[ids % 2],
        }
    ).take(np.random.default_rng(1).permutation(ROWS))


@pytest.mark.parametrize("arena", [(DeltaArena, "zlayout", "kd"), (IcebergArena, "zlayout", "kd")], indirect=True)
@pytest.mark.parametrize("partitioned", [pytest.param(False, marks=pytest.mark.long), True])
def test_what_a_rewrite_left_is_stored(arena: SparkArena, partitioned: bool) -> None:
    arena.create(make_rows(), 6, ("region",) if partitioned else ())
    before = arena.backend.observe(arena.table, KEYS).files
    spec = make_spec(make_layout(*KEYS, target_size=int(before.bytes.sum()) // 12), arena.table)
    assert arena.backend.last_run(arena.table, arena.backend.observe(arena.table, ())) is None
    _, applied = plan_and_apply(spec, arena.backend)
    assert applied.after.status == "unchanged"
    after = arena.backend.observe(arena.table, KEYS).files
    assert len(after) >= 8
    count = len(after.partitions)
    assert count == 1 + partitioned
    assert all(baseline.touched < (3.0,) * 5 for baseline in after.baselines.values())  # theory: 12 ** 0.8 = 7.3
    assert stored(after) == measured(after)

    run = arena.backend.last_run(arena.table, arena.backend.observe(arena.table, ()))
    assert (run.run_id, run.version) == (applied.run_id, applied.commits[-1].version)
    assert run.cost.bytes == int(before.bytes.sum())
    assert 0 < run.cost.seconds < 600
    touched = [m.touched for m in layout_metrics(after, KEYS)]
    assert [c.measured for c in run.columns] == pytest.approx(touched, rel=0.001)
    assert {c.column: c.predicted for c in run.columns} == pytest.approx(dict(applied.predictions()), rel=0.001)

    # The baseline outlives the files of its group, and changes of the table by others.
    arena.append(make_rows(ROWS))
    arena.sql(f"DELETE FROM {arena} WHERE day >= DATE '2024-02-01'")
    eroded = arena.backend.observe(arena.table, KEYS).files
    assert (eroded.layout >= 0).sum() < len(after) or eroded.deleted.sum()  # Iceberg keeps the files here
    assert stored(eroded).keys() == stored(after).keys()
    assert [str(b) for b in stored(eroded).values()] == [str(b) for b in stored(after).values()]


def stored(files: FileTable) -> dict[object, str]:
    laid = np.flatnonzero(files.group >= 0)
    owners = zip(files.group[laid].tolist(), files.partition[laid].tolist(), strict=True)
    return {files.partitions[owner].values: str(files.baselines[group]) for group, owner in sorted(set(owners))}


def measured(files: FileTable) -> dict[object, str]:
    found = measure_baselines(files, KEYS, files.partition, len(files.partitions))
    return {partition.values: str(b) for partition, b in zip(files.partitions, found, strict=True)}
