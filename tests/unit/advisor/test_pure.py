"""Advise computes, and `zlayout.session` draws the sample."""

import ast

from support.sources import PACKAGE, nodes

ADVISE = PACKAGE / "advisor"
SHELL = ("pyspark", "py4j", "typer", "rich", "zlayout.formats", "zlayout.cli", "zlayout.rewrite")


def test_it_imports_no_engine_and_no_shell() -> None:
    reached = {
        (path.name, name)
        for path in sorted(ADVISE.rglob("*.py"))
        for node in nodes(path)
        if isinstance(node, ast.ImportFrom | ast.Import)
        for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names])
        if name.startswith(SHELL)
    }
    assert reached == set()
    assert len(list(ADVISE.rglob("*.py"))) > 8
