"""Where engine zlayout cannot run, engine native does the same work and says so, or the work is refused by name."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from contract import OPTIONS, Contract, make_rows
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from spark.arenas import DeltaArena, SparkArena

from zlayout.errors import EngineError, Refused
from zlayout.formats.delta.write.jvm import INTERNALS as DELTA
from zlayout.formats.iceberg.write.jvm import INTERNALS as ICEBERG
from zlayout.formats.kernel.execute import Internals, fallback_reason
from zlayout.planner.diff import PlanOptions
from zlayout.rewrite import engine
from zlayout.rewrite import engine as self_test
from zlayout.rewrite.engine import by_hash, to_partitions
from zlayout.session.apply import apply_table
from zlayout.session.plan import PlannedTable, plan_table
from zlayout.session.results import Applied, new_run
from zlayout.spark import versions
from zlayout.spark.arrow import to_arrow
from zlayout.spark.jvm import Calls
from zlayout.spark.session import SparkRuntime, refuse_connect, runtime_for
from zlayout.spec.model import Project, SparkConfig, TableName
from zlayout.table.state import PartitionField

ROWS = make_rows(Contract.rows)
INTERNALS = {"delta": DELTA, "iceberg": ICEBERG}


@pytest.fixture
def older(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the Spark at hand were not one of those tested, and placed rows in other files."""
    monkeypatch.setattr(versions, "TESTED_SPARK", frozenset())
    monkeypatch.setattr(self_test, "failed_self_test", lambda _: "7 of 600 rows are in other files than expected")


def _apply(arena: SparkArena, planned: PlannedTable) -> tuple[Applied, list[str]]:
    applied = new_run(planned)
    announced: list[str] = []
    apply_table(
        planned,
        arena.backend,
        OPTIONS,
        applied,
        lambda _: None,
        lambda _, outcome: announced.append(type(outcome).__name__),
    )
    return applied, announced


@pytest.mark.parametrize("internals", INTERNALS.values(), ids=INTERNALS)
def test_the_versions_that_are_installed_are_the_tested_ones(spark: SparkSession, internals: Internals) -> None:
    assert spark.version in versions.TESTED_SPARK
    assert fallback_reason(spark, internals) is None


def test_the_self_test_passes_and_runs_once(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "TESTED_SPARK", frozenset())
    monkeypatch.setattr(self_test, "_known", {})
    assert fallback_reason(spark, INTERNALS["delta"]) is None
    monkeypatch.setattr(self_test, "_difference", lambda _: "called again")
    assert fallback_reason(spark, INTERNALS["iceberg"]) is None


