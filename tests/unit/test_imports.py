"""What may import what: the core stays pure, and quick commands stay quick."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "zlayout"
OUTSIDE = ("pyspark", "py4j", "typer", "rich", "deltalake", "pyiceberg")
IMPERATIVE = ("zlayout.formats", "zlayout.cli", "zlayout.rewrite", "zlayout.spark", "zlayout.app")
# What is known of the formats without reading a table; the test below says what these may import themselves.
REGISTRY = ("zlayout.formats.registry", "zlayout.formats.format")


@pytest.mark.parametrize("package", ["spec", "predicate", "table", "curve", "planner", "report"])
def test_the_core_imports_no_engine_and_no_shell(package: str) -> None:
    reached = {
        (str(path.relative_to(PACKAGE)), name)
        for path in (PACKAGE / package).rglob("*.py")
        for name in _imports(path)
        if name.startswith((*OUTSIDE, *IMPERATIVE)) and name not in REGISTRY
    }
    assert reached == set()


def test_nothing_private_of_other_packages_is_imported() -> None:
    reached = {
        (str(path.relative_to(PACKAGE)), name)
        for path in PACKAGE.rglob("*.py")
        for name in _imports(path)
        if "._" in name and not name.startswith("zlayout.")
    }
    assert reached == set()


def test_the_registry_loads_no_format() -> None:
    code = "import sys, zlayout.formats.registry; print(*sorted(m for m in sys.modules if m.startswith('zlayout.')))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    folders = {path.parent.name for path in PACKAGE.glob("formats/*/format.py")}
    formats = {f"zlayout.formats.{name}{part}" for name in folders for part in ("", ".format")}
    assert set(loaded) == {*REGISTRY, *formats, "zlayout.formats"}


def test_the_application_layer_knows_no_command_line_and_prints_nothing() -> None:
    for path in (PACKAGE / "app").rglob("*.py"):
        assert not [name for name in _imports(path) if name.startswith(("zlayout.cli", "typer", "rich"))], path.name
        names = {node.id for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Name)}
        assert not names & {"print", "input", "sys"}, path.name


def test_every_command_can_be_imported_without_pyspark() -> None:
    modules = [
        ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        for layer in ("cli", "app")
        for path in PACKAGE.glob(f"{layer}/*.py")
    ]
    code = (
        "import importlib, sys\n"
        "sys.modules |= dict.fromkeys(('pyspark', 'py4j', 'delta'))  # importing them raises ImportError\n"
        f"for name in {modules!r}: importlib.import_module(name)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["schema", "layout"], ["validate", "--help"]])
def test_quick_commands_load_no_engine(arguments: list[str]) -> None:
    assert _loaded_by(arguments) & {"pyspark", "pyiceberg", "deltalake", "pandas", "pyarrow", "numpy"} == set()


def test_validate_loads_no_engine() -> None:
    root = PACKAGE.parent
    loaded = _loaded_by(["validate", "--project", str(root)])
    assert loaded & {"pyspark", "pyiceberg", "deltalake", "pandas"} == set()


def _imports(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return names


def _loaded_by(arguments: list[str]) -> set[str]:
    """Top-level modules in memory after a command; the command itself must succeed."""
    code = (
        "import sys; from zlayout.cli.main import run\n"
        f"code = run({arguments!r})\n"
        "sys.stderr.write('\\n'.join({m.partition('.')[0] for m in sys.modules}))\n"
        "sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stderr.split())
