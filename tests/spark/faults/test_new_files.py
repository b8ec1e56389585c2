"""New files that are lost, cut or changed between the write and the commit: nothing is committed."""

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest
from reliability import count
from spark.faults.audit import audit, converge, promised
from spark.faults.points import run_with
from spark.faults.tables import Table, first_rows

Harm = Callable[[Path], None]
Verify = Literal["gate", "full"]


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def scramble(path: Path) -> None:
    """Other bytes in the first page, the same size."""
    content = path.read_bytes()
    path.write_bytes(content[:4] + bytes(byte ^ 0x55 for byte in content[4:200]) + content[200:])


@pytest.mark.parametrize("harm", [Path.unlink, cut], ids=["missing", "cut"])
@pytest.mark.parametrize("point", ["before gate", "before commit", "before send"])
def test_a_new_file_that_is_not_as_written_stops_the_commit(
    table: Table, monkeypatch: pytest.MonkeyPatch, point: str, harm: Harm
) -> None:
    _harmed(table, monkeypatch, point, harm, "ZL316")


def test_full_verification_sees_a_file_of_the_same_size_with_other_bytes(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    _harmed(table, monkeypatch, "before gate", scramble, "ZL314", "full")


def _harmed(
    table: Table, monkeypatch: pytest.MonkeyPatch, point: str, harm: Harm, code: str, verify: Verify = "gate"
) -> None:
    row_ids, version = table.row_ids(), table.backend.observe(table.name, ()).version
    before = table.stored_files()
    count("faults")
    with promised():
        strike = lambda: harm(max(table.stored_files() - before))  # noqa: E731
        applied = run_with(table, point, strike, monkeypatch, verify=verify)
        assert applied.error.diagnostics[0].code == code
        assert applied.commits == []
        assert table.backend.observe(table.name, ()).version == version
        converge(table)
        audit(table, first_rows(), row_ids)
