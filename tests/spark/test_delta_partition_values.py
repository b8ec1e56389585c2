"""What Delta reads as one value and writes as another, on either side of the gate: refused, or kept as it is."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from spark.subjects import DeltaSubject
from support.builders import make_layout

from zlayout.errors import EngineError, Refused
from zlayout.formats.base import Commit
from zlayout.formats.delta.write import repartition as partition_values
from zlayout.spark.jvm import jvm_of, session_conf
from zlayout.table.state import PartitionField

LAYOUTS = {engine: make_layout("a", "b", target_size=20_000, engine=engine) for engine in ("zlayout", "native")}


@pytest.fixture
def table(delta: DeltaSubject) -> DeltaSubject:
    return replace(delta, layout=LAYOUTS["zlayout"], files=1)


@pytest.mark.parametrize("engine", ["zlayout", "native"])
def test_an_empty_string_that_another_writer_left_as_a_partition_value_never_becomes_null(
    table: DeltaSubject, engine: str
) -> None:
    rows = pa.table({"a": [1, 2, 3], "b": [1, 2, 3], "p": ["", "eu", None]})
    write_deltalake(str(table.path), rows, partition_by=["p"])
    before, state = table.rows(), table.observe()
    assert (1, 1, "") in before
    with pytest.raises(Refused, match=r"ZL217 .*: 1 files have an empty string in the partition column p"):
        table.run(state, LAYOUTS[engine], properties=(("note", "zlayout"),))
    eu = next(at for at, partition in enumerate(state.files.partitions) if partition.values == ("eu",))
    whole = table.work(state, LAYOUTS[engine])
    with pytest.raises(Refused, match="ZL217"):  # in a later part than the first one, whose files are those of "eu"
        list(table.execute(whole.with_rewrites(r for r in whole.plan.groups if r.id == f"g{eu}")))
    assert table.rows() == before
    assert table.observe().version == state.version
    assert any(isinstance(outcome, Commit) for outcome in table.run(state, partitions=[eu]))
    assert table.rows() == before


@pytest.mark.parametrize("change", ["none", "unpartition"])
def test_partition_times_without_a_zone_are_refused(table: DeltaSubject, change: str) -> None:
    """As Delta wrote them before 3.3, in the zone of the session, which the log does not name."""
    name = "spark.databricks.delta.write.utcTimestampPartitionValues"
    select = "select id a, id b, timestamp'2024-01-01 10:00:00' t from range(20)"
    table.spark.conf.set(name, "false")
    try:
        table.sql(f"create table {table} using delta partitioned by (t) as {select}")
    finally:
        table.spark.conf.unset(name)
    before, state = table.rows(), table.observe()
    changes = {"partition_by": ()} if change == "unpartition" else {}
    with pytest.raises(Refused, match=r"ZL218 .* a timestamp without a time zone in the partition column t"):
        table.run(state, **changes)
    assert table.rows() == before
    assert table.observe().version == state.version


@pytest.mark.parametrize("change", ["zlayout", "native", "unpartition"])
def test_partition_times_without_a_zone_are_rewritten_in_the_declared_one(table: DeltaSubject, change: str) -> None:
    legacy = {"spark.databricks.delta.write.utcTimestampPartitionValues": "false", "spark.sql.session.timeZone": "UTC"}
    select = "select id a, id b, timestamp_seconds(1729989000 + id % 2 * 3600) t from range(20)"
    with session_conf(table.spark, legacy):
        table.sql(f"create table {table} using delta partitioned by (t) as {select}")
        table.sql(f"insert into {table} {select}")
        before = table.rows("a, b, unix_seconds(t)")
    state = table.observe()
    changes: dict[str, Any] = {"partition_by": ()} if change == "unpartition" else {}
    with session_conf(table.spark, BERLIN):  # in which both times are 02:30, and were read as another instant
        assert table.rows("a, b, unix_seconds(t)") != before
        layout = LAYOUTS["native" if change == "native" else "zlayout"]
        done = table.run(state, layout, partition_timezone="UTC", verify="full", **changes)
        assert any(isinstance(commit, Commit) for commit in done)
        assert table.rows("a, b, unix_seconds(t)") == before
        assert table.spark.conf.get("spark.sql.session.timeZone") == "Europe/Berlin"
    if change != "unpartition":
        adds = [json.loads(line)["add"] for line in _log_lines(table.path) if '"add"' in line]
        assert {add["partitionValues"]["t"][-1] for add in adds[-2:]} == {"Z"}


def test_partition_times_in_utc_are_rewritten(table: DeltaSubject) -> None:
    select = "select id a, id b, if(id < 9, timestamp'2024-01-01 10:00:00', null) t from range(20)"
    table.sql(f"create table {table} using delta partitioned by (t) as {select}")
    before, state = table.rows(), table.observe()
    assert any(isinstance(outcome, Commit) for outcome in table.run(state))
    assert table.rows() == before


@pytest.mark.parametrize("engine", ["zlayout", "native"])
@pytest.mark.parametrize("partitioned", [False, True])
def test_a_generated_column_is_rewritten_in_the_time_zone_of_its_writers(
    table: DeltaSubject, engine: str, partitioned: bool
) -> None:
    # the Python package delta would change how pyspark raises conflicts, in this whole process
    jsession, tables = table.spark._jsparkSession, jvm_of(table.spark).io.delta.tables.DeltaTable
    builder = tables.create(jsession).location(str(table.path))
    for name, kind in (("a", "bigint"), ("b", "bigint"), ("t", "timestamp")):
        builder = builder.addColumn(name, kind)
    day = tables.columnBuilder(jsession, "d").dataType("date").generatedAlwaysAs("cast(t as date)").build()
    builder = builder.addColumn(day)
    if partitioned:
        names = table.spark.sparkContext._gateway.new_array(table.spark.sparkContext._jvm.String, 1)
        names[0] = "d"
        builder = builder.partitionedBy(names)
    builder.execute()
    elsewhere = {"spark.sql.session.timeZone": "America/New_York"}
    with session_conf(table.spark, elsewhere):
        for number in range(2):
            times = table.spark.range(100).selectExpr("id a", "id b", f"timestamp_seconds(id * 3600 + {number}) t")
            table.append(times)
    before, state = table.rows(), table.observe("t")
    with pytest.raises(EngineError, match=r"ZL314 .*DELTA_VIOLATE_CONSTRAINT.*set spark.sql.session.timeZone"):
        table.run(state, LAYOUTS[engine])
    with session_conf(table.spark, elsewhere):
        done = table.run(state, LAYOUTS[engine])
    assert sum(d.files_removed for d in done if isinstance(d, Commit)) == len(state.files)
    assert table.rows() == before
    after = table.observe("t")
    assert sorted({p.values for p in after.files.partitions}) == sorted({p.values for p in state.files.partitions})
    (low, high) = (pc.min(after.files.bounds["t"].lower), pc.max(after.files.bounds["t"].upper))
    assert (low.as_py(), high.as_py()) == (datetime(1970, 1, 1, tzinfo=UTC), datetime(1970, 1, 5, 3, 0, 1, 1000, UTC))


@pytest.mark.parametrize("engine", ["zlayout", "native"])
def test_a_generated_column_of_writers_without_ansi_mode(table: DeltaSubject, engine: str) -> None:
    """As Spark 3 computes them by default: a value that cannot be cast is null, and not an error."""
    without = {"spark.sql.ansi.enabled": "false"}
    with session_conf(table.spark, without):
        columns = "a bigint, b string, d date generated always as (cast(b as date))"
        table.sql(f"create table {table} ({columns}) using delta")
        for start in (0, 50):
            rows = f"select id, if(id % 3 = 0, 'unknown', '2024-01-01') from range({start}, {start + 50}, 1, 2)"
            table.sql(f"insert into {table} (a, b) {rows}")
    before, state = table.rows(), table.observe()
    with pytest.raises(EngineError, match=r"ZL314 .*CAST_INVALID_INPUT") as failed:
        table.run(state, LAYOUTS[engine])
    assert "spark.sql.ansi.enabled" in failed.value.diagnostics[0].hint
    assert table.observe().version == state.version
    with session_conf(table.spark, without):
        assert any(isinstance(outcome, Commit) for outcome in table.run(state, LAYOUTS[engine], verify="full"))
    assert table.rows() == before


@pytest.mark.parametrize("engine", ["zlayout", "native", "repartition"])
def test_char_values_are_stored_as_they_came(table: DeltaSubject, engine: str) -> None:
    """Spark pads them as it reads; other readers find what is stored."""
    table.sql(f"create table {table} (a int, b int, c char(5), p char(3)) using delta partitioned by (p)")
    for at in range(4):
        table.sql(f"insert into {table} values ({at}, {3 - at}, 'ab', 'x')")
    state = table.observe()
    assert set(_stored(table.path, "c")) == {"ab"}
    changes = {"partition_by": (PartitionField("c"),)} if engine == "repartition" else {}
    native = "native" if engine == "native" else "zlayout"
    table.run(state, LAYOUTS[native], verify="full", **changes)
    written = DeltaTable(str(table.path))
    assert len(written.file_uris()) < 4
    adds = [json.loads(line)["add"] for line in _log_lines(table.path) if '"add"' in line]
    (column,) = written.metadata().partition_columns
    assert {add["partitionValues"][column] for add in adds[-1:]} == {"ab" if column == "c" else "x"}
    assert set(_stored(table.path, "p" if column == "c" else "c")) == {"x" if column == "c" else "ab"}


def _stored(path: Path, column: str) -> list[str]:
    """The values in the live files."""
    files = [pq.ParquetFile(uri.removeprefix("file://")).read() for uri in DeltaTable(str(path)).file_uris()]
    return pa.concat_tables(files)[column].to_pylist()  # type: ignore[no-any-return]


def _log_lines(path: Path) -> list[str]:
    return [line for commit in sorted((path / "_delta_log").glob("*.json")) for line in commit.read_text().splitlines()]


BERLIN = {"spark.sql.session.timeZone": "Europe/Berlin"}


@pytest.mark.parametrize("engine", ["zlayout", "native"])
@pytest.mark.parametrize("utc", ["true", "false"])
def test_an_hour_that_clocks_show_twice_stays_two_partitions(table: DeltaSubject, engine: str, utc: str) -> None:
    """Spark names a partition's folder by the session's clock, and Delta reads the value from that name."""
    select = "select id a, id b, timestamp_seconds(1729989000 + id % 2 * 3600) t from range(20)"
    table.sql(f"create table {table} using delta partitioned by (t) as {select}")
    before, state = table.rows(), table.observe()
    assert len(state.files.partitions) == 2
    with (
        session_conf(table.spark, BERLIN),
        pytest.raises(Refused, match=r"ZL218 .*: \d files have a timestamp in the partition column t in an hour"),
    ):
        table.run(state, LAYOUTS[engine], properties=(("note", "zlayout"),))
    assert table.observe().version == state.version
    with session_conf(table.spark, {"spark.databricks.delta.write.utcTimestampPartitionValues": utc}):
        assert any(isinstance(outcome, Commit) for outcome in table.run(state, LAYOUTS[engine]))
    assert table.rows() == before
    after = table.observe()
    assert sorted(p.values for p in after.files.partitions) == sorted(p.values for p in state.files.partitions)


def test_partition_values_that_the_log_would_change_are_read_back(table: DeltaSubject, monkeypatch: Any) -> None:
    select = "select id a, id b, timestamp_seconds(1729989000 + id % 2 * 3600) t from range(20)"
    table.sql(f"create table {table} using delta partitioned by (t) as {select}")
    before, state = table.rows(), table.observe()
    monkeypatch.setattr(partition_values, "refuse_changing_values", lambda *_: None)
    with session_conf(table.spark, BERLIN), pytest.raises(EngineError, match=r"ZL310 .*contain other rows"):
        table.run(state)
    assert table.rows() == before
    assert table.observe().version == state.version


def test_the_name_of_a_folder_without_a_value_is_no_value(table: DeltaSubject) -> None:
    name = "__HIVE_DEFAULT_PARTITION__"
    write_deltalake(str(table.path), pa.table({"a": [1, 2], "b": [1, 2], "p": [name, "eu"]}), partition_by=["p"])
    before, state = table.rows(), table.observe()
    if (1, 1, name) in before:
        with pytest.raises(Refused, match="ZL217"):
            table.run(state)
    else:
        table.run(state)
    assert table.rows() == before
