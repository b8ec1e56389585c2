"""Widened types, far dates, and names that Spark and deltalake read differently, on real Delta tables."""

from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from spark.subjects import DeltaSubject
from support.builders import make_layout

from zlayout.errors import Location
from zlayout.formats.base import Commit
from zlayout.predicate.evaluate import answers, known
from zlayout.predicate.parse import parse_where
from zlayout.session.sampling import draw_sample
from zlayout.spark import versions
from zlayout.spec.model import TableName
from zlayout.table.partition import FarTime

LAYOUT = make_layout("a", "b", target_size=20_000)
NATIVE = make_layout("a", "b", curve="zorder", target_size=20_000, engine="native")
both_engines = pytest.mark.parametrize("engine", ["zlayout", pytest.param("native", marks=pytest.mark.long)])
WIDENING = (
    "'delta.enableTypeWidening'='true', 'delta.enableRowTracking'='true', 'delta.enableDeletionVectors'='true', "
    "'delta.feature.timestampNtz'='supported'"
)
OLD = {"a": "int", "b": "smallint", "f": "float", "d": "date", "m": "decimal(6,2)", "p": "int"}
WIDENED = {"a": "bigint", "b": "int", "f": "double", "d": "timestamp_ntz", "m": "decimal(10,4)", "p": "bigint"}


@pytest.fixture
def table(delta: DeltaSubject) -> DeltaSubject:
    return replace(delta, layout=LAYOUT)


@pytest.mark.skipif(versions.numbers(versions.installed().delta) < (4, 0), reason="type widening needs Delta 4")
@pytest.mark.parametrize(
    ("engine", "keys"),
    [
        ("zlayout", ("a", "b")),
        pytest.param("native", ("a", "b"), marks=pytest.mark.long),
        pytest.param("zlayout", ("f", "d"), marks=pytest.mark.long),
        pytest.param("zlayout", ("m", "b"), marks=pytest.mark.long),
    ],
)
def test_files_from_before_a_type_was_widened(table: DeltaSubject, engine: str, keys: tuple[str, ...]) -> None:
    columns = ", ".join(f"{name} {kind}" for name, kind in OLD.items())
    table.sql(f"create table {table} ({columns}) using delta partitioned by (p) tblproperties ({WIDENING})")
    values = ("id", "id % 60", "id / 7", "date_add(date'2020-01-01', int(id))", "id / 100", "id % 2")
    for start in (0, 200):
        picked = [f"cast({v} as {kind}) {name}" for v, (name, kind) in zip(values, OLD.items(), strict=True)]
        table.append(table.spark.range(start, start + 200, 1, 2).selectExpr(*picked))
    for name, kind in WIDENED.items():
        table.sql(f"alter table {table} alter column {name} type {kind}")
    values = (
        "id + 5000000000",
        "id + 100000",
        "id / 7d",
        "timestamp_ntz'2026-01-01 10:00:00'",
        "id / 1000",
        "id % 2 + 4e9",
    )
    picked = [f"cast({v} as {kind}) {name}" for v, (name, kind) in zip(values, WIDENED.items(), strict=True)]
    table.append(table.spark.range(0, 200, 1, 2).selectExpr(*picked))
    table.sql(f"delete from {table} where b = 3")

    before, state = table.rows("*, _metadata.row_id"), table.observe(*keys)
    assert {p.values for p in state.files.partitions} == {(0,), (1,), (4_000_000_000,), (4_000_000_001,)}
    highest = {"a": 5_000_000_199, "b": 100_199, "m": Decimal("3.9900")}
    assert {k: max(state.files.bounds[k].upper.to_pylist()) for k in keys if k in highest} == {
        k: v for k, v in highest.items() if k in keys
    }
    sample = table.backend.sample_keys(table.name, state, np.arange(len(state.files)), keys, 10**6, 1)
    assert {k: (v.type, v.null_count) for k, v in sample.keys.items()} == {
        k: (state.files.bounds[k].lower.type, 0) for k in keys
    }
    layout = make_layout(*keys, curve="zorder", target_size=20_000, engine=engine)
    done = table.run(state, layout, verify="full")
    assert sum(d.files_removed for d in done if isinstance(d, Commit)) == len(state.files)
    assert table.rows("*, _metadata.row_id") == before
    after = table.observe(*keys)
    assert all(bounds.lower.null_count == 0 for bounds in after.files.bounds.values())
    assert {p.values for p in after.files.partitions} == {p.values for p in state.files.partitions}


FAR = {
    "date": ("make_date(10001, 2, 4)", "make_date(-4, 1, 1)", "+10001-02-04", "-0004-01-01"),
    "timestamp": (
        "timestamp_seconds(253436860800)",
        "timestamp_seconds(569000000000)",
        "+10001-02-04T00:00:00.000000Z",
        "+20000-11-22T03:33:20.000000Z",
    ),
    "timestamp_ntz": (
        "cast(timestamp_seconds(253436860800) as timestamp_ntz)",
        "cast(timestamp_seconds(-62300000000) as timestamp_ntz)",
        "+10001-02-04T00:00:00.000000",
        "-0005-10-17T04:26:40.000000",
    ),
}


