"""What advise predicts is what a real rewrite leaves, and what Spark itself then reads, on both formats."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from demo import scanned_files
from spark.arenas import DeltaArena, IcebergArena, SparkArena
from support.builders import make_layout, make_spec
from support.runs import plan_and_apply

from zlayout.advisor.costs import costs, in_partitions, queries_on
from zlayout.advisor.model import Study
from zlayout.advisor.query_costs import rewrite_of_table
from zlayout.advisor.study import Question, study
from zlayout.session.sampling import draw_sample
from zlayout.spec.model import Layout, LayoutSpec
from zlayout.table.metrics import layout_metrics
from zlayout.table.samples import KeySample
from zlayout.table.state import TableState
from zlayout.workload.files import read_workload

ROWS, FILES = 24_000, 24
CONDITIONS = [
    "day = DATE '1995-03-04'",
    "day >= DATE '1995-06-01' AND day < DATE '1995-07-01' AND piece < 3000",
    "piece = 4711",
    "piece BETWEEN 100 AND 400 OR piece > 19800",
    "mode IN ('MAIL', 'SHIP') AND day > DATE '1995-11-01'",
    "name LIKE 'a-prefix-of-more-than-16-characters-07%'",
    "price < 12.5 AND NOT (piece > 5000)",
]
COLUMNS = ("day", "piece", "mode", "name", "price")


def make_lines() -> pa.Table:
    rng = np.random.default_rng(11)
    piece = rng.integers(0, 20_000, ROWS)
    return pa.table(
        {
            "id": pa.array(np.arange(ROWS)),
            "day": pa.array(rng.integers(9131, 9496, ROWS), pa.int32()).cast(pa.date32()),
            "piece": pa.array(piece),
            "mode": pa.array(["AIR", "MAIL", "RAIL", "SHIP"]).take(pa.array(rng.integers(0, 4, ROWS))),
            "name": pa.array([f"a-prefix-of-more-than-16-characters-{p // 2000:02}" for p in piece.tolist()]),
            "price": pa.array(np.round(rng.random(ROWS) * 100 + piece / 200, 2)),
        }
    )


LINES = make_lines()


def observe(arena: SparkArena) -> TableState:
    return arena.backend.observe(arena.table, COLUMNS)


def sample_of(arena: SparkArena, state: TableState, rows: int, seed: int = 0) -> KeySample:
    return draw_sample(arena.backend, arena.table, state, COLUMNS, rows, seed)


def base_layout(state: TableState) -> Layout:
    return make_layout(target_size=int(state.files.bytes.sum()) // FILES)


def studied(arena: SparkArena, state: TableState, folder: Path) -> Study:
    path = folder / "q.sql"
    path.write_text(";\n".join(f"SELECT count(*) FROM {arena.table.name} WHERE {c}" for c in CONDITIONS))
    queries = in_partitions(queries_on(read_workload([path]), arena.table, state).queries, state)
    base = base_layout(state)
    spec = make_spec(base, arena.table)
    rewrite = rewrite_of_table(spec, state, COLUMNS, sample_of(arena, state, ROWS // 2), FILES)
    return study(state, queries, rewrite, Question((), None, base, True))


def apply(arena: SparkArena, layout: Layout) -> LayoutSpec:
    spec = make_spec(layout, arena.table)
    plan_and_apply(spec, arena.backend)
    return spec


def read_by_spark(arena: SparkArena) -> list[int]:
    session = arena.runtime.session
    session.conf.set("spark.sql.adaptive.enabled", "false")
    found = []
    for condition in CONDITIONS:
        query = arena.read().where(condition).selectExpr("count(*)", "max(id)")
        query.collect()
        found.append(scanned_files(query._jdf.queryExecution().executedPlan()))
    session.conf.unset("spark.sql.adaptive.enabled")
    return found


@pytest.mark.parametrize(
    "arena",
    [pytest.param(DeltaArena, id="delta", marks=pytest.mark.long), pytest.param(IcebergArena, id="iceberg")],
    indirect=True,
)
def test_predicted_equals_measured_after_a_real_apply(arena: SparkArena, tmp_path: Path) -> None:
    arena.create(LINES, FILES)
    before = observe(arena)
    found = studied(arena, before, tmp_path)
    assert found.now.files.tolist() == read_by_spark(arena)
    spec = apply(arena, found.best.layout)
    after = observe(arena)
    measured = costs(found.queries, after.files)
    assert len(after.files) == pytest.approx(found.best.files, abs=1)
    assert found.best.costs.mean_files == pytest.approx(measured.mean_files, rel=0.15)
    assert measured.mean_files < 0.6 * found.now.mean_files
    # and bounds are pruned by as Spark prunes by them
    assert measured.files.tolist() == read_by_spark(arena)
    stored = arena.backend.last_run(arena.table, after)
    assert stored is not None
    touched = {m.column: m.touched for m in layout_metrics(after.files, spec.column_names)}
    assert found.best.touched == pytest.approx(touched, rel=0.15)
    assert {c.column: c.measured for c in stored.columns} == pytest.approx(touched, rel=0.001)


def test_the_sample_knows_partitions_and_is_the_same_for_a_seed(arena: SparkArena) -> None:
    arena.create(LINES, 6, ("mode",))
    arena.append(LINES.slice(0, 10).set_column(3, "mode", pa.array(["B ä/%"] * 10)))
    state = observe(arena)
    one, same, other = (sample_of(arena, state, 3_000, seed) for seed in (1, 1, 2))
    assert 2_500 < len(one) <= 3_000
    assert rows(one) == rows(same) != rows(other)
    whole = sample_of(arena, state, 10**6)
    assert len(whole) == ROWS + 10
    values = [p.values[0] for p in state.files.partitions]
    assert whole.keys["mode"].to_pylist() == [values[state.files.partition[file]] for file in whole.file.tolist()]
    assert {k: v.type for k, v in whole.keys.items()} == {k: state.column(k).type for k in COLUMNS}  # type: ignore[union-attr]
    assert min(d for d in whole.keys["day"].to_pylist()) == date(1995, 1, 1)


def rows(sample: KeySample) -> list[Any]:
    return sorted(zip(*(sample.keys[c].to_pylist() for c in ("day", "piece")), strict=True))
