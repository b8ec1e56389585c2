"""What a rollback undoes: the runs in effect, and what the commits of one run changed together."""

from dataclasses import replace

import pyarrow as pa
import pytest
from support.builders import make_file_table, make_state

from zlayout.errors import Diagnostic, Refused
from zlayout.formats import undo
from zlayout.formats.undo import Change, Recorded
from zlayout.spec.model import TableName
from zlayout.table.state import PartitionField

NAME = TableName("lake", ("db",), "t")
A, B, C, D = (("a", ""), ("b", "dv"), ("c", ""), ("d", ""))


def test_a_rollback_and_what_it_undid_are_not_in_effect() -> None:
    newest_first = [
        Recorded(9),
        Recorded(8, "undo-2", "two"),
        Recorded(7, "two"),
        Recorded(6, "one"),
        Recorded(5),
        Recorded(4, "one"),
        Recorded(3, "undo-0", "zero"),
        Recorded(2, "zero"),
    ]
    assert undo.runs_in_effect(newest_first) == {"one": [6, 4]}
    assert list(undo.runs_in_effect(newest_first[2:])) == ["two", "one"]


def test_files_that_a_run_replaced_itself_drop_out() -> None:
    assert undo.net_change([Change(4, (C,), (A,)), Change(6, (D,), (B, C))]) == ((D,), {4: (A,), 6: (B,)})


def test_a_commit_that_replaces_only_files_of_the_run_returns_none() -> None:
    assert undo.net_change([Change(4, (C,), (A,)), Change(5, (D,), (C,))]) == ((D,), {4: (A,)})


def test_a_file_with_other_deletes_is_missing() -> None:
    state = make_state(make_file_table([10, 20], path=["a", "b"], version_key=["", "new"], deleted=[1, 2]), version=7)
    files, missing = undo.file_rows(state, [A, B])
    assert files.to_pylist() == [{"path": "a", "version_key": "", "rows": 9, "bytes": 100, "version": 7}]
    assert missing == [B]
    with pytest.raises(Refused, match="1 of 2 files that run r wrote were changed or removed by DELETE at version 8"):
        undo.require_unchanged(NAME, "r", missing, 2, ["DELETE at version 8"])
    undo.require_unchanged(NAME, "r", [], 2, [])


@pytest.mark.parametrize(("old", "unknown"), [(8, ""), (9, "estimated")])
def test_other_or_unknown_numbers_of_rows_are_refused(old: int, unknown: str) -> None:
    def files(rows: int) -> pa.Table:
        return (
            undo.FILES.empty_table()
            if not rows
            else pa.Table.from_pylist(
                [{"path": "a", "version_key": "", "rows": rows, "bytes": 1, "version": 1}], undo.FILES
            )
        )

    undo.require_rows(NAME, files(9), files(9))
    with pytest.raises(Refused) as refused:
        undo.require_rows(NAME, files(9), files(old), unknown)
    assert refused.value.diagnostics[0].code == "ZL235"


def test_another_partitioning_is_refused() -> None:
    undo.require_partitioning(NAME, (PartitionField("p"),), (PartitionField("p"),))
    with pytest.raises(Refused, match="partitioned by p and is now partitioned by nothing"):
        undo.require_partitioning(NAME, (PartitionField("p"),), ())


def test_an_unknown_run_is_refused_with_the_runs_in_effect() -> None:
    assert "one, two" in str(undo.no_run(NAME, "three", {"one": [1], "two": [2]}))


def test_only_a_note_on_a_delta_table_excludes_a_rollback() -> None:
    files = make_file_table([10])
    state = replace(make_state(files), notes=(Diagnostic("ZL421", "unreadable", "note", "apply"),))
    found = {name: undo.is_excluded(replace(state, format=name), files) for name in ("delta", "iceberg")}
    assert found == {"delta": True, "iceberg": False}
