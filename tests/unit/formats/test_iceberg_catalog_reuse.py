"""How often a catalog is loaded to read several tables."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pyiceberg.catalog
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from zlayout.errors import TableError
from zlayout.formats.iceberg.read import catalog as read
from zlayout.spec.model import CatalogConfig, TableName

NAMES = [TableName("ice", ("db",), name) for name in "tu"]


@pytest.fixture
def loads(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The loads of catalogs. The catalog has two tables."""
    for name in NAMES:
        catalog.create_table(name.identifier, Schema(NestedField(1, "id", LongType(), required=False)))
    made: list[str] = []
    load: Callable[..., Catalog] = pyiceberg.catalog.load_catalog

    def counted(name: str, **properties: str) -> Catalog:
        made.append(name)
        return load(name, **properties)

    monkeypatch.setattr(pyiceberg.catalog, "load_catalog", counted)
    return made


def test_a_catalog_is_loaded_once_for_tables_read_in_turn(loads: list[str], config: CatalogConfig) -> None:
    assert [read.load_table(config, name).name() for name in NAMES] == [("db", "t"), ("db", "u")]
    assert len(list(read.list_tables(config, TableName("ice", ("db",), "*")))) == 2
    assert loads == ["ice"]


def test_a_change_by_another_client_is_read(loads: list[str], config: CatalogConfig, catalog: Catalog) -> None:
    before = read.load_table(config, NAMES[0]).metadata
    catalog.load_table(NAMES[0].identifier).transaction().set_properties(owner="x").commit_transaction()
    assert "owner" not in before.properties
    assert read.load_table(config, NAMES[0]).metadata.properties["owner"] == "x"
    assert loads == ["ice"]


def test_no_two_readers_have_the_same_catalog(loads: list[str], config: CatalogConfig) -> None:
    both = Barrier(2, timeout=30)

    def hold(_: int) -> int:
        with read.loaded_catalog(config) as loaded:
            both.wait()
            return id(loaded)

    with ThreadPoolExecutor(2) as pool:
        assert len(set(pool.map(hold, range(2)))) == 2
    assert len(loads) == 2


def test_a_catalog_is_loaded_again_after_an_error(loads: list[str], config: CatalogConfig) -> None:
    with pytest.raises(TableError, match="ZL122"):
        read.load_table(config, TableName("ice", ("db",), "missing"))
    read.load_table(config, NAMES[0])
    assert len(loads) == 2


def test_an_old_catalog_is_loaded_again(
    loads: list[str], config: CatalogConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read, "MAX_SECONDS_OF_USE", 0.0)
    for name in NAMES:
        read.load_table(config, name)
    assert len(loads) == 2


def test_other_properties_are_another_catalog(
    loads: list[str], config: CatalogConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    read.load_table(config, NAMES[0])
    monkeypatch.setitem(config.options, "properties", {"x": "y"})
    read.load_table(config, NAMES[0])
    assert len(loads) == 2
