"""Names of tables and partition keys, selections and paths, from the command line and from files."""

import random
from pathlib import Path

import pytest
from hostile.asking import NoEngine, ask, refused
from hostile.mutants import NAMES
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from zlayout.errors import Location
from zlayout.formats.delta.read.log import delta_location
from zlayout.spec.layouts import parse_partition_key, parse_table
from zlayout.spec.model import CatalogConfig

AT = Location("TABLE")
MANY = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
PIECES = (
    "lake", "a", ".", "..", "`", "``", "`a.b`", "/", "\\", " ", "\n", "\x1b", "\u202e", "😀", "'", '"', "(", ")", ",",
    "16", "bucket", "truncate", "month", "%2e%2e", "%00", "é", "\u0130", "\ud800", "*", "${X}", "-", ";", "\u200b",
    "|",
)  # fmt: skip
CATALOG = CatalogConfig("lake", "delta", "path", {"warehouse": "/w"}, AT)


@MANY
@given(st.integers(0, 2**32))
def test_names_from_pieces(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(10):
        text = "".join(chance.choices(PIECES, k=chance.randrange(1, 9)))
        refused(lambda text=text: parse_partition_key(text, AT), text)
        if refused(lambda text=text: parse_table(text, AT), text) is None:
            inside_the_warehouse(text)


@MANY
@given(st.lists(st.text(max_size=30), max_size=8))
def test_names_of_any_text(texts: list[str]) -> None:
    for text in texts:
        refused(lambda text=text: parse_partition_key(text, AT), text)
        if refused(lambda text=text: parse_table(f"lake.{text}", AT), text) is None:
            inside_the_warehouse(f"lake.{text}")


def inside_the_warehouse(text: str) -> None:
    """A table has a folder of its own below the warehouse, whatever it is called."""
    table = parse_table(text, AT)
    place = Path(delta_location(CATALOG, table))
    assert ".." not in place.parts
    assert place.parts[:2] == ("/", "w")
    assert len(place.parts) == 2 + len(table.identifier)


@pytest.mark.parametrize("name", [n.replace("\ud800", "\udcff") for n in NAMES if "\0" not in n])
@pytest.mark.usefixtures("project")
def test_arguments_of_any_kind(name: str, no_engine: NoEngine) -> None:
    """NUL cannot be in an argument; all else can."""
    for arguments in (
        ["inspect", name],
        ["import", f"lake.{name}"],
        ["import", name, "--out", name],
        ["plan", name],
        ["plan", "--exclude", name],
        ["apply", name, "--auto-approve"],
        ["drift", f"tag:{name}"],
        ["show", name],
        ["validate", name],
        ["validate", "--project", name],
        ["plan", "--max-rewrite-bytes", name],
        ["plan", "--report", f"json={name}"],
        ["plan", "--report", f"{name}=x"],
        ["inspect", "lake.db.orders", "--columns", name],
    ):
        if name == "--help" and arguments[-1] == name:
            continue
        ask(*arguments)
    if name not in ("*", "**/*", "tag:*", "path:*", "lake.db.orders"):  # these select the table, and it is applied
        assert no_engine.touched == 0


@pytest.mark.parametrize("name", ["x" * 300, "x/" * 3000, "x" * 100_000])
@pytest.mark.usefixtures("project")
def test_paths_too_long_for_the_system(name: str, no_engine: NoEngine) -> None:
    for arguments in (
        ["apply", name, "--auto-approve"],
        ["show", name],
        ["validate", name],
        ["plan", "--project", name],
        ["plan", "--out", name],
        ["plan", "--report", f"json={name}"],
        ["import", "lake.db.x", "--out", name],
        ["init", name],
        ["import", f"lake.db.{name}"],
        ["inspect", f"lake.db.{name}"],
    ):
        ask(*arguments)
    assert no_engine.touched == 0
