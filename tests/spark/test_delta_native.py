"""Engine native on Delta: OPTIMIZE with the spec's settings, the record after it, and what survives what."""

import importlib
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.fs as pa_fs
import pytest
from deltalake import DeltaTable
from pyspark.errors.exceptions import captured
from spark.subjects import DeltaSubject
from support.builders import make_layout, make_spec

from zlayout.errors import CommitConflict, EngineError, Refused
from zlayout.formats.base import Commit, GroupFailed, PlannedTable, Stage
from zlayout.formats.delta.write import optimize as native
from zlayout.formats.delta.write import repartition
from zlayout.formats.delta.write.jvm import DeltaJvm
from zlayout.formats.delta.write.optimize import commit_records
from zlayout.formats.delta.write.transaction import Log
from zlayout.planner.work import PlanOptions
from zlayout.session.plan import plan_table
from zlayout.spec.model import ZorderColumn
from zlayout.table.state import PartitionField, TableState

LAYOUT = make_layout("a", "b", curve="zorder", range_ids=500, target_size=20_000, engine="native")
MAPPED = (
    "'delta.columnMapping.mode'='name','delta.enableDeletionVectors'='true','delta.enableRowTracking'='true',"
    "'delta.enableInCommitTimestamps'='true','delta.enableChangeDataFeed'='true'"
)


@pytest.fixture
def table(delta: DeltaSubject) -> DeltaSubject:
    return replace(delta, layout=LAYOUT, files=4)


def grid(table: DeltaSubject, count: int = 4000) -> None:
    """Rows in the order they arrive: a and b are spread over all files."""
    keys = ["cast(id * 7919 % 1009 as int) a", "cast(id * 104729 % 997 as int) b"]
    table.append(table.spark.range(0, count, 1, 4).selectExpr("id", *keys, "cast(id % 2 as int) p"))


@pytest.fixture
def optimized(table: DeltaSubject) -> tuple[list[Any], TableState, PlannedTable]:
    """The outcomes of one run on a table with every feature that must survive, the state before it, and its work."""
    table.sql(f"create table {table} (id bigint, a int, b int, p int) using delta tblproperties({MAPPED})")
    grid(table)
    table.sql(f"delete from {table} where id % 100 = 7")
    before = table.observe("a", "b")
    work = table.work(before)
    return list(table.execute(work)), before, work


def test_a_run_is_one_rewrite_and_one_record_and_keeps_the_rows(table: DeltaSubject, optimized: Any) -> None:
    outcomes, before, work = optimized
    assert [type(o) for o in outcomes] == [Commit, Commit]
    rewrite, record = outcomes
    log = table.history()
    metrics = log[rewrite.version].operationMetrics
    assert (rewrite.kind, record.kind) == ("rewrite", "record")
    assert rewrite.files_removed == len(before.files) == int(metrics["numRemovedFiles"])
    assert rewrite.bytes_removed == int(before.files.bytes.sum()) == int(metrics["numRemovedBytes"])
    assert rewrite.files_added == int(metrics["numAddedFiles"])
    assert rewrite.bytes_added == int(metrics["numAddedBytes"])
    assert rewrite.rows == 3960
    assert json.loads(log[rewrite.version].userMetadata) == {"zlayout.run": work.run_id}
    assert log[record.version].operation == "COMPUTE STATS"
    assert table.spark.conf.get("spark.databricks.delta.commitInfo.userMetadata", None) is None
    expected = [(i, i * 7919 % 1009, i * 104729 % 997, i % 2) for i in range(4000) if i % 100 != 7]
    assert table.rows() == sorted(expected, key=repr)
    changes = table.spark.read.option("readChangeFeed", "true").option("startingVersion", rewrite.version)
    assert changes.format("delta").load(str(table.path)).count() == 0

    after = table.observe("a", "b")
    assert after.files.layouts[0].layout_id == LAYOUT.layout_id
    assert after.files.layouts[0].settings == LAYOUT.settings()
    assert after.files.layout.tolist() == [0] * rewrite.files_added
    assert set(after.files.group.tolist()) == {0}
    widest = max(high - low for low, high in zip(*(x.to_pylist() for x in ends(after, "a")), strict=True))
    assert widest < 1008, "z-ordered files do not each span the whole column"


def ends(state: TableState, column: str) -> tuple[pa.Array, pa.Array]:
    return state.files.bounds[column].lower, state.files.bounds[column].upper


