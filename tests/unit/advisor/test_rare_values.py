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
from zlayout.planner.simulation import Rewrite, draw, draws_of, new_files, whole_rewrite
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


@pytest.mark.parametrize(("column", "noise"), [("time", False), ("session", True), ("session", False)])
@pytest.mark.parametrize("partitioned", [True, False])
def test_files_do_not_reach_over_values_that_only_other_groups_have(
    column: str, noise: bool, partitioned: bool
) -> None:
    """Each of ten groups has times, and sessions but 0, that no other group has. 70 % of the rows have session 0."""
    rows, groups, files = 40_000, 10, 8
    number = np.arange(rows)
    group = number * groups // rows
    session = np.where(np.random.default_rng(2).random(rows) < 0.7, 0, number + 1)
    data = {"part": pa.array(group), "time": pa.array(number * 10), "session": pa.array(session)}
    partitions = [Partition(0, FIELDS, (n,)) for n in range(groups)] if partitioned else [Partition(0, (), ())]
    of_file = list(range(groups)) if partitioned else [0] * groups
    state = table_state(data, group, partitions=partitions, partition=of_file)
    layout, fields = make_layout(column, noise=noise), FIELDS if partitioned else ()
    targets, columns = np.full(groups, files), state.columns_of(tuple(data))
    every = Rewrite(layout, state.files, np.arange(groups), targets, columns, fields, sample_of(data, group))
    values = [value for value in data[column].to_pylist()[:: rows // 100] if value]
    asked = [TableQuery(Query("", f"q:{value}"), (Compare(column, "=", value),), (), ()) for value in values]
    queries = in_partitions(asked, state)
    index = np.flatnonzero(np.random.default_rng(1).random(rows) < SHARE)
    some = {name: found.take(pa.array(index)) for name, found in data.items()}
    sampled = replace(every, sample=sample_of(some, group[index], 1, rows))
    truth = measure([draw(every, every.weights, rows_per_file=rows)], layout, queries)
    found = measure(draws_of(sampled), layout, queries)
    assert truth.costs.files.tolist() == [1] * len(queries)
    assert found.costs.files.mean() == pytest.approx(1, abs=0.02)
    assert found.touched[column] == pytest.approx(truth.touched[column], rel=0.05)


def test_bounds_of_a_group_are_not_those_of_each_of_its_partitions() -> None:
    """The table is no longer partitioned, and will be again, so that all files are one group."""
    rows, parts = 2_000, 4
    part = np.arange(rows) * parts // rows
    data = {"part": pa.array(part), "time": pa.array(np.arange(rows))}
    partitions = [Partition(0, FIELDS, (n,)) for n in range(parts)]
    state = table_state(data, part, partitions=partitions, partition=list(range(parts)))
    layout, group = make_layout("time"), np.zeros(parts, np.int64)
    columns, targets = state.columns_of(("time",)), np.array([parts])
    rewrite = Rewrite(layout, state.files, group, targets, columns, FIELDS, sample_of(data, part))
    files = new_files(draw(rewrite, rewrite.weights, rows_per_file=rows), layout)
    assert files.bounds["time"].lower.to_pylist() == [0, 500, 1000, 1500]
    assert files.bounds["time"].upper.to_pylist() == [499, 999, 1499, 1999]
