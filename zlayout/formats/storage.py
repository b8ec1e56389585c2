"""Access options of an object store, for readers without a JVM."""

from __future__ import annotations

from zlayout.spec.model import CatalogConfig


def storage_options(catalog: CatalogConfig) -> dict[str, str]:
    """Return the options that the user wrote under `properties` of a catalog, unchanged."""
    return {str(k): str(v) for k, v in catalog.options.get("properties", {}).items()}
