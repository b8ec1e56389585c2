"""The memory format, which `MemoryFormat.add` adds to the two tables of formats."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zlayout.formats.registry import BACKENDS
from zlayout.spec.formats import FORMATS, CatalogKeys, Traits

if TYPE_CHECKING:
    import pytest
    from support.memory_format.backend import MemoryBackend
    from support.memory_format.store import MemoryTable

    from zlayout.spark.session import SparkRuntime
    from zlayout.spec.model import CatalogConfig

MEMORY = Traits(
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


class MemoryFormat:
    """Tables by their dotted name inside the catalog. They live as long as this object."""

    def __init__(self) -> None:
        self.tables: dict[str, MemoryTable] = {}

    def add(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(FORMATS, "memory", MEMORY)
        monkeypatch.setitem(BACKENDS, "memory", self.open)

    def open(self, catalog: CatalogConfig, runtime: SparkRuntime) -> MemoryBackend:  # noqa: ARG002
        from support.memory_format.backend import MemoryBackend
        from support.memory_format.store import MemoryCatalog

        return MemoryBackend(MemoryCatalog(self.tables))
