"""The memory format as a `zlayout.formats.format.Format`. One line adds it: `FORMATS["memory"] = MemoryFormat()`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zlayout.formats.format import CatalogKeys, Traits

if TYPE_CHECKING:
    from collections.abc import Iterable

    from support.memory_format.backend import MemoryBackend
    from support.memory_format.store import MemoryTable

    from zlayout.spark.session import SparkRuntime
    from zlayout.spec.model import CatalogConfig


class MemoryFormat:
    """Tables by their dotted name inside the catalog. They live as long as this object."""

    traits = Traits(
        name="memory",
        title="Memory",
        version_word="moment",
        catalog_types={"path": CatalogKeys()},
        type_is_optional=True,
        needs_namespace=True,
        partition_transforms=False,
        native_curves=("zorder",),
        local_warehouse_scheme="",
        target_size_property="",
    )

    def __init__(self) -> None:
        self.tables: dict[str, MemoryTable] = {}

    def open(self, catalog: CatalogConfig, runtime: SparkRuntime) -> MemoryBackend:  # noqa: ARG002
        from support.memory_format.backend import MemoryBackend
        from support.memory_format.store import MemoryCatalog

        return MemoryBackend(MemoryCatalog(self.tables))

    def trials(self, catalog: CatalogConfig, runtime: SparkRuntime) -> None:  # noqa: ARG002
        return None

    def catalog_conf(self, catalog: CatalogConfig) -> dict[str, str]:  # noqa: ARG002
        return {}

    def session_started(self, session: Any, catalogs: Iterable[CatalogConfig]) -> None:
        pass
