"""Lookups of Delta tables by name, as the tests of each catalog make them."""

from typing import Any

import pytest

from zlayout.errors import Location, TableError
from zlayout.formats.base import Listed
from zlayout.formats.delta.names import Names
from zlayout.formats.delta.read.log import delta_location
from zlayout.spec.model import CatalogConfig, TableName

PLACE = Location("zlayout.yaml", 4, 3)


def catalog(type: str, **options: Any) -> CatalogConfig:
    return CatalogConfig("lake", "delta", type, options, PLACE)


def table(name: str = "orders", *namespace: str) -> TableName:
    return TableName("lake", namespace or ("sales",), name)


def found(config: CatalogConfig, name: str = "orders") -> str:
    return delta_location(Names(config).located(table(name)), table(name))


def code(config: CatalogConfig, name: TableName) -> tuple[str, str]:
    with pytest.raises(TableError) as caught:
        Names(config).located(name)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.location == PLACE
    return diagnostic.code, diagnostic.message


def code_of(listed: Listed) -> str:
    return "" if listed.problem is None else listed.problem.diagnostics[0].code
