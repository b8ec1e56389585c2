"""ARCHITECTURE.md names files, functions and packages that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "ARCHITECTURE.md").read_text()


@pytest.mark.parametrize("named", sorted(set(re.findall(r"`((?:zlayout|tests|schemas|docs)/[\w/.-]+)`", PAGE))))
def test_a_path_exists(named: str) -> None:
    assert (ROOT / named).exists()


@pytest.mark.parametrize(("path", "name"), re.findall(r"`(zlayout/[\w/]+\.py)`(?::|,) `([\w.]+)`", PAGE))
def test_a_function_or_class_is_where_the_map_says(path: str, name: str) -> None:
    for part in name.split("."):
        assert re.search(rf"^\s*(def|class) {part}\b", (ROOT / path).read_text(), re.M)


def test_every_package_is_on_the_map() -> None:
    packages = {path.parent.name for path in (ROOT / "zlayout").glob("*/__init__.py")}
    packages |= {path.parent.name for path in (ROOT / "zlayout").glob("*/*.py")}
    table = PAGE.partition("## Packages")[2].partition("## How to add")[0]
    assert {name for name in packages if f"`{name}/" not in table} == set()
