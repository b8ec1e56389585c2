"""Read the JSON Schemas, validate YAML documents against them, and describe the violations as diagnostics."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from itertools import combinations, islice
from pathlib import Path
from typing import Any, Literal

from zlayout.errors import Diagnostic
from zlayout.spec.formats import FORMATS
from zlayout.spec.yaml import Document
from zlayout.text import describe_value, escape_unprintable, quote_value

# The JSON Schemas, from the wheel or from a source checkout.


_SCALAR = {"title": "text, a number, true or false", "type": ["string", "number", "boolean"]}
_VERSIONS = {"layout": "v1", "project": "v1", "plan": "v3"}


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


# A validator of the part of JSON Schema, draft 7, that the published schemas use. The package jsonschema would take a
# tenth of the time of a small plan to import.
#
# It is stricter than draft 7 in two points. 1000.0 is no integer, because its layout id would differ from that of 1000.
# And `$` in a pattern matches only at the end, as in JavaScript: in Python it also matches before a final newline.


Schema = Mapping[str, Any]
_ANNOTATIONS = frozenset(
    ("$schema", "$id", "title", "description", "default", "examples", "definitions", "x-code", "x-hint")
)
_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "array": list,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
    "object": dict,
    "string": str,
}


@cache
def _regex(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern[:-1] + r"\Z" if pattern.endswith("$") else pattern)


# The type of values that a keyword limits, and whether a value is within the limit.
_LIMITS: Mapping[str, tuple[str, Callable[[Any, Any], bool]]] = {
    "exclusiveMinimum": ("number", lambda value, limit: not value <= limit),
    "maximum": ("number", lambda value, limit: not value > limit),
    "maxItems": ("array", lambda value, limit: len(value) <= limit),
    "maxLength": ("string", lambda value, limit: len(value) <= limit),
    "minimum": ("number", lambda value, limit: not value < limit),
    "minItems": ("array", lambda value, limit: len(value) >= limit),
    "minLength": ("string", lambda value, limit: len(value) >= limit),
    "minProperties": ("object", lambda value, limit: len(value) >= limit),
    "pattern": ("string", lambda value, pattern: _regex(pattern).search(value) is not None),
    "required": ("object", lambda value, names: all(name in value for name in names)),
    "dependencies": (
        "object",
        lambda value, needed: all(one in value for name in needed if name in value for one in needed[name]),
    ),
    "uniqueItems": ("array", lambda value, _: not any(_equal(a, b) for a, b in combinations(value, 2))),
}


@dataclass(frozen=True, slots=True)
class Unmet:
    """A keyword of a schema that a value does not satisfy.

    Attributes:
        keyword: The keyword.
        expected: Its value in the schema.
        value: The value in the document. For keywords inside `propertyNames`, the name of a key.
        schema: The schema that has the keyword.
        path: The keys and indices that lead to the value, or to the map that has the name.
        of_name: Whether the value is the name of a key.
        alternatives: For `anyOf` and `oneOf`, what is unmet in each of their schemas.
    """

    keyword: str
    expected: Any
    value: Any
    schema: Schema
    path: tuple[str | int, ...]
    of_name: bool
    alternatives: tuple[tuple[Unmet, ...], ...] = ()


def unmet(
    value: Any, schema: Schema, definitions: Schema, path: tuple[str | int, ...] = (), *, of_name: bool = False
) -> Iterator[Unmet]:
    """Yield the keywords of a schema that a value does not satisfy, in the order of the schema.

    Args:
        value: The value, or the name of a key.
        schema: The schema.
        definitions: The schemas to which `$ref` refers.
        path: The keys and indices that lead to the value.
        of_name: Whether the value is the name of a key.

    Raises:
        KeyError: The schema has a keyword that is not supported.
    """
    if "$ref" in schema:  # the keywords beside it have no effect
        schema = definitions[schema["$ref"].removeprefix("#/definitions/")]
    for keyword, expected in schema.items():
        match keyword:
            case "allOf":
                for part in expected:
                    yield from unmet(value, part, definitions, path, of_name=of_name)
            case "anyOf" | "oneOf":
                parts = tuple(tuple(unmet(value, part, definitions, path, of_name=of_name)) for part in expected)
                met = sum(not part for part in parts)
                if met == 0 or (met > 1 and keyword == "oneOf"):
                    yield Unmet(keyword, expected, value, schema, path, of_name, parts)
            case "items":
                for number, item in enumerate(value if isinstance(value, list) else ()):
                    yield from unmet(item, expected, definitions, (*path, number))
            case "properties" | "additionalProperties" | "propertyNames" if not isinstance(value, dict):
                pass
            case "properties":
                for name in (name for name in expected if name in value):
                    yield from unmet(value[name], expected[name], definitions, (*path, name))
            case "propertyNames":
                for name in value:
                    yield from unmet(name, expected, definitions, path, of_name=True)
            case "additionalProperties":
                others = [name for name in value if name not in schema.get("properties", ())]
                if others and expected is False:
                    yield Unmet(keyword, expected, value, schema, path, of_name)
                elif expected is not False:
                    for name in others:
                        yield from unmet(value[name], expected, definitions, (*path, name))
            case _ if keyword not in _ANNOTATIONS and not _satisfies(value, keyword, expected):
                yield Unmet(keyword, expected, value, schema, path, of_name)


def _satisfies(value: Any, keyword: str, expected: Any) -> bool:
    match keyword:
        case "type":
            return any(_is(value, name) for name in ([expected] if isinstance(expected, str) else expected))
        case "const":
            return _equal(value, expected)
        case "enum":
            return any(_equal(value, one) for one in expected)
    limited, within = _LIMITS[keyword]
    return not _is(value, limited) or within(value, expected)


def _is(value: Any, name: str) -> bool:
    return isinstance(value, _TYPES[name]) and (name == "boolean" or not isinstance(value, bool))


def _equal(one: Any, other: Any) -> bool:
    """Whether two values are equal in JSON, in which true is not 1."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_equal, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_equal(one[name], other[name]) for name in one)
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


