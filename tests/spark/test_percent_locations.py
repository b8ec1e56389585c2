"""Tables in folders whose names look like escapes, beside a table in the folder that a decoder would choose."""

import shutil
from dataclasses import replace
from urllib.parse import unquote

import pytest
from spark.sample_tables import create_delta
from spark.subjects import DeltaSubject, IcebergSubject
from support.builders import make_layout, make_spec
from support.runs import plan_and_apply
from support.unreferenced import unreferenced

from zlayout.session.sampling import SAMPLE_BYTES, sampled

LAYOUT = make_layout("a", "b", target_size=4_000)
FOLDERS = ("a%20b", "%41")
both_engines = pytest.mark.parametrize("engine", ["zlayout", pytest.param("native", marks=pytest.mark.long)])


@pytest.mark.long
@both_engines
def test_delta(delta: DeltaSubject, engine: str) -> None:
    """The decoy is a copy of the table with the same id: whatever read or wrote it would not notice."""
    table = replace(delta, name=replace(delta.name, namespace=FOLDERS))
    create_delta(table, 600)
    decoy = delta.project.root / unquote(str(table.path.relative_to(delta.project.root)))
    shutil.copytree(table.path, decoy)
    table.sql(f"delete from {table} where id = 11")
    rows, before = table.rows("id, a, b, p"), sorted(decoy.rglob("*"))
    spec = make_spec(replace(LAYOUT, curve="zorder", engine=engine), table.name)
    planned, applied = plan_and_apply(spec, table.backend, verify="full")
    assert (planned.plan.rows, applied.after.status) == (len(rows), "unchanged")
    assert table.rows("id, a, b, p") == rows
    assert all((table.path / unquote(file)).exists() for file in table.observe().files.path.to_pylist())
    decision = sampled(planned, table.backend, SAMPLE_BYTES)
    assert "ZL410" not in [d.code for d in decision.plan.diagnostics]
    undo = table.backend.undo(table.name, None)
    table.backend.roll_back(undo, "undo", {}, lambda _: None)
    assert table.rows("id, a, b, p") == rows
    assert unreferenced(table.project.catalogs[table.name.catalog], table.name) == []
    assert sorted(decoy.rglob("*")) == before
    shutil.rmtree(decoy)
    assert table.observe().version == max(table.history())


@both_engines
def test_iceberg(iceberg: IcebergSubject, engine: str) -> None:
    table = replace(iceberg, name=replace(iceberg.name, namespace=("a%20b",)))
    spark = table.spark
    spark.sql(f"create namespace if not exists ice.`{table.name.namespace[0]}`")
    quoted = f"ice.`a%20b`.{table.name.name}"
    spark.sql(f"create table {quoted} (id bigint, a bigint, b int) using iceberg")
    for number in range(6):
        rows = spark.range(number * 200, number * 200 + 200, 1, 1)
        rows.selectExpr("id", "id * 7919 % 600 a", "int(id % 60) b").writeTo(quoted).append()
    spec = make_spec(replace(LAYOUT, curve="linear", engine=engine), table.name)
    planned, applied = plan_and_apply(spec, table.backend, verify="full")
    state = table.observe("a")
    assert "a%20b" in state.location
    assert (planned.plan.rows, applied.after.status) == (1200, "unchanged")
    decision = sampled(planned, table.backend, SAMPLE_BYTES)
    assert "ZL410" not in [d.code for d in decision.plan.diagnostics]
    assert spark.table(quoted).count() == 1200
    assert unreferenced(table.project.catalogs[table.name.catalog], table.name) == []
