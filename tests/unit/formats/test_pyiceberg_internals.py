"""zlayout names what it uses of pyiceberg without a promise, and reports in words what a version lacks."""

import ast
import re
from pathlib import Path

import pyiceberg
import pytest
from pyiceberg.avro import resolver
from pyiceberg.utils.config import Config
from support.sources import PACKAGE

from zlayout.errors import TableError
from zlayout.formats.iceberg.read import INTERNALS, TESTED, missing_internals, require_internals

# The modules whose names are documented. All others are internal.
PUBLIC = re.compile(r"pyiceberg\.(exceptions|io|io\.pyarrow|partitioning|schema|table|types|catalog\.sql)|pyiceberg")
OF_TABLES = re.compile(r"pyiceberg\.table\.(metadata|refs|snapshots|sorting)")


def test_the_installed_version_has_all() -> None:
    assert list(missing_internals()) == []


def test_every_import_of_an_internal_module_is_listed() -> None:
    used = {
        f"{node.module}.{alias.name}"
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pyiceberg")
        for alias in node.names
        if not PUBLIC.fullmatch(node.module or "") and not OF_TABLES.fullmatch(node.module or "")
    }
    listed = {f"{module}.{name}" for module, names in INTERNALS.items() for name in names.split()}
    assert used - listed == {"pyiceberg.catalog.Catalog"}


def test_the_tested_versions_are_those_that_can_be_installed() -> None:
    text = (Path(__file__).parents[3] / "pyproject.toml").read_text()
    (bounds,) = re.findall(r'"pyiceberg\[pyarrow\]>=([\d.]+),<0\.(\d+)"', text)
    assert bounds == (TESTED[0], str(int(TESTED[-1].removeprefix("0.")) + 1))


def test_an_untested_version_that_lacks_one_is_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyiceberg, "__version__", "0.13.0")
    require_internals()
    monkeypatch.delattr(resolver, "construct_reader")
    monkeypatch.delattr(Config, "_from_environment_variables")
    with pytest.raises(TableError) as caught:
        require_internals()
    assert str(caught.value) == (
        "ZL139 pyiceberg 0.13.0 lacks what zlayout uses of it: pyiceberg.avro.resolver.construct_reader, "
        "pyiceberg.utils.config.Config._from_environment_variables (install pyiceberg 0.11 or 0.12)"
    )
