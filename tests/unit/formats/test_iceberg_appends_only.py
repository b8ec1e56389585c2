"""Which concurrent snapshots Iceberg's own rewrite may run after, with stand-ins for Iceberg's snapshots."""

from types import SimpleNamespace
from typing import Any

import pytest

from zlayout.errors import Refused
from zlayout.formats.iceberg.write.native import FILE_CHANGES, require_appends_only
from zlayout.spec.model import TableName

TOTALS = {"total-data-files": "7", "total-delete-files": "1", "total-position-deletes": "3"}


def table(*snapshots: tuple[int, str, dict[str, str]]) -> Any:
    """A history, oldest first, of (id, operation, summary)."""
    known: dict[int, Any] = {}
    parent = None
    for number, operation, summary in snapshots:
        known[number] = SimpleNamespace(
            snapshotId=lambda n=number: n,
            operation=lambda o=operation: o,
            summary=lambda s=summary: s | TOTALS,
            parentId=lambda p=parent: p,
        )
        parent = number
    last = known[parent] if parent is not None else None
    return SimpleNamespace(currentSnapshot=lambda: last, snapshot=known.get)


def work(version: int, groups: tuple[str, ...] = ("g",)) -> Any:
    return SimpleNamespace(version=version, groups=groups, table=TableName("ice", ("db",), "t"), run_id="mine")


@pytest.mark.parametrize(
    "since",
    [
        [],
        [(2, "append", {"added-data-files": "1"})],
        [(2, "replace", {"manifests-created": "1", "deleted-data-files": "0"}), (3, "append", {})],
        [(2, "replace", {"deleted-data-files": "2", "zlayout.run": "mine"}), (3, "append", {})],
    ],
)
def test_appends_manifest_rewrites_and_this_run_may_come_between(
    since: list[tuple[int, str, dict[str, str]]],
) -> None:
    require_appends_only(table((1, "append", {}), *since), work(1))


def test_another_run_may_not() -> None:
    change = {"deleted-data-files": "2", "zlayout.run": "another"}
    with pytest.raises(Refused, match="ZL225"):
        require_appends_only(table((1, "append", {}), (2, "replace", change)), work(1))


@pytest.mark.parametrize("operation", ["replace", "delete", "overwrite"])
@pytest.mark.parametrize("key", FILE_CHANGES)
def test_other_changes_may_not(operation: str, key: str) -> None:
    with pytest.raises(Refused, match="ZL225"):
        require_appends_only(table((1, "append", {}), (2, operation, {key: "2"}), (3, "append", {})), work(1))


def test_a_version_that_is_gone_is_refused() -> None:
    for history in (table((2, "append", {})), table()):
        with pytest.raises(Refused, match="ZL225"):
            require_appends_only(history, work(1))


@pytest.mark.parametrize(
    "history", [table(), table((5, "append", {})), table((5, "overwrite", {"deleted-data-files": "1"}))]
)
@pytest.mark.parametrize("version", [-1, 4])
def test_without_groups_there_is_nothing_to_protect(history: Any, version: int) -> None:
    require_appends_only(history, work(version, ()))
