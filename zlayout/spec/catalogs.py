"""`catalogs:` of a project: the keys of each catalog type, and relative paths resolved for all readers."""

from __future__ import annotations

import os.path
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from zlayout.errors import Diagnostic, Location
from zlayout.formats.registry import FORMATS
from zlayout.spec.model import CatalogConfig
from zlayout.spec.validation import Violation

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
_SQLITE = re.compile(r"(?P<scheme>sqlite(?:\+\w+)?):(?P<rest>.*)", re.DOTALL)


def check_catalog(name: str, data: Mapping[str, Any]) -> Iterator[Violation]:
    """ZL029 for keys that are missing or not allowed in a catalog of this type."""
    key = f"catalogs.{name}"
    types = FORMATS[data["format"]].traits.catalog_types
    kind = _type(data)
    if kind is None or kind not in types:
        found = f"'{kind}'" if kind else "none"
        expected = " or ".join(types)
        place = f"{key}.type" if kind else key
        yield place, Diagnostic("ZL029", f"expected type {expected} for format {data['format']}, found {found}")
        return
    keys = types[kind]
    for wanted in keys.required:
        if wanted not in data:
            yield key, Diagnostic("ZL029", f"key '{wanted}' is missing in {key}", hint=f"type {kind} requires it")
    for other in ("warehouse", "uri", "tables"):
        if other in data and other not in keys.required + keys.optional:
            yield (
                f"{key}.{other}",
                Diagnostic("ZL029", f"key '{other}' is not allowed for type {kind}", hint="remove it"),
            )
    if keys.any_of and not any(data.get(name) for name in keys.any_of):
        hint = "tables are searched there"
        message = f"expected {' or '.join(keys.any_of)} in {key}, found neither"
        yield key, Diagnostic("ZL029", message, hint=hint)
    if kind == "sql" and "uri" in data and _in_memory(data["uri"]):
        hint = "use a file, for example sqlite:///catalog.db"
        yield (
            f"{key}.uri",
            Diagnostic("ZL029", "expected a catalog that Spark can read, found one in memory", hint=hint),
        )


def catalog(name: str, data: Mapping[str, Any], root: Path, location: Location) -> CatalogConfig:
    """The catalog for checked data, with paths resolved against `root` (absolute)."""
    traits, kind = FORMATS[data["format"]].traits, _type(data) or ""
    options: dict[str, Any] = {}
    if "warehouse" in data:
        options["warehouse"] = _warehouse(data["warehouse"], root, traits.local_warehouse_scheme, kind)
    if "uri" in data:
        options["uri"] = _uri(data["uri"], root)
    if "tables" in data:
        options["tables"] = {table: _local(place, root) for table, place in data["tables"].items()}
    if "properties" in data:
        options["properties"] = {k: text(v) for k, v in data["properties"].items()}
    return CatalogConfig(name, traits.name, kind, options, location)


def text(value: Any) -> str:
    """A scalar as Java and Spark write it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _type(data: Mapping[str, Any]) -> str | None:
    """The catalog's type, the first one of its format where it may be left out."""
    traits = FORMATS[data["format"]].traits
    default = next(iter(traits.catalog_types)) if traits.type_is_optional else None
    kind: str | None = data.get("type", default)
    return kind


def _warehouse(value: str, root: Path, scheme: str, kind: str) -> str:
    if kind in ("rest", "glue"):
        # Often a name and not a storage location.
        return value
    if _URL.match(value):
        return value
    return scheme + _local(value, root)


def _local(value: str, root: Path) -> str:
    return value if _URL.match(value) else os.path.normpath(root / value)


def _uri(value: str, root: Path) -> str:
    sqlite = _SQLITE.fullmatch(value)
    if not sqlite or not sqlite["rest"].startswith("///"):
        return value
    path, mark, query = sqlite["rest"][3:].partition("?")
    return f"{sqlite['scheme']}:///{os.path.normpath(root / path)}{mark}{query}"


def _in_memory(uri: str) -> bool:
    sqlite = _SQLITE.fullmatch(uri)
    return bool(sqlite) and uri.partition(":///")[2].partition("?")[0] in ("", ":memory:")
