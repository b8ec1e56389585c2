"""What Delta reads as one value and writes as another, on either side of the gate: refused, or kept as it is."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession
from support.builders import make_layout

from zlayout.errors import EngineError, Refused
from zlayout.formats.base import Commit, Group, Progress, Work
from zlayout.formats.delta.backend import DeltaBackend
from zlayout.formats.delta.write import partition_values
from zlayout.spark.jvm import jvm_of, session_conf
from zlayout.spark.session import SparkRuntime
from zlayout.spec.model import Project, TableName
from zlayout.table.state import PartitionField, TableState

LAYOUT = make_layout("a", "b", target_size=20_000)


@pytest.fixture(scope="module")
def backend(project: Project, runtime: SparkRuntime) -> DeltaBackend:
    return DeltaBackend(project.catalogs["lake"], runtime)


def silent(_: Progress) -> None:
    """No progress wanted."""


def work_for(table: TableName, state: TableState, engine: str = "zlayout", **changes: Any) -> Work:
    groups = tuple(
        Group(f"g{at}", state.files.take(np.flatnonzero(state.files.partition == at)), 1)
        for at in range(len(state.files.partitions))
    )
    settings: dict[str, Any] = {"properties": (), "partition_by": None, "groups": groups, "covers_table": True}
    return Work(table, replace(LAYOUT, engine=engine), f"run-{table.name}", state.version, **(settings | changes))


def rows(spark: SparkSession, path: Path, what: str = "*") -> list[Any]:
    return sorted(map(tuple, spark.sql(f"select {what} from delta.`{path}`").collect()), key=repr)


@pytest.mark.parametrize("engine", ["zlayout", "native"])
def test_an_empty_string_that_another_writer_left_as_a_partition_value_never_becomes_null(
    spark: SparkSession, backend: DeltaBackend, delta_table: TableName, delta_path: Path, engine: str
) -> None:
    write_deltalake(
        str(delta_path),
        pa.table({"a": [1, 2, 3], "b": [1, 2, 3], "p": ["", "eu", None]}),
        partition_by=["p"],
    )
    before, state = rows(spark, delta_path), backend.observe(delta_table, ())
    assert (1, 1, "") in before
    with pytest.raises(Refused, match=r"ZL217 .*: 1 files have an empty string as their p"):
        list(backend.execute(work_for(delta_table, state, engine, properties=(("note", "zlayout"),)), silent))
    assert rows(spark, delta_path) == before
    assert backend.observe(delta_table, ()).version == state.version
    eu = next(at for at, partition in enumerate(state.files.partitions) if partition.values == ("eu",))
    some = work_for(delta_table, state)
    work = replace(some, groups=(some.groups[eu],), covers_table=False)
    assert any(isinstance(outcome, Commit) for outcome in backend.execute(work, silent))
    assert rows(spark, delta_path) == before


@pytest.mark.parametrize("change", ["none", "unpartition"])
def test_partition_times_without_a_zone_are_refused(
    spark: SparkSession, backend: DeltaBackend, delta_table: TableName, delta_path: Path, change: str
) -> None:
    """As Delta wrote them before 3.3, in the zone of the session, which the log does not name."""
    name = "spark.databricks.delta.write.utcTimestampPartitionValues"
    select = "select id a, id b, timestamp'2024-01-01 10:00:00' t from range(20)"
    spark.conf.set(name, "false")
    try:
        spark.sql(f"create table delta.`{delta_path}` using delta partitioned by (t) as {select}")
    finally:
        spark.conf.unset(name)
    before, state = rows(spark, delta_path), backend.observe(delta_table, ())
    changes = {"partition_by": ()} if change == "unpartition" else {}
    with pytest.raises(Refused, match=r"ZL218 .* a t without a time zone"):
        list(backend.execute(work_for(delta_table, state, **changes), silent))
    assert rows(spark, delta_path) == before
    assert backend.observe(delta_table, ()).version == state.version


def test_partition_times_in_utc_are_rewritten(
    spark: SparkSession, backend: DeltaBackend, delta_table: TableName, delta_path: Path
) -> None:
    select = "select id a, id b, if(id < 9, timestamp'2024-01-01 10:00:00', null) t from range(20)"
    spark.sql(f"create table delta.`{delta_path}` using delta partitioned by (t) as {select}")
    before, state = rows(spark, delta_path), backend.observe(delta_table, ())
    assert any(isinstance(outcome, Commit) for outcome in backend.execute(work_for(delta_table, state), silent))
    assert rows(spark, delta_path) == before


@pytest.mark.parametrize("engine", ["zlayout", "native"])
@pytest.mark.parametrize("partitioned", [False, True])
def test_a_generated_column_is_rewritten_in_the_time_zone_of_its_writers(
    spark: SparkSession,
    backend: DeltaBackend,
    delta_table: TableName,
    delta_path: Path,
    engine: str,
    partitioned: bool,
) -> None:
    # the Python package delta would change how pyspark raises conflicts, in this whole process
    jsession, tables = spark._jsparkSession, jvm_of(spark).io.delta.tables.DeltaTable
    table = tables.create(jsession).location(str(delta_path))
    for name, kind in (("a", "bigint"), ("b", "bigint"), ("t", "timestamp")):
        table = table.addColumn(name, kind)
    day = tables.columnBuilder(jsession, "d").dataType("date").generatedAlwaysAs("cast(t as date)").build()
    table = table.addColumn(day)
    if partitioned:
        names = spark.sparkContext._gateway.new_array(spark.sparkContext._jvm.String, 1)
        names[0] = "d"
        table = table.partitionedBy(names)
    table.execute()
    elsewhere = {"spark.sql.session.timeZone": "America/New_York"}
    with session_conf(spark, elsewhere):
        for number in range(2):
            times = spark.range(100).selectExpr("id a", "id b", f"timestamp_seconds(id * 3600 + {number}) t")
            times.write.format("delta").mode("append").save(str(delta_path))
    before, state = rows(spark, delta_path), backend.observe(delta_table, ("t",))
    with pytest.raises(EngineError, match=r"ZL314 .*DELTA_VIOLATE_CONSTRAINT.*set spark.sql.session.timeZone"):
        list(backend.execute(work_for(delta_table, state, engine), silent))
    with session_conf(spark, elsewhere):
        done = list(backend.execute(work_for(delta_table, state, engine), silent))
    assert sum(d.files_removed for d in done if isinstance(d, Commit)) == len(state.files)
    assert rows(spark, delta_path) == before
    after = backend.observe(delta_table, ("t",))
    assert sorted({p.values for p in after.files.partitions}) == sorted({p.values for p in state.files.partitions})
    (low, high) = (pc.min(after.files.bounds["t"].lower), pc.max(after.files.bounds["t"].upper))
    assert (low.as_py(), high.as_py()) == (datetime(1970, 1, 1, tzinfo=UTC), datetime(1970, 1, 5, 3, 0, 1, 1000, UTC))


@pytest.mark.parametrize("engine", ["zlayout", "native", "repartition"])
def test_char_values_are_stored_as_they_came(
    spark: SparkSession, backend: DeltaBackend, delta_table: TableName, delta_path: Path, engine: str
) -> None:
    """Spark pads them as it reads; other readers find what is stored."""
    spark.sql(f"create table delta.`{delta_path}` (a int, b int, c char(5), p char(3)) using delta partitioned by (p)")
    for at in range(4):
        spark.sql(f"insert into delta.`{delta_path}` values ({at}, {3 - at}, 'ab', 'x')")
    state = backend.observe(delta_table, ())
    assert set(_stored(delta_path, "c")) == {"ab"}
    changes = {"partition_by": (PartitionField("c"),)} if engine == "repartition" else {}
    native = "native" if engine == "native" else "zlayout"
    list(backend.execute(work_for(delta_table, state, native, verify="full", **changes), silent))
    table = DeltaTable(str(delta_path))
    assert len(table.file_uris()) < 4
    adds = [json.loads(line)["add"] for line in _log_lines(delta_path) if '"add"' in line]
    (column,) = table.metadata().partition_columns
    assert {add["partitionValues"][column] for add in adds[-1:]} == {"ab" if column == "c" else "x"}
    assert set(_stored(delta_path, "p" if column == "c" else "c")) == {"x" if column == "c" else "ab"}


def _stored(path: Path, column: str) -> list[str]:
    """The values in the live files."""
    files = [pq.ParquetFile(uri.removeprefix("file://")).read() for uri in DeltaTable(str(path)).file_uris()]
    return pa.concat_tables(files)[column].to_pylist()  # type: ignore[no-any-return]


def _log_lines(path: Path) -> list[str]:
    return [line for commit in sorted((path / "_delta_log").glob("*.json")) for line in commit.read_text().splitlines()]


BERLIN = {"spark.sql.session.timeZone": "Europe/Berlin"}


@pytest.mark.parametrize("engine", ["zlayout", "native"])
@pytest.mark.parametrize("utc", ["true", "false"])
def test_an_hour_that_clocks_show_twice_stays_two_partitions(
    spark: SparkSession, backend: DeltaBackend, delta_table: TableName, delta_path: Path, engine: str, utc: str
) -> None:
    """Spark names a partition's folder by the session's clock, and Delta reads the value from that name."""
    select = "select id a, id b, timestamp_seconds(1729989000 + id % 2 * 3600) t from range(20)"
    spark.sql(f"create table delta.`{delta_path}` using delta partitioned by (t) as {select}")
    before, state = rows(spark, delta_path), backend.observe(delta_table, ())
    assert len(state.files.partitions) == 2
    with session_conf(spark, BERLIN), pytest.raises(Refused, match=r"ZL218 .*: \d files have a t in an hour"):
        list(backend.execute(work_for(delta_table, state, engine, properties=(("note", "zlayout"),)), silent))
    assert backend.observe(delta_table, ()).version == state.version
    with session_conf(spark, {"spark.databricks.delta.write.utcTimestampPartitionValues": utc}):
        assert any(
            isinstance(outcome, Commit) for outcome in backend.execute(work_for(delta_table, state, engine), silent)
        )
    assert rows(spark, delta_path) == before
    after = backend.observe(delta_table, ())
    assert sorted(p.values for p in after.files.partitions) == sorted(p.values for p in state.files.partitions)


def test_partition_values_that_the_log_would_say_otherwise_are_read_back(
    spark: SparkSession, backend: DeltaBackend, delta_table: TableName, delta_path: Path, monkeypatch: Any
) -> None:
    select = "select id a, id b, timestamp_seconds(1729989000 + id % 2 * 3600) t from range(20)"
    spark.sql(f"create table delta.`{delta_path}` using delta partitioned by (t) as {select}")
    before, state = rows(spark, delta_path), backend.observe(delta_table, ())
    monkeypatch.setattr(partition_values, "refuse_changing_values", lambda *_: None)
    with session_conf(spark, BERLIN), pytest.raises(EngineError, match=r"ZL310 .*hold other rows"):
        list(backend.execute(work_for(delta_table, state), silent))
    assert rows(spark, delta_path) == before
    assert backend.observe(delta_table, ()).version == state.version


def test_the_name_of_a_folder_without_a_value_is_no_value(
    spark: SparkSession, backend: DeltaBackend, delta_table: TableName, delta_path: Path
) -> None:
    name = "__HIVE_DEFAULT_PARTITION__"
    write_deltalake(str(delta_path), pa.table({"a": [1, 2], "b": [1, 2], "p": [name, "eu"]}), partition_by=["p"])
    before, state = rows(spark, delta_path), backend.observe(delta_table, ())
    if (1, 1, name) in before:
        with pytest.raises(Refused, match="ZL217"):
            list(backend.execute(work_for(delta_table, state), silent))
    else:
        list(backend.execute(work_for(delta_table, state), silent))
    assert rows(spark, delta_path) == before