@both_engines
@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.long] * (kind == "timestamp_ntz")) for kind in FAR]
)
def test_partitions_of_years_that_python_does_not_have(table: DeltaSubject, kind: str, engine: str) -> None:
    late, early, late_text, early_text = FAR[kind]
    table.sql(f"create table {table} (a bigint, b int, p {kind}) using delta partitioned by (p)")
    for value in (late, early, f"cast('2026-01-01' as {kind})", "null"):
        for _ in range(2):
            table.sql(f"insert into {table} select /*+ coalesce(1) */ id, int(id % 7), {value} from range(50)")
    columns = "a, b, cast(p as string)"
    before, state = table.rows(columns), table.observe("a", "b")
    values = {p.values[0] for p in state.files.partitions}
    assert {str(v) for v in values if isinstance(v, FarTime)} == {late_text, early_text}
    # nothing is concluded from a value that is not compared
    found = answers(parse_where("p > DATE '2025-01-01'", Location("t.yaml")), known(state.files.partitions))
    of_value = {str(p.values[0]): found[at] for at, p in enumerate(state.files.partitions)}
    assert (of_value[late_text], of_value[early_text], of_value["None"]) == (None, None, False)
    chosen = [at for at, p in enumerate(state.files.partitions) if isinstance(p.values[0], FarTime)]
    done = table.run(state, NATIVE if engine == "native" else LAYOUT, partitions=chosen, files=1, verify="full")
    assert sum(d.files_removed for d in done if isinstance(d, Commit)) == 4
    after = table.observe("a", "b")
    assert (table.rows(columns), {p.values[0] for p in after.files.partitions}) == (before, values)
    assert len(after.files) == 6


def test_far_dates_have_an_order(table: DeltaSubject) -> None:
    rows = "id a, date_add(date'9990-01-01', int(id * 7919 % 20000)) b"
    table.sql(f"create table {table} using delta as select {rows} from range(0, 20000, 1, 4)")
    before, state = table.rows("a, cast(b as string)"), table.observe("a", "b")
    done = table.run(state, make_layout("b", target_size=20_000))
    assert any(isinstance(d, Commit) for d in done)
    assert table.rows("a, cast(b as string)") == before


def test_folders_with_percent_signs(table: DeltaSubject) -> None:
    at = replace(table, name=TableName("lake", ("db", "100%"), table.name.name))
    path = table.project.root / "delta" / "db" / "100%" / table.name.name
    rows = ["id a", "int(id * 7919 % 60) b", "concat('x%', id % 2, '%20') `p%q`"]
    table.spark.range(0, 300, 1, 3).selectExpr(*rows).write.format("delta").partitionBy("p%q").save(str(path))
    before, state = _rows(at, path), at.observe("a", "b")
    assert {p.values for p in state.files.partitions} == {("x%0%20",), ("x%1%20",)}
    sample = at.backend.sample_keys(at.name, state, np.arange(len(state.files)), ("a",), 10**6, 1)
    assert len(sample) == 300
    done = at.run(state, verify="full")
    assert sum(d.files_removed for d in done if isinstance(d, Commit)) == 6
    assert _rows(at, path) == before
    assert (at.observe().files.layout >= 0).all()


def _rows(table: DeltaSubject, path: Path) -> list[Any]:
    return sorted(map(tuple, table.spark.read.format("delta").load(str(path)).collect()))


@both_engines
def test_a_sample_of_a_table_with_a_column_named_as_the_metadata(table: DeltaSubject, engine: str) -> None:
    columns = "id a, int(id * 7919 % 60) b, named_struct('file_path', 'here', 'row_id', 7L) _metadata, id % 2 p"
    properties = "tblproperties ('delta.enableRowTracking'='true')"
    select = f"select {columns} from range(0, 400, 1, 4)"
    table.sql(f"create table {table} using delta partitioned by (p) {properties} as {select}")
    before, state = table.rows("a, b, _metadata, p"), table.observe("a", "b")
    sample = draw_sample(table.backend, table.name, state, ["a"], 400, 1)
    keys = sample.keys["a"].to_numpy()
    in_partition = {
        p.values[0]: set((keys[state.files.partition[sample.file] == at] % 2).tolist())
        for at, p in enumerate(state.files.partitions)
    }
    assert in_partition == {0: {0}, 1: {1}}
    assert any(isinstance(d, Commit) for d in table.run(state, NATIVE if engine == "native" else LAYOUT))
    assert table.rows("a, b, _metadata, p") == before
