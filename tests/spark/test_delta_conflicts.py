"""Engine `zlayout` on Delta: what a change since the plan, or during the run, does to it."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from spark.sample_tables import append_delta, create_delta
from spark.subjects import DeltaSubject
from support.builders import make_layout

from zlayout.errors import CommitConflict, EngineError, Refused
from zlayout.formats.base import Commit, GroupFailed
from zlayout.formats.delta.backend import DeltaBackend
from zlayout.formats.delta.write.jvm import DeltaJvm
from zlayout.table.state import PartitionField

LAYOUT = make_layout("a", "b", target_size=20_000)
ALL = "id, a, b, m['k'], p, _metadata.row_id, _metadata.row_commit_version"


@pytest.fixture
def table(delta: DeltaSubject) -> DeltaSubject:
    return replace(delta, layout=LAYOUT, files=4)


def during_commit(monkeypatch: pytest.MonkeyPatch, change: Callable[[], object]) -> None:
    """Let `change` happen right before the first commit is sent."""
    commit: Callable[..., int] = DeltaJvm.commit
    waiting = [change]

    def commit_after_it(self: DeltaJvm, *arguments: Any) -> int:
        while waiting:
            waiting.pop()()
        return commit(self, *arguments)

    monkeypatch.setattr(DeltaJvm, "commit", commit_after_it)


def test_one_commit_for_all_groups_keeps_rows_ids_and_a_concurrent_append(
    table: DeltaSubject, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_delta(table, 2000)
    before, state = table.rows(ALL), table.observe("a", "b")
    during_commit(monkeypatch, lambda: append_delta(table, 5000, 5010))
    (commit,) = table.run(state, verify="full")
    assert isinstance(commit, Commit)
    after = table.observe("a", "b")
    assert (commit.kind, commit.groups, commit.rows) == ("rewrite", ("g0", "g1"), 1999)
    assert (commit.files_removed, commit.files_added) == (len(state.files), 8)
    assert commit.bytes_removed == int(state.files.bytes.sum())
    laid_out = np.flatnonzero(after.files.layout >= 0)
    assert commit.bytes_added == int(after.files.bytes[laid_out].sum())
    assert len(laid_out) == 8
    assert after.files.layouts[0].settings == LAYOUT.settings()
    assert len({(g, p) for g, p in zip(after.files.group, after.files.partition, strict=True) if g >= 0}) == 2
    assert table.rows(ALL, "id < 5000") == before
    assert table.sql(f"select count(*) n from {table} where id >= 5000").collect()[0].n == 10
    assert after.files.deleted.sum() == 0
    changes = table.spark.read.option("readChangeFeed", "true").option("startingVersion", commit.version)
    assert changes.format("delta").load(str(table.path)).count() == 0

    for column, whole in (("a", 1009), ("b", 997)):
        b = after.files.take(laid_out).bounds[column]
        widths = np.array(b.upper.to_pylist()) - np.array(b.lower.to_pylist())
        assert widths.max() < 0.6 * whole, "four disjoint boxes a partition: each spans about half of each column"
        assert b.lower.null_count == 0

    table.sql(f"alter table {table} set tblproperties ('delta.checkpointInterval' = '1')")
    table.sql(f"delete from {table} where id = 8")
    assert list((table.path / "_delta_log").glob("*.checkpoint*.parquet")), "a checkpoint could be written"
    again = table.observe()
    assert (again.files.layout >= 0).sum() == 8
    assert again.files.deleted.sum() == 1


def test_a_concurrent_delete_without_vectors_drops_just_the_group_it_touched(
    table: DeltaSubject, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_delta(table, 600)
    table.sql(f"alter table {table} set tblproperties ('delta.enableDeletionVectors' = 'false')")
    before, state = table.rows(ALL), table.observe()
    named = next(at for at, p in enumerate(state.files.partitions) if p.values[0] is not None)
    during_commit(monkeypatch, lambda: table.sql(f"delete from {table} where id = 10"))
    outcomes = table.run(state)
    failed = next(o for o in outcomes if isinstance(o, GroupFailed))
    done = next(o for o in outcomes if isinstance(o, Commit))
    assert len(outcomes) == 2
    assert failed.groups == (f"g{named}",)
    assert isinstance(failed.error, CommitConflict)
    assert done.groups == (f"g{1 - named}",)
    assert table.rows(ALL) == [row for row in before if row[0] != 10]


def test_files_changed_since_the_plan_are_left_alone(table: DeltaSubject) -> None:
    create_delta(table, 200)
    state = table.observe()
    table.sql(f"delete from {table} where id in (10, 11)")
    (failed,) = table.run(state)
    assert isinstance(failed, GroupFailed)
    assert (failed.groups, failed.error.diagnostics[0].code) == (("g0", "g1"), "ZL320")
    assert table.observe().version == state.version + 1


def test_one_conflict_costs_a_few_commits_and_files_are_looked_at_before_each(
    table: DeltaSubject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight groups, one of them changed meanwhile: 8, 4, 2, 1, 1, 2, 4 groups in a commit, 3 of which succeed."""
    table.sql(f"create table {table} (id bigint, a int, b int, p int) using delta partitioned by (p)")
    source = table.spark.range(0, 80, 1, 1).selectExpr("id", "cast(id as int) a", "2 b", "cast(id % 8 as int) p")
    table.append(source)
    state = table.observe()
    work = table.work(state, files=1)
    values = [state.files.partitions[at].values[0] for at in range(8)]
    sent, looked_at = [], []
    send, require = DeltaJvm.commit, DeltaJvm.require_files

    def count(self: DeltaJvm, transaction: Any, actions: Any, *rest: Any) -> int:
        if not sent:
            table.sql(f"delete from {table} where id = {values[0]}")
        sent.append(actions.size() // 2)
        return send(self, transaction, actions, *rest)

    def look(self: DeltaJvm, files: Any) -> None:
        looked_at.append(len(files))
        require(self, files)

    monkeypatch.setattr(DeltaJvm, "commit", count)
    monkeypatch.setattr(DeltaJvm, "require_files", look)
    outcomes = list(table.execute(work))
    assert sent == looked_at == [8, 4, 2, 1, 1, 2, 4]
    assert [o.groups for o in outcomes if isinstance(o, GroupFailed)] == [("g0",)]
    assert [len(o.groups) for o in outcomes if isinstance(o, Commit)] == [1, 2, 4]
    kept = [row.id for row in table.sql(f"select id from {table} order by id").collect()]
    assert kept == [id for id in range(80) if id != values[0]]


def test_a_table_that_became_clustered_after_the_check_is_left_alone(
    table: DeltaSubject, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.sql(f"create table {table} using delta as select id, id a, 2 b from range(0, 10, 1, 1)")
    state = table.observe()
    read = DeltaJvm.snapshot

    def after_cluster_by(self: DeltaJvm) -> Any:
        monkeypatch.undo()
        table.sql(f"alter table {table} cluster by (a)")
        return read(self)

    for changes in ({}, {"partition_by": (PartitionField("b"),)}):
        monkeypatch.setattr(DeltaJvm, "snapshot", after_cluster_by)
        monkeypatch.setattr(DeltaBackend, "checked", lambda *_: state)
        with pytest.raises(Refused, match="ZL211"):
            table.run(state, **changes)
    assert {row.operation for row in table.history().values()} == {"CREATE TABLE AS SELECT", "CLUSTER BY"}


def test_a_table_that_took_the_place_of_the_planned_one_is_left_alone(table: DeltaSubject) -> None:
    append_delta(table, 0, 100)
    state = table.observe()
    work = table.work(state, properties=(("note", "zlayout"),), groups=(), table_id="another", version=0)
    with pytest.raises(CommitConflict, match=f"ZL320 .* expected the table another, found {state.table_id}"):
        list(table.execute(work))
    assert table.observe().version == state.version


def test_row_ids_that_a_concurrent_upgrade_adds_are_kept(table: DeltaSubject, monkeypatch: Any) -> None:
    """Delta takes the new property for one that conflicts with nothing, and would give all rows new ids."""
    append_delta(table, 0, 100)
    work = table.work()
    require_files = DeltaJvm.require_files

    def after_an_upgrade(self: DeltaJvm, files: Any) -> None:
        require_files(self, files)
        table.sql(f"alter table {table} set tblproperties ('delta.enableRowTracking' = 'true')")

    monkeypatch.setattr(DeltaJvm, "require_files", after_an_upgrade)
    outcomes = list(table.execute(work))
    assert [type(outcome) for outcome in outcomes] == [GroupFailed] * len(work.groups)
    assert len(outcomes) > 0


def test_a_table_that_becomes_clustered_as_it_is_committed_is_left_alone(table: DeltaSubject, monkeypatch: Any) -> None:
    """Delta by itself would let it pass."""
    table.sql(f"create table {table} using delta as select id, id a, 2 b from range(0, 10, 1, 1)")
    work = table.work()
    during_commit(monkeypatch, lambda: table.sql(f"alter table {table} cluster by (a)"))
    (outcome,) = table.execute(work)
    assert isinstance(outcome, GroupFailed)
    assert isinstance(outcome.error, CommitConflict)
    assert {row.operation for row in table.history().values()} == {"CREATE TABLE AS SELECT", "CLUSTER BY"}


def test_a_table_that_is_clustered_again_before_the_commit_is_left_alone(
    table: DeltaSubject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table feature stays after CLUSTER BY NONE, so that Delta sees no conflict in the next CLUSTER BY."""
    table.sql(f"create table {table} using delta cluster by (a) as select id, id a, 2 b from range(0, 10, 1, 1)")
    table.sql(f"alter table {table} cluster by none")
    work, rows = table.work(), table.rows()
    require_files = DeltaJvm.require_files

    def after_cluster_by(self: DeltaJvm, files: Any) -> None:
        require_files(self, files)
        table.sql(f"alter table {table} cluster by (b)")

    monkeypatch.setattr(DeltaJvm, "require_files", after_cluster_by)
    (outcome,) = table.execute(work)
    assert isinstance(outcome, GroupFailed)
    assert "ZL321" in str(outcome.error)
    assert "the clustering columns were changed" in str(outcome.error)
    monkeypatch.undo()
    assert (table.observe().clustering, table.rows()) == (("b",), rows)
    assert {row.operation for row in table.history().values()} == {"CREATE TABLE AS SELECT", "CLUSTER BY"}
    table.sql(f"alter table {table} cluster by none")
    (commit,) = table.run(table.observe())
    assert isinstance(commit, Commit)
    assert (table.observe().clustering, table.rows()) == ((), rows)


def hand_over(table: DeltaSubject) -> None:
    """Let a catalog take over the commits, which Delta does for new tables only."""
    log = sorted((table.path / "_delta_log").glob("*.json"))
    actions = [json.loads(line) for file in log for line in file.read_text().splitlines()]
    newest = {kind: next(a[kind] for a in reversed(actions) if kind in a) for kind in ("protocol", "metaData")}
    for kind in ("readerFeatures", "writerFeatures"):
        newest["protocol"].setdefault(kind, []).append("catalogManaged")
    newest["protocol"] |= {"minReaderVersion": 3, "minWriterVersion": 7}
    newest["metaData"]["configuration"]["io.unitycatalog.tableId"] = "t"
    time = max(action["commitInfo"]["timestamp"] for action in actions if "commitInfo" in action) + 1
    info = {"timestamp": time, "inCommitTimestamp": time, "operation": "UPGRADE", "operationParameters": {}}
    lines = [json.dumps(action) for action in ({"commitInfo": info}, *({kind: newest[kind]} for kind in newest))]
    (table.path / "_delta_log" / f"{len(log):020}.json").write_text("\n".join(lines))


@pytest.mark.parametrize(
    ("late", "error"), [(False, "ZL314 .*Catalog-Managed table"), (True, "ZL321 .*MetadataChangedException")]
)
def test_a_table_whose_catalog_takes_over_the_commits_is_left_alone(
    table: DeltaSubject, monkeypatch: pytest.MonkeyPatch, late: bool, error: str
) -> None:
    """Delta would let it pass, with a commit in the log of which the catalog knows nothing. late: after the check."""
    append_delta(table, 0, 100)
    features = ("inCommitTimestamp", "vacuumProtocolCheck", "rowTracking")
    enabled = ("delta.enableInCommitTimestamps", "delta.enableRowTracking")
    settings = {**{f"delta.feature.{name}": "supported" for name in features}, **dict.fromkeys(enabled, "true")}
    pairs = ", ".join(f"'{key}' = '{value}'" for key, value in settings.items())
    table.sql(f"alter table {table} set tblproperties ({pairs})")
    work, require_files = table.work(), DeltaJvm.require_files
    if late:
        during_commit(monkeypatch, lambda: hand_over(table))
    else:

        def after_it(self: DeltaJvm, files: Any) -> None:
            require_files(self, files)
            hand_over(table)

        monkeypatch.setattr(DeltaJvm, "require_files", after_it)
    versions = len(list((table.path / "_delta_log").glob("*.json")))
    with pytest.raises(EngineError, match=error):
        raise next(e.error for e in table.execute(work) if isinstance(e, GroupFailed))
    assert len(list((table.path / "_delta_log").glob("*.json"))) == versions + 1


def test_a_partitioning_or_setting_that_somebody_else_changed_stays(table: DeltaSubject) -> None:
    append_delta(table, 0, 100)
    state = table.observe()
    by_p = {"partition_by": (PartitionField("p"),), "groups": ()}
    frame = table.spark.read.format("delta").load(str(table.path))
    overwrite = frame.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
    overwrite.partitionBy("b").save(str(table.path))
    with pytest.raises(CommitConflict, match=r"ZL320 .* is partitioned by b since the plan"):
        table.run(state, **by_p)
    name = "delta.dataSkippingNumIndexedCols"
    table.sql(f"alter table {table} set tblproperties ('{name}' = '40')")
    wanted = {"properties": ((name, "4"),), "groups": ()}
    for had in ({}, {name: "32"}):
        with pytest.raises(CommitConflict, match=f"ZL320 .* has {name} = 40 since the plan"):
            table.run(state, **wanted, had=had)
    assert table.observe().properties[name] == "40"
    for had in ({name: "40"}, {name: "4"}):
        (done,) = table.run(state, **wanted, had=had)
        assert isinstance(done, Commit)
        assert table.observe().properties[name] == "4"
