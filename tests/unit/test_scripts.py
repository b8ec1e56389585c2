"""What benchmarks and examples import from zlayout exists, and so do the modules that docstrings name."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from pkgutil import resolve_name

import pytest
from support.sources import PACKAGE

ROOT = PACKAGE.parent
SCRIPTS = sorted(path for folder in ("benchmarks", "examples") for path in (ROOT / folder).rglob("*.py"))
_FOLDERS = "|".join(path.parent.name for path in PACKAGE.glob("*/__init__.py"))
_NAME = re.compile(rf"`(zlayout\.(?:{_FOLDERS})(?:\.\w+)+)`")


def _imported(script: Path) -> Iterator[tuple[str, str]]:
    """The modules and the names of all imports from zlayout, also of those within functions."""
    for node in ast.walk(ast.parse(script.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "zlayout":
            yield from ((node.module or "", alias.name) for alias in node.names)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_a_script_imports_exists(script: Path) -> None:
    for module, name in _imported(script):
        assert _found(f"{module}.{name}")


def test_modules_that_docstrings_name_exist() -> None:
    named = {(name, path.name) for path in PACKAGE.rglob("*.py") for name in _NAME.findall(path.read_text())}
    assert named
    for name, where in named:
        assert _found(name), (name, where)


def _found(name: str) -> bool:
    """Whether a name is a module, or is within one."""
    try:
        resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True