@pytest.mark.usefixtures("optimized")
def test_the_record_outlives_a_checkpoint_and_a_delete_and_leaves_statistics(table: DeltaSubject) -> None:
    recorded = table.observe("a", "b")
    table.sql(f"alter table {table} set tblproperties ('delta.checkpointInterval' = '1')")
    table.sql(f"delete from {table} where id = 11")
    assert list((table.path / "_delta_log").glob("*.checkpoint*.parquet")), "a checkpoint could be written"
    for log in (table.path / "_delta_log").glob("*.json"):
        if int(log.stem) < recorded.version:
            log.unlink()
    DeltaTable(str(table.path))
    deleted = table.observe("a", "b")
    assert deleted.files.layout.tolist() == recorded.files.layout.tolist()
    assert int(deleted.files.deleted.sum()) == 1
    assert next(k for k in deleted.files.version_key.to_pylist() if k).startswith("u")
    assert [e.to_pylist() for e in ends(deleted, "a")] == [e.to_pylist() for e in ends(recorded, "a")]
    assert table.sql(f"select count(*) n from {table}").collect()[0].n == 3959

    table.spark.conf.set("spark.databricks.delta.update.deletionVectors.persistent", "false")
    table.sql(f"update {table} set b = -1 where id = 12")
    table.spark.conf.unset("spark.databricks.delta.update.deletionVectors.persistent")
    updated = table.observe("a", "b")
    assert updated.files.layout.tolist().count(-1) == 1, "the file that UPDATE wrote is not laid out"
    assert min(ends(updated, "b")[0].to_pylist()) == -1


def test_native_rewrites_keep_row_ids(table: DeltaSubject) -> None:
    table.sql(f"create table {table} (id bigint, a int, b int, p int) using delta tblproperties({MAPPED})")
    grid(table, 400)
    ids = table.rows("id, _metadata.row_id, _metadata.row_commit_version")
    assert not any(isinstance(o, GroupFailed) for o in table.run())
    assert table.rows("id, _metadata.row_id, _metadata.row_commit_version") == ids


def test_only_the_partitions_of_the_groups_are_rewritten(table: DeltaSubject) -> None:
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
    table.sql(f"create table {table} (a int, b int, {typed}) using delta partitioned by ({', '.join(values)})")
    columns = [f"case when id % 3 = 0 then {value} end {name}" for name, (_, value) in values.items()]
    source = table.spark.range(0, 300, 1, 1).selectExpr("cast(id % 17 as int) a", "cast(id % 13 as int) b", *columns)
    table.append(source)
    before = table.observe()
    assert len(before.files.partitions) == 2
    for at, partition in enumerate(before.files.partitions):
        now = table.observe()
        rewrite, _ = table.run(now, partitions=[at])
        assert isinstance(rewrite, Commit)
        assert rewrite.rows == (200 if partition.values[0] is None else 100)
        after = table.observe()
        untouched = {p for p, i in zip(now.files.path.to_pylist(), now.files.partition, strict=True) if i != at}
        assert untouched < set(after.files.path.to_pylist()), partition
    assert after.files.layout.tolist() == [0, 0]
    assert len(set(after.files.group.tolist())) == 2


def test_files_beyond_the_plan_that_optimize_replaces_are_an_error(table: DeltaSubject, monkeypatch: Any) -> None:
    """What other writers have added since the plan is no such file in a planned partition, and is one in another."""
    table.sql(f"create table {table} (id bigint, a int, b int, p int) using delta partitioned by (p)")
    grid(table, 400)
    state = table.observe()
    planned = [at for at, partition in enumerate(state.files.partitions) if partition.values == (0,)]
    work = table.work(state, partitions=planned)
    grid(table, 400)
    rewrite, *_ = table.execute(work)
    assert isinstance(rewrite, Commit)
    assert rewrite.files_removed > len(work.groups[0].files), "the appended files too"
    monkeypatch.setattr(
        native, "optimize_statement", lambda location, *_: f"OPTIMIZE delta.`{location}` ZORDER BY (a, b)"
    )
    state = table.observe()
    work, found = table.work(state, partitions=planned, run_id="wide"), list[Any]()
    grid(table, 400)
    others = [at for at in range(len(state.files)) if state.files.partition[at] not in planned]
    appended = len(table.observe().files) - len(state.files)
    with pytest.raises(EngineError, match="ZL340") as caught:
        found.extend(table.execute(work))
    number = len(others) + appended // 2
    told = f": version {found[0].version}, committed by engine native, also replaced {number} files"
    assert told in str(caught.value)
    assert [outcome.kind for outcome in found] == ["rewrite"], "no layout record is committed"


