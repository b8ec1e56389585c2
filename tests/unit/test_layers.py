"""What may import what: every module has a layer, imports lead downwards, and no cycle is left."""

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from itertools import permutations
from pathlib import Path

import pytest
from support.sources import PACKAGE, SOURCES, nodes, tree

# The folders in `zlayout/formats` that hold a format.
FORMATS = sorted(path.parent.name for path in PACKAGE.glob("formats/*/backend.py"))
# From the lowest to the highest. A module belongs to the longest name that it begins with, and may import modules of
# its own layer and of lower ones. ARCHITECTURE.md says what the packages hold.
LAYERS = (
    ("zlayout", "secrets", "reading", "text", "sqlite_files", "process", "errors"),
    ("table",),
    ("predicate",),
    ("spec",),
    ("curve", "workload"),
    ("planner",),
    ("history_records",),
    ("report",),
    ("spark",),
    ("rewrite",),
    ("formats",),
    tuple(f"formats.{name}.read" for name in FORMATS),
    ("formats.kernel",),
    tuple(f"formats.{name}.write" for name in FORMATS),
    tuple(f"formats.{name}" for name in FORMATS),
    ("formats.registry",),
    ("advisor",),
    ("session",),
    ("cli", "__main__"),
)
# The public API names modules to be imported when they are first used. Its imports for type checks do not count. All
# other imports do, also those inside functions.
LATE = {"zlayout"}
ENGINES = ("pyspark", "py4j", "delta", "deltalake", "pyiceberg")
SHELL = ("typer", "rich")


def test_imports_lead_to_lower_layers() -> None:
    upward = {
        f"{module} imports {imported}"
        for module, names in graph().items()
        for imported in names
        if layer(imported) > layer(module)
    }
    assert upward == set()


def test_the_formats_do_not_know_each_other() -> None:
    for one, other in permutations(FORMATS, 2):
        names = {name for module in graph() if module.startswith(f"formats.{one}") for name in graph()[module]}
        assert {name for name in names if name.startswith(f"formats.{other}")} == set()


def test_no_modules_import_each_other_in_a_cycle() -> None:
    try:
        TopologicalSorter(graph()).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


def test_no_packages_import_each_other_in_a_cycle() -> None:
    packages: dict[str, set[str]] = {}
    for module, names in graph().items():
        package = module.partition(".")[0]
        packages.setdefault(package, set()).update({name.partition(".")[0] for name in names} - {package})
    try:
        TopologicalSorter(packages).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


@pytest.mark.parametrize(
    "package", ["spec", "predicate", "table", "curve", "workload", "planner", "history_records", "report"]
)
def test_nothing_that_the_core_reaches_imports_an_engine_or_the_shell(package: str) -> None:
    """Through any number of modules, and also inside functions."""
    reached = set().union(*(reachable(module) for module in graph() if module.split(".")[0] == package))
    outside = {(module, name) for module in reached for name in third_party(module) if name in (*ENGINES, *SHELL)}
    assert outside == set()


@pytest.mark.parametrize("package", ["rewrite", "spark", "formats", "advisor", "session"])
def test_only_the_command_line_imports_the_shell(package: str) -> None:
    modules = [module for module in graph() if module.split(".")[0] == package]
    assert {(m, name) for m in modules for name in third_party(m) if name in SHELL} == set()


def test_no_engine_asks_for_the_kind_of_a_session() -> None:
    """Others ask a runtime for what it has (`has_jvm`, `tasks`)."""
    named = {module for module, path in sources().items() for name in _imports(path, late=True) if "is_connect" in name}
    assert named
    assert {module for module in named if not module.startswith("spark.")} == set()


def test_nothing_private_of_other_packages_is_imported() -> None:
    imported = {(module, name) for module, path in sources().items() for name in _imports(path, late=True)}
    assert {(module, name) for module, name in imported if "._" in name and not name.startswith("zlayout.")} == set()


def test_the_application_layer_prints_nothing() -> None:
    for module, path in sources().items():
        if module.startswith("session."):
            assert not {node.id for node in nodes(path) if isinstance(node, ast.Name)} & {"print", "input", "sys"}


@cache
def sources() -> dict[str, Path]:
    """Each module's file, by its name below the package; the package itself is `zlayout`."""
    found = {}
    for path in SOURCES:
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts) or "zlayout"] = path
    return found


@cache
def graph() -> dict[str, frozenset[str]]:
    """The modules of the package that each module imports, anywhere in its file; see LATE."""
    found = {}
    for module, path in sources().items():
        names = (name for name in _imports(path, late=module not in LATE) if name.partition(".")[0] == "zlayout")
        found[module] = frozenset(map(_module, names)) - {module}
    return found


def layer(module: str) -> int:
    """The number of a module's layer; every module must have one."""
    number = {name: n for n, names in enumerate(LAYERS) for name in names}
    parts = module.split(".")
    return next(number[name] for end in range(len(parts), 0, -1) if (name := ".".join(parts[:end])) in number)


def reachable(module: str) -> set[str]:
    """The module and all that it imports, directly or through others."""
    found, todo = {module}, [module]
    while todo:
        new = graph()[todo.pop()] - found
        found |= new
        todo += new
    return found


def third_party(module: str) -> set[str]:
    return {name.partition(".")[0] for name in _imports(sources()[module], late=True)} - {"zlayout"}


def _module(name: str) -> str:
    """The module of a dotted import, which may name something inside it."""
    name = name.partition(".")[2]
    while name and name not in sources():
        name = name.rpartition(".")[0]
    return name or "zlayout"


def _imports(path: Path, *, late: bool) -> Iterator[str]:
    """Dotted names that a file imports. late: also inside functions and under `if TYPE_CHECKING`."""
    for node in nodes(path) if late else tree(path).body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
