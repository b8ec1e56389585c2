"""The source files of the product, each of which is parsed once."""

import ast
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "zlayout"
SOURCES = sorted(PACKAGE.rglob("*.py"))


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Every node of a file."""
    return tuple(ast.walk(tree(path)))
