"""Delta tables whose catalog owns the commits, made by Delta itself with a catalog in the memory of the JVM."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.builders import make_layout, make_spec

from zlayout.errors import EngineError, Refused
from zlayout.formats.delta.backend import DeltaBackend
from zlayout.planner.work import PlanOptions
from zlayout.session.plan import plan_table
from zlayout.spark.session import SparkRuntime
from zlayout.spec.model import Project, TableName

ROWS = 400
FEATURE = "delta.feature.catalogManaged"


@dataclass(frozen=True)
class Managed:
    """A table by name in Spark's own catalog, which zlayout reads by location."""

    spark: SparkSession
    backend: DeltaBackend
    table: TableName
    path: Path

    @property
    def name(self) -> str:
        return f"spark_catalog.default.{self.table.name}"

    def append(self) -> None:
        rows = self.spark.range(0, ROWS, 1, 2).selectExpr("id", "hash(id) AS a")
        rows.write.format("delta").mode("append").saveAsTable(self.name)

    def rows(self) -> int:
        return self.spark.table(self.name).count()

    def published(self) -> list[str]:
        return sorted(path.name for path in (self.path / "_delta_log").glob("0*.json"))

    def staged(self) -> list[str]:
        return sorted(path.name[:20] for path in (self.path / "_delta_log" / "_staged_commits").glob("*.json"))


@pytest.fixture(scope="module")
def catalog(runtime: SparkRuntime) -> Iterator[None]:
    """Spark's own catalog ratifies commits, and publishes them with every third."""
    jvm: Any = runtime.session._jvm
    commits = jvm.org.apache.spark.sql.delta.coordinatedcommits
    providers = getattr(getattr(commits, "CatalogOwnedCommitCoordinatorProvider$"), "MODULE$")
    providers.registerBuilder("spark_catalog", commits.InMemoryCommitCoordinatorBuilder(3))
    yield
    providers.clearBuilders()


@pytest.fixture
def managed(
    project: Project,
    runtime: SparkRuntime,
    delta_table: TableName,
    delta_path: Path,
    catalog: None,  # noqa: ARG001
) -> Iterator[Managed]:
    table = Managed(runtime.session, DeltaBackend(project.catalogs["lake"], runtime), delta_table, delta_path)
    settings = f"USING delta LOCATION '{delta_path}' TBLPROPERTIES ('{FEATURE}' = 'supported')"
    system = runtime.session._jvm.java.lang.System  # type: ignore[union-attr]
    system.setProperty("spark.testing", "true")  # Delta lets no other catalog than Unity create such a table otherwise
    try:
        runtime.session.sql(f"CREATE TABLE {table.name} (id LONG, a INT) {settings}")
    finally:
        system.clearProperty("spark.testing")
    yield table
    runtime.session.sql(f"DROP TABLE {table.name}")


def test_the_newest_published_version_is_measured_and_the_table_is_refused_by_name(managed: Managed) -> None:
    """The log has versions 0 to 3 of five, and is complete for a reader that does not ask the catalog."""
    managed.append()
    managed.append()
    assert (managed.published(), managed.staged()) == ([f"{0:020}.json"], [f"{n:020}" for n in (1, 2)])
    spec = make_spec(make_layout("a", target_size=1 << 20), managed.table)
    plan = plan_table(spec, managed.backend, PlanOptions()).plan
    assert (plan.status, plan.files, [d.code for d in plan.diagnostics]) == ("unchanged", 0, ["ZL418"])
    managed.append()
    managed.append()
    assert (len(managed.published()), managed.staged()[-1]) == (4, f"{4:020}")
    planned = plan_table(spec, managed.backend, PlanOptions())
    plan = planned.plan
    assert (plan.status, plan.files, plan.rows) == ("refused", 6, 3 * ROWS)
    assert {d.code for d in plan.diagnostics} >= {"ZL212", "ZL418"}
    assert "measured at version 3, the newest one in the log" in str(plan.diagnostics)
    columns = planned.state.files.bounds["a"] if planned.state else None
    assert columns.lower.null_count == 0
    log = sorted((managed.path / "_delta_log").rglob("*"))
    with pytest.raises(Refused, match="ZL212"):
        list(managed.backend.execute(replace(planned, run_id="r"), lambda _: None))
    with pytest.raises(Refused, match="ZL212"):
        managed.backend.undo(managed.table, None)
    assert planned.state is not None
    with pytest.raises(Refused, match=r"ZL212 .* so Spark can read it only by its name in that catalog"):
        managed.backend.sample_source(managed.table, planned.state, 0)
    assert sorted((managed.path / "_delta_log").rglob("*")) == log
    assert managed.rows() == 4 * ROWS


def test_delta_gives_no_transaction_by_location_if_the_refusal_were_missing(
    managed: Managed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second guard: the work of a plan of a table that was dropped and made again, with the checks of zlayout off."""
    managed.append()
    ordinary = replace(managed, table=replace(managed.table, name=f"{managed.table.name}_before"))
    managed.spark.sql(f"CREATE TABLE {ordinary.name} (id LONG, a INT) USING delta LOCATION '{managed.path}_before'")
    ordinary.append()
    spec = make_spec(make_layout("a", target_size=1 << 20), ordinary.table)
    planned = plan_table(spec, managed.backend, PlanOptions())
    assert planned.plan.status == "changes"
    work = replace(planned, run_id="r", spec=replace(spec, table=managed.table))
    before = managed.published(), managed.staged()
    state = replace(planned.state, location=str(managed.path)) if planned.state else None
    monkeypatch.setattr(DeltaBackend, "checked", lambda *_: state)
    with pytest.raises(EngineError, match=r"(?i)catalog"):
        list(managed.backend.execute(work, lambda _: None))
    assert (managed.published(), managed.staged()) == before
    managed.spark.sql(f"DROP TABLE {ordinary.name}")
