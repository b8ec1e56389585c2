"""Reading a table's metadata needs no JVM: nothing that a `read` package imports, directly or not, touches Spark."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from support.sources import tree

ROOT = Path(__file__).parents[3]
READERS = sorted(ROOT.glob("zlayout/formats/*/read/*.py"))
JVM = ("py4j", "pyspark", "zlayout.spark", "zlayout.rewrite")


def test_both_formats_have_readers() -> None:
    assert {path.parts[-3] for path in READERS} == {"delta", "iceberg"}


@pytest.mark.parametrize("path", READERS, ids=lambda path: f"{path.parts[-3]}-{path.stem}")
def test_a_reader_reaches_no_jvm(path: Path) -> None:
    reached = reachable(_module(path))
    assert {name for name in reached if _in(name, JVM) or ".write" in name} == set()


def test_an_indirect_import_is_found() -> None:
    assert "zlayout.spark.jvm" in reachable("zlayout.formats.iceberg.write.settings")


def reachable(module: str) -> set[str]:
    """Names of all modules that `module` imports, directly or through modules of zlayout, inside functions too.

    Imports under `if TYPE_CHECKING:` do not count, since they never run.
    """
    found: set[str] = set()
    waiting = [module]
    while waiting:
        for name in _imports(_source(waiting.pop())):
            if name not in found:
                found.add(name)
                waiting.append(name)
    return found


@cache
def _imports(path: Path | None) -> tuple[str, ...]:
    found: list[str] = []
    for node in _running(tree(path)) if path else ():
        if isinstance(node, ast.Import):
            found += (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.append(node.module)
            found += (name for alias in node.names if _source(name := f"{node.module}.{alias.name}"))
    return tuple(found)


def _running(whole: ast.AST) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(whole):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        yield node
        yield from _running(node)


def _source(module: str) -> Path | None:
    """The source of a module of zlayout, None for any other."""
    if not _in(module, ("zlayout",)):
        return None
    folder = ROOT.joinpath(*module.split("."))
    return next((path for path in (folder.with_suffix(".py"), folder / "__init__.py") if path.exists()), None)


def _module(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _in(name: str, packages: tuple[str, ...]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)
