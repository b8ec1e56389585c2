"""Rollback on both formats: exactly the run is undone, other changes are kept, and anything else is refused."""

import json
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError
from spark.sample_tables import append_delta, create_delta, create_iceberg
from spark.subjects import DeltaSubject, IcebergSubject, SparkSubject
from spark.test_delta_conflicts import ALL, during_commit
from spark.vacuum import vacuum
from support.builders import make_layout, make_spec
from support.rewritten import LIMITS, ROWS, RewrittenTable
from support.runs import plan_and_apply

from zlayout.errors import CommitConflict, CommitUnknown, EngineError, Refused
from zlayout.formats.base import Commit
from zlayout.formats.delta.write import transaction as delta_outcome
from zlayout.formats.delta.write.jvm import DeltaJvm
from zlayout.formats.iceberg.backend import IcebergBackend
from zlayout.formats.iceberg.read.state_property import PROPERTY
from zlayout.formats.iceberg.write import by_sql
from zlayout.formats.iceberg.write import jvm as iceberg_prepared
from zlayout.formats.iceberg.write import rollback as iceberg_rollback
from zlayout.formats.iceberg.write.by_sql import IcebergSql
from zlayout.formats.iceberg.write.jvm import IcebergJvm, Swap
from zlayout.formats.kernel.outcome import Failures, settled
from zlayout.planner.work import PlanOptions
from zlayout.session.plan import plan_table
from zlayout.spec.model import LayoutSpec, Project

LAYOUT = make_layout("a", "b", target_size=20_000)


@pytest.fixture
def table(delta: DeltaSubject) -> DeltaSubject:
    return replace(delta, layout=LAYOUT, files=4)


def without_jvm(table: IcebergSubject) -> IcebergBackend:
    runtime: Any = SimpleNamespace(has_jvm=False)
    return IcebergBackend(table.catalog, runtime)


def roll_back(table: Any, run: str | None = None, backend: Any = None) -> Commit:
    backend = backend or table.backend
    commit: Commit = backend.roll_back(backend.undo(table.name, run), f"undo-{table.name.name}", {}, lambda _: None)
    return commit


def code(error: pytest.ExceptionInfo[Any]) -> str:
    found: str = error.value.diagnostics[0].code
    return found


def live(table: DeltaSubject) -> dict[str, Any]:
    """All fields of the live AddFiles, by path."""
    delta = DeltaJvm(table.spark, str(table.path))
    return {row.path: row.asDict(recursive=True) for row in delta.all_files(delta.snapshot()).collect()}


def planned(spec: LayoutSpec, table: SparkSubject) -> Any:
    """What a plan states about the table, without the version that it was made from."""
    plan = plan_table(spec, table.backend, PlanOptions()).plan
    return plan.status, plan.actions, plan.columns, plan.diagnostics, plan.size_histogram


