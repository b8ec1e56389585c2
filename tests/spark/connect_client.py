"""The tests of `test_connect.py`, which runs them in an environment that has the client alone: no pyspark, no py4j.

The server is given as in `spark.connect_tables`. Rows are compared by deltalake and pyiceberg.
"""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from deltalake import CommitProperties, DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql.connect.client.reattach import ExecutePlanResponseReattachableIterator
from spark.connect_tables import (
    PARTS,
    PLACE,
    TOKEN,
    URL,
    IcebergTable,
    Table,
    code_of,
    during_rewrite,
    running,
    stopped,
)

import zlayout
from zlayout.cli.apply import Moment
from zlayout.cli.main import run
from zlayout.errors import EngineError, Refused
from zlayout.formats.base import Commit, GroupFailed, Progress, Stage
from zlayout.formats.delta.write.by_sql import (
    DeltaSql,
    require_exclusive_commits,
    require_own_files,
    require_same_table,
)
from zlayout.formats.iceberg.write.by_sql import IcebergSql
from zlayout.formats.iceberg.write.by_sql import require_same_table as require_same_iceberg_table
from zlayout.session.results import TableEvent, TableFinished, TableStarted
from zlayout.spark import connect
from zlayout.spark.session import ConnectRuntime


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    session: Any = SparkSession.builder.remote(URL).create()
    yield session
    session.release_session_on_close = False  # the last test has killed the server
    connect.close_session(session)


def test_a_closed_session_is_not_closed_again_when_it_is_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    own = connect.open_session(URL)
    connect.close_session(own)
    waited = list[bool]()
    monkeypatch.setattr(ExecutePlanResponseReattachableIterator, "shutdown", lambda: waited.append(True))
    own.__del__()  # as Python does in any thread
    assert own.client.is_closed
    assert waited == []


@pytest.fixture
def ice(tmp_path: Path) -> IcebergTable:
    return IcebergTable(tmp_path)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path)


