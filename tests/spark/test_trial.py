"""Trials on branches: what Spark opens is measured on both sides, and only what was checked is published."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from spark.subjects import IcebergSubject, SparkSubject
from support.builders import make_layout, make_spec
from support.ranges import files_touched

import zlayout
from zlayout.errors import CommitConflict, CommitUnknown, Refused
from zlayout.formats.iceberg.write import jvm as prepared
from zlayout.formats.trial import Reads
from zlayout.planner import selection as accepted
from zlayout.planner.model import Status
from zlayout.spec.model import MAIN, LayoutSpec, Project

QUERIES = """\
-- weight: 3
SELECT id FROM {table} WHERE a BETWEEN 100 AND 140;
SELECT count(*) FROM {table} t JOIN other o ON t.id = o.id WHERE t.b = 17 AND o.x > 2;
"""
CONDITIONS = [{"a": (100, 140)}, {"b": (17, 17)}]
ROWS, FILES = 6_000, 6


def fill(table: SparkSubject) -> None:
    """Rows in six files, each of which has all values of both columns."""
    columns = ["id", "id * 7919 % 1009 a", "cast(id * 104729 % 997 as int) b", "cast(id % 2 as int) p"]
    table.append(table.spark.range(0, ROWS, 1, FILES).selectExpr(*columns))  # type: ignore[attr-defined]


def spec_of(table: SparkSubject, folder: Path) -> LayoutSpec:
    size = int(table.observe().files.bytes.sum()) // FILES
    path = folder / "queries.sql"
    path.write_text(QUERIES.format(table=table.name.name))
    return make_spec(make_layout("a", "b", target_size=size), table.name, workload=(path,))


@pytest.fixture
def table(iceberg: IcebergSubject) -> IcebergSubject:
    columns = "id bigint, a bigint, b int, p int"
    iceberg.sql(f"create table {iceberg} ({columns}) using iceberg tblproperties ('format-version'='2')")
    fill(iceberg)
    iceberg.sql(f"delete from {iceberg} where id = 11")
    return iceberg


@pytest.fixture
def declared(project: Project, table: IcebergSubject, tmp_path: Path) -> Project:
    return replace(project, layouts=(spec_of(table, tmp_path),))


def planned(project: Project, table: SparkSubject, branch: str = MAIN) -> Any:
    """What a plan states about the table, without the version that it was made from."""
    found = zlayout.plan(project, str(table.name.on("")), branch=branch)
    (plan,) = found.document.tables
    return plan.status, plan.actions, plan.columns, plan.diagnostics


def refs(table: IcebergSubject) -> dict[str, int]:
    return {name: int(ref.snapshotId()) for name, ref in dict(table.java_table().refs()).items()}


def marks(table: IcebergSubject) -> set[str]:
    return {key for key in table.java_table().properties() if key.startswith(("zlayout.trial", "zlayout.accepted"))}


def tried(project: Project, table: IcebergSubject, branch: str = "try") -> zlayout.TrialReport:
    return zlayout.trial(project, str(table.name), branch=branch, spark=table.spark)


def publish(project: Project, table: IcebergSubject, branch: str = "try") -> None:
    zlayout.publish(project, zlayout.plan_publish(project, str(table.name), branch), table.spark)


def drop(project: Project, table: IcebergSubject, branch: str = "try") -> None:
    zlayout.drop_trial(project, zlayout.plan_drop_trial(project, str(table.name), branch=branch), table.spark)


def before_sending(monkeypatch: pytest.MonkeyPatch, change: Callable[[], object]) -> None:
    """Let something happen once, after a commit was prepared and before it is sent."""
    settled = prepared.settled

    def changed(doing: str, send: Callable[[], Any], look: Callable[[], Any], failures: Any) -> Any:
        monkeypatch.setattr(prepared, "settled", settled)
        change()
        return settled(doing, send, look, failures)

    monkeypatch.setattr(prepared, "settled", changed)


def test_a_trial_is_measured_published_rolled_back_and_dropped(declared: Project, table: IcebergSubject) -> None:
    before, rows, start = planned(declared, table), table.rows(), refs(table)
    report = tried(declared, table)
    assert report.created
    assert refs(table).keys() == {MAIN, "try"}
    assert refs(table)[MAIN] == start[MAIN] == report.main_version
    audit = table.on("try")
    assert audit.rows() == rows == table.rows()
    # Spark opens what the bounds in the metadata say, on both sides
    for side, name in (("main", table), ("trial", audit)):
        files = name.observe("a", "b").files
        opened = [files_touched(files, condition) for condition in CONDITIONS]
        for query, hit in zip(sorted(report.queries, key=lambda q: q.location), opened, strict=True):
            found = getattr(query, side)
            assert (found.files, found.bytes) == (int(hit.sum()), int(files.bytes[hit].sum()))
    assert report.measured.bytes < report.main.bytes
    assert report.predicted.files == pytest.approx(report.measured.files, rel=0.35)
    assert [q.weight for q in sorted(report.queries, key=lambda q: q.location)] == [3, 1]
    assert [q.main.rows for q in report.queries] == [q.trial.rows for q in report.queries]
    assert report.diagnostics == ()
    # a second trial finds the branch laid out, and only measures
    made = len(list(table.java_table().snapshots()))
    again = tried(declared, table)
    assert (again.created, again.result, again.queries) == (False, None, report.queries)
    assert len(list(table.java_table().snapshots())) == made
    assert planned(declared, table) == before

    # publish knows what was measured, and refuses a trial of which the queries read more
    version, reads = report.trial.version, again.trial.reads
    assert reads == report.reads == Reads(report.main.bytes, report.measured.bytes)
    assert zlayout.plan_publish(declared, str(table.name), "try").reads == reads
    reads_more = f"{version}:{reads.trial}:{reads.main}"
    table.sql(f"alter table {table} set tblproperties ('zlayout.trial-reads.try' = '{reads_more}')")
    with pytest.raises(Refused, match="ZL256"):
        publish(declared, table)
    assert refs(table)[MAIN] == start[MAIN]
    zlayout.plan_publish(declared, str(table.name), "try", allow_worse=True)
    tried(declared, table)  # measures again, and stores it

    publish(declared, table)
    assert refs(table) == dict.fromkeys((MAIN, "try"), report.trial.version)
    assert table.rows() == rows
    assert planned(declared, table)[0] is Status.UNCHANGED
    publish(declared, table)  # again, which finds nothing to do
    assert zlayout.plan_publish(declared, str(table.name), "try").published
    run = zlayout.inspect(declared, str(table.name)).last_run
    assert run.run_id == report.result.run_id

    zlayout.rollback(declared, zlayout.plan_rollback(declared, str(table.name)), table.spark)
    assert (refs(table)[MAIN], table.rows()) == (start[MAIN], rows)
    assert planned(declared, table) == before
    drop(declared, table)
    assert (refs(table), marks(table)) == (start, set())
    assert planned(declared, table) == before
    with pytest.raises(Refused, match="ZL238"):
        drop(declared, table)


def test_publish_loses_and_adds_no_row(
    declared: Project, table: IcebergSubject, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried(declared, table)
    shown = zlayout.plan_publish(declared, str(table.name), "try")

    # what does not concern main or the branch only makes the commit be prepared again
    before_sending(monkeypatch, lambda: table.sql(f"alter table {table} set tblproperties ('team' = 'x')"))
    zlayout.publish(declared, shown, table.spark)
    assert refs(table)[MAIN] == shown.version
    zlayout.rollback(declared, zlayout.plan_rollback(declared, str(table.name)), table.spark)

    # the branch moves, is dropped, or main moves between the check and the commit
    before_sending(monkeypatch, lambda: table.sql(f"insert into {table.on('try')} values (70001, 1, 1, 1)"))
    with pytest.raises(CommitConflict, match="ZL320"):
        zlayout.publish(declared, shown, table.spark)
    with pytest.raises(Refused, match=r"ZL251 .* commits that are not rewrites by zlayout: .*append"):
        publish(declared, table)
    with pytest.raises(Refused, match="ZL253"):
        drop(declared, table)
    assert 70001 not in table.ids()
    table.sql(f"alter table {table} drop branch try")

    tried(declared, table)
    shown = zlayout.plan_publish(declared, str(table.name), "try")
    before_sending(monkeypatch, lambda: table.sql(f"insert into {table} values (70002, 1, 1, 1)"))
    with pytest.raises(CommitConflict, match="ZL320"):
        zlayout.publish(declared, shown, table.spark)
    assert 70002 in table.ids()
    with pytest.raises(Refused, match=r"ZL250 .* was made \(by \d+ \(append\)\)"):
        publish(declared, table)
    assert [d.code for d in tried(declared, table).diagnostics] == ["ZL461"]
    drop(declared, table)
    assert 70002 in table.ids()

    tried(declared, table)
    shown = zlayout.plan_publish(declared, str(table.name), "try")
    before_sending(monkeypatch, lambda: table.sql(f"alter table {table} drop branch try"))
    with pytest.raises(CommitConflict, match="ZL320"):
        zlayout.publish(declared, shown, table.spark)
    assert refs(table)[MAIN] == shown.main


def test_a_lost_answer_is_settled(declared: Project, table: IcebergSubject, monkeypatch: pytest.MonkeyPatch) -> None:
    tried(declared, table)
    settled = prepared.settled

    def answerless(doing: str, send: Callable[[], Any], look: Callable[[], Any], failures: Any) -> Any:
        def lost() -> Any:
            send()
            raise ConnectionResetError("no answer")

        return settled(doing, lost, look, failures)

    monkeypatch.setattr(prepared, "settled", answerless)
    publish(declared, table)
    assert refs(table)[MAIN] == refs(table)["try"]

    def unsent(doing: str, send: Callable[[], Any], look: Callable[[], Any], failures: Any) -> Any:  # noqa: ARG001
        return settled(doing, lambda: (_ for _ in ()).throw(ConnectionResetError("no answer")), look, failures)

    monkeypatch.setattr(prepared, "settled", unsent)
    with pytest.raises(CommitUnknown, match="ZL331"):
        drop(declared, table)
    assert "try" in refs(table)


def test_only_branches_of_trials_are_dropped(declared: Project, table: IcebergSubject) -> None:
    table.sql(f"alter table {table} create branch audit")
    tried(declared, table, "audit")  # a branch of another writer can be tried, but is not dropped
    with pytest.raises(Refused, match=r"ZL252 .* did not make this branch"):
        drop(declared, table, "audit")
    table.sql(f"alter table {table} create tag v1")
    with pytest.raises(Refused, match="ZL238"):
        drop(declared, table, "v1")
    with pytest.raises(zlayout.SpecError, match="ZL059"):
        drop(declared, table, MAIN)
    assert refs(table).keys() == {MAIN, "audit", "v1"}


def test_a_branch_that_sql_makes_after_a_trial_of_that_name_is_not_dropped(
    declared: Project, table: IcebergSubject
) -> None:
    tried(declared, table)
    table.sql(f"alter table {table} drop branch `try`")
    table.sql(f"alter table {table} create branch `try`")
    assert marks(table)  # SQL leaves the property
    with pytest.raises(Refused, match=r"ZL252 .* did not make this branch"):
        drop(declared, table)
    assert "try" in refs(table)
    table.sql(f"alter table {table} drop branch `try`")
    tried(declared, table)
    drop(declared, table)
    assert (refs(table).keys(), marks(table)) == ({MAIN}, set())


@pytest.mark.long
def test_what_a_branch_accepts_is_accepted_on_main(declared: Project, table: IcebergSubject) -> None:
    table.sql(f"alter table {table} add partition field bucket(2, id)")
    spec = replace(declared.layouts[0], partition_by=None)
    declared = replace(declared, layouts=(spec,))
    assert tried(declared, table).predicted is not None
    value = table.java_table().properties()[f"{accepted.PROPERTY}.try"]
    publish(declared, table)
    assert table.java_table().properties()[accepted.PROPERTY] == value != ""
    assert planned(declared, table)[0] is Status.UNCHANGED
    drop(declared, table)
    assert marks(table) == {accepted.PROPERTY}


class RestSubject(IcebergSubject):
    """A table in a REST catalog, which checks of a commit only the requirements that are sent with it."""

    catalog_name = "rest"


@pytest.mark.long
@pytest.mark.usefixtures("rest")
def test_a_rest_catalog_checks_the_branches_that_a_commit_changes(
    project: Project, iceberg: IcebergSubject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = RestSubject(project, iceberg.runtime, replace(iceberg.name, catalog="rest"))
    table.sql(f"create table {table} (id bigint, a bigint, b int, p int) using iceberg")
    fill(table)
    project = replace(project, layouts=(spec_of(table, tmp_path),))
    report = tried(project, table)
    shown = zlayout.plan_publish(project, str(table.name), "try")
    before_sending(monkeypatch, lambda: table.sql(f"insert into {table} values (70001, 1, 1, 1)"))
    with pytest.raises(CommitConflict, match="ZL320"):
        zlayout.publish(project, shown, table.spark)
    assert 70001 in table.ids()
    dropped = zlayout.plan_drop_trial(project, str(table.name), branch="try")
    before_sending(monkeypatch, lambda: table.sql(f"insert into {table.on('try')} values (70002, 1, 1, 1)"))
    with pytest.raises(CommitConflict, match="ZL320"):
        zlayout.drop_trial(project, dropped, table.spark)
    assert 70002 in table.on("try").ids()
    table.sql(f"alter table {table} drop branch try")

    report = tried(project, table)
    publish(project, table)
    assert refs(table)[MAIN] == report.trial.version
    assert 70001 in table.ids()
    drop(project, table)
    assert (refs(table).keys(), marks(table)) == ({MAIN}, set())


@pytest.mark.long
def test_engine_native_and_row_ids_are_published(project: Project, iceberg: IcebergSubject, tmp_path: Path) -> None:
    properties = "tblproperties ('format-version'='3')"
    iceberg.sql(f"create table {iceberg} (id bigint, a bigint, b int, p int) using iceberg {properties}")
    fill(iceberg)
    spec = spec_of(iceberg, tmp_path)
    project = replace(project, layouts=(spec,))
    lineage = iceberg.lineage()
    tried(project, iceberg)
    publish(project, iceberg)
    assert iceberg.lineage() == lineage
    drop(project, iceberg)

    rows = iceberg.rows()
    native = replace(project, layouts=(replace(spec, layout=replace(spec.layout, engine="native", curve="linear")),))
    report = tried(native, iceberg, "native")
    assert report.result is not None
    publish(native, iceberg, "native")
    assert refs(iceberg)[MAIN] == report.trial.version
    assert iceberg.rows() == rows
    assert planned(native, iceberg)[0] is Status.UNCHANGED
