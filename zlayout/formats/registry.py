"""The table formats there are, by the name they have in `catalogs.<name>.format`."""

from __future__ import annotations

from zlayout.formats.base import Backend
from zlayout.spark.session import SparkRuntime
from zlayout.spec.model import CatalogConfig


def backend_for(catalog: CatalogConfig, runtime: SparkRuntime) -> Backend:
    """The backend of one catalog; imports no more than that format needs."""
    if catalog.format == "delta":
        from zlayout.formats.delta.backend import DeltaBackend

        return DeltaBackend(catalog, runtime)
    from zlayout.formats.iceberg.backend import IcebergBackend

    return IcebergBackend(catalog, runtime)
