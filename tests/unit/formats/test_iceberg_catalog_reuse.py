"""How often a catalog is loaded to read several tables."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from zlayout.errors import Location, TableError
from zlayout.formats.iceberg.read import catalog as read
from zlayout.spec.model import CatalogConfig, TableName
from zlayout.table.location import S3_ENDPOINT_VARIABLES

NAMES = [TableName("ice", ("db",), name) for name in "tu"]


@pytest.fixture
def loads(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The loads of catalogs. The catalog has two tables."""
    for name in NAMES:
        catalog.create_table(name.identifier, Schema(NestedField(1, "id", LongType(), required=False)))
    made: list[str] = []
    load: Callable[..., Catalog] = read.open_catalog

    def counted(config: CatalogConfig, properties: Mapping[str, str]) -> Catalog:
        made.append(config.name)
        return load(config, properties)

    monkeypatch.setattr(read, "open_catalog", counted)
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


@pytest.mark.parametrize(
    ("storage", "properties", "place"),
    [
        ({"endpoint": "https://minio.example.com:9000"}, {}, " at https://minio.example.com:9000"),
        ({"region": "eu-west-1"}, {}, " at AWS"),
        ({}, {"s3.endpoint": "https://other.example.com"}, ""),
    ],
)
def test_an_error_of_the_storage_names_its_address(
    monkeypatch: pytest.MonkeyPatch, storage: dict[str, str], properties: dict[str, str], place: str
) -> None:
    def fail(*_: object) -> None:
        raise OSError("Connection refused")

    monkeypatch.setattr(read, "loaded_catalog", fail)
    for variable in S3_ENDPOINT_VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    options = {"uri": "sqlite:///c.db", "warehouse": "s3://b/w", "storage": storage, "properties": properties}
    ice = CatalogConfig("ice", "iceberg", "sql", options, Location("zlayout.yaml", 3, 3))
    with pytest.raises(TableError) as error:
        read.load_table(ice, NAMES[0])
    found = f"zlayout.yaml:3:3: ZL127 the storage of ice.db.t{place} cannot be reached: the connection was refused"
    assert str(error.value).startswith(found)
