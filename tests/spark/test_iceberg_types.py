"""Types and default values of Iceberg's format version 3, through plan and rewrite."""

from typing import Any

import numpy as np
import pytest
from spark.sample_tables import MERGE_ON_READ
from spark.subjects import IcebergSubject
from support.builders import make_layout

from zlayout.errors import Refused
from zlayout.formats.base import Commit
from zlayout.formats.iceberg.backend import VECTORIZED
from zlayout.formats.iceberg.write.staging import require_types
from zlayout.spark import versions
from zlayout.spark.jvm import session_conf
from zlayout.table.partition import FarTime

JSON = """parse_json('{"k": ' || id || ', "x": [1.5, "t", null]}')"""
POINT = "X'0101000000000000000000F03F0000000000000040'"
VARIANTS = {
    "top": ("variant", JSON),
    "struct": ("struct<v: variant>", f"named_struct('v', {JSON})"),
    "list": ("array<variant>", f"array({JSON}, null)"),
    "map": ("map<string, variant>", f"map('k', {JSON})"),
}
pytestmark = pytest.mark.skipif(
    versions.numbers(versions.installed().iceberg or "0.0") < (1, 12)
    or versions.numbers(versions.installed().spark) < (4, 1),
    reason="these types need Spark 4.1 and Iceberg 1.12",
)


@pytest.fixture
def table(iceberg: IcebergSubject) -> IcebergSubject:
    return iceberg


def create(table: IcebergSubject, kind: str = "", properties: str = MERGE_ON_READ) -> None:
    """A table of format version 3, with a column `x` if it has a type."""
    columns = "id bigint, a bigint, b int" + (f", x {kind}" if kind else "")
    table.sql(f"create table {table} ({columns}) using iceberg tblproperties ('format-version'='3', {properties})")


def append(table: IcebergSubject, start: int, *more: str) -> None:
    """One file of 100 rows. more: expressions of further columns."""
    table.append(
        table.spark.range(start, start + 100, 1, 1).selectExpr("id", "id * 7919 % 600 a", "int(id % 60) b", *more)
    )


def add(table: IcebergSubject, kind: Any, *default: Any) -> None:
    """Add a column `x` of a Java type."""
    table.java_table().updateSchema().addColumn("x", kind, *default).commit()
    table.sql(f"refresh table {table}")


def rewritten_equal(table: IcebergSubject, x: str) -> None:
    """Delete a tenth of the rows, rewrite all files, and compare rows, row ids and sequence numbers."""
    columns = f"id, a, b, {x}, _row_id, _last_updated_sequence_number"
    with session_conf(table.spark, {VECTORIZED: "false"}):
        table.sql(f"delete from {table} where id % 10 = 3")
        before = table.rows(columns)
    state = table.observe("a", "b")
    assert len(table.backend.sample_source(table.name, state, 1).frame.limit(1).collect()) == 1
    sample = table.backend.sample_keys(table.name, state, np.arange(len(state.files)), ("a",), 10**6, 1)
    assert sample.keys["a"].to_pylist()
    assert "deletion-vectors" in state.features
    assert set(state.files.bounds) == {"a", "b"}
    (done,) = table.run(state, verify="full")
    assert isinstance(done, Commit)
    assert (done.rows, done.files_added) == (len(before), 2)
    with session_conf(table.spark, {VECTORIZED: "false"}):
        assert table.rows(columns) == before
    assert table.observe().files.deleted.sum() == 0


def test_a_table_without_a_snapshot_is_read_in_spark(iceberg: IcebergSubject) -> None:
    iceberg.sql(f"create table {iceberg} (a int) using iceberg")
    assert iceberg.backend.sample_source(iceberg.name, iceberg.observe(), 1).frame.collect() == []


@pytest.mark.parametrize("where", VARIANTS)
def test_variants_are_kept(table: IcebergSubject, where: str) -> None:
    kind, value = VARIANTS[where]
    create(table, kind)
    append(table, 0, f"{value} x")
    append(table, 100, f"cast(null as {kind}) x")
    (column,) = [c for c in table.observe().columns if c.name.startswith("x")]
    assert not column.orderable
    rewritten_equal(table, "to_json(x)")


def test_variants_are_kept_by_engine_native(table: IcebergSubject) -> None:
    native = make_layout("a", "b", curve="zorder", engine="native")
    kind, value = VARIANTS["list"]
    create(table, kind)
    append(table, 0, f"{value} x")
    append(table, 100, f"cast(null as {kind}) x")
    with session_conf(table.spark, {VECTORIZED: "false"}):
        before = table.rows("id, a, b, to_json(x), _row_id")
    done = table.run(layout=native)
    assert [type(commit) for commit in done] == [Commit] * len(done) != []
    with session_conf(table.spark, {VECTORIZED: "false"}):
        assert table.rows("id, a, b, to_json(x), _row_id") == before


