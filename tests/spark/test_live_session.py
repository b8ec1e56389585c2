"""apply and advise in a session that somebody else uses: it does the work and leaves nothing behind."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from pyspark import RDD
from pyspark.sql import SparkSession
from support.builders import make_layout, make_spec

import zlayout
from zlayout.errors import Refused
from zlayout.formats.base import Stage
from zlayout.spark.jvm import java_sessions
from zlayout.spark.session import TIME_ZONE, LiveRuntime
from zlayout.spec.model import Project, TableName

LAYOUT = make_layout("a", "b", target_size=64 * 1024)
ROWS = 20_000


@dataclass(frozen=True)
class Left:
    """Everything of a session that zlayout could leave changed."""

    conf: dict[str, str]
    catalogs: list[str]
    views: list[str]
    cached: set[int]
    listeners: list[str]
    query_listeners: int
    active: bool
    properties: tuple[Any, ...]


def left(spark: SparkSession) -> Left:
    context: Any = spark.sparkContext
    java: Any = spark._jsparkSession
    sessions = java_sessions(context._jvm)
    names = ("spark.jobGroup.id", "spark.job.description", "spark.sql.execution.id", "spark.job.tags")
    return Left(
        spark.conf.getAll,
        sorted(c.name for c in spark.catalog.listCatalogs()),
        sorted(t.name for t in spark.catalog.listTables() if t.isTemporary),
        set(cached(spark)) - delta_states(spark),
        sorted(str(listener) for listener in context._jsc.sc().listenerBus().listeners()),
        len(java.listenerManager().listListeners()),
        sessions.getActiveSession().get().equals(java),
        tuple(context.getLocalProperty(name) for name in names),
    )


def assert_nothing_is_left(spark: SparkSession, before: Left) -> None:
    """Spark may have removed a listener of another session, which was garbage-collected meanwhile."""
    after = left(spark)
    added = [listener for listener in after.listeners if listener not in before.listeners]
    assert replace(after, listeners=added) == replace(before, listeners=[])


def cached(spark: SparkSession) -> dict[int, Any]:
    """The RDDs that the SparkContext caches, by id."""
    context: Any = spark.sparkContext
    return dict(context._jsc.getPersistentRDDs())


def delta_states(spark: SparkSession) -> set[int]:
    """Ids of cached states of Delta tables. Delta drops the state of a version when there is a new one."""
    return {number for number, rdd in cached(spark).items() if str(rdd.name()).startswith("Delta Table State")}


@pytest.fixture
def live(spark: SparkSession) -> Iterator[SparkSession]:
    """A session of the caller's own, with settings of its own."""
    session = spark.newSession()
    session.conf.set(TIME_ZONE, "Asia/Tokyo")
    session.conf.set("spark.sql.shuffle.partitions", "3")
    session.conf.set("spark.sql.adaptive.enabled", "true")
    session.conf.set("spark.sql.catalog.ice.cache-enabled", "true")  # Iceberg's default
    session.range(3).createOrReplaceTempView("mine")
    sessions = java_sessions(spark.sparkContext._jvm)
    sessions.setActiveSession(session._jsparkSession)
    yield session
    sessions.setActiveSession(spark._jsparkSession)


@pytest.fixture
def tables(live: SparkSession, project: Project, delta_table: TableName, iceberg_table: TableName) -> Project:
    """A project with one layout for a Delta and one for an Iceberg table, four files each."""
    rows = live.range(0, ROWS, 1, 4).selectExpr("id", "hash(id) AS a", "hash(id, 1) AS b", "uuid() AS padding")
    rows.write.format("delta").save(path_of(project, delta_table))
    rows.writeTo(str(iceberg_table)).using("iceberg").create()
    specs = (make_spec(LAYOUT, name) for name in (delta_table, iceberg_table))
    return replace(project, layouts=tuple(sorted(specs, key=lambda s: str(s.table))))


def path_of(project: Project, table: TableName) -> str:
    return str(project.root / "delta" / "db" / table.name)


