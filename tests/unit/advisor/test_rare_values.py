"""Forecasts for values that few sampled rows have, against the bounds of files of all rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from support.builders import make_layout
from unit.advisor.tables import sample_of, table_state

from zlayout.advisor.costs import in_partitions, measure
from zlayout.advisor.model import TableQuery
from zlayout.planner.simulation import draw, draws_of, whole_rewrite
from zlayout.predicate.model import And, Compare, Predicate
from zlayout.table.partition import Partition, PartitionField
from zlayout.workload.model import Query

ROWS, PARTITIONS, SAMPLES, SHARE = 100_000, 20, 4, 0.05
RANDOM = np.random.default_rng(0)
PART = np.sort(RANDOM.integers(0, PARTITIONS, ROWS))
CODE = RANDOM.choice(np.array(["a", "b", "c", "d", "e"]), ROWS, p=[0.6, 0.3, 0.099, 0.0008, 0.0002])
AMOUNT = RANDOM.lognormal(3, 1, ROWS)
DATA = {
    "part": pa.array(PART),
    "id": pa.array(RANDOM.integers(0, 50_000, ROWS)),
    "code": pa.array(CODE.tolist()),
    "amount": pa.array(AMOUNT),
    "number": pa.array(np.arange(ROWS) * 10 + RANDOM.integers(0, 2000, ROWS)),  # grows with `part`
    "few": pa.array(RANDOM.integers(0, 200, ROWS)),
}
QUERIES: list[Predicate] = [
    Compare("code", "=", "e"),
    Compare("code", ">=", "d"),
    Compare("amount", ">", float(np.quantile(AMOUNT, 0.9998))),
    Compare("amount", "<", float(np.quantile(AMOUNT, 0.001))),
    Compare("id", "=", 77),
    Compare("id", "<", 20),
    Compare("number", "=", ROWS * 5),
    Compare("few", "=", 0),
    Compare("few", "=", 199),
    And((Compare("code", "=", "d"), Compare("id", "<", 25_000))),
]
FIELDS = (PartitionField("part", "identity"),)


@pytest.mark.parametrize(("files", "present"), [(1, 3), (2, 6), (4, 4), (1, 0), (4, 0)])
def test_files_of_rare_values_are_those_of_all_rows(files: int, present: int) -> None:
    """files: of each partition after the rewrite. present: of each partition now; 0 for a table without partitions."""
    rows = RANDOM.integers(0, max(present, 1) * PARTITIONS, ROWS)
    file = PART * present + rows % present if present else rows
    partitioned = {"partitions": [Partition(0, FIELDS, (n,)) for n in range(PARTITIONS)]} if present else {}
    numbers = {"partition": np.repeat(np.arange(PARTITIONS), present).tolist()} if present else {}
    state = table_state(DATA, file, **partitioned, **numbers)
    queries = in_partitions([TableQuery(Query("", f"q:{n}"), (p,), (), ()) for n, p in enumerate(QUERIES)], state)
    layout, columns = make_layout("id"), state.columns_of(tuple(DATA))
    every = whole_rewrite(layout, state, columns, sample_of(DATA, file), files * PARTITIONS, FIELDS)
    truth = measure([draw(every, every.weights, rows_per_file=ROWS)], layout, queries).costs.files
    found = []
    for seed in range(SAMPLES):
        index = np.flatnonzero(np.random.default_rng(seed).random(ROWS) < SHARE)
        some = {name: values.take(pa.array(index)) for name, values in DATA.items()}
        sample = sample_of(some, file[index], seed, ROWS)
        found.append(measure(draws_of(replace(every, sample=sample)), layout, queries).costs.files)
    assert np.mean(found, axis=0) == pytest.approx(truth, rel=0.35, abs=1)
