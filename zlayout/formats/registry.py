"""Opens the catalogs of each format. Modules of a format are imported when its first catalog is opened."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zlayout.formats.base import Backend
    from zlayout.formats.iceberg.trials import IcebergTrials
    from zlayout.spark.session import SparkRuntime
    from zlayout.spec.model import CatalogConfig, TableName


def _delta(catalog: CatalogConfig, runtime: SparkRuntime) -> Backend:
    from zlayout.formats.delta.backend import DeltaBackend

    return DeltaBackend(catalog, runtime)


def _iceberg(catalog: CatalogConfig, runtime: SparkRuntime) -> Backend:
    from zlayout.formats.iceberg.backend import IcebergBackend

    return IcebergBackend(catalog, runtime)


# By the names in `zlayout.spec.formats`.
BACKENDS: dict[str, Callable[[CatalogConfig, SparkRuntime], Backend]] = {"delta": _delta, "iceberg": _iceberg}


def backend_for(catalog: CatalogConfig, runtime: SparkRuntime) -> Backend:
    """Return the backend for one catalog, without connecting to the catalog."""
    return BACKENDS[catalog.format](catalog, runtime)


def trials_in(catalog: CatalogConfig, runtime: SparkRuntime) -> IcebergTrials:
    """Return the trials of the tables of a catalog whose format has branches, without connecting to the catalog."""
    from zlayout.formats.iceberg.trials import IcebergTrials

    return IcebergTrials(catalog, runtime)


def known_location(catalog: CatalogConfig, table: TableName) -> str | None:
    """Return the location of a table as far as the project states it; None if only the catalog knows it."""
    if catalog.format != "delta" or catalog.type != "path":
        return None
    from zlayout.errors import TableError
    from zlayout.formats.delta.read.log import delta_location

    try:
        return delta_location(catalog, table)
    except TableError:
        return None