def frame(live: SparkSession, project: Project, table: TableName) -> Any:
    if project.catalogs[table.catalog].format == "delta":
        return live.read.format("delta").load(path_of(project, table))
    return live.table(str(table))


def test_both_formats_are_applied_and_nothing_is_left_behind(live: SparkSession, tables: Project) -> None:
    mine = live.range(5).cache()
    mine.count()
    before, states = left(live), delta_states(live)
    events: list[Any] = []
    report = zlayout.apply(zlayout.plan(tables), live, events.append)
    assert {table: result.outcome for table, result in report.results.items()} == dict.fromkeys(
        (str(s.table) for s in tables.layouts), "as_declared"
    )
    assert_nothing_is_left(live, before)
    assert not zlayout.plan(tables).has_changes
    assert [type(e) for e in events if not isinstance(e, zlayout.Progress)] == [
        zlayout.TableStarted,
        zlayout.TableEvent,
        zlayout.TableFinished,
    ] * 2
    assert delta_states(live) <= states
    assert before.cached
    mine.unpersist()


def test_pysparks_active_session_is_still_that_of_the_caller(
    live: SparkSession, tables: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pyspark stores it beside that of the JVM, and `createDataFrame` of a rewrite changes it."""
    monkeypatch.setattr(SparkSession, "_activeSession", live)
    zlayout.apply(zlayout.plan(tables), live)
    active = SparkSession.getActiveSession()
    assert active is live
    assert active.conf.get(TIME_ZONE) == "Asia/Tokyo"


def test_the_session_reads_and_deletes_afterwards(live: SparkSession, tables: Project) -> None:
    """Iceberg's catalog caches tables: without a refresh, the session would go on with the old files."""
    (ice,) = (s.table for s in tables.layouts if s.table.catalog == "ice")
    assert {frame(live, tables, s.table).count() for s in tables.layouts} == {ROWS}
    zlayout.apply(zlayout.plan(tables), live)
    live.sql(f"DELETE FROM {ice} WHERE id < 100")
    live.sql(f"DELETE FROM delta.`{path_of(tables, tables.layouts[1].table)}` WHERE id < 100")
    assert {frame(live, tables, s.table).count() for s in tables.layouts} == {ROWS - 100}


def test_frames_from_before_still_run_their_serialised_plans_afterwards(live: SparkSession, tables: Project) -> None:
    frames = [frame(live, tables, s.table).where("a > 0") for s in tables.layouts]
    counts = [f.count() for f in frames]
    zlayout.apply(zlayout.plan(tables), live)
    assert [f.rdd.map(lambda row: row["a"]).count() for f in frames] == counts


def test_a_failing_apply_leaves_nothing_behind_either(
    live: SparkSession, tables: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise ZeroDivisionError("odd")

    monkeypatch.setattr("zlayout.rewrite.gate.Gate.check", broken)
    before = left(live)
    report = zlayout.apply(zlayout.plan(tables), live)
    assert {result.outcome for result in report.results.values()} == {"failed"}
    assert_nothing_is_left(live, before)


def test_an_interrupted_apply_leaves_nothing_behind_either(live: SparkSession, tables: Project) -> None:
    def interrupt(event: object) -> None:
        if isinstance(event, zlayout.Progress):
            raise KeyboardInterrupt

    before = left(live)
    with pytest.raises(KeyboardInterrupt):
        zlayout.apply(zlayout.plan(tables), live, interrupt)
    assert_nothing_is_left(live, before)


def test_a_running_session_that_is_not_given_is_refused_and_stays(live: SparkSession, tables: Project) -> None:
    with pytest.raises(zlayout.Refused, match="ZL209"):
        zlayout.apply(zlayout.plan(tables))
    assert live.range(3).count() == 3


def test_the_current_catalog_of_the_session_does_not_matter(live: SparkSession, tables: Project) -> None:
    live.sql("USE ice.db")
    report = zlayout.apply(zlayout.plan(tables), live)
    assert [result.outcome for result in report.results.values()] == ["as_declared"] * 2
    assert live.catalog.currentCatalog() == "ice"


def test_frames_made_from_rdds_still_belong_to_the_session(live: SparkSession, tables: Project) -> None:
    bound = RDD.toDF
    zlayout.apply(zlayout.plan(tables), live)
    assert RDD.toDF is bound


def test_ctrl_c_during_a_commit_waits_for_it(live: SparkSession, tables: Project) -> None:
    """The commit is known to the report of the run, and the next table is not begun."""
    events: list[object] = []

    def press(event: object) -> None:
        events.append(event)
        if isinstance(event, zlayout.Progress) and event.stage is Stage.COMMITTING:
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        zlayout.apply(zlayout.plan(tables), live, press)
    assert signal.getsignal(signal.SIGINT) is before
    assert [type(e) for e in events if not isinstance(e, zlayout.Progress)] == [
        zlayout.TableStarted,
        zlayout.TableEvent,
    ]
    changed = [t.status for t in zlayout.plan(tables).document.tables]
    assert sorted(changed) == ["changes", "unchanged"]


def test_advise_draws_its_sample_in_the_session(
    live: SparkSession, tables: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zlayout.session.sampling.SMALL_BYTES", 0)  # a small table needs no Spark
    table = tables.layouts[0].table
    workload = tmp_path / "q.sql"
    workload.write_text(f"SELECT * FROM {table.name} WHERE a = 5;")
    before = left(live)
    study = zlayout.advise(tables, str(table), [workload], spark=live)
    assert study.choices
    assert_nothing_is_left(live, before)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"warehouse": "/elsewhere"}, r"ZL208 catalog ice .*expected spark\.sql\.catalog\.ice\.warehouse=/elsewhere"),
        ({"uri": "sqlite:////elsewhere.db"}, r"ZL208 .*spark\.sql\.catalog\.ice\.uri="),
    ],
)
def test_a_catalog_that_points_elsewhere_is_refused(
    live: SparkSession, tables: Project, change: dict[str, str], found: str
) -> None:
    plan = zlayout.plan(tables)
    ice = tables.catalogs["ice"]
    moved = replace(tables, catalogs={**tables.catalogs, "ice": replace(ice, options={**ice.options, **change})})
    with pytest.raises(Refused, match=found):
        zlayout.apply(replace(plan, project=moved), live)


