"""Engine native on Iceberg by SQL alone: its statements, and which snapshots and layout records are those of a run."""

import re
from collections.abc import Sequence
from contextlib import nullcontext
from datetime import date
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from support.builders import SPEC_PLACE, make_file_table, make_group, make_layout, make_state, make_work

from zlayout.errors import CommitUnknown, EngineError, Refused, ZlayoutError
from zlayout.formats.base import Commit, GroupFailed
from zlayout.formats.iceberg.read.history import RunCommit
from zlayout.formats.iceberg.read.manifests import Change
from zlayout.formats.iceberg.read.observe import NO_SNAPSHOT
from zlayout.formats.iceberg.write import by_sql
from zlayout.formats.iceberg.write.by_sql import IcebergSql
from zlayout.spec.model import CatalogConfig, TableName
from zlayout.table.state import Column, Partition, PartitionField

NAME = TableName("ice", ("db",), "t")
LAYOUT = make_layout("a", "s.x", curve="zorder", engine="native")
COLUMNS = tuple(
    Column(name, type_, orderable=True, stats=True)
    for name, type_ in {
        "a": pa.int32(), "k": pa.int64(), "n": pa.string(), "flag": pa.bool_(), "d": pa.date32(), "w": pa.float64()
    }.items()
)  # fmt: skip
STATE = make_state(make_file_table([1]), format="iceberg", columns=COLUMNS, version=7)


def partition(*pairs: tuple[str, str, Any]) -> Partition:
    fields = tuple(PartitionField(source, transform) for source, transform, _ in pairs)
    return Partition(0, fields, tuple(value for _, _, value in pairs))


@pytest.mark.parametrize(
    ("chosen", "condition"),
    [
        ([partition(("k", "identity", v)) for v in (1, None)], "(`k` IS NULL OR `k` IN (CAST(1 AS BIGINT)))"),
        ([partition(("n", "identity", "it's"))], "`n` IN ('it\\'s')"),
        ([partition(("n", "truncate[2]", "ab"))], "`ice`.system.truncate(2, `n`) IN ('ab')"),
        ([partition(("k", "bucket[8]", 3)), partition(("k", "bucket[8]", 5))], "`ice`.system.bucket(8, `k`) IN (3, 5)"),
        ([partition(("d", "day", -1))], "`ice`.system.days(`d`) IN (DATE'+1969-12-31')"),
        ([partition(("d", "month", -1))], "`ice`.system.months(`d`) IN (-1)"),
        ([partition(("flag", "identity", False))], "(`flag` = FALSE AND `flag` IS NOT NULL)"),
        ([partition(("w", "identity", float("nan")))], "`w` = CAST('nan' AS DOUBLE)"),
        ([partition(("a", "year", 3), ("n", "identity", None))], "(`ice`.system.years(`a`) = 3 AND `n` IS NULL)"),
        ([partition(("d", "identity", date(2024, 1, 2)), ("d", "month", 648))], "`d` IN (DATE'2024-01-02')"),
        ([partition(("k", "identity", 1)), partition()], ""),
    ],
)  # fmt: skip
def test_partitions_are_selected_as_the_java_action_selects_them(chosen: list[Partition], condition: str) -> None:
    assert by_sql.where("`ice`.system", chosen, STATE) == condition


@pytest.mark.parametrize(
    ("curve", "order"),
    [
        ("zorder", "zorder(`a`, `s`.`x`)"),
        ("hilbert", "hilbert(`a`, `s`.`x`)"),
        ("linear", "`a` ASC NULLS FIRST, `s`.`x` ASC NULLS FIRST"),
    ],
)
def test_the_order_of_each_curve(curve: str, order: str) -> None:
    assert by_sql.sort_order(make_layout("a", "s.x", curve=curve)) == order


class Server:
    """A session whose procedure makes commits, in the order of `commits`, and then answers or fails."""

    def __init__(self, *commits: RunCommit, answer: tuple[int, int, int] | Exception) -> None:
        self.commits, self.answer, self.statements = commits, answer, list[str]()
        self.found: tuple[RunCommit, ...] = ()
        self.properties: dict[str, str] = {}
        self.conf = SimpleNamespace(get=lambda _, default: default)

    def sql(self, statement: str) -> Any:
        self.statements.append(statement)
        return SimpleNamespace(collect=lambda: self.carry_out(statement))

    def carry_out(self, statement: str) -> list[Any]:
        if statement.startswith("ALTER TABLE"):
            self.properties |= dict(re.findall(r"'(zlayout\.\w+)' = '([^']*)'", statement.replace("\\u0020", " ")))
            return []
        self.found = self.commits
        if isinstance(self.answer, Exception):
            raise self.answer
        names = ("rewritten_data_files_count", "added_data_files_count", "failed_data_files_count")
        return [dict(zip(names, self.answer, strict=True))]