def test_apply_drift_and_the_empty_plan(
    table: Table, session: SparkSession, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before, conf = table.rows(), sorted(map(str, session.sql("SET").collect()))
    events: list[Any] = []
    report = zlayout.apply(table.plan(), spark=session, on_event=events.append)
    assert report.results["lake.db.t"].problems == ()
    commits = [e.event for e in events if isinstance(e, TableEvent) and isinstance(e.event, Commit)]
    assert [c.kind for c in commits] == ["settings", "rewrite"]
    assert table.rows() == before
    assert table.status() == "unchanged"
    assert sorted(map(str, session.sql("SET").collect())) == conf
    laid = table.plan().planned[0].state.files
    assert laid.layout.tolist() == [0] * PARTS
    assert len(set(laid.group.tolist())) == PARTS
    assert laid.layouts[0].settings["zorder.columns"] == ["a", "b"]

    DeltaTable(str(table.path)).create_checkpoint()
    table.append()  # the records of the files that are left stay true
    assert sorted(table.plan().planned[0].state.files.layout.tolist()) == [-1] * PARTS + [0] * PARTS
    assert [str(found.table) for found in zlayout.drift(table.project).drifted] == ["lake.db.t"]

    before = table.rows()
    monkeypatch.chdir(table.root)
    monkeypatch.setenv("PATH", "/nonexistent")  # a client needs no Java
    version = DeltaTable(str(table.path)).version()
    assert run(["apply", "--auto-approve", "--remote", URL]) == 0
    assert DeltaTable(str(table.path)).version() == version + 1  # the table property is set once
    assert table.rows() == before
    assert table.status() == "unchanged"
    assert table.plan().planned[0].state.files.layout.tolist() == [0] * PARTS
    written = capfd.readouterr()
    assert TOKEN not in written.out + written.err
    monkeypatch.setenv("SPARK_REMOTE", URL)
    assert run(["rollback", "lake.db.t", "--auto-approve"]) == 3  # which needs the JVM
    assert "ZL204" in capfd.readouterr().err


@pytest.mark.long
def test_liquid_clustering_and_a_change_of_its_columns(tmp_path: Path, session: SparkSession) -> None:
    table = Table(tmp_path, parts=0)
    session.sql(f"ALTER TABLE delta.`{table.path}` CLUSTER BY (a)")
    before = table.rows()
    layout = tmp_path / "layouts" / "t.yaml"
    layout.write_text(layout.read_text().replace("zorder}", "hilbert}"))
    assert zlayout.apply(table.plan(), spark=session).results["lake.db.t"].succeeded
    assert table.rows() == before
    assert table.status() == "unchanged"
    assert table.plan().planned[0].state.clustering == ("a", "b")
    assert "zlayout.records" not in DeltaTable(str(table.path)).metadata().configuration


def test_engine_zlayout_is_refused(tmp_path: Path, session: SparkSession) -> None:
    table = Table(tmp_path, "zlayout")
    version = DeltaTable(str(table.path)).version()
    report = zlayout.apply(table.plan(), spark=session)
    problem = report.results["lake.db.t"].problems[0]
    assert problem.code == "ZL204"
    assert "engine: native" in problem.hint
    assert DeltaTable(str(table.path)).version() == version


def test_a_conflict_is_planned_again_and_loses_nothing(tmp_path: Path, session: SparkSession) -> None:
    table = Table(tmp_path, parts=4)

    def delete() -> None:
        DeltaTable(str(table.path)).delete("part = 3", commit_properties=CommitProperties(max_commit_retries=50))

    events: list[Any] = []
    follow = during_rewrite(table, delete)

    def on_event(event: Any) -> None:
        follow(event)
        events.append(event)

    expected = [row for row in table.rows() if row["part"] != 3]
    report = zlayout.apply(table.plan(), spark=session, on_event=on_event)
    assert report.results["lake.db.t"].succeeded
    failed = [e.event.error for e in events if isinstance(e, TableEvent) and isinstance(e.event, GroupFailed)]
    assert [error.diagnostics[0].code for error in failed] == ["ZL321"]
    assert table.rows() == expected
    assert table.status() == "unchanged"


@pytest.mark.long
@pytest.mark.parametrize("kind", [Table, IcebergTable])
def test_a_session_that_was_closed_has_an_unknown_outcome(
    kind: type[Table], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = kind(tmp_path)
    opened: list[Any] = []

    def open_session(remote: str) -> Any:
        opened.append(connect.open_session(remote))
        return opened[0]

    def close(event: Any) -> None:
        if isinstance(event, Progress) and event.stage is Stage.REWRITING:
            opened[0].client.release_session()

    monkeypatch.setattr("zlayout.spark.session.open_session", open_session)
    monkeypatch.setenv("SPARK_REMOTE", URL)
    changes = table.changes()
    report = zlayout.apply(table.plan(), on_event=close)
    assert code_of(report) == "ZL331"
    assert table.changes() == changes + (kind is Table)  # the table property of Delta


@pytest.mark.long
def test_another_table_at_the_location_is_refused(table: Table, session: SparkSession, tmp_path: Path) -> None:
    name = table.plan().planned[0].spec.table
    with pytest.raises(zlayout.CommitConflict, match=r"ZL320"):
        require_same_table(DeltaSql(session, str(table.path)), name, "another-id")
    with pytest.raises(Refused, match=r"ZL208 .* finds no Delta table"):
        require_same_table(DeltaSql(session, str(tmp_path / "none")), name, "another-id")


@pytest.mark.long
def test_files_outside_and_commits_that_could_be_replaced(table: Table, session: SparkSession) -> None:
    name = table.plan().planned[0].spec.table
    require_own_files(DeltaSql(session, str(table.path)), name, ())
    log = Path(f"{table.path}_clone/_delta_log")
    shutil.copytree(table.path / "_delta_log", log)
    for commit in log.glob("*.json"):
        commit.write_text(commit.read_text().replace('"path":"part', f'"path":"file://{table.path}/part'))
    with pytest.raises(Refused, match="ZL242"):
        require_own_files(DeltaSql(session, f"{table.path}_clone"), name, ())
    require_own_files(DeltaSql(session, f"{table.path}_clone"), name, (str(table.path),))
    require_exclusive_commits(DeltaSql(session, "/lake/t"), name)
    with pytest.raises(Refused, match=r"ZL220 .*spark\.delta\.logStore\.s3a\.impl=no value"):
        require_exclusive_commits(DeltaSql(session, "s3a://bucket/t"), name)


@pytest.mark.long
@pytest.mark.parametrize(
    ("options", "found"),
    [({"versionAsOf": "1"}, [*range(10)]), ({}, [0, 1, 2, 4, 5, 6, 7, 8, 9, 10])],
    ids=["planned version", "newest version"],
)
def test_a_dataframe_replaces_files_that_it_has_not_read(
    options: dict[str, str], found: list[int], tmp_path: Path, session: SparkSession
) -> None:
    """Why engine zlayout needs a JVM (ADR 0050): no check of the version, row ids that change, no way back."""
    table = f"delta.`{tmp_path}`"

    def ids() -> list[int]:
        return sorted(row["id"] for row in session.sql(f"SELECT id FROM {table}").collect())

    def row_ids() -> list[int]:
        read = session.read.format("delta").load(str(tmp_path))
        return sorted(row[0] for row in read.select("_metadata.row_id").collect())

    features = "'delta.enableDeletionVectors' = 'true', 'delta.enableRowTracking' = 'true'"
    session.sql(f"CREATE TABLE {table} (id INT, part INT) USING delta PARTITIONED BY (part) TBLPROPERTIES ({features})")
    session.sql(f"INSERT INTO {table} SELECT CAST(id AS INT), CAST(id % 2 AS INT) FROM range(10)")
    rows = session.read.format("delta").options(**options).load(str(tmp_path)).where("part = 1")
    session.sql(f"INSERT INTO {table} VALUES (10, 1)")
    session.sql(f"DELETE FROM {table} WHERE id = 3")
    before = row_ids()
    writer = rows.write.format("delta").mode("overwrite").option("replaceWhere", "part = 1")
    writer.option("dataChange", "false").save(str(tmp_path))
    assert ids() == found  # with the planned version, 10 is lost, and 3 is there again
    assert row_ids() != before
    session.sql(f"INSERT INTO {table} VALUES (11, 1)")
    session.sql(f"RESTORE TABLE {table} TO VERSION AS OF 3")
    assert ids() == [0, 1, 2, 4, 5, 6, 7, 8, 9, 10]  # without 11


def test_the_client_is_alone() -> None:
    assert find_spec("py4j") is None


def test_bad_addresses_and_tokens(
    table: Table, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connect, "SECONDS_TO_ANSWER", 1)
    monkeypatch.chdir(table.root)
    changes = table.changes()
    for remote, message in (
        ("sc://localhost:1/;token=wrong-token", "ZL342 no Spark Connect server answers at sc://localhost:1 within"),
        (f"sc://{PLACE}/;token=wrong-token", f"ZL343 the Spark server at sc://{PLACE} refuses the token"),
    ):
        assert run(["apply", "--auto-approve", "--remote", remote]) == 1
        written = "".join(capfd.readouterr())
        assert message in written
        assert "wrong-token" not in written
    assert table.changes() == changes
    for address in ("http://localhost", "sc://", "sc://local host:x"):
        with pytest.raises(EngineError, match=r"ZL342 invalid address"):
            connect.open_session(address)
    monkeypatch.setattr("pyspark.__version__", "4.9.0")
    with pytest.raises(Refused, match=r"ZL262 .* version 4\.9\.0, and the server"):
        connect.open_session(URL)
    monkeypatch.setattr("pyspark.__version__", "3.5.7")
    with pytest.raises(Refused, match=r"ZL262 .* version 3\.5\.7, which does not report conflicts"):
        connect.open_session(URL)


def test_a_setting_that_the_server_does_not_allow(session: SparkSession) -> None:
    with pytest.raises(Refused, match=r"ZL263 .*spark.sql.warehouse.dir"):
        connect.set_conf(session, "spark.sql.warehouse.dir", "/x")


@pytest.mark.long
def test_an_interrupt_cancels_the_statement(table: Table, session: SparkSession) -> None:
    runtime = ConnectRuntime(table.project, (), session)
    raised: list[Exception] = []

    def work() -> None:
        try:
            runtime.session.range(10**13).selectExpr("sum(id % 7)").collect()
        except Exception as error:
            raised.append(error)

    thread = threading.Thread(target=work)
    with runtime:
        assert not runtime.cancel()
        runtime.cancellable = True
        thread.start()
        end = time.monotonic() + 60
        while thread.is_alive() and time.monotonic() < end:
            assert runtime.cancel()
            time.sleep(0.2)
    thread.join(1)
    assert len(raised) == 1
    assert "CANCEL" in str(raised[0]).upper()


@pytest.mark.long
@pytest.mark.parametrize("kind", [Table, IcebergTable])
def test_ctrl_c_ends_the_statement_and_keeps_the_rows(
    kind: type[Table], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark.connect_tables.ROWS", 2_000_000)
    table = kind(tmp_path, parts=1)
    before, changes, files, others = table.rows(), table.changes(), {*table.path.rglob("*.parquet")}, running()
    command = ["/usr/bin/env", "--default-signal=INT", sys.executable, "-m", "zlayout"]
    command += ["apply", "--auto-approve", "--remote", URL]
    process = subprocess.Popen(command, cwd=table.root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while process.poll() is None and {*table.path.rglob("*.parquet")} == files:
        time.sleep(0.01)
    with stopped():  # so that the server cannot commit before the client has asked it to cancel
        assert running() - others
        process.send_signal(signal.SIGINT)
        time.sleep(2)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    made = "1 commit made before remains" if kind is Table else "nothing was committed"  # the table property of Delta
    assert f"Interrupted by SIGINT: {made}. To continue, plan and apply again." in err
    end = time.monotonic() + 60
    while running() - others and time.monotonic() < end:
        time.sleep(0.2)
    assert running() - others == set()
    assert table.changes() == changes + (kind is Table)
    assert table.rows() == before
    monkeypatch.chdir(table.root)
    assert run(["apply", "--auto-approve", "--remote", URL]) == 0
    assert table.rows() == before


def test_the_tasks_of_a_rewrite_are_counted(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    moments: list[Moment] = []
    monkeypatch.setattr("zlayout.cli.apply.REFRESH_SECONDS", 0.01)
    monkeypatch.setattr("zlayout.cli.apply.Lines.moved", lambda _, moment: moments.append(moment))
    monkeypatch.chdir(table.root)
    assert run(["apply", "--auto-approve", "--remote", URL]) == 0
    counts = list(dict.fromkeys((each.done, each.total) for each in moments if each.total))
    assert len({done for done, _ in counts}) > 2
    assert all(done <= total for done, total in counts)


def test_apply_drift_and_the_empty_plan_on_iceberg(
    ice: IcebergTable, session: SparkSession, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before, conf = ice.rows(), sorted(map(str, session.sql("SET").collect()))
    events: list[Any] = []
    report = zlayout.apply(ice.plan(), spark=session, on_event=events.append)
    assert report.results[ice.name].problems == ()
    commits = [e.event for e in events if isinstance(e, TableEvent) and isinstance(e.event, Commit)]
    assert [c.kind for c in commits] == ["rewrite"] * PARTS + ["record"]
    assert [(c.files_removed, c.files_added, len(c.groups)) for c in commits[:-1]] == [(3, 1, 1)] * PARTS
    assert ice.rows() == before
    assert ice.status() == "unchanged"
    assert sorted(map(str, session.sql("SET").collect())) == conf
    laid = ice.plan().planned[0].state
    assert laid.files.layouts[0].settings["zorder.columns"] == ["a", "b"]
    assert laid.rewrites == ()  # not those of other writers, although the snapshots have no run id

    ice.append()
    assert sorted(ice.plan().planned[0].state.files.layout.tolist()) == [-1] * PARTS + [0] * PARTS
    assert [str(found.table) for found in zlayout.drift(ice.project).drifted] == [ice.name]
    before = ice.rows()
    monkeypatch.chdir(ice.root)
    monkeypatch.setenv("PATH", "/nonexistent")  # a client needs no Java
    assert run(["apply", "--auto-approve", "--remote", URL]) == 0
    assert ice.rows() == before
    assert ice.status() == "unchanged"
    assert TOKEN not in "".join(capfd.readouterr())
    assert run(["apply", "--auto-approve", "--remote", URL]) == 0
    assert ice.snapshots() == ["append"] * 3 + ["replace"] * PARTS + ["append"] + ["replace"] * PARTS

    files = sorted(laid.files.path.to_pylist())
    monkeypatch.setenv("SPARK_REMOTE", URL)
    assert run(["rollback", ice.name, "--auto-approve"]) == 0
    assert ice.rows() == before
    assert ice.status() == "changes"
    assert set(files) < {*ice.plan().planned[0].state.files.path.to_pylist()}
    assert sorted(ice.plan().planned[0].state.files.layout.tolist()) == [-1] * PARTS + [0] * PARTS
    capfd.readouterr()
    assert run(["rollback", ice.name, "--auto-approve"]) == 3  # of the first run, with the append that came later
    assert "ZL204" in capfd.readouterr().err
    assert run(["apply", "--auto-approve", "--remote", URL]) == 0
    assert ice.rows() == before
    assert ice.status() == "unchanged"


@pytest.mark.parametrize(
    ("parts", "deleted", "code"),
    [(4, "part = 3", "ZL322"), pytest.param(1, "id < 100", "ZL321", marks=pytest.mark.long)],
    ids=["partitions", "table"],
)
def test_a_conflict_on_iceberg_is_planned_again_and_loses_nothing(
    parts: int, deleted: str, code: str, tmp_path: Path, session: SparkSession
) -> None:
    ice = IcebergTable(tmp_path, parts=parts)
    events: list[Any] = []
    follow = during_rewrite(ice, lambda: ice.loaded.delete(deleted))

    def on_event(event: Any) -> None:
        follow(event)
        events.append(event)

    expected = [row for row in ice.rows() if row["part"] != 3 and (parts > 1 or row["id"] >= 100)]
    report = zlayout.apply(ice.plan(), spark=session, on_event=on_event)
    assert report.results[ice.name].succeeded
    failed = [e.event.error for e in events if isinstance(e, TableEvent) and isinstance(e.event, GroupFailed)]
    assert [error.diagnostics[0].code for error in failed] == [code]
    assert ice.rows() == expected
    assert ice.status() == "unchanged"
    assert {"delete", "overwrite"} & {*ice.snapshots()}


class TransformedTable(IcebergTable):
    """A table that the server has partitioned by columns of several types, three files in each of three partitions."""

    ROWS = (
        "1, NULL, NULL, NULL, NULL, NULL",
        "1, FALSE, 'it''s \u0024{x} \\\\', DATE'1969-02-03', TIMESTAMP_NTZ'1969-12-31 23:00:00', -9000000000",
        "2, TRUE, 'other', DATE'2024-02-03', TIMESTAMP_NTZ'2024-01-01 01:00:00', 7",
    )

    def __init__(self, root: Path, session: SparkSession, partitioned_by: str) -> None:
        self._session, self._partitioned_by = session, partitioned_by
        super().__init__(root)

    def create(self) -> None:
        columns = "part INT, flag BOOLEAN, name STRING, day DATE, at TIMESTAMP_NTZ, key BIGINT, a INT, b INT, id INT"
        clauses = f"PARTITIONED BY ({self._partitioned_by}) TBLPROPERTIES ('write.metadata.metrics.column.a' = 'none')"
        self._session.sql(f"CREATE TABLE {self.name} ({columns}) USING iceberg {clauses}")

    def append(self) -> None:
        values = ", ".join(f"({row}, 1, 2, {at})" for at, row in enumerate(self.ROWS))
        self._session.sql(f"INSERT INTO {self.name} VALUES {values}")

    def paths(self) -> dict[int, set[str]]:
        """The paths of the files that have the rows of each id."""
        found: dict[int, set[str]] = {}
        for row in self._session.sql(f"SELECT id, _file FROM {self.name}").collect():
            found.setdefault(row["id"], set()).add(row["_file"])
        return found


@pytest.mark.long
@pytest.mark.parametrize(
    ("curve", "partitioned_by", "scope", "rewritten"),
    [
        ("zorder", "part, flag, truncate(3, name), months(day), days(at), bucket(3, key)", "part < 2", (0, 1)),
        # Iceberg takes `NOT flag` for a condition that is true for null too
        ("linear", "part, flag", "flag IS NOT NULL", (1, 2)),
        ("hilbert", "years(day), hours(at)", "at < TIMESTAMP_NTZ '2000-01-01 00:00:00'", (1,)),
    ],
    ids=["transforms", "flag", "times"],
)
def test_only_the_planned_partitions_are_rewritten(
    curve: str, partitioned_by: str, scope: str, rewritten: tuple[int, ...], tmp_path: Path, session: SparkSession
) -> None:
    ice = TransformedTable(tmp_path, session, partitioned_by)
    layout = ice.root / "layouts" / "t.yaml"
    layout.write_text(layout.read_text().replace("zorder}", f"{curve}}}") + f'where: "{scope}"\n')
    rows, before = ice.rows(), ice.paths()
    report = zlayout.apply(ice.plan(), spark=session)
    assert report.results[ice.name].problems == ()
    after = ice.paths()
    assert {at for at in before if before[at] != after[at]} == set(rewritten)
    assert [len(after[at]) for at in rewritten] == [1] * len(rewritten)
    assert ice.rows() == rows
    assert ice.status() == "unchanged"
    assert ice.loaded.metadata.properties["write.metadata.metrics.column.a"] != "none"  # a had no bounds before


@pytest.mark.long
def test_two_tables_at_the_same_time(tmp_path: Path, session: SparkSession) -> None:
    for name in ("lake", "ice", "both"):
        (tmp_path / name).mkdir()
    tables = [Table(tmp_path / "lake"), IcebergTable(tmp_path / "ice")]
    root = tmp_path / "both"
    (root / "layouts").mkdir()
    catalogs = ", ".join(table.catalogs().strip("{}") + "}" for table in tables)
    (root / "zlayout.yaml").write_text(f"version: 1\ncatalogs: {{{catalogs}}}\n")
    for at, table in enumerate(tables):
        shutil.copy(table.root / "layouts" / "t.yaml", root / "layouts" / f"{at}.yaml")
    before, filters, events = [table.rows() for table in tables], list(warnings.filters), []
    report = zlayout.apply(
        zlayout.plan(zlayout.load_project(root)), spark=session, concurrent_tables=2, on_event=events.append
    )
    assert {name: result.problems for name, result in report.results.items()} == {t.name: () for t in tables}
    ends = [type(event) for event in events if isinstance(event, TableStarted | TableFinished)]
    assert ends == [TableStarted] * 2 + [TableFinished] * 2
    assert [table.rows() for table in tables] == before
    assert [table.status() for table in tables] == ["unchanged"] * 2
    assert warnings.filters == filters


@pytest.mark.long
def test_what_sql_cannot_express_is_refused(ice: IcebergTable, session: SparkSession) -> None:
    snapshots = ice.snapshots()
    settings = ice.root / "zlayout.yaml"
    plain = settings.read_text()
    settings.write_text(plain + "commit: {properties: {ticket: '1'}}\n")
    report = zlayout.apply(ice.plan(), spark=session)
    assert code_of(report) == "ZL204"
    assert "commit.properties" in report.results[ice.name].problems[0].message
    settings.write_text(plain)
    layout = ice.root / "layouts" / "t.yaml"
    native = layout.read_text()
    for text in (native.replace("native", "zlayout"), native + "partition_by: [part, 'bucket(2, id)']\n"):
        layout.write_text(text)
        assert code_of(zlayout.apply(ice.plan(), spark=session)) == "ZL204"
    assert ice.snapshots() == snapshots
    assert ice.loaded.metadata.properties == {}


@pytest.mark.long
def test_another_table_of_the_name_is_refused(ice: IcebergTable, session: SparkSession) -> None:
    (planned,) = ice.plan().planned
    sql = IcebergSql(session, ice.project.catalogs["ice"], planned.spec.table)
    with pytest.raises(zlayout.CommitConflict, match=r"ZL320 .* with snapshot 17, the Spark server finds another one"):
        require_same_iceberg_table(sql, planned, replace(planned.state, version=17))
    other = replace(sql, table=replace(sql.table, name="none"))
    with pytest.raises(Refused, match=r"ZL208 .* finds no such Iceberg table"):
        require_same_iceberg_table(other, planned, planned.state)


@pytest.mark.parametrize("kind", [Table, pytest.param(IcebergTable, marks=pytest.mark.long)])  # one each for a server
def test_a_server_that_dies_has_an_unknown_outcome_and_loses_nothing(
    kind: type[Table], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connect, "_RETRIES", 1)
    monkeypatch.setenv("SPARK_REMOTE", URL)
    table = kind(tmp_path)
    before = table.rows()
    report = zlayout.apply(
        table.plan(),
        on_event=during_rewrite(table, lambda: os.kill(int(os.environ["CONNECT_PROCESS"]), signal.SIGKILL)),
    )
    assert code_of(report) == "ZL331"
    assert table.rows() == before