@pytest.mark.parametrize("name", ["s3lake", "s3ice"])
def test_a_store_at_another_endpoint_is_refused(live: SparkSession, project: Project, name: str) -> None:
    catalog = project.catalogs[name]
    storage = catalog.options["storage"]
    LiveRuntime(project, live).require([catalog])
    same = replace(catalog, options={**catalog.options, "storage": {**storage, "endpoint": storage["endpoint"] + "/"}})
    LiveRuntime(project, live).require([same])
    for endpoint, found in (("https://s3.example.com", "https://s3.example.com"), (None, "AWS")):
        moved = {"region": "us-east-1"} | ({"endpoint": endpoint} if endpoint else {})
        other = replace(catalog, options={**catalog.options, "storage": moved})
        with pytest.raises(Refused, match=f"ZL208 .*{name}.*expected {found}, found {storage['endpoint']}"):
            LiveRuntime(project, live).require([other])


def test_a_catalog_that_the_session_lacks_is_refused(live: SparkSession, tables: Project) -> None:
    plan = zlayout.plan(tables)

    catalogs = {**tables.catalogs, "other": replace(tables.catalogs["ice"], name="other")}
    planned = tuple(
        replace(p, spec=replace(p.spec, table=replace(p.spec.table, catalog="other")))
        if p.spec.table.catalog == "ice"
        else p
        for p in plan.planned
    )

    with pytest.raises(Refused, match=r"ZL207 the Spark session lacks spark\.sql\.catalog\.other="):
        zlayout.apply(replace(plan, project=replace(tables, catalogs=catalogs), planned=planned), live)
