"""An Iceberg catalog in SQLite, which pyiceberg fills and zlayout reads."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyiceberg.catalog import Catalog, load_catalog
from support.servers import plain_http

from zlayout.errors import Location
from zlayout.spec.model import CatalogConfig

__all__ = ["catalog", "config", "plain_http"]


@pytest.fixture
def config(tmp_path: Path) -> CatalogConfig:
    options = {"uri": f"sqlite:///{tmp_path / 'ice.db'}", "warehouse": f"file://{tmp_path / 'w'}"}
    return CatalogConfig("ice", "iceberg", "sql", options, Location("zlayout.yaml", 3, 5))


@pytest.fixture
def catalog(config: CatalogConfig) -> Iterator[Catalog]:
    loaded = load_catalog("ice", type="sql", **config.options)
    loaded.create_namespace("db")
    yield loaded
    loaded.close()
