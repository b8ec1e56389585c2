"""Engine native on Delta: OPTIMIZE with the spec's settings, the record after it, and what survives what."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.fs as pa_fs
import pytest
from deltalake import DeltaTable
from pyspark.errors.exceptions import captured
from pyspark.sql import SparkSession
from support.builders import make_layout, make_spec

from zlayout.app.plan import plan_table
from zlayout.errors import CommitConflict, EngineError, Location, Refused
from zlayout.formats.base import Commit, Group, GroupFailed, Progress, Work
from zlayout.formats.delta.backend import DeltaBackend
from zlayout.formats.delta.write import repartition
from zlayout.formats.delta.write.jvm import DeltaJvm
from zlayout.formats.delta.write.stamp import stamp
from zlayout.planner.decision import PlanOptions
from zlayout.spark.session import SparkRuntime
from zlayout.spec.model import Layout, Project, TableName, ZorderColumn
from zlayout.table.state import PartitionField, TableState

LAYOUT = make_layout("a", "b", curve="zorder", range_ids=500, target_size=20_000, engine="native")
HERE = Location("t.yaml")
MAPPED = (
    "'delta.columnMapping.mode'='name','delta.enableDeletionVectors'='true','delta.enableRowTracking'='true',"
    "'delta.enableInCommitTimestamps'='true','delta.enableChangeDataFeed'='true'"
)


@pytest.fixture(scope="module")
def backend(project: Project, runtime: SparkRuntime) -> DeltaBackend:
    return DeltaBackend(project.catalogs["lake"], runtime)


def silent(_: Progress) -> None:
    """No progress wanted."""


def work_for(table: TableName, state: TableState, layout: Layout = LAYOUT, **changes: Any) -> Work:
    """All files of the state as one group for each partition."""
    groups = tuple(
        Group(f"g{at}", state.files.take(np.flatnonzero(state.files.partition == at)), 4)
        for at in changes.pop("partitions", range(len(state.files.partitions)))
    )
    whole = sum(len(g.files) for g in groups) == len(state.files)
    settings: dict[str, Any] = {"properties": (), "partition_by": None, "groups": groups, "covers_table": whole}
    return Work(table, layout, f"run-{table.name}", state.version, **(settings | changes))


def rows(spark: SparkSession, path: Path, what: str = "*") -> list[Any]:
    return sorted(map(tuple, spark.sql(f"select {what} from delta.`{path}`").collect()), key=repr)


def history(spark: SparkSession, path: Path) -> dict[int, Any]:
    return {row.version: row for row in spark.sql(f"describe history delta.`{path}`").collect()}


def grid(spark: SparkSession, path: Path, count: int = 4000, extra: str = "cast(id % 2 as int) p") -> None:
    """Rows in the order they arrive: a and b are spread over all files."""
    select = ["id", "cast(id * 7919 % 1009 as int) a", "cast(id * 104729 % 997 as int) b", extra]
    spark.range(0, count, 1, 4).selectExpr(*select).write.format("delta").mode("append").save(str(path))


@pytest.fixture
def optimized(
    spark: SparkSession, backend: DeltaBackend, delta_table: TableName, delta_path: Path
) -> tuple[Path, list[Commit | GroupFailed], TableState, Work]:
    """A table with every feature that must survive, after one run."""
    spark.sql(f"create table delta.`{delta_path}` (id bigint, a int, b int, p int) using delta tblproperties({MAPPED})")
    grid(spark, delta_path)
    spark.sql(f"delete from delta.`{delta_path}` where id % 100 = 7")
    before = backend.observe(delta_table, ("a", "b"))
    work = work_for(delta_table, before)
    return delta_path, list(backend.execute(work, silent)), before, work


def test_a_run_is_one_rewrite_and_one_record_and_keeps_the_rows(
    spark: SparkSession, backend: DeltaBackend, optimized: Any
) -> None:
    path, outcomes, before, work = optimized
    assert [type(o) for o in outcomes] == [Commit, Commit]
    rewrite, record = outcomes
    log = history(spark, path)
    metrics = log[rewrite.version].operationMetrics
    assert (rewrite.kind, record.kind) == ("rewrite", "record")
    assert rewrite.files_removed == len(before.files) == int(metrics["numRemovedFiles"])
    assert rewrite.bytes_removed == int(before.files.bytes.sum()) == int(metrics["numRemovedBytes"])
    assert rewrite.files_added == int(metrics["numAddedFiles"])
    assert rewrite.bytes_added == int(metrics["numAddedBytes"])
    assert rewrite.rows == 3960
    assert json.loads(log[rewrite.version].userMetadata) == {"zlayout.run": work.run_id}
    assert log[record.version].operation == "COMPUTE STATS"
    assert spark.conf.get("spark.databricks.delta.commitInfo.userMetadata", None) is None
    expected = [(i, i * 7919 % 1009, i * 104729 % 997, i % 2) for i in range(4000) if i % 100 != 7]
    assert rows(spark, path) == sorted(expected, key=repr)
    changes = spark.read.option("readChangeFeed", "true").option("startingVersion", rewrite.version)
    assert changes.format("delta").load(str(path)).count() == 0

    after = backend.observe(work.table, ("a", "b"))
    assert after.files.layouts[0].layout_id == LAYOUT.layout_id
    assert after.files.layouts[0].settings == LAYOUT.settings()
    assert after.files.layout.tolist() == [0] * rewrite.files_added
    assert set(after.files.group.tolist()) == {0}
    widest = max(high - low for low, high in zip(*(x.to_pylist() for x in ends(after, "a")), strict=True))
    assert widest < 1008, "z-ordered files do not each span the whole column"


def ends(state: TableState, column: str) -> tuple[pa.Array, pa.Array]:
    return state.files.bounds[column].lower, state.files.bounds[column].upper


def test_the_record_outlives_a_checkpoint_and_a_delete_and_leaves_statistics(
    spark: SparkSession, backend: DeltaBackend, optimized: Any
) -> None:
    path, _, _, work = optimized
    recorded = backend.observe(work.table, ("a", "b"))
    spark.sql(f"alter table delta.`{path}` set tblproperties ('delta.checkpointInterval' = '1')")
    spark.sql(f"delete from delta.`{path}` where id = 11")
    assert list(Path(path, "_delta_log").glob("*.checkpoint*.parquet")), "a checkpoint could be written"
    for log in Path(path, "_delta_log").glob("*.json"):
        if int(log.stem) < recorded.version:
            log.unlink()
    DeltaTable(str(path))
    deleted = backend.observe(work.table, ("a", "b"))
    assert deleted.files.layout.tolist() == recorded.files.layout.tolist()
    assert int(deleted.files.deleted.sum()) == 1
    assert next(k for k in deleted.files.version_key.to_pylist() if k).startswith("u")
    assert [e.to_pylist() for e in ends(deleted, "a")] == [e.to_pylist() for e in ends(recorded, "a")]
    assert spark.sql(f"select count(*) n from delta.`{path}`").collect()[0].n == 3959

    spark.conf.set("spark.databricks.delta.update.deletionVectors.persistent", "false")
    spark.sql(f"update delta.`{path}` set b = -1 where id = 12")
    spark.conf.unset("spark.databricks.delta.update.deletionVectors.persistent")
    updated = backend.observe(work.table, ("a", "b"))
    assert updated.files.layout.tolist().count(-1) == 1, "the file that UPDATE wrote is not laid out"
    assert min(ends(updated, "b")[0].to_pylist()) == -1


def test_row_ids_stay(spark: SparkSession, backend: DeltaBackend, delta_table: TableName, delta_path: Path) -> None:
    spark.sql(f"create table delta.`{delta_path}` (id bigint, a int, b int, p int) using delta tblproperties({MAPPED})")
    grid(spark, delta_path, 400)
    ids = rows(spark, delta_path, "id, _metadata.row_id, _metadata.row_commit_version")
    assert not any(
        isinstance(o, GroupFailed)
        for o in backend.execute(work_for(delta_table, backend.observe(delta_table, ())), silent)
    )
    assert rows(spark, delta_path, "id, _metadata.row_id, _metadata.row_commit_version") == ids


def test_only_the_partitions_of_the_groups_are_rewritten(
    spark: SparkSession, backend: DeltaBackend, delta_table: TableName, delta_path: Path
) -> None:
    """Each kind of partition value finds its partition again, and null as well."""
    values = {
        "s": ("string", "'it''s \\\\ a \"b\" / ü😀%'"),
        "d": ("date", "date'2024-02-29'"),
        "ts": ("timestamp", "timestamp'2024-02-29 01:02:03.5'"),
        "dec": ("decimal(12,3)", "cast('1.250' as decimal(12,3))"),
        "f": ("float", "cast(0.1 as float)"),
        "n": ("timestamp_ntz", "timestamp_ntz'2024-02-29 01:02:03'"),
        "big": ("bigint", "-9000000000"),
        "yes": ("boolean", "true"),
    }
    typed = ", ".join(f"{name} {kind}" for name, (kind, _) in values.items())
    spark.sql(
        f"create table delta.`{delta_path}` (a int, b int, {typed}) using delta partitioned by ({', '.join(values)})"
    )
    columns = [f"case when id % 3 = 0 then {value} end {name}" for name, (_, value) in values.items()]
    source = spark.range(0, 300, 1, 1).selectExpr("cast(id % 17 as int) a", "cast(id % 13 as int) b", *columns)
    source.write.format("delta").mode("append").save(str(delta_path))
    before = backend.observe(delta_table, ())
    assert len(before.files.partitions) == 2
    for at, partition in enumerate(before.files.partitions):
        now = backend.observe(delta_table, ())
        rewrite, _ = backend.execute(work_for(delta_table, now, partitions=[at]), silent)
        assert isinstance(rewrite, Commit)
        assert rewrite.rows == (200 if partition.values[0] is None else 100)
        after = backend.observe(delta_table, ())
        untouched = {p for p, i in zip(now.files.path.to_pylist(), now.files.partition, strict=True) if i != at}
        assert untouched < set(after.files.path.to_pylist()), partition
    assert after.files.layout.tolist() == [0, 0]
    assert len(set(after.files.group.tolist())) == 2


@pytest.mark.parametrize("python_package", [False, True])
def test_a_concurrent_delete_beats_the_record(
    spark: SparkSession,
    backend: DeltaBackend,
    delta_table: TableName,
    delta_path: Path,
    monkeypatch: Any,
    python_package: bool,
) -> None:
    if python_package:  # a driver that imported it, which changes how pyspark raises conflicts
        raised_as: Any = captured
        monkeypatch.setattr(raised_as, "convert_exception", raised_as.convert_exception)
        importlib.import_module("delta.exceptions.captured")._patch_convert_exception()
    spark.sql(f"create table delta.`{delta_path}` using delta as select id, 1 a, 2 b from range(0, 10, 1, 1)")
    state = backend.observe(delta_table, ())
    commit: Callable[..., int] = DeltaJvm.commit

    def after_a_delete(self: DeltaJvm, *arguments: Any) -> int:
        spark.sql(f"delete from delta.`{delta_path}` where id = 3")
        return commit(self, *arguments)

    monkeypatch.setattr(DeltaJvm, "commit", after_a_delete)
    files = pa.table({"path": state.files.path, "group": ["g"] * len(state.files)})
    storage = pa_fs.SubTreeFileSystem(str(delta_path), pa_fs.LocalFileSystem())
    with pytest.raises(CommitConflict, match=r"ZL321.*ConcurrentDelete"):
        stamp(DeltaJvm(spark, str(delta_path)), storage, "t", LAYOUT, "r", files, ("g",))
    monkeypatch.undo()
    assert spark.sql(f"select count(*) n from delta.`{delta_path}`").collect()[0].n == 9
    assert backend.observe(delta_table, ()).files.layouts == ()
    gone = stamp(DeltaJvm(spark, str(delta_path)), storage, "t", LAYOUT, "r", files, ("g",))
    assert gone is None, "those files are gone"


def test_properties_are_set_as_given(
    spark: SparkSession, backend: DeltaBackend, delta_table: TableName, delta_path: Path
) -> None:
    spark.sql(f"create table delta.`{delta_path}` using delta as select id, 1 a, 2 b from range(10)")
    state = backend.observe(delta_table, ())
    wanted = (("delta.dataSkippingNumIndexedCols", "40"), ("team's `note`", "a 'quoted' \\ ü"))
    (commit,) = backend.execute(work_for(delta_table, state, properties=wanted, groups=()), silent)
    assert commit == Commit("settings", state.version + 1)
    assert dict(wanted).items() <= dict(backend.observe(delta_table, ()).properties).items()


def test_refused_and_failing_tables(
    spark: SparkSession, backend: DeltaBackend, delta_table: TableName, delta_path: Path
) -> None:
    spark.sql(f"create table delta.`{delta_path}` (a int, b int) using delta cluster by (a)")
    state = backend.observe(delta_table, ())
    with pytest.raises(Refused, match=r"ZL211 .*liquid-clustered"):
        list(backend.execute(work_for(delta_table, state), silent))
    plain = TableName("lake", ("db",), delta_table.name + "_plain")
    spark.sql(f"create table delta.`{delta_path}_plain` using delta as select 1 a, 2 c")
    with pytest.raises(EngineError, match=r"ZL314 .*OPTIMIZE failed.*b"):
        list(backend.execute(work_for(plain, backend.observe(plain, ())), silent))


def test_repartitioned_by_other_columns_with_the_same_rows_and_row_ids(
    spark: SparkSession, backend: DeltaBackend, delta_table: TableName, delta_path: Path
) -> None:
    columns = "id bigint, a int, b int, m map<string,int>, d date, p int"
    spark.sql(f"create table delta.`{delta_path}` ({columns}) using delta partitioned by (p) tblproperties({MAPPED})")
    spark.range(200).selectExpr(
        "id",
        "cast(id % 17 as int) a",
        "cast(id % 13 as int) b",
        "map('k', cast(id as int)) m",
        "case when id % 2 = 0 then date'2024-01-01' end d",
        "cast(id % 3 as int) p",
    ).write.format("delta").mode("append").save(str(delta_path))
    spark.sql(f"delete from delta.`{delta_path}` where id = 5")
    what = "id, a, b, m['k'], d, p, _metadata.row_id"
    before, state = rows(spark, delta_path, what), backend.observe(delta_table, ())
    work = work_for(delta_table, state, partition_by=(PartitionField("d"),), verify="full")
    stages: list[str] = []
    repartitioned, *rest = backend.execute(work, lambda progress: stages.append(progress.stage.partition(",")[0]))
    assert stages[:3] == ["changing settings", "rewriting the table", "committing"]
    assert isinstance(repartitioned, Commit)
    assert (repartitioned.rows, repartitioned.files_removed) == (199, len(state.files))
    assert [c.kind for c in rest if isinstance(c, Commit)] == ["rewrite", "record"]
    after = backend.observe(delta_table, ())
    assert [p.values for p in after.files.partitions] in (
        [(None,), (date(2024, 1, 1),)],
        [(date(2024, 1, 1),), (None,)],
    )
    assert rows(spark, delta_path, what) == before
    assert spark.sql(f"describe detail delta.`{delta_path}`").collect()[0].partitionColumns == ["d"]
    assert after.files.layout.tolist() == [0] * len(after.files)
    assert len(list(backend.execute(work_for(delta_table, after, partition_by=()), silent))) == 3
    assert rows(spark, delta_path, what) == before


@pytest.mark.parametrize("known", [True, False])
def test_an_empty_string_never_becomes_null_in_a_partition_column(
    spark: SparkSession, backend: DeltaBackend, delta_table: TableName, delta_path: Path, monkeypatch: Any, known: bool
) -> None:
    """`known` False: a value that does not survive as text in the log, and that nobody has thought of."""
    values = "values (1, 2, ''), (3, 4, 'eu'), (5, 6, null), (7, 8, '') as t(a, b, `re.gion`)"
    spark.sql(f"create table delta.`{delta_path}` using delta as select * from {values}")
    before, state = rows(spark, delta_path, "*"), backend.observe(delta_table, ())
    if not known:
        monkeypatch.setattr(repartition, "refuse_empty_text", lambda *_: None)
    settings = (("note", "zlayout"),) if known else ()
    work = work_for(delta_table, state, partition_by=(PartitionField("re.gion"),), properties=settings)
    expected = (Refused, r"ZL217 .*: 2 rows have an empty string in re\.gion") if known else (EngineError, "ZL310")
    with pytest.raises(expected[0], match=expected[1]):
        list(backend.execute(work, silent))
    assert rows(spark, delta_path, "*") == before
    assert backend.observe(delta_table, ()).version == state.version


def test_an_append_while_repartitioning_is_kept_and_the_repartitioning_dropped(
    spark: SparkSession, backend: DeltaBackend, delta_table: TableName, delta_path: Path, monkeypatch: Any
) -> None:
    spark.sql(f"create table delta.`{delta_path}` using delta as select id, 1 a, 2 b, 3 p from range(10)")
    state = backend.observe(delta_table, ())
    commit: Callable[..., int] = DeltaJvm.commit

    def after_an_append(self: DeltaJvm, *arguments: Any) -> int:
        spark.sql(f"insert into delta.`{delta_path}` values (10, 1, 2, 3)")
        return commit(self, *arguments)

    monkeypatch.setattr(DeltaJvm, "commit", after_an_append)
    with pytest.raises(CommitConflict, match="ZL321"):
        list(backend.execute(work_for(delta_table, state, partition_by=(PartitionField("p"),)), silent))
    assert spark.sql(f"select count(*) n from delta.`{delta_path}`").collect()[0].n == 11
    assert backend.observe(delta_table, ()).partition_fields == ()


def test_a_table_that_must_not_be_repartitioned_is_refused(
    spark: SparkSession, backend: DeltaBackend, delta_table: TableName, delta_path: Path
) -> None:
    spark.sql(f"create table delta.`{delta_path}` (a int, b int) using delta tblproperties('delta.appendOnly'='true')")
    state = backend.observe(delta_table, ())
    with pytest.raises(Refused, match=r"ZL214 .*delta\.appendOnly"):
        list(backend.execute(work_for(delta_table, state, partition_by=(PartitionField("a"),)), silent))
    spec = make_spec(replace(LAYOUT, columns=(ZorderColumn("b"),)), delta_table, partition_by=(PartitionField("a"),))
    plan = plan_table(spec, backend, PlanOptions(allow_full_rewrite=True)).decision.plan
    assert (plan.status, [(d.code, d.location) for d in plan.diagnostics]) == ("refused", [("ZL214", HERE)])
