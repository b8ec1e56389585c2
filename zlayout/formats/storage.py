"""Settings of an object store, for readers that need no JVM."""

from __future__ import annotations

from zlayout.spec.model import CatalogConfig


def storage_options(catalog: CatalogConfig) -> dict[str, str]:
    """Return the object store settings as the user wrote them under `properties`."""
    return {str(k): str(v) for k, v in catalog.options.get("properties", {}).items()}