def test_the_self_test_fails_if_a_row_is_placed_elsewhere(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    def elsewhere(frame: DataFrame, count: int, at: Column) -> DataFrame:
        return to_partitions(frame, count, (count - 1 - at).cast("int"))

    monkeypatch.setattr(engine, "to_partitions", elsewhere)
    monkeypatch.setattr(self_test, "_known", {})
    assert "of 600 rows are in other files than expected" in str(self_test.failed_self_test(spark))


def test_a_shuffle_through_the_hash_function_gives_the_partitions_asked_for(spark: SparkSession) -> None:
    """Spark before 4.1 cannot shuffle by partition id. A session may have a function of its own for `hash`."""
    session = spark.newSession()
    session.udf.register("hash", lambda number: number + 1, "int")
    frame = by_hash(session.range(1000).withColumn("at", (F.col("id") % 37).cast("int")), 37, F.col("at"))
    found = to_arrow(frame.select("at", F.spark_partition_id().alias("partition")))
    assert found.num_rows == 1000
    assert found["at"].to_pylist() == found["partition"].to_pylist()


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_the_version_of_the_format_in_the_jvm_counts(spark: SparkSession, format: str) -> None:
    found = getattr(versions.installed(), format)
    internals = replace(INTERNALS[format], tested=frozenset({"9.9"}))
    assert fallback_reason(spark, internals) == f"expected {internals.name} 9.9, found {found}"


def test_native_does_the_work_of_zlayout_and_the_next_plan_is_empty(arena: SparkArena, older: None) -> None:  # noqa: ARG001
    contract = Contract()
    arena.create(ROWS, contract.files)
    spec = contract.spec(arena)
    planned = contract.plan(arena, spec)
    applied, announced = _apply(arena, planned)
    assert applied.error is None
    notices = [notice.diagnostic for notice in applied.notices]
    assert announced[: len(notices)] == ["Notice"] * len(notices)
    assert notices[0].code == "ZL407"
    assert notices[0].severity == "warning"
    assert notices[0].message == (
        f"{arena.table} is rewritten by engine native, because engine zlayout cannot run in this session: "
        f"on Spark {arena.runtime.session.version}, the self-test of engine zlayout failed: "
        "7 of 600 rows are in other files than expected"
    )
    assert [(n.code, "kd" in n.message) for n in notices[1:]][:1] == [("ZL401", True)]
    # engine native records in a commit of its own, engine zlayout in the commit of the rewrite
    assert [c.kind for c in applied.commits] == ["rewrite", "record"]
    after = contract.plan(arena, spec)
    assert after.plan.status == "unchanged"
    assert after.state is not None
    assert {r.layout_id for r in after.state.files.layouts} == {spec.layout.layout_id}
    assert arena.rows().sort_by("id").combine_chunks() == ROWS
    again, _ = _apply(arena, after)
    assert again.commits == []


def test_zlayout_itself_gives_no_notice(arena: SparkArena) -> None:
    contract = Contract()
    arena.create(ROWS, contract.files)
    applied, announced = _apply(arena, contract.plan(arena, contract.spec(arena)))
    assert applied.error is None
    assert announced == ["Commit"]


@pytest.mark.parametrize(
    ("format", "name", "call"),
    [
        ("delta", "org.apache.spark.sql.delta.OptimisticTransaction", "writeFiles/9"),
        ("iceberg", "org.apache.iceberg.spark.ScanTaskSetManager", "stageTasks/9"),
        ("iceberg", "org.apache.iceberg.spark.SparkTableStore", "get/0"),
    ],
)
def test_a_missing_internal_call_is_a_reason(spark: SparkSession, format: str, name: str, call: str) -> None:
    internals = INTERNALS[format]
    lacking = replace(internals, engine={**internals.engine, name: (call,)})
    reason = fallback_reason(spark, lacking)
    missing = f"{name.rpartition('.')[2]}.{call}" if name in internals.engine else name
    release = versions.installed()
    version = {"delta": f"Delta {release.delta}", "iceberg": f"Iceberg {release.iceberg}"}[format]
    assert reason == f"{version} on Spark {spark.version} lacks {missing}"


def test_one_of_two_ways_to_know_staged_files_is_enough(spark: SparkSession) -> None:
    internals = INTERNALS["iceberg"]
    lacking: Calls = {"org.apache.iceberg.spark.NoSuchClass": ()}
    assert fallback_reason(spark, replace(internals, either=(lacking, *internals.either))) is None
    reason = fallback_reason(spark, replace(internals, either=(lacking, {"java.lang.String": ("fold/7",)})))
    assert str(reason).endswith("lacks org.apache.iceberg.spark.NoSuchClass or String.fold/7")


def test_without_the_calls_that_record_a_layout_neither_engine_runs(
    arena: SparkArena, monkeypatch: pytest.MonkeyPatch
) -> None:
    contract = Contract()
    arena.create(ROWS, contract.files)
    planned = contract.plan(arena, contract.spec(arena))
    format = arena.backend.capabilities.format
    lacking = replace(INTERNALS[format], shared={"java.lang.String": ("fold/7",)})
    monkeypatch.setattr(f"zlayout.formats.{format}.write.jvm.INTERNALS", lacking)
    version = arena.backend.observe(arena.table, ()).version
    applied, announced = _apply(arena, planned)
    assert isinstance(applied.error, Refused)
    assert "ZL204" in str(applied.error)
    assert "lacks String.fold/7" in str(applied.error)
    assert announced == []
    assert arena.backend.observe(arena.table, ()).version == version


def test_work_on_part_of_a_partition_is_refused_not_widened(arena: SparkArena, older: None) -> None:  # noqa: ARG001
    contract = Contract()
    arena.create(ROWS, contract.files)
    planned = contract.plan(arena, contract.spec(arena))
    work = replace(planned, run_id="run")
    group = work.groups[0]
    some = replace(work, pinned={group.id: replace(group, files=group.files.take([0, 1, 2]))})
    version = arena.backend.observe(arena.table, ()).version
    with pytest.raises(
        Refused, match=r"ZL2(16|24).* 5 files in them are not part of this work.*cannot run in this session"
    ):
        list(arena.backend.execute(some, lambda _: None))
    assert arena.backend.observe(arena.table, ()).version == version


def test_a_new_partitioning_of_a_delta_table_is_refused(
    project: Project,
    runtime: SparkRuntime,
    delta_table: TableName,
    tmp_path: Path,
    older: None,  # noqa: ARG001
) -> None:
    contract, arena = Contract(), DeltaArena(project, runtime, delta_table, tmp_path, "zlayout", "kd")
    arena.create(make_rows(100), 2)
    spec = contract.spec(arena, partition_by=(PartitionField("region"),))
    applied, announced = _apply(arena, plan_table(spec, arena.backend, PlanOptions(allow_full_rewrite=True)))
    assert isinstance(applied.error, Refused)
    assert "ZL204" in str(applied.error)
    assert announced == []
    assert arena.backend.observe(arena.table, ()).version == 1


def test_a_format_that_spark_has_not_is_an_error(spark: SparkSession) -> None:
    package = re.escape(versions.installed().delta_package)
    with pytest.raises(EngineError, match=f"ZL306 Delta is not on Spark's classpath.*{package}"):
        fallback_reason(spark, replace(INTERNALS["delta"], marker="io.delta.none$"))


@pytest.mark.parametrize(
    ("conf", "environment", "named"),
    [
        ({"spark.remote": "sc://host"}, {}, "spark.conf spark.remote is set"),
        ({}, {"SPARK_REMOTE": "sc://host"}, "SPARK_REMOTE is set"),
        ({"spark.api.mode": "connect"}, {}, "spark.api.mode=connect is set"),
        ({}, {"SPARK_API_MODE": "Connect"}, "SPARK_API_MODE=connect is set"),
    ],
)
def test_spark_connect_is_refused_before_it_starts(
    project: Project, monkeypatch: pytest.MonkeyPatch, conf: dict[str, str], environment: dict[str, str], named: str
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    runtime = SparkRuntime(replace(project, spark=SparkConfig(None, conf)))
    with pytest.raises(Refused, match=f"ZL204 .*Spark Connect \\({named}\\)"):
        _ = runtime.session
    assert not runtime.started


def test_a_classic_session_is_not_refused_as_spark_connect() -> None:
    refuse_connect({"spark.api.mode": "classic"}, {"SPARK_HOME": "/x"})


def test_a_session_of_spark_connect_is_refused_for_work_that_needs_a_jvm(project: Project) -> None:
    session: Any = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    with pytest.raises(Refused, match=r"ZL204 .*\(the session is a Spark Connect session\)"):
        runtime_for(project, session, ())
