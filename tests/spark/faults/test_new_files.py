"""New files that are lost, cut or changed between the write and the commit: nothing is committed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from reliability import count
from spark.faults.audit import audit, converge, promised
from spark.faults.points import run_with
from spark.faults.tables import SOME_VARIANTS, Table, first_rows


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def scramble(path: Path) -> None:
    """Other bytes in the first page, the same size."""
    content = path.read_bytes()
    path.write_bytes(content[:4] + bytes(byte ^ 0x55 for byte in content[4:200]) + content[200:])


@pytest.mark.parametrize("harm", [Path.unlink, cut], ids=["missing", "cut"])
@pytest.mark.parametrize("point", ["before gate", "before commit", "before send"])
@pytest.mark.parametrize("variant", SOME_VARIANTS)
def test_a_new_file_that_is_not_as_written_stops_the_commit(
    create: Callable[[str], Table],
    monkeypatch: pytest.MonkeyPatch,
    variant: str,
    point: str,
    harm: Callable[[Path], None],
) -> None:
    _harmed(create(variant), monkeypatch, point, harm, "ZL316")


@pytest.mark.parametrize("variant", SOME_VARIANTS)
def test_full_verification_sees_a_file_of_the_same_size_with_other_bytes(
    create: Callable[[str], Table], monkeypatch: pytest.MonkeyPatch, variant: str
) -> None:
    _harmed(create(variant), monkeypatch, "before gate", scramble, "ZL314", full=True)


def _harmed(
    table: Table,
    monkeypatch: pytest.MonkeyPatch,
    point: str,
    harm: Callable[[Path], None],
    code: str,
    *,
    full: bool = False,
) -> None:
    row_ids, version = table.row_ids(), table.backend.observe(table.name, ()).version
    before = table.stored_files()
    count("faults")
    with promised():
        applied = run_with(
            table,
            point,
            lambda: harm(max(table.stored_files() - before)),
            monkeypatch,
            verify="full" if full else "gate",
        )
        assert applied.error is not None
        assert applied.error.diagnostics[0].code == code
        assert applied.commits == []
        assert table.backend.observe(table.name, ()).version == version
        converge(table)
        audit(table, first_rows(), row_ids)
