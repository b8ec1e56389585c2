"""The only list of table formats, by the value of `catalogs.<name>.format`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zlayout.formats.delta.format import DeltaFormat
from zlayout.formats.iceberg.format import IcebergFormat

if TYPE_CHECKING:
    from zlayout.formats.base import Backend
    from zlayout.formats.format import Format
    from zlayout.spark.session import SparkRuntime
    from zlayout.spec.model import CatalogConfig

FORMATS: dict[str, Format] = {format.traits.name: format for format in (DeltaFormat(), IcebergFormat())}


def backend_for(catalog: CatalogConfig, runtime: SparkRuntime) -> Backend:
    """Return the backend for one catalog. Only modules of the catalog's format are imported."""
    return FORMATS[catalog.format].open(catalog, runtime)