def commit(snapshot: int, removed: set[str], added: set[str]) -> RunCommit:
    return RunCommit(snapshot, Change(frozenset(removed), frozenset(added), 1, 1, 1), snapshot - 1)


WHOLE = commit(8, {"f1", "f2"}, {"new"})
OTHER = commit(9, {"g1"}, {"g2"})


@pytest.fixture
def rewritten(monkeypatch: pytest.MonkeyPatch) -> Any:
    def rewritten(server: Server) -> list[Commit | GroupFailed]:
        snapshots = [SimpleNamespace(snapshot_id=7, parent_snapshot_id=None, summary=None)]
        metadata: Any = SimpleNamespace(
            snapshots=snapshots, default_spec_id=0, properties=server.properties, current_snapshot=lambda: snapshots[0]
        )
        monkeypatch.setattr(IcebergSql, "metadata", lambda _: metadata)
        monkeypatch.setattr(by_sql, "rewrites_since", lambda *_: server.found)
        monkeypatch.setattr(by_sql, "live_snapshots", lambda *_: frozenset())
        monkeypatch.setattr("zlayout.formats.iceberg.read.state_property.render", lambda _: "the records")
        group = make_group("g", make_file_table([1, 1], path=["f1", "f2"]), 1)
        work = make_work(LAYOUT, NAME, groups=[group], covers_table=True)
        sql = IcebergSql(server, CatalogConfig("ice", "iceberg", "sql", {}, SPEC_PLACE), NAME)  # type: ignore[arg-type]
        state = make_state(make_file_table([1, 1, 1], path=["f1", "f2", "g1"]), version=7)
        return list(by_sql.rewrite(sql, work, state, lambda _: None, lambda _: state, set()))

    return rewritten


def kinds(events: list[Any]) -> list[str]:
    return [event.kind if isinstance(event, Commit) else event.error.diagnostics[0].code for event in events]


def test_the_rewrite_is_recorded(rewritten: Any) -> None:
    server = Server(WHOLE, answer=(2, 1, 0))
    assert kinds(rewritten(server)) == ["rewrite", "record"]
    call, alter = server.statements
    assert call.startswith("CALL `ice`.system.rewrite_data_files(table => '`ice`.`db`.`t`', strategy => 'sort', ")
    assert "sort_order => 'zorder(`a`, `s`.`x`)'" in call
    assert "'use-starting-sequence-number', 'false'" in call
    assert "where" not in call
    assert alter == (
        "ALTER TABLE `ice`.`db`.`t` SET TBLPROPERTIES "
        "('zlayout.state' = 'the\\u0020records', 'zlayout.runs' = '{\"run\":[8]}')"
    )


def test_expired_snapshots_leave_the_list_of_runs(rewritten: Any) -> None:
    server = Server(WHOLE, answer=(2, 1, 0))
    server.properties["zlayout.runs"] = '{"old":[5,7],"gone":[6]}'
    rewritten(server)
    assert server.properties["zlayout.runs"] == '{"old":[7],"run":[8]}'


def test_the_rewrites_of_others_are_neither_counted_nor_recorded(rewritten: Any) -> None:
    assert kinds(rewritten(Server(OTHER, WHOLE, answer=(2, 1, 0)))) == ["rewrite", "record"]
    foreign = Server(WHOLE, answer=(0, 0, 2))  # another writer was faster
    assert kinds(rewritten(foreign)) == ["rewrite"]
    assert len(foreign.statements) == 1


def test_what_the_procedure_rewrote_beside_the_plan_is_reported(rewritten: Any) -> None:
    with pytest.raises(EngineError, match="ZL340"):
        rewritten(Server(OTHER, WHOLE, answer=(3, 2, 0)))


def test_a_lost_answer_is_settled_by_the_snapshots(rewritten: Any) -> None:
    lost = ConnectionError("gone")
    with pytest.raises(CommitUnknown, match="ZL331"):
        rewritten(Server(answer=lost))
    server = Server(WHOLE, answer=lost)
    assert kinds(rewritten(server)) == ["rewrite"]
    assert len(server.statements) == 1  # no record: nothing proves that the rewrite is that of the run
    part = commit(8, {"f1"}, {"new"})
    assert kinds(rewritten(Server(part, answer=lost))) == ["rewrite", "ZL331"]


