"""docs/contributing/parity.md leaves no cell empty, and names one test that exists in each row."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (ROOT / "docs/contributing/parity.md").read_text().splitlines()
    if line.startswith("| ") and not line.startswith("| scenario")
]


def test_every_suite_is_gone_through() -> None:
    assert len(ROWS) > 100
    assert all(len(row) == 3 and all(row) for row in ROWS)
    assert len({row[0] for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize("shown", sorted({row[2] for row in ROWS}))
def test_a_row_names_a_test_that_exists(shown: str) -> None:
    named = re.fullmatch(r"`(tests/[\w/.]+\.py)`: `(test_\w+)`", shown)
    assert named
    assert f"def {named[2]}(" in (ROOT / named[1]).read_text()
