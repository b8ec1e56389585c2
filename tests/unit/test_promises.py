"""docs/promises.md names tests that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "promises.md").read_text()


@pytest.mark.parametrize("named", sorted(set(re.findall(r"`(tests/[\w/.]+)`", PAGE))))
def test_a_promise_names_tests_that_exist(named: str) -> None:
    path = ROOT / named
    tests = [path] if path.is_file() else list(path.glob("test_*.py"))
    assert any(re.search(r"def test_|TestCase", test.read_text()) for test in tests)


def test_every_promise_has_a_test() -> None:
    promises = [line for line in PAGE.splitlines() if re.match(r"\| \d ", line)]
    assert len(promises) == 8
    assert all("`tests/" in line for line in promises)
