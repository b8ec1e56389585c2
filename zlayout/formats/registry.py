"""The table formats that zlayout knows, by the value of `catalogs.<name>.format`: the only list of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zlayout.formats.delta.format import DeltaFormat
from zlayout.formats.iceberg.format import IcebergFormat

if TYPE_CHECKING:
    from zlayout.formats.base import Backend
    from zlayout.formats.format import Format
    from zlayout.spark.session import SparkRuntime
    from zlayout.spec.model import CatalogConfig

FORMATS: dict[str, Format] = {
    format.traits.name: format
    for format in (
        DeltaFormat(),
        IcebergFormat(),
    )
}


def backend_for(catalog: CatalogConfig, runtime: SparkRuntime) -> Backend:
    """Return the backend of one catalog; imports no more than its format needs."""
    return FORMATS[catalog.format].open(catalog, runtime)