# The validation of documents. Each violation becomes a diagnostic with the location of its key.


MAX_VIOLATIONS = 100  # per file; further violations are not reported
# Keys of earlier versions, and what takes their place.
REMOVED_KEYS = {
    "history.table": "name a SQLite file in history.path; `zlayout history TABLE --json` prints its records",
    "notify": "send the report of drift from a step of your CI (docs/operate.md, Notifications)",
}
Violation = tuple[str, Diagnostic]  # dotted key, and a diagnostic without location


def validate(document: Document, name: Literal["layout", "project"]) -> tuple[Diagnostic, ...]:
    """Validate a document against a published schema.

    Returns:
        At most MAX_VIOLATIONS violations, each with the location of its key. A missing key has the location of the map
        that should contain it.
    """
    schema = load_schema(name)
    found = (v for error in unmet(document.data, schema, schema["definitions"]) for v in _violations(error))
    # A value that violates several keywords of its schema is reported once.
    listed = dict.fromkeys(islice(found, MAX_VIOLATIONS))
    return tuple(located(document, key, diagnostic) for key, diagnostic in listed)


def located(document: Document, key: str, diagnostic: Diagnostic) -> Diagnostic:
    """Return the diagnostic with the location of `key` in the document."""
    location = document.locations.get(key, document.location)
    return Diagnostic(diagnostic.code, diagnostic.message, diagnostic.severity, diagnostic.hint, location)