@pytest.mark.parametrize("python_package", [False, True])
def test_a_concurrent_delete_beats_the_record(table: DeltaSubject, monkeypatch: Any, python_package: bool) -> None:
    if python_package:  # a driver that imported it, which changes how pyspark raises conflicts
        raised_as: Any = captured
        monkeypatch.setattr(raised_as, "convert_exception", raised_as.convert_exception)
        importlib.import_module("delta.exceptions.captured")._patch_convert_exception()
    table.sql(f"create table {table} using delta as select id, 1 a, 2 b from range(0, 10, 1, 1)")
    state = table.observe()
    commit: Callable[..., int] = DeltaJvm.commit

    def after_a_delete(self: DeltaJvm, *arguments: Any) -> int:
        table.sql(f"delete from {table} where id = 3")
        return commit(self, *arguments)

    monkeypatch.setattr(DeltaJvm, "commit", after_a_delete)
    files = pa.table({"path": state.files.path, "group": ["g"] * len(state.files)})
    storage = pa_fs.SubTreeFileSystem(str(table.path), pa_fs.LocalFileSystem())
    delta = DeltaJvm(table.spark, str(table.path))
    log = Log(delta, lambda: storage, "t", "r")
    with pytest.raises(CommitConflict, match=r"ZL321.*ConcurrentDelete"):
        commit_records(delta, log, LAYOUT, files, ("g",))
    monkeypatch.undo()
    assert table.sql(f"select count(*) n from {table}").collect()[0].n == 9
    assert table.observe().files.layouts == ()
    gone = commit_records(delta, log, LAYOUT, files, ("g",))
    assert gone is None, "those files are gone"


def test_properties_are_set_as_given(table: DeltaSubject) -> None:
    table.sql(f"create table {table} using delta as select id, 1 a, 2 b from range(10)")
    state = table.observe()
    wanted = (("delta.dataSkippingNumIndexedCols", "40"), ("team's `note`", "a 'quoted' \\ ü"))
    (commit,) = table.run(state, properties=wanted, groups=())
    assert commit == Commit("settings", state.version + 1)
    assert dict(wanted).items() <= dict(table.observe().properties).items()


def test_missing_columns_are_an_error(table: DeltaSubject) -> None:
    table.sql(f"create table {table} using delta as select 1 a, 2 c")
    with pytest.raises(EngineError, match=r"ZL314 .*OPTIMIZE .*failed.*b"):
        table.run()


def test_repartitioned_by_other_columns_with_the_same_rows_and_row_ids(table: DeltaSubject) -> None:
    columns = "id bigint, a int, b int, m map<string,int>, d date, p int"
    table.sql(f"create table {table} ({columns}) using delta partitioned by (p) tblproperties({MAPPED})")
    keys = ["cast(id % 17 as int) a", "cast(id % 13 as int) b", "map('k', cast(id as int)) m"]
    partitions = ["case when id % 2 = 0 then date'2024-01-01' end d", "cast(id % 3 as int) p"]
    table.append(table.spark.range(200).selectExpr("id", *keys, *partitions))
    table.sql(f"delete from {table} where id = 5")
    what = "id, a, b, m['k'], d, p, _metadata.row_id"
    before, state = table.rows(what), table.observe()
    work = table.work(state, partition_by=(PartitionField("d"),), verify="full")
    stages: list[Stage] = []
    repartitioned, *rest = table.execute(work, lambda progress: stages.append(progress.stage))
    assert stages[:3] == [Stage.CHANGING_SETTINGS, Stage.REWRITING, Stage.COMMITTING]
    assert isinstance(repartitioned, Commit)
    assert (repartitioned.rows, repartitioned.files_removed) == (199, len(state.files))
    assert [c.kind for c in rest if isinstance(c, Commit)] == ["rewrite", "record"]
    after = table.observe()
    assert sorted((p.values for p in after.files.partitions), key=repr) == [(None,), (date(2024, 1, 1),)]
    assert table.rows(what) == before
    assert table.sql(f"describe detail {table}").collect()[0].partitionColumns == ["d"]
    assert after.files.layout.tolist() == [0] * len(after.files)
    assert len(table.run(after, partition_by=())) == 3
    assert table.rows(what) == before