@pytest.mark.long
def test_the_exact_files_and_the_plan_return_and_an_append_is_kept(
    table: DeltaSubject, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_delta(table, 600)
    spec = make_spec(LAYOUT, table.name)
    files, rows = live(table), table.rows(ALL)
    before = planned(spec, table)
    _, applied = plan_and_apply(spec, table.backend)
    append_delta(table, 5000, 5010)
    shown = table.backend.undo(table.name, None)
    assert (shown.run_id, shown.kept, shown.rows) == (applied.run_id, (shown.version,), 599)
    assert set(shown.returned["path"].to_pylist()) == set(files)
    during_commit(monkeypatch, lambda: append_delta(table, 6000, 6010))
    commit = roll_back(table)
    assert (commit.kind, commit.files_added, commit.rows) == ("rollback", len(files), 599)

    now = live(table)
    assert {path: now[path] for path in files} == files, "every field of every AddFile, among them deletion vectors"
    assert table.rows(ALL, "id < 5000") == rows, "the rows with their ids and commit versions"
    assert len(table.rows("id", "id >= 5000")) == 20
    actions = [json.loads(line) for line in (table.path / "_delta_log" / f"{commit.version:020}.json").open()]
    changed = [action[kind] for action in actions for kind in ("add", "remove") if kind in action]
    assert not any(action["dataChange"] for action in changed)
    table.sql(f"delete from {table} where id >= 5000")
    assert planned(spec, table) == before
    assert table.backend.last_run(table.name, table.observe()) is None

    table.sql(f"alter table {table} set tblproperties ('delta.checkpointInterval' = '1')")
    table.sql(f"delete from {table} where id = 8")
    assert list((table.path / "_delta_log").glob("*.checkpoint*.parquet")), "a checkpoint could be written"
    vacuum(table.spark, str(table))
    assert table.rows(ALL, "id <> 8") == [row for row in rows if row[0] != 8]


@pytest.mark.long
def test_only_runs_in_effect_are_undone(table: DeltaSubject) -> None:
    create_delta(table, 100)
    with pytest.raises(Refused) as none:
        table.backend.undo(table.name, None)
    assert code(none) == "ZL231"
    files = live(table)
    table.run(run_id="one", partitions=[0])
    table.run(run_id="one", partitions=[1])  # a run may make several commits
    first = live(table)
    table.run(run_id="two", partitions=[0])
    with pytest.raises(Refused) as older:
        table.backend.undo(table.name, "one")
    assert code(older) == "ZL232"
    assert "OPTIMIZE of run two at version" in str(older.value)
    roll_back(table)
    assert live(table) == first
    with pytest.raises(Refused) as again:
        table.backend.undo(table.name, "two")
    assert code(again) == "ZL231"
    shown = table.backend.undo(table.name, None)
    assert (shown.run_id, len(shown.commits)) == ("one", 2)
    roll_back(table)
    assert live(table) == files


def test_what_other_writers_changed_is_not_lost(table: DeltaSubject, monkeypatch: pytest.MonkeyPatch) -> None:
    create_delta(table, 100)
    table.run()
    shown, version = table.backend.undo(table.name, None), table.observe().version
    during_commit(monkeypatch, lambda: table.sql(f"delete from {table} where id = 10"))
    with pytest.raises(CommitConflict) as conflict:
        roll_back(table)
    assert code(conflict) == "ZL321"
    assert table.observe().version == version + 1
    with pytest.raises(Refused) as changed:
        table.backend.roll_back(shown, "late", {}, lambda _: None)
    assert code(changed) == "ZL232"
    assert f"DELETE at version {version + 1}" in str(changed.value)


@pytest.mark.parametrize(
    "change",
    [pytest.param("cluster by (b)", marks=pytest.mark.long), "set tblproperties ('delta.enableRowTracking' = 'true')"],
)
def test_changes_that_delta_takes_for_no_conflict_end_a_rollback(
    table: DeltaSubject, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    table.sql(f"create table {table} using delta cluster by (a) as select id, id a, 2 b from range(0, 10, 1, 1)")
    table.sql(f"alter table {table} cluster by none")
    table.run()
    files = live(table)
    register = DeltaJvm.register_metrics

    def after_the_change(self: DeltaJvm, *arguments: Any) -> None:
        register(self, *arguments)
        table.sql(f"alter table {table} {change}")

    monkeypatch.setattr(DeltaJvm, "register_metrics", after_the_change)
    with pytest.raises(CommitConflict, match=r"ZL321 .* before the commit"):
        roll_back(table)
    assert live(table).keys() == files.keys()


@pytest.mark.long
def test_vacuumed_files_and_another_schema_are_refused(table: DeltaSubject) -> None:
    create_delta(table, 100)
    table.run()
    table.sql(f"alter table {table} add column more int")
    assert table.backend.undo(table.name, None).rows == 99, "an added column is null on both sides"
    table.sql(f"alter table {table} drop column m")
    with pytest.raises(Refused) as dropped:
        table.backend.undo(table.name, None)
    assert code(dropped) == "ZL234"
    vacuum(table.spark, str(table))
    with pytest.raises(Refused) as gone:
        table.backend.undo(table.name, None)
    assert code(gone) in ("ZL233", "ZL234")


def entries(table: IcebergSubject) -> set[Any]:
    """The live entries of the manifests, with what they say of the snapshot and the sequence of a file."""
    columns = "status, snapshot_id, sequence_number, file_sequence_number, data_file.file_path, data_file.record_count"
    found = table.sql(f"select {columns} from {table}.entries where status < 2").collect()
    return {tuple(row)[1:] for row in found}


def append_iceberg(table: IcebergSubject, start: int, count: int = 10) -> None:
    rows = table.spark.range(start, start + count, 1, 1)
    table.append(rows.selectExpr("id", "id a", "cast(id % 60 as int) b", "cast(id % 2 as int) p"))


def expire(table: IcebergSubject) -> None:
    """Expire all snapshots but the current one by Iceberg's own API, which also deletes files."""
    table.sql("select 1").collect()
    java = table.java_table()
    java.expireSnapshots().expireOlderThan(int(time.time() * 1000) + 1000).retainLast(1).commit()


class RestSubject(IcebergSubject):
    catalog_name = "rest"


def metadata(jvm: IcebergJvm, java: Any) -> dict[str, Any]:
    """The JSON of Java metadata, without the time of the last change."""
    found: dict[str, Any] = json.loads(jvm.iceberg.TableMetadataParser.toJson(java))
    del found["last-updated-ms"], found["snapshot-log"][-1]["timestamp-ms"]
    return found


def wanted_by_java(table: IcebergSubject, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The metadata that a rollback by Java would commit."""
    found = []
    monkeypatch.setattr(Swap, "commitTransaction", lambda swap: found.append(metadata(table.jvm, swap.wanted)))
    roll_back(table)
    monkeypatch.undo()
    return found[0]


@pytest.mark.parametrize(
    ("version", "by"), [(2, "java"), (2, "sql"), pytest.param(3, "java", marks=pytest.mark.long), (3, "rest")]
)
def test_iceberg_returns_to_the_exact_files_and_plan(
    iceberg: IcebergSubject, version: int, by: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    if by == "rest":
        request.getfixturevalue("rest")
        name = replace(iceberg.name, catalog="rest")
        iceberg = RestSubject(iceberg.project, iceberg.runtime, name)
    create_iceberg(iceberg, version)
    main = f"alter table {iceberg} create or replace branch main retain 90 days with snapshot retention 3 snapshots"
    iceberg.sql(main)
    spec = make_spec(LAYOUT, iceberg.name)
    files, rows, before = entries(iceberg), iceberg.rows(), planned(spec, iceberg)
    lineage = iceberg.lineage() if version == 3 else {}
    _, applied = plan_and_apply(spec, iceberg.backend)
    assert entries(iceberg) != files
    shown = iceberg.backend.undo(iceberg.name, None)
    assert (shown.run_id, shown.kept, shown.rows) == (applied.run_id, (), 540)
    wanted = wanted_by_java(iceberg, monkeypatch)
    commit = roll_back(iceberg, backend=None if by == "java" else without_jvm(iceberg))
    assert (commit.kind, commit.files_added, commit.rows) == ("rollback", 3, 540)
    assert metadata(iceberg.jvm, iceberg.java_table().operations().refresh()) == wanted
    iceberg.sql(f"refresh table {iceberg}")
    assert entries(iceberg) == files
    assert iceberg.rows() == rows
    assert planned(spec, iceberg) == before
    assert PROPERTY not in iceberg.java_table().properties()
    assert version == 2 or iceberg.lineage() == lineage
    expire(iceberg)
    assert iceberg.rows() == rows
    plan_and_apply(spec, iceberg.backend)
    assert planned(spec, iceberg)[0] == "unchanged"


@pytest.mark.usefixtures("rest")
@pytest.mark.parametrize("change", ["append", pytest.param("property", marks=pytest.mark.long)])
def test_a_rest_catalog_compares_the_branch(project: Project, change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = RewrittenTable(project.catalogs["rest"])
    before, updates = table.current(), iceberg_rollback._updates

    def after_the_change(*given: Any) -> Any:
        monkeypatch.undo()
        if change == "append":
            table.append(1000)
        else:  # which neither Iceberg's Java compares in a REST catalog
            table.loaded.transaction().set_properties(other="x").commit_transaction()
        return updates(*given)

    monkeypatch.setattr(iceberg_rollback, "_updates", after_the_change)
    if change == "append":
        with pytest.raises(CommitConflict) as conflict:
            table.roll_back()
        assert code(conflict) == "ZL321"
        assert table.loaded.metadata.snapshot_by_id(table.current()).parent_snapshot_id == before
        assert len(table.read()) == len(table.rows) + ROWS
        return
    table.roll_back()
    assert table.read().equals(table.rows)
    assert table.paths() == table.files
    found = {key: value for key, value in table.loaded.properties.items() if key in (*table.properties, "other")}
    assert found == {**table.properties, "other": "x"}
    assert json.loads(table.loaded.metadata.refs["main"].model_dump_json()).items() >= LIMITS.items()
    with pytest.raises(Refused) as undone:
        table.undo()
    assert code(undone) == "ZL231"


@pytest.mark.long
def test_iceberg_undoes_a_run_by_sql(iceberg: IcebergSubject) -> None:
    """A run over Spark Connect, whose snapshots have no run id, is undone later in a session with a JVM."""
    create_iceberg(iceberg)
    files, rows = entries(iceberg), iceberg.rows()
    state = iceberg.observe()
    work = iceberg.work(state, make_layout("a", "b", engine="native"))
    sql = IcebergSql(iceberg.spark, iceberg.catalog, iceberg.name)
    look = partial(iceberg.backend.observe, iceberg.name, ())
    events = list(by_sql.rewrite(sql, work, state, lambda _: None, look, set()))
    assert [event.kind for event in events if isinstance(event, Commit)][-1] == "record"
    append_iceberg(iceberg, 1000)
    with pytest.raises(Refused) as other:
        iceberg.backend.undo(iceberg.name, "another")
    assert f"in effect: {work.run_id}" in str(other.value)
    assert iceberg.backend.undo(iceberg.name, None).run_id == work.run_id
    roll_back(iceberg)
    assert files < entries(iceberg)
    assert [row for row in iceberg.rows() if row[0] < 1000] == rows
    assert len(iceberg.ids()) == len(rows) + 10
    assert PROPERTY not in iceberg.java_table().properties()
    with pytest.raises(Refused) as undone:
        iceberg.backend.undo(iceberg.name, None)
    assert code(undone) == "ZL231"


@pytest.mark.long
def test_iceberg_keeps_appends_and_refuses_what_it_cannot_keep(iceberg: IcebergSubject) -> None:
    create_iceberg(iceberg)
    with pytest.raises(Refused) as none:
        iceberg.backend.undo(iceberg.name, None)
    assert code(none) == "ZL231"
    rows, files = iceberg.rows(), set(iceberg.observe().files.path.to_pylist())
    iceberg.run(run_id="one")
    state = iceberg.java_table().properties()[PROPERTY]
    append_iceberg(iceberg, 1000)
    iceberg.run(run_id="two")
    append_iceberg(iceberg, 2000)
    with pytest.raises(Refused) as older:
        iceberg.backend.undo(iceberg.name, "one")
    assert code(older) == "ZL232"
    assert "replace of run two" in str(older.value)
    assert iceberg.backend.undo(iceberg.name, None).run_id == "two"
    roll_back(iceberg)
    assert json.loads(iceberg.java_table().properties()[PROPERTY]) == json.loads(state)
    with pytest.raises(Refused) as picked:
        roll_back(iceberg)
    assert code(picked) == "ZL236"
    assert "source-snapshot-id" in str(picked.value)
    expire(iceberg)
    assert [row for row in iceberg.rows() if row[0] < 1000] == rows
    assert len(iceberg.ids()) == len(rows) + 20
    assert files.isdisjoint(iceberg.observe().files.path.to_pylist())
    with pytest.raises(Refused) as expired:
        iceberg.backend.undo(iceberg.name, "one")
    assert code(expired) in ("ZL231", "ZL233")


def test_iceberg_keeps_concurrent_commits(iceberg: IcebergSubject, monkeypatch: pytest.MonkeyPatch) -> None:
    create_iceberg(iceberg)
    rows = iceberg.rows()
    iceberg.run()
    properties: Any = iceberg_rollback._properties

    def append_first(*arguments: Any) -> Any:
        append_iceberg(iceberg, 3000)
        return properties(*arguments)

    monkeypatch.setattr(iceberg_rollback, "_properties", append_first)
    with pytest.raises(CommitConflict) as conflict:
        roll_back(iceberg)
    assert code(conflict) == "ZL321"
    assert len(iceberg.ids()) == len(rows) + 10
    monkeypatch.undo()
    roll_back(iceberg)
    assert [row for row in iceberg.rows() if row[0] < 1000] == rows
    assert len(iceberg.ids()) == len(rows) + 10
    iceberg.run()
    iceberg.sql(f"delete from {iceberg} where id = 20")
    with pytest.raises(Refused) as changed:
        iceberg.backend.undo(iceberg.name, None)
    assert code(changed) == "ZL236"
    assert "deleted rows" in str(changed.value)


@pytest.mark.long
def test_iceberg_metadata_that_cannot_be_read_is_an_error_and_metadata_that_is_gone_is_not(
    iceberg: IcebergSubject,
) -> None:
    create_iceberg(iceberg)
    rows = iceberg.rows()
    iceberg.run()
    version = iceberg.java_table().currentSnapshot().snapshotId()
    previous = list(iceberg.java_table().operations().current().previousFiles())
    before = Path(str(previous[-1].file()).removeprefix("file:"))
    before.write_bytes(b"{")
    with pytest.raises(EngineError):
        roll_back(iceberg)
    assert iceberg.java_table().currentSnapshot().snapshotId() == version
    before.unlink()
    roll_back(iceberg)
    assert iceberg.rows() == rows
    assert PROPERTY not in iceberg.java_table().properties()


@pytest.mark.parametrize("sent", [True, pytest.param(False, marks=pytest.mark.long)])
@pytest.mark.parametrize("format_name", ["delta", "iceberg"])
def test_a_lost_answer_is_settled_by_reading_the_table(
    format_name: str, sent: bool, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    subject: Any = request.getfixturevalue("table" if format_name == "delta" else "iceberg")
    create_delta(subject, 100) if format_name == "delta" else create_iceberg(subject)
    rows = subject.rows("id")
    subject.run()
    state = subject.observe()

    def answerless(doing: str, send: Callable[[], Any], look: Callable[[], Any], failures: Failures) -> Any:
        def lost() -> Any:
            if sent:
                send()
            raise Py4JNetworkError("Answer from Java side is empty")

        return settled(doing, lost, look, failures)

    for module in (iceberg_prepared, delta_outcome):
        monkeypatch.setattr(module, "settled", answerless)
    if sent:
        assert roll_back(subject).version == subject.observe().version
        assert subject.backend.last_run(subject.name, subject.observe()) is None
    else:
        with pytest.raises(CommitUnknown) as unknown:
            roll_back(subject)
        assert code(unknown) == "ZL331"
        assert subject.observe().version == state.version
    assert subject.rows("id") == rows
