"""`catalogs:` of a project: what each type needs, and relative paths made absolute for every reader."""

from __future__ import annotations

import os.path
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from zlayout.errors import Diagnostic, Location
from zlayout.spec.model import CatalogConfig
from zlayout.spec.validation import Violation

# format -> type -> (keys it needs, further keys it takes)
_TYPES: Mapping[str, Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "delta": {"path": ((), ("warehouse", "tables"))},
    "iceberg": {
        "sql": (("uri", "warehouse"), ()),
        "rest": (("uri",), ("warehouse",)),
        "hive": (("uri",), ("warehouse",)),
        "glue": ((), ("uri", "warehouse")),
    },
}
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
_SQLITE = re.compile(r"(?P<scheme>sqlite(?:\+\w+)?):(?P<rest>.*)", re.DOTALL)


def check_catalog(name: str, data: Mapping[str, Any]) -> Iterator[Violation]:
    """ZL029 for keys that a catalog of this type lacks or does not take."""
    key = f"catalogs.{name}"
    types = _TYPES[data["format"]]
    kind = data.get("type", "path" if data["format"] == "delta" else None)
    if kind not in types:
        found = f"'{kind}'" if kind else "none"
        expected = " or ".join(types)
        place = f"{key}.type" if kind else key
        yield place, Diagnostic("ZL029", f"expected type {expected} for format {data['format']}, found {found}")
        return
    needed, optional = types[kind]
    for wanted in needed:
        if wanted not in data:
            yield key, Diagnostic("ZL029", f"key '{wanted}' is missing in {key}", hint=f"type {kind} needs it")
    for other in ("warehouse", "uri", "tables"):
        if other in data and other not in needed + optional:
            yield f"{key}.{other}", Diagnostic("ZL029", f"type {kind} takes no '{other}'", hint="remove it")
    if kind == "path" and not ("warehouse" in data or data.get("tables")):
        hint = "it is where tables are looked for"
        yield key, Diagnostic("ZL029", f"expected warehouse or tables in {key}, found neither", hint=hint)
    if kind == "sql" and "uri" in data and _in_memory(data["uri"]):
        hint = "use a file, for example sqlite:///catalog.db"
        yield (
            f"{key}.uri",
            Diagnostic("ZL029", "expected a catalog that Spark can read too, found one in memory", hint=hint),
        )


def catalog(name: str, data: Mapping[str, Any], root: Path, location: Location) -> CatalogConfig:
    """The catalog of checked data, with paths resolved against `root` (absolute)."""
    format_, kind = data["format"], data.get("type", "path")
    options: dict[str, Any] = {}
    if "warehouse" in data:
        options["warehouse"] = _warehouse(data["warehouse"], root, format_, kind)
    if "uri" in data:
        options["uri"] = _uri(data["uri"], root)
    if "tables" in data:
        options["tables"] = {table: _local(place, root) for table, place in data["tables"].items()}
    if "properties" in data:
        options["properties"] = {k: text(v) for k, v in data["properties"].items()}
    return CatalogConfig(name, format_, kind, options, location)


def text(value: Any) -> str:
    """A scalar as Java and Spark write it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _warehouse(value: str, root: Path, format_: str, kind: str) -> str:
    if kind in ("rest", "glue"):
        # Often a name and not a place.
        return value
    if _URL.match(value):
        return value
    path = _local(value, root)
    # pyiceberg and Spark take a bare path for one in the default file system, which need not be the local one.
    return f"file://{path}" if format_ == "iceberg" else path


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
