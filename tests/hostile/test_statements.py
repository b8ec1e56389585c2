"""SECURITY.md and docs/promises.md state what `statements.py` does, and each statement has tests that exist."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest
from hostile.statements import PROMISES, SECURITY

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
PAGE = (ROOT / "SECURITY.md").read_text()
NAMED = sorted({test for rows in SECURITY.values() for tests in rows.values() for test in tests})


def rows(section: str) -> dict[str, tuple[str, ...]]:
    """The statements of a section of SECURITY.md, with their tests."""
    text = PAGE.partition(f"\n### {section}\n")[2].partition("\n#")[0]
    found = re.findall(r"^\| (?!statement \||---)(.+) \| (.+) \|$", text, re.MULTILINE)
    return {statement: tuple(re.findall(r"`tests/([\w/.:]+)`", tests)) for statement, tests in found}


@cache
def names_in(path: Path) -> set[str]:
    return {node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("section", SECURITY)
def test_the_page_on_security_has_these_statements_and_tests(section: str) -> None:
    assert rows(section) == SECURITY[section]


def test_the_page_on_security_has_no_other_sections_of_statements() -> None:
    text = PAGE.partition("\n## Statements and their tests\n")[2]
    assert re.findall(r"^### (.+)$", text, re.MULTILINE) == list(SECURITY)


@pytest.mark.parametrize("named", NAMED)
def test_a_statement_names_a_test_that_exists(named: str) -> None:
    path, _, name = named.partition("::")
    assert name in names_in(TESTS / path)


def test_the_promises_have_these_tests() -> None:
    page = (ROOT / "docs/promises.md").read_text()
    found = {int(m[1]): tuple(re.findall(r"`tests/([\w/.]+)`", m[0])) for m in re.finditer(r"^\| (\d) .*$", page, re.M)}
    assert found == PROMISES


@pytest.mark.parametrize("named", sorted({test for tests in PROMISES.values() for test in tests}))
def test_a_promise_names_tests_that_exist(named: str) -> None:
    path = TESTS / named
    files = [path] if path.is_file() else sorted(path.rglob("test_*.py"))
    assert any(name.startswith("test_") or "TestCase" in file.read_text() for file in files for name in names_in(file))
