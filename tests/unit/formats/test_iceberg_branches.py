"""The newest snapshots of branches, and which Iceberg can rewrite a branch by its own action."""

from types import SimpleNamespace
from typing import Any

import pytest

from zlayout.errors import CommitConflict, Refused
from zlayout.formats.iceberg.read.history import head, heads
from zlayout.formats.iceberg.write import staging as java
from zlayout.spec.model import TableName

NAME = TableName("ice", ("db",), "t")


def ref(snapshot: int, kind: str = "branch") -> Any:
    return SimpleNamespace(snapshot_id=snapshot, snapshot_ref_type=SimpleNamespace(value=kind))


def metadata(refs: dict[str, Any], snapshots: int = 4) -> Any:
    every = {number: SimpleNamespace(snapshot_id=number) for number in range(snapshots)}
    current = refs["main"].snapshot_id if "main" in refs else None
    return SimpleNamespace(
        refs=refs,
        snapshots=list(every.values()),
        current_snapshot_id=current,
        current_snapshot=lambda: every.get(current),
        snapshot_by_id=every.get,
    )


def test_heads_are_those_of_branches_and_each_once() -> None:
    refs = {"main": ref(1), "audit": ref(2), "same": ref(2), "v1": ref(3, "tag")}
    assert [snapshot.snapshot_id for snapshot in heads(metadata(refs))] == [1, 2]
    assert heads(metadata({})) == []


def test_the_head_is_that_of_the_branch_in_the_name() -> None:
    found = metadata({"main": ref(1), "audit": ref(2)})
    assert [head(found, name).snapshot_id for name in (NAME, NAME.on("audit"), NAME.on("main"))] == [1, 2, 1]  # type: ignore[union-attr]
    assert head(metadata({}), NAME) is None


def test_the_branches_that_a_refusal_names_are_few() -> None:
    refs = {"main": ref(1), "v1": ref(1, "tag")} | {f"b{n}": ref(1) for n in range(9)}
    with pytest.raises(Refused) as refused:
        head(metadata(refs), NAME.on("v1"))
    assert refused.value.diagnostics[0].hint == "use a branch of the table: main, b0, b1, b2, b3 and 5 more"


def test_the_refusal_of_a_branch_that_does_not_exist_states_how_to_create_it() -> None:
    with pytest.raises(Refused) as refused:
        head(metadata({"main": ref(1)}), NAME.on("audit"))
    hint = "use a branch of the table: main; or create it with ALTER TABLE ... CREATE BRANCH"
    assert refused.value.diagnostics[0].hint == hint


@pytest.mark.parametrize("methods", [frozenset({"toBranch/1"}), frozenset({"execute/0"}), None])
def test_an_action_without_branches_is_refused(methods: frozenset[str] | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "JavaClasses", lambda _: SimpleNamespace(find=lambda _: methods))
    build = SimpleNamespace(version=lambda: "1.10.1")
    table = SimpleNamespace(currentSnapshot=lambda: "newest of main")
    jvm: Any = SimpleNamespace(
        session=SimpleNamespace(sparkContext=None),
        iceberg=SimpleNamespace(IcebergBuild=build),
        load=lambda _: table,
    )
    java.require_native(jvm, NAME)
    if methods == frozenset({"toBranch/1"}):
        java.require_native(jvm, NAME.on("audit"))
        table.currentSnapshot = lambda: None
        with pytest.raises(Refused, match=r"ZL229 .* while main has no snapshot"):
            java.require_native(jvm, NAME.on("audit"))
        return
    with pytest.raises(Refused, match=r"ZL229 ice\.db\.t@audit: rewrite_data_files of Iceberg 1\.10\.1"):
        java.require_native(jvm, NAME.on("audit"))


def test_a_change_is_directed_to_a_branch_that_exists() -> None:
    to: list[str] = []
    change = SimpleNamespace(toBranch=to.append)
    kinds = {"audit": SimpleNamespace(isBranch=lambda: True), "v1": SimpleNamespace(isBranch=lambda: False)}
    table = SimpleNamespace(refs=lambda: kinds)
    java.to_branch(change, table, NAME)
    assert to == []
    java.to_branch(change, table, NAME.on("audit"))
    assert to == ["audit"]
    for name in ("v1", "gone"):
        with pytest.raises(CommitConflict, match="ZL320"):
            java.to_branch(change, table, NAME.on(name))
    assert to == ["audit"]