def test_shredded_variants_are_kept(table: IcebergSubject) -> None:
    create(table, "variant", f"{MERGE_ON_READ}, 'write.parquet.shred-variants'='true'")
    append(table, 0, f"{JSON} x")
    append(table, 100, f"{JSON} x")
    rewritten_equal(table, "to_json(x)")


def test_a_variant_column_is_missing_in_old_files(table: IcebergSubject) -> None:
    create(table)
    append(table, 0)
    add(table, table.jvm.iceberg.types.Types.VariantType.get())
    append(table, 100, f"{JSON} x")
    rewritten_equal(table, "to_json(x)")


def test_an_unknown_column_is_kept(table: IcebergSubject) -> None:
    create(table)
    append(table, 0)
    add(table, table.jvm.iceberg.types.Types.UnknownType.get())
    append(table, 100, "null x")
    rewritten_equal(table, "x")
    assert str(table.java_table().schema().findField("x").type()) == "unknown"


@pytest.mark.parametrize("kind", ["geometry", "geography"])
def test_geometries_are_kept(table: IcebergSubject, kind: str) -> None:
    create(table)
    append(table, 0)
    types = table.jvm.iceberg.types.Types
    add(table, (types.GeometryType if kind == "geometry" else types.GeographyType).crs84())
    value = f"st_setsrid(st_geomfromwkb({POINT}), 4326)" if kind == "geometry" else f"st_geogfromwkb({POINT})"
    with session_conf(table.spark, {"spark.sql.geospatial.enabled": "true"}):
        append(table, 100, f"{value} x")
        rewritten_equal(table, "st_asbinary(x), st_srid(x)")


def test_rows_of_old_files_keep_default_values(table: IcebergSubject) -> None:
    create(table)
    append(table, 0)
    add(table, table.jvm.iceberg.types.Types.StringType.get(), "", table.jvm.iceberg.expressions.Expressions.lit("old"))
    append(table, 100, "if(id % 2 = 0, 'new', null) x")
    assert {row[0] for row in table.rows("distinct x")} == {"old", "new", None}
    rewritten_equal(table, "x")
    table.sql(f"insert into {table} (id, a, b) values (1000, 1, 1)")
    assert table.rows("x", "id = 1000") == [("old",)]


@pytest.mark.parametrize("kind", ["timestamp_ns", "geometry(srid:3857)"])
def test_types_that_spark_does_not_read_are_refused(table: IcebergSubject, kind: str) -> None:
    create(table)
    append(table, 0)
    types = table.jvm.iceberg.types.Types
    java = types.TimestampNanoType.withoutZone() if kind == "timestamp_ns" else types.GeometryType.of("srid:3857")
    table.java_table().updateSchema().addColumn("x", java).commit()
    (refusal,) = table.observe().refusals
    assert (refusal.code, refusal.message.rpartition(": ")[2]) == ("ZL227", f"x ({kind})")
    with pytest.raises(Refused, match="ZL227"):
        table.run(properties=(("team", "x"),))
    # an older Iceberg reads fewer types than the plan allows
    with pytest.raises(Refused, match=r"ZL227 the Iceberg .* x "):
        require_types(table.jvm, table.name)
    assert "team" not in table.observe().properties


@pytest.mark.parametrize("engine", ["zlayout", "native"])
@pytest.mark.parametrize("kind", ["date", "timestamp", "timestamp_ntz"])
def test_partitions_of_years_that_python_does_not_have(table: IcebergSubject, kind: str, engine: str) -> None:
    columns = f"id bigint, a bigint, b int, x {kind}"
    table.sql(f"create table {table} ({columns}) using iceberg partitioned by (x) tblproperties ('format-version'='3')")
    for seconds in (253436860800, -62300000000, 0):
        for start in (0, 100):
            append(table, start, f"cast(timestamp_seconds({seconds}) as {kind}) x")
    before, state = table.rows("id, a, b, cast(x as string)"), table.observe("a", "b")
    far = [at for at, p in enumerate(state.files.partitions) if isinstance(p.values[0], FarTime)]
    assert sorted(str(state.files.partitions[at].values[0])[:6] for at in far) == ["+10001", "-0005-"]
    layout = make_layout("a", "b", curve="zorder", engine=engine)
    done = [d for d in table.run(state, layout, partitions=far, files=1) if isinstance(d, Commit)]
    assert sum(d.files_removed for d in done) == 4
    after = table.observe()
    assert table.rows("id, a, b, cast(x as string)") == before
    assert {p.values for p in after.files.partitions} == {p.values for p in state.files.partitions}
