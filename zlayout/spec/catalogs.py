"""The catalogs of a project: check the keys of each catalog type, and resolve relative paths."""

from __future__ import annotations

import os.path
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from zlayout.errors import Diagnostic, Location
from zlayout.formats.registry import FORMATS
from zlayout.spec.addresses import check_addresses, check_locations
from zlayout.spec.model import CatalogConfig
from zlayout.spec.validation import Violation

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
_SQLITE = re.compile(r"(?P<scheme>sqlite(?:\+\w+)?):(?P<rest>.*)", re.DOTALL)


def check_catalog(name: str, data: Mapping[str, Any], environ: Mapping[str, str]) -> Iterator[Violation]:
    """Check the keys of a catalog against its type, and its addresses.

    Yields:
        ZL029 for each key that is missing, not allowed or of another catalog type, ZL037 for a storage that is not S3,
        and for an address that sends data without encryption.
    """
    key = f"catalogs.{name}"
    types = FORMATS[data["format"]].traits.catalog_types
    type_ = _type(data)
    if type_ is None or type_ not in types:
        found = f"'{type_}'" if type_ else "none"
        expected = " or ".join(types)
        place = f"{key}.type" if type_ else key
        yield place, Diagnostic("ZL029", f"expected type {expected} for format {data['format']}, found {found}")
        return
    keys = types[type_]
    for wanted in keys.required:
        if wanted not in data:
            yield key, Diagnostic("ZL029", f"key '{wanted}' is missing in {key}", hint=f"add it for type {type_}")
    for other in ("warehouse", "uri", "tables", "yield_to_writers"):
        if other in data and other not in keys.required + keys.optional:
            yield (
                f"{key}.{other}",
                Diagnostic("ZL029", f"key '{other}' is not allowed for type {type_}", hint="remove it"),
            )
    if keys.any_of and not any(data.get(name) for name in keys.any_of):
        message = f"expected {' or '.join(keys.any_of)} in {key}, found neither"
        yield key, Diagnostic("ZL029", message, hint="add the storage location of the tables")
    yield from check_locations(key, type_, data)
    yield from check_addresses(key, type_, data, environ)
    if type_ == "sql" and "uri" in data and _in_memory(data["uri"]):
        hint = "use a file, for example sqlite:///catalog.db"
        yield (
            f"{key}.uri",
            Diagnostic("ZL029", "expected a catalog that Spark can read, found one in memory", hint=hint),
        )


def catalog(name: str, data: Mapping[str, Any], root: Path, location: Location) -> CatalogConfig:
    """The configuration of a catalog whose data `check_catalog` accepted.

    Args:
        name: the catalog's name in `catalogs:`.
        data: its keys and values, with variables replaced.
        root: the folder of the project, absolute. Relative paths are resolved against it.
        location: the location of the catalog in `zlayout.yaml`.
    """
    traits, type_ = FORMATS[data["format"]].traits, _type(data) or ""
    options: dict[str, Any] = {}
    if "warehouse" in data:
        options["warehouse"] = _warehouse(data["warehouse"], root, traits.local_warehouse_scheme, type_)
    if "uri" in data:
        options["uri"] = _uri(data["uri"], root)
    if data.get("yield_to_writers"):
        options["yield_to_writers"] = True
    if "tables" in data:
        options["tables"] = {table: _local(place, root) for table, place in data["tables"].items()}
    if "storage" in data:
        options["storage"] = dict(data["storage"])
    if "properties" in data:
        options["properties"] = {k: java_string(v) for k, v in data["properties"].items()}
    return CatalogConfig(name, traits.name, type_, options, location)


def java_string(value: Any) -> str:
    """A scalar as the string that Java and Spark use for it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _type(data: Mapping[str, Any]) -> str | None:
    """The catalog's type; without a declared type the first one of its format, if the format allows that."""
    traits = FORMATS[data["format"]].traits
    default = next(iter(traits.catalog_types)) if traits.type_is_optional else None
    type_: str | None = data.get("type", default)
    return type_


def _warehouse(value: str, root: Path, scheme: str, type_: str) -> str:
    if type_ in ("rest", "glue", "unity"):
        return value  # often a name instead of a storage location
    return value if _URL.match(value) else scheme + _local(value, root)


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
