"""The built-in defaults of layout specs, and their merge with `defaults:` and a layout spec."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

LAYOUT_PATTERNS = ("layouts/**/*.yaml", "layouts/**/*.yml")
WORKLOAD_PATTERNS = ("workloads/**/*.sql", "workloads/**/*.csv")

# Default values by the keys of a layout spec. schemas/v1 repeats them as `default`, and a test compares the two.
DEFAULTS: Mapping[str, Any] = {
    "zorder": {"range_ids": 1000, "noise": False},
    "files": {"target_size": "128MiB", "sort_within": True},
    "tolerance": {
        "unclustered": "10%",
        "touched": "1.5x",
        "small_files": "20%",
        "deleted_rows": "10%",
        "workload": "20%",
    },
    "engine": "zlayout",
}
DEFAULT_CURVE: Mapping[str, str] = {"zlayout": "kd", "native": "zorder"}
# The curve of a layout without z-order columns. Its rewrites keep the order of the rows.
CURVE_OF_COMPACTION = "linear"


def merge(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """Return the merged maps. Later maps override earlier ones; nested maps are merged, other values replaced."""
    merged: dict[str, Any] = {}
    for layer in layers:
        for key, value in layer.items():
            below = merged.get(key)
            merged[key] = merge(below, value) if isinstance(below, Mapping) and isinstance(value, Mapping) else value
    return merged
