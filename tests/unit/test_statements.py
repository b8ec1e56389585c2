"""Each statement of SECURITY.md and each promise of docs/promises.md names tests, and these exist."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STATEMENTS = (ROOT / "SECURITY.md").read_text().partition("\n## Statements and their tests\n")[2]
SECURITY = re.findall(r"^\| (?!statement \||---).+ \|$", STATEMENTS, re.MULTILINE)
PROMISES = re.findall(r"^\| \d .+ \|$", (ROOT / "docs/promises.md").read_text(), re.MULTILINE)


def named_in(row: str) -> list[str]:
    return re.findall(r"`(tests/[\w/.:]+)`", row.rpartition(" | ")[2])


@cache
def names_in(path: Path) -> set[str]:
    return {node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)}


def test_both_pages_are_read() -> None:
    assert SECURITY
    assert [row[2] for row in PROMISES] == list("12345678")


@pytest.mark.parametrize("row", SECURITY + PROMISES)
def test_a_statement_names_tests(row: str) -> None:
    assert named_in(row)


@pytest.mark.parametrize("named", sorted({test for row in SECURITY + PROMISES for test in named_in(row)}))
def test_the_tests_of_a_statement_exist(named: str) -> None:
    path, _, name = named.partition("::")
    files = [ROOT / path] if path.endswith(".py") else sorted((ROOT / path).rglob("test_*.py"))
    names = {found for file in files for found in names_in(file)}
    assert name in names if name else names
