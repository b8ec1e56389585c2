"""Read the JSON Schemas, from the wheel or from a source checkout."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from zlayout.formats.registry import FORMATS

_SCALAR = {"title": "text, a number, true or false", "type": ["string", "number", "boolean"]}
_VERSIONS = {"layout": "v1", "project": "v1", "plan": "v2"}


def schema_text(name: str) -> str:
    """Return the text of the published schema `layout`, `project` or `plan`. Raises KeyError for another name."""
    relative = f"{_VERSIONS[name]}/{name}.schema.json"
    packed = files("zlayout").joinpath("schemas", relative)
    if packed.is_file():
        return packed.read_text(encoding="utf-8")
    return Path(__file__).parents[2].joinpath("schemas", relative).read_text(encoding="utf-8")


def load_schema(name: str) -> dict[str, Any]:
    """Return a published schema as data, with the formats of the registry as catalog formats.

    The names of Spark settings and catalog properties, which editors complete, are left out: `zlayout.spec.allowed`
    checks them with their values. Callers share the result and must not change it.
    """
    return _schema(name, tuple(FORMATS))


@cache
def _schema(name: str, formats: tuple[str, ...]) -> dict[str, Any]:
    schema: dict[str, Any] = json.loads(schema_text(name))
    if name == "project":
        schema["definitions"]["catalog"]["properties"]["format"]["enum"] = list(formats)
        for settings in ("spark_settings", "catalog_properties"):
            title = schema["definitions"][settings]["title"]
            schema["definitions"][settings] = {"type": "object", "title": title, "additionalProperties": _SCALAR}
    return schema
