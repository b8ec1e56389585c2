"""Spark and its libraries replace `${...}` in SQL texts and settings by default. What zlayout passes stays as it is."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyspark.sql import DataFrame, SparkSession
from spark.subjects import DeltaSubject, IcebergSubject, SparkSubject
from support.builders import make_layout, make_spec
from support.runs import plan_and_apply

import zlayout
from zlayout.predicate.model import In
from zlayout.session.trial import scan
from zlayout.spark.jvm import frame_of, java_sessions, jvm_of, scala_seq
from zlayout.spark.session import LiveRuntime
from zlayout.spec.client_options import pyiceberg_properties
from zlayout.spec.model import LayoutSpec, Project
from zlayout.table.state import TableState

VALUE = "${env:CANARY}"
OTHER = 'it\'s :p ? \\ "q" /*+ h */ -- x'
PARTITIONS = (VALUE, "secret${x}", OTHER)
EXCLUDED = "secret"
PART = "p$"  # a regular expression that does not match itself
# Settings of a caller's session that change what a SQL text means.
OTHERWISE = {
    "spark.sql.variable.substitute": "true",
    "spark.sql.parser.escapedStringLiterals": "true",
    "spark.sql.parser.quotedRegexColumnNames": "true",
    "spark.sql.ansi.doubleQuotedIdentifiers": "true",
    "spark.sql.catalog.ice.cache-enabled": "true",  # Iceberg's default
}


@pytest.fixture
def caller(spark: SparkSession) -> Iterator[SparkSession]:
    session = spark.newSession()
    for key, value in OTHERWISE.items():
        session.conf.set(key, value)
    sessions = java_sessions(spark.sparkContext._jvm)
    sessions.setActiveSession(session._jsparkSession)
    yield session
    sessions.setActiveSession(spark._jsparkSession)


def rows_of(file: int) -> pa.Table:
    """100 rows of each partition, with a column whose name Spark would replace."""
    ids = range(file * 1000, file * 1000 + 400)
    parts = (*PARTITIONS, EXCLUDED)
    columns = {"id": ids, VALUE: [i * 7919 % 1009 for i in ids], PART: [parts[i % 4] for i in ids]}
    return pa.table(columns, pa.schema([("id", pa.int64()), (VALUE, pa.int64()), (PART, pa.string())]))


def create_delta(table: DeltaSubject) -> None:
    options = {"delta.columnMapping.mode": "name", "delta.dataSkippingStatsColumns": "id"}
    for file in range(2):
        rows = [tuple(row.values()) for row in rows_of(file).to_pylist()]
        frame = table.spark.createDataFrame(rows, "id long, c long, p string").toDF("id", VALUE, PART).coalesce(1)
        frame.write.format("delta").options(**options).mode("append").partitionBy(PART).save(str(table.path))


def create_iceberg(table: IcebergSubject) -> None:
    catalog = load_catalog("ice", **pyiceberg_properties(table.catalog))
    catalog.create_namespace_if_not_exists(table.name.namespace)
    made = catalog.create_table(table.name.identifier, rows_of(0).schema)
    with made.update_spec() as spec:
        spec.add_identity(PART)
    for file in range(2):
        made.append(rows_of(file))


def create(table: SparkSubject) -> None:
    create_delta(table) if isinstance(table, DeltaSubject) else create_iceberg(table)  # type: ignore[arg-type]


def files_of(table: SparkSubject) -> dict[str, Any]:
    """The live files with their partition value."""
    files = table.observe().files
    return {p: files.partitions[at].values[0] for p, at in zip(files.path.to_pylist(), files.partition, strict=True)}


def read(table: SparkSubject) -> list[Any]:
    if isinstance(table, DeltaSubject):
        frame = table.spark.read.format("delta").load(str(table.path))
        return sorted(map(tuple, frame.collect()))
    catalog = load_catalog("ice", **pyiceberg_properties(table.catalog))
    rows = catalog.load_table(table.name.identifier).scan().to_arrow()
    return sorted(tuple(row.values()) for row in rows.to_pylist())


def texts_below(folder: Path) -> str:
    """The names of all files, and the contents of those that are texts."""
    found = [str(path.relative_to(folder)) for path in sorted(folder.rglob("*"))]
    return "\n".join([*found, *(path.read_text() for path in sorted(folder.rglob("*.json")))])


def tables_of(subject: SparkSubject) -> tuple[SparkSubject, SparkSubject]:
    """A table, and the one whose name Spark would make of the name of the first."""
    place = (f"{subject.name.name}{VALUE}",)
    names = (replace(subject.name, namespace=place, name=name) for name in ("orders${x}", "orders"))
    table, neighbour = (replace(subject, name=name) for name in names)
    create(table)
    create(neighbour)
    return table, neighbour


def spec_of(table: SparkSubject, engine: str) -> LayoutSpec:
    layout = make_layout(VALUE, curve="zorder", target_size=4_000, engine=engine)
    return make_spec(layout, table.name, where=In(PART, PARTITIONS), commit_properties={"note": VALUE})


@dataclass(frozen=True)
class Before:
    """A table and its neighbour, as they were."""

    table: SparkSubject
    neighbour: SparkSubject
    rows: list[Any]
    files: dict[str, Any]
    state: TableState

    @classmethod
    def of(cls, subject: SparkSubject) -> Before:
        table, neighbour = tables_of(subject)
        return cls(table, neighbour, read(table), files_of(table), neighbour.observe())

    def assert_only_the_scope_was_rewritten(self) -> None:
        left = files_of(self.table)
        assert {value for path, value in self.files.items() if path not in left} == set(PARTITIONS)
        assert {value for path, value in self.files.items() if path in left} == {EXCLUDED}
        assert read(self.table) == self.rows
        now = self.neighbour.observe()
        assert (now.version, now.files.path) == (self.state.version, self.state.files.path)
        assert VALUE in texts_below(Path(self.table.observe().location.removeprefix("file://")))
        assert os.environ["CANARY"] not in texts_below(self.table.project.root)


@pytest.mark.parametrize("format", [pytest.param("delta", marks=pytest.mark.long), "iceberg"])
def test_a_session_of_zlayout_replaces_nothing(
    request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture, format: str
) -> None:
    before = Before.of(request.getfixturevalue(format))
    spec, messages = spec_of(before.table, "native"), list[Any]()
    _, applied = plan_and_apply(spec, before.table.backend, notify=messages.append)
    assert applied.after is not None
    assert applied.after.status == "unchanged"
    before.assert_only_the_scope_was_rewritten()
    assert os.environ["CANARY"] not in "\n".join([caplog.text, *map(str, messages), repr(applied.commits)])


@pytest.mark.parametrize("engine", [pytest.param("native", marks=pytest.mark.long), "zlayout"])
def test_nor_does_a_clone_of_a_session_that_does(
    project: Project, caller: SparkSession, delta: DeltaSubject, iceberg: IcebergSubject, engine: str
) -> None:
    """Code of the caller, which runs at each event, makes the session of the caller the active one again."""
    found = [Before.of(subject) for subject in (delta, iceberg)]
    specs = tuple(spec_of(before.table, engine) for before in found)
    messages: list[str] = []

    def notify(event: Any) -> None:
        messages.append(repr(event))
        caller.createDataFrame([(1,)], "n int")

    cached = named(caller, found[1].table)
    assert {path.rpartition("/")[2] for path in found[1].files} == opened(cached)
    settings = caller.conf.getAll
    plan, threads = zlayout.plan(replace(project, layouts=specs)), 2 if engine == "native" else 1
    report = zlayout.apply(plan, caller, notify, concurrent_tables=threads)
    assert {result.outcome for result in report.results.values()} == {"as_declared"}, report.results
    assert caller.conf.getAll == settings
    for before in found:
        before.assert_only_the_scope_was_rewritten()
    assert os.environ["CANARY"] not in "\n".join(messages)
    now = {path.rpartition("/")[2] for path in files_of(found[1].table)}
    assert opened(named(caller, found[1].table)) == now, "the table was refreshed in the caller's session"


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_a_replayed_condition_is_not_changed_either(
    request: pytest.FixtureRequest, project: Project, caller: SparkSession, tmp_path: Path, format: str
) -> None:
    table, neighbour = tables_of(request.getfixturevalue(format))
    before, state = neighbour.observe(), table.observe()
    with LiveRuntime(project, caller) as live:
        frame = replace(table, runtime=live).backend.sample_source(table.name, state, 1).frame
        caller.createDataFrame([(1,)], "n int")
        assert [scan(frame, In(PART, (value,))).rows for value in PARTITIONS] == [200] * 3
    assert neighbour.observe().version == before.version
    assert os.environ["CANARY"] not in texts_below(tmp_path)


def named(session: SparkSession, table: SparkSubject) -> DataFrame:
    """The table in a session that would replace its name in a text."""
    jvm = jvm_of(session)
    parts = scala_seq(jvm, [table.name.catalog, *table.name.identifier])
    options = jvm.org.apache.spark.sql.util.CaseInsensitiveStringMap.empty()
    return frame_of(session, jvm.org.apache.spark.sql.catalyst.analysis.UnresolvedRelation(parts, options, False))


def opened(frame: DataFrame) -> set[str]:
    return {row[0].rpartition("/")[2] for row in frame.select("_file").distinct().collect()}
