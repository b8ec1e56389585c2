"""Compare the layouts of two revisions of a project, by the values that have an effect."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from zlayout.planner.model import LayoutChange, SettingDrift
from zlayout.predicate.parse import to_sql
from zlayout.spec.layouts import CURVE_OF_COMPACTION, DEFAULTS, size_in_bytes
from zlayout.spec.model import CatalogConfig, Layout, LayoutSpec

WorkloadFile = Callable[[Path], str]


def effective_settings(spec: LayoutSpec, workload_file: WorkloadFile) -> dict[str, Any]:
    """Return the values of a layout spec with defaults merged, as JSON values by dotted key.

    The description is left out, and so is the location of the file.

    Args:
        spec: The layout spec.
        workload_file: Returns the name of a workload file together with an id of its content.
    """
    return {
        "rule": spec.rule or None,
        **spec.layout.settings(),
        "files.max_group_size": spec.max_group_size,
        "partition_by": None if spec.partition_by is None else [str(field) for field in spec.partition_by],
        "partition_timezone": spec.partition_timezone or None,
        "where": None if spec.where is None else to_sql(spec.where),
        "where_may_be_empty": spec.where_may_be_empty,
        "ref": spec.ref,
        **{f"tolerance.{measure}": limit for measure, limit in asdict(spec.tolerance).items()},
        "workload": [workload_file(path) for path in spec.workload],
        "tags": list(spec.tags),
        "commit.properties": dict(spec.commit_properties),
    }


def catalog_settings(catalog: CatalogConfig | None) -> dict[str, Any]:
    """Return the keys and values of a catalog. They may hold secrets: show the keys alone."""
    return {} if catalog is None else {"format": catalog.format, "type": catalog.type, **catalog.options}


def layout_change(
    before: Mapping[str, Any] | None,
    after: Mapping[str, Any],
    spec: LayoutSpec,
    catalog_before: Mapping[str, Any],
    catalog_after: Mapping[str, Any],
) -> LayoutChange:
    """Return how the layout of one table differs between two revisions.

    Args:
        before: `effective_settings` in the earlier revision; None if the table had no layout.
        after: `effective_settings` in the later revision.
        spec: The layout spec in the later revision.
        catalog_before, catalog_after: `catalog_settings` of the table's catalog in both revisions.
    """
    known = _undeclared(spec) if before is None else before
    settings = tuple(
        SettingDrift(key, None if before is None else before.get(key), after.get(key), spec.location_of(key))
        for key in dict.fromkeys((*after, *(before or ())))
        if known.get(key) != after.get(key)
    )
    keys = () if before is None else {**catalog_before, **catalog_after}
    differing = tuple(key for key in keys if catalog_before.get(key) != catalog_after.get(key))
    return LayoutChange(before is None, settings, differing)


def _undeclared(spec: LayoutSpec) -> dict[str, Any]:
    """Return the settings of a layout that declares nothing. A new layout is described by its other settings."""
    zorder, files = DEFAULTS["zorder"], DEFAULTS["files"]
    size = size_in_bytes(files["target_size"])
    curve, sorted_within = CURVE_OF_COMPACTION, files["sort_within"]
    layout = Layout((), curve, zorder["range_ids"], zorder["noise"], size, sorted_within, "zlayout")
    with_defaults = {
        "zorder.range_ids": zorder["range_ids"],
        "zorder.noise": zorder["noise"],
        "files.sort_within": sorted_within,
    }
    return {**with_defaults, **effective_settings(LayoutSpec(spec.table, layout, spec.location), str)}
