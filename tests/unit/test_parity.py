"""docs/parity.md leaves no cell empty, and names tests that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (ROOT / "docs" / "parity.md").read_text().splitlines()
    if line.startswith("| ") and not line.startswith("| scenario")
]


def test_every_suite_is_gone_through() -> None:
    assert len(ROWS) > 100
    assert all(len(row) == 3 and all(row) for row in ROWS)
    assert all(row[1].startswith("not covered: ") for row in ROWS if row[2] == "none")


@pytest.mark.parametrize("shown", sorted({row[2] for row in ROWS if row[2] != "none"}))
def test_a_row_names_a_test_that_exists(shown: str) -> None:
    named = re.fullmatch(r"`(tests/[\w/.]+)`(?:: `(test_\w+)`)?", shown)
    assert named
    path = ROOT / named[1]
    assert path.exists()
    if named[2]:
        assert f"def {named[2]}(" in path.read_text()
