"""Built-in defaults, and how they are merged with `defaults:` and a layout spec."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

LAYOUT_PATTERNS = ("layouts/**/*.yaml", "layouts/**/*.yml")

# By the keys of a layout spec; schemas/v1 has the same values as `default`, which a test compares.
DEFAULTS: Mapping[str, Any] = {
    "zorder": {"range_ids": 1000, "noise": False},
    "files": {"target_size": "128MiB", "sort_within": True},
    "tolerance": {"unclustered": "10%", "touched": "1.5x", "small_files": "20%", "deleted_rows": "10%"},
    "engine": "zlayout",
}
DEFAULT_CURVE: Mapping[str, str] = {"zlayout": "kd", "native": "zorder"}


def merge(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """Later layers override earlier ones; maps are merged, lists and values are replaced."""
    merged: dict[str, Any] = {}
    for layer in layers:
        for key, value in layer.items():
            below = merged.get(key)
            merged[key] = merge(below, value) if isinstance(below, Mapping) and isinstance(value, Mapping) else value
    return merged