@pytest.mark.parametrize(("listed", "left"), [("a,P,`b`", "`a`,`b`"), ("p", None)])
def test_a_column_with_statistics_becomes_a_partition_column(
    table: DeltaSubject, listed: str, left: str | None
) -> None:
    """Delta stores the list of such columns as a property, which zlayout sets itself for a column far behind."""
    name = "delta.dataSkippingStatsColumns"
    select = "select id a, id * 7 % 60 b, int(id % 3) p from range(0, 90, 1, 2)"
    table.sql(f"create table {table} using delta tblproperties('{name}'='{listed}', 'note'='kept') as {select}")
    before = table.rows()
    done = table.run(table.observe("a", "b"), partition_by=(PartitionField("p"),))
    assert isinstance(done[0], Commit)
    after = table.observe("a", "b")
    assert (after.properties.get(name), after.properties["note"]) == (left, "kept")
    assert [field.source for field in after.partition_fields] == ["p"]
    assert table.rows() == before


@pytest.mark.parametrize("known", [True, False])
def test_an_empty_string_never_becomes_null_in_a_partition_column(
    table: DeltaSubject, monkeypatch: Any, known: bool
) -> None:
    """`known` False: a value that does not survive as text in the log, and that nobody has thought of."""
    values = "values (1, 2, ''), (3, 4, 'eu'), (5, 6, null), (7, 8, '') as t(a, b, `re.gion`)"
    table.sql(f"create table {table} using delta as select * from {values}")
    before, state = table.rows(), table.observe()
    if not known:
        monkeypatch.setattr(repartition, "refuse_changing_strings", lambda *_: None)
    settings = (("note", "zlayout"),) if known else ()
    work = table.work(state, partition_by=(PartitionField("`re.gion`"),), properties=settings)
    expected = (Refused, r"ZL217 .*: 2 rows have an empty string in re\.gion") if known else (EngineError, "ZL310")
    with pytest.raises(expected[0], match=expected[1]):
        list(table.execute(work))
    assert table.rows() == before
    assert table.observe().version == state.version


@pytest.mark.parametrize(
    "value", ["'__HIVE_DEFAULT_PARTITION__'", *(pytest.param(v, marks=pytest.mark.long) for v in ("X''", "X'FF01'"))]
)
def test_a_value_that_no_partition_column_can_hold_is_refused_before_any_write(table: DeltaSubject, value: str) -> None:
    select = f"select id a, id b, {value} p, X'C3BC' q from range(20)"
    table.sql(f"create table {table} using delta as {select}")
    before, state = table.rows(), table.observe()
    files = set(table.path.rglob("*.parquet"))
    with pytest.raises(Refused, match=r"ZL217 .*: 20 rows have an empty string in p, "):
        table.run(state, partition_by=(PartitionField("q"), PartitionField("p")))
    assert set(table.path.rglob("*.parquet")) == files
    table.run(state, partition_by=(PartitionField("q"),))
    assert table.rows() == before


def test_an_append_while_repartitioning_is_kept_and_the_repartitioning_dropped(
    table: DeltaSubject, monkeypatch: Any
) -> None:
    table.sql(f"create table {table} using delta as select id, 1 a, 2 b, 3 p from range(10)")
    state = table.observe()
    commit: Callable[..., int] = DeltaJvm.commit

    def after_an_append(self: DeltaJvm, *arguments: Any) -> int:
        table.sql(f"insert into {table} values (10, 1, 2, 3)")
        return commit(self, *arguments)

    monkeypatch.setattr(DeltaJvm, "commit", after_an_append)
    with pytest.raises(CommitConflict, match="ZL321"):
        table.run(state, partition_by=(PartitionField("p"),))
    assert table.sql(f"select count(*) n from {table}").collect()[0].n == 11
    assert table.observe().partition_fields == ()


def test_a_table_that_must_not_be_repartitioned_is_refused(table: DeltaSubject) -> None:
    table.sql(f"create table {table} (a int, b int) using delta tblproperties('delta.appendOnly'='true')")
    state = table.observe()
    with pytest.raises(Refused, match=r"ZL214 .*delta\.appendOnly"):
        table.run(state, partition_by=(PartitionField("a"),))
    spec = make_spec(replace(LAYOUT, columns=(ZorderColumn("b"),)), table.name, partition_by=(PartitionField("a"),))
    plan = plan_table(spec, table.backend, PlanOptions(allow_full_rewrite=True)).plan
    assert (plan.status, [(d.code, d.location) for d in plan.diagnostics]) == ("refused", [("ZL214", spec.location)])