def test_groups_without_a_commit_have_failed(rewritten: Any) -> None:
    assert kinds(rewritten(Server(answer=(0, 0, 0)))) == ["ZL322"]
    assert kinds(rewritten(Server(answer=(0, 0, 2)))) == ["ZL315"]


def test_earlier_rewrites_of_the_run_are_not_those_of_others() -> None:
    replace = SimpleNamespace(value="replace")
    summary = SimpleNamespace(additional_properties={"deleted-data-files": "2"}, operation=replace)
    snapshots = [
        SimpleNamespace(snapshot_id=7, parent_snapshot_id=None, summary=None),
        SimpleNamespace(snapshot_id=8, parent_snapshot_id=7, summary=summary),
    ]
    metadata: Any = SimpleNamespace(snapshots=snapshots, current_snapshot=lambda: snapshots[1])
    work = make_work(LAYOUT, NAME, groups=[make_group("g", make_file_table([1]), 1)])
    by_sql.require_appends_only(metadata, work, {8})
    with pytest.raises(Refused, match="ZL225"):
        by_sql.require_appends_only(metadata, work, {9})


@pytest.mark.parametrize(
    ("settings", "yields", "named"),
    [
        ({"table": NAME.on("audit"), "covers_table": True}, False, "a rewrite on a branch"),
        ({"covers_table": True, "commit_properties": {"t": "1"}}, False, "commit.properties"),
        ({"covers_table": True}, True, "yield_to_writers"),
        ({}, False, "by dropped, whose column was dropped"),
        ({"covers_table": True}, False, ""),
    ],
)
def test_what_sql_cannot_express_is_refused(settings: dict[str, Any], yields: bool, named: str) -> None:
    gone = partition(("dropped", "identity", 1))
    group = make_group("g", make_file_table([1], partitions=[gone]), 1)
    work = make_work(LAYOUT, groups=[group], **({"table": NAME} | settings))
    with pytest.raises(Refused, match=f"ZL204 .*{named}") if named else nullcontext():
        by_sql.require_expressible(work, STATE, yields=yields)


def test_words_of_other_statements_are_not_in_the_text() -> None:
    assert by_sql._literal_of("drop branch x") == "'drop\\u0020branch\\u0020x'"


class Checked:
    """A server that answers what is checked before any write."""

    version = "4.0.5"

    def __init__(
        self,
        rows: Sequence[Any] = (1,),
        *,
        extensions: str = "a.B,org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        iceberg: str = "1.11.0",
        readable: bool = True,
    ) -> None:
        self._rows, self._iceberg, self._readable = rows, iceberg, readable
        self.conf = SimpleNamespace(get=lambda *_: extensions)

    def sql(self, statement: str) -> Any:
        return SimpleNamespace(collect=lambda: [[self._iceberg]] if "iceberg_version" in statement else self._rows)

    def table(self, _: str) -> Any:
        if not self._readable:
            raise ValueError("unsupported type: geometry")
        return SimpleNamespace(schema=())


ORC = {"properties": {"write.format.default": "orc"}, "features": frozenset({"row-lineage"})}


@pytest.mark.parametrize(
    ("server", "curve", "state", "code"),
    [
        (Checked(), "zorder", {}, ""),
        (Checked(extensions="a.B"), "zorder", {}, "ZL207 .*lacks spark.sql.extensions=org.apache.iceberg"),
        (Checked([]), "zorder", {}, "ZL320 .*with snapshot 7"),
        (Checked([{"value": "/t"}]), "zorder", {"version": NO_SNAPSHOT}, ""),
        (Checked([{"value": "/u"}]), "zorder", {"version": NO_SNAPSHOT}, "ZL320 .*at /t"),
        (Checked(readable=False), "zorder", {}, "ZL227 the Iceberg 1.11.0 of the Spark server cannot read"),
        (Checked(), "zorder", ORC, "ZL228"),
        (Checked(), "hilbert", {}, "ZL223 .*of Iceberg 1.11.0 has no curve hilbert"),
        (Checked(iceberg="1.12.0"), "hilbert", {}, ""),
    ],
)
def test_what_the_server_lacks_is_refused(server: Any, curve: str, state: dict[str, Any], code: str) -> None:
    work = make_work(make_layout("a", curve=curve), NAME, groups=[make_group("g", make_file_table([1]), 1)])
    sql = IcebergSql(server, CatalogConfig("ice", "iceberg", "sql", {}, SPEC_PLACE), NAME)
    with pytest.raises(ZlayoutError, match=code) if code else nullcontext():
        by_sql.require_same_table(sql, work, make_state(make_file_table([1]), format="iceberg", **state))
