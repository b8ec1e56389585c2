"""Build a `LayoutSpec` from a validated layout document and the project's defaults."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

from zlayout.errors import Diagnostic, Location, SpecError
from zlayout.formats.format import Traits
from zlayout.formats.registry import FORMATS
from zlayout.message_text import quote_value
from zlayout.predicate.parse import parse_where
from zlayout.spec.catalogs import unknown_catalog
from zlayout.spec.defaults import CURVE_OF_COMPACTION, DEFAULT_CURVE, DEFAULTS, merge
from zlayout.spec.layout import Layout, ZorderColumn, cut_problems, parse_cut
from zlayout.spec.model import MAIN, CatalogConfig, LayoutSpec, TableName, Tolerance
from zlayout.spec.names import parse_partition_key, parse_table
from zlayout.spec.yaml import Document
from zlayout.table.partition import PartitionField

MIN_TARGET_SIZE = 1024  # bytes
MAX_SIZE = 1024**5  # bytes
_UNITS = {"B": 1} | {
    f"{letter}{suffix}": base**power
    for suffix, base in (("B", 1000), ("iB", 1024))
    for power, letter in enumerate("KMGT", start=1)
}
_UNITS["kB"] = 1000


def layout_spec(
    document: Document,
    defaults: Mapping[str, Any],
    default_locations: Mapping[str, Location],
    catalogs: Mapping[str, CatalogConfig] | None,
) -> LayoutSpec:
    """Return the layout spec of a document that conforms to the schema. The table of a rule is its pattern.

    Args:
        document: The layout document.
        defaults: `defaults:` of the project.
        default_locations: The locations of the defaults, by the dotted keys of a layout.
        catalogs: The catalogs by name; None if `zlayout.yaml` is invalid. The catalog of the table, and what depends on
            it or on the defaults, is then not checked.

    Raises:
        SpecError: With every error in the document.
    """
    errors: list[Diagnostic] = []
    data = merge(DEFAULTS, defaults, document.data)
    key = "match" if "match" in data else "table"
    locations = document.locations
    merged_locations = {**default_locations, **locations}
    traits = None
    with _kept(errors):
        table = parse_table(data[key], locations[key])
        if catalogs and table.catalog in catalogs:
            traits = FORMATS[catalogs[table.catalog].format].traits
        errors.extend(_table_problems(table, document, key, catalogs, traits))
    with _kept(errors):
        layout = _layout(data, merged_locations)
        errors += [*_duplicate_columns(layout, locations), *cut_problems(layout, merged_locations, locations[key])]
        if catalogs is not None:
            errors.extend(_curve_problems(document, layout, default_locations, traits))
        max_group_size = None
        if "max_group_size" in data["files"]:
            minimum = f"files.target_size, {data['files']['target_size']},"
            max_group_size = _size(data["files"], "max_group_size", layout.target_size, minimum, merged_locations)
    partition_by = tuple(_partition_fields(document, traits, errors)) if "partition_by" in data else None
    with _kept(errors):
        where = parse_where(data["where"], locations["where"]) if "where" in data else None
    if errors:
        raise SpecError(*errors)
    return LayoutSpec(
        table=table,
        layout=layout,
        location=locations[key],
        partition_by=partition_by,
        where=where,
        where_may_be_empty=data.get("where_may_be_empty", False),
        tolerance=Tolerance(**{k: (factor if k == "touched" else share)(v) for k, v in data["tolerance"].items()}),
        max_group_size=max_group_size,
        tags=tuple(data.get("tags", ())),
        description=data.get("description", ""),
        locations=locations,
        rule=data.get("match", ""),
        ref=data.get("ref", MAIN),
        partition_timezone=data.get("partition_timezone", ""),
    )


@contextmanager
def _kept(errors: list[Diagnostic]) -> Iterator[None]:
    """Append the diagnostics of a SpecError that the block raises to `errors`, and continue after the block."""
    try:
        yield
    except SpecError as error:
        errors += error.diagnostics


def size_in_bytes(value: str | int) -> int:
    """Return the number of bytes of a size such as `128MiB`, `1GB` or 1024 that conforms to the schema."""
    if isinstance(value, int):
        return value
    unit = value.lstrip("0123456789. ")
    return int(Decimal(value.removesuffix(unit).rstrip()) * _UNITS[unit])


def share(value: str | float) -> float:
    """Return a share such as `10%` or 0.1 as a number from 0 to 1."""
    return float(Decimal(value.rstrip(" %")) / 100) if isinstance(value, str) else float(value)


def factor(value: str | float) -> float:
    """Return a factor such as `1.5x` or 1.5 as a number."""
    return float(value.rstrip(" x")) if isinstance(value, str) else float(value)


def _layout(data: Mapping[str, Any], locations: Mapping[str, Location]) -> Layout:
    zorder, files = data["zorder"], data["files"]
    columns = tuple(
        ZorderColumn(c) if isinstance(c, str) else ZorderColumn(c["name"], float(c.get("weight", 1)))
        for c in zorder.get("columns", ())
    )
    curve = zorder.get("curve") or DEFAULT_CURVE[data["engine"]]
    return Layout(
        columns=columns,
        curve=curve if columns else CURVE_OF_COMPACTION,
        range_ids=zorder["range_ids"],
        noise=zorder["noise"],
        target_size=_size(files, "target_size", MIN_TARGET_SIZE, "1KiB", locations),
        sort_within=files["sort_within"],
        engine=data["engine"],
        cuts=tuple(parse_cut(text, locations[f"zorder.cuts[{i}]"]) for i, text in enumerate(zorder.get("cuts", ()))),
    )


def _size(files: Mapping[str, Any], key: str, minimum: int, shown: str, locations: Mapping[str, Location]) -> int:
    """Return the size in bytes. The schema cannot check the minimum. shown: the minimum as the message shows it."""
    size = size_in_bytes(files[key])
    if not minimum <= size <= MAX_SIZE:
        expected, found = f"expected files.{key} from {shown} to 1024TiB", quote_value(str(files[key]))
        raise SpecError.of("ZL013", f"{expected}, found {found}", location=locations.get(f"files.{key}"))
    return size


def _table_problems(
    table: TableName,
    document: Document,
    key: str,
    catalogs: Mapping[str, CatalogConfig] | None,
    traits: Traits | None,
) -> Iterator[Diagnostic]:
    location = document.locations[key]
    if catalogs is not None and table.catalog not in catalogs:
        yield unknown_catalog(table.catalog, catalogs, location)
    elif traits and traits.needs_namespace and not table.namespace:
        message = f"expected catalog.namespace.table for {traits.title}, found {quote_value(document.data[key])}"
        yield Diagnostic("ZL020", message, location=location)
    if traits and not traits.branches and document.data.get("ref", MAIN) != MAIN:
        message = f"ref {quote_value(document.data['ref'])}: {traits.title} tables have no branches"
        yield Diagnostic("ZL055", message, hint="remove ref", location=document.locations["ref"])


def _duplicate_columns(layout: Layout, locations: Mapping[str, Location]) -> Iterator[Diagnostic]:
    names = [c.name for c in layout.columns]
    for index, name in enumerate(names):
        if name in names[:index]:
            location = locations[f"zorder.columns[{index}]"]
            message = f"duplicate column {quote_value(name)} in zorder.columns"
            yield Diagnostic("ZL016", message, hint="keep the first one", location=location)


def _curve_problems(
    document: Document, layout: Layout, default_locations: Mapping[str, Location], traits: Traits | None
) -> Iterator[Diagnostic]:
    if layout.engine != "native" or not layout.orders:
        return
    formats = [traits] if traits else [format_.traits for format_ in FORMATS.values()]
    supported = tuple(dict.fromkeys(curve for each in formats for curve in each.native_curves))
    if layout.curve in supported:
        return
    of_format = f" of {traits.name}" if traits else ""
    keys = ("zorder.curve", "engine")
    found = [known[key] for known in (document.locations, default_locations) for key in keys if key in known]
    message = f"engine native{of_format} does not support curve {layout.curve}"
    hint = f"use curve {' or '.join(supported)}, or engine zlayout"
    yield Diagnostic("ZL025", message, hint=hint, location=found[0] if found else document.location)


def _partition_fields(document: Document, traits: Traits | None, errors: list[Diagnostic]) -> Iterator[PartitionField]:
    seen: set[str] = set()
    for index, text in enumerate(document.data["partition_by"]):
        location = document.locations[f"partition_by[{index}]"]
        with _kept(errors):
            field = parse_partition_key(text, location)
            if traits and not traits.partition_transforms and field.transform != "identity":
                message = f"expected a column in partition_by of a {traits.title} table, found {quote_value(text)}"
                hint = "use a generated column, or z-order by the column itself"
                errors.append(Diagnostic("ZL024", message, hint=hint, location=location))
            elif str(field) in seen:
                message = f"duplicate partition key {quote_value(text)} in partition_by"
                errors.append(Diagnostic("ZL023", message, location=location))
            seen.add(str(field))
            yield field