def suggestion(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Return the hint `did you mean 'x'?` with the most similar known name, or an empty string if none is similar.

    cutoff: the similarity from which a name is suggested, 0 to 1.
    """
    words = list(known)
    same = [word for word in words if word.lower() == name.lower()]
    close = same or get_close_matches(name, words, n=1, cutoff=cutoff)
    return f"did you mean '{close[0]}'?" if close else ""


def column_hint(name: str, known: Iterable[str]) -> str:
    """Return the hint for a name that no column has: the fields of a struct, else a similar name, else all columns."""
    names = tuple(known)
    fields = [found for found in names if found.startswith(f"{name}.")]
    if fields:
        return f"fields of this struct: {', '.join(fields):.300}"
    return suggestion(name, names) or f"known columns: {', '.join(names):.300}"


def _violations(error: Unmet) -> Iterator[Violation]:
    value, schema, key = error.value, error.schema, _key(error.path)
    match error.keyword:
        case "required":
            yield from _missing(value, schema, key)
        case "additionalProperties":
            yield from _unknown(value, schema, key)
        case "oneOf" if isinstance(value, dict):
            yield key, _table_or_match(value, schema)
        case "anyOf" if not key:
            hint = "declare zorder.columns, or only files.target_size to combine small files without an order"
            yield key, Diagnostic("ZL011", "key 'zorder' is missing", hint=hint)
        case "dependencies" if key:
            given = (needed for name, needed in error.expected.items() if name in value)
            name = next(one for needed in given for one in needed if one not in value)
            hint = _example(name, schema["properties"])
            yield key, Diagnostic("ZL011", f"key '{name}' is missing{_within(key)}", hint=hint)
        case "dependencies":
            message = "key 'match' is missing: exclude and only limit the tables that it matches"
            yield key, Diagnostic("ZL011", message, hint=_example("match", schema["properties"]))
        case "anyOf" if isinstance(value, dict) and (inner := _map_violations(error)):
            for violation in inner:
                yield from _violations(violation)
        case _ if error.of_name:
            path = _key([*error.path, value])
            yield path, _unexpected(value, schema, path)
        case _:
            yield key, _unexpected(value, schema, key)


def _key(path: Iterable[str | int]) -> str:
    key = ""
    for step in path:
        key = f"{key}[{step}]" if isinstance(step, int) else f"{key}.{step}" if key else step
    return key


def _map_violations(error: Unmet) -> list[Unmet]:
    """Return the errors of the alternative that is a map, because only these name the invalid key."""
    alternatives = zip(error.expected, error.alternatives, strict=True)
    return [inner for part, found in alternatives if part.get("type") == "object" for inner in found]


def _missing(value: Mapping[str, Any], schema: Schema, key: str) -> Iterator[Violation]:
    for name in schema["required"]:
        if name not in value:
            hint = _example(name, schema["properties"])
            yield key, Diagnostic("ZL011", f"key '{name}' is missing{_within(key)}", hint=hint)


def _table_or_match(value: Mapping[str, Any], schema: Schema) -> Diagnostic:
    if "table" in value:
        return Diagnostic("ZL013", "expected table or match, found both", hint="keep one of the two")
    hint = f"{_example('table', schema['properties'])}, or {_example('match', schema['properties'])[12:]}"
    return Diagnostic("ZL011", "key 'table' is missing", hint=hint)


def _unknown(value: Mapping[str, Any], schema: Schema, key: str) -> Iterator[Violation]:
    known = schema["properties"]
    for name in value:
        if name not in known:
            path = f"{key}.{name}" if key else name
            if path in REMOVED_KEYS:
                yield path, Diagnostic("ZL010", f"the key {path} has been removed", hint=REMOVED_KEYS[path])
                continue
            hint = suggestion(name, known) or "known keys: " + ", ".join(known)
            yield path, Diagnostic("ZL010", f"unknown key {quote_value(name)}{_within(key)}", hint=hint)


def _unexpected(value: Any, schema: Schema, key: str) -> Diagnostic:
    if allowed := schema.get("enum"):
        hint = suggestion(value, allowed) if isinstance(value, str) else ""
        message = f"expected {', '.join(allowed[:-1])} or {allowed[-1]}{_at(key)}, found {describe_value(value)}"
        return Diagnostic("ZL014", message, hint=hint)
    expected = schema.get("title") or schema.get("type") or "something else"
    message = f"expected {expected}{_at(key)}, found {_found(value, schema)}"
    return Diagnostic(schema.get("x-code", "ZL013"), message, hint=schema.get("x-hint", ""))


def _found(value: Any, schema: Schema) -> str:
    if isinstance(value, str) and len(value) > schema.get("maxLength", len(value)):
        return f"{len(value)} characters"
    if isinstance(value, list) and schema.get("type") == "array":
        if len(value) > schema.get("maxItems", len(value)):
            return f"one of {len(value)}"
        return "one with duplicates" if value else "an empty one"
    if value == {} and schema.get("type") == "object":
        return "an empty one"
    return describe_value(value)


def _within(key: str) -> str:
    return f" in {escape_unprintable(key)}" if key else ""


def _at(key: str) -> str:
    return f" for {escape_unprintable(key)}" if key else ""


def _example(name: str, known: Mapping[str, Schema]) -> str:
    examples = known.get(name, {}).get("examples")
    if not examples or isinstance(examples[0], dict | list):
        return ""
    return f"for example {name}: {examples[0]}"
