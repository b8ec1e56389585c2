"""Read the JSON Schemas, from the wheel or from a source checkout."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from zlayout.formats.registry import FORMATS

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

    Callers share the result and must not change it.
    """
    return _schema(name, tuple(FORMATS))


@cache
def _schema(name: str, formats: tuple[str, ...]) -> dict[str, Any]:
    schema: dict[str, Any] = json.loads(schema_text(name))
    if name == "project":
        schema["definitions"]["catalog"]["properties"]["format"]["enum"] = list(formats)
    return schema
