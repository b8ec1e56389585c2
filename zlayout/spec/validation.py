"""JSON Schema violations as diagnostics, for the keywords that the schemas in `schemas/` use.

Written out here since importing jsonschema takes longer than reading a whole project, and since its messages
speak of schemas. A test holds it against jsonschema: both accept and reject the same documents.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from typing import Any

from zlayout.errors import Diagnostic
from zlayout.spec.yaml import Document, kind, printable, quoted

Schema = Mapping[str, Any]
# (dotted key, diagnostic without its place)
Violation = tuple[str, Diagnostic]

_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
}


def validate(document: Document, schema: Schema) -> tuple[Diagnostic, ...]:
    """All violations in a document, each at the place of its key; a key that is missing at the place of its map."""
    found = _Validator(schema).violations(document.data, schema, "")
    return tuple(place(document, key, diagnostic) for key, diagnostic in found)


def place(document: Document, key: str, diagnostic: Diagnostic) -> Diagnostic:
    """The diagnostic with the place of `key` in the document."""
    location = document.marks.get(key, document.location)
    return Diagnostic(diagnostic.code, diagnostic.message, diagnostic.severity, diagnostic.hint, location)


def suggestion(name: str, known: Iterable[str]) -> str:
    """`did you mean 'x'?` for the nearest known name, else the empty string."""
    close = get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"did you mean '{close[0]}'?" if close else ""


class _Validator:
    def __init__(self, root: Schema) -> None:
        self.root = root

    def violations(self, value: Any, schema: Schema, key: str) -> Iterator[Violation]:
        for part in schema.get("allOf", ()):
            yield from self.violations(value, part, key)
        if "$ref" in schema:
            yield from self.violations(value, self._target(schema["$ref"]), key)
        elif "anyOf" in schema:
            yield from self._any(value, schema, key)
        elif "enum" in schema:
            yield from _enum(value, schema, key)
        elif not _fits(value, schema):
            yield key, _unexpected(value, schema, key)
        elif isinstance(value, dict):
            yield from self._object(value, schema, key)
        elif isinstance(value, list):
            yield from self._array(value, schema, key)

    def _target(self, reference: str) -> Schema:
        target: Schema = self.root["definitions"][reference.rpartition("/")[2]]
        return target

    def _any(self, value: Any, schema: Schema, key: str) -> Iterator[Violation]:
        """The one alternative that takes a map speaks for maps: its messages name the wrong key."""
        if any(not [*self.violations(value, part, key)] for part in schema["anyOf"]):
            return
        of_type = [part for part in schema["anyOf"] if part.get("type") == "object"]
        if isinstance(value, dict) and of_type:
            yield from self.violations(value, of_type[0], key)
        else:
            yield key, _unexpected(value, schema, key)

    def _object(self, value: Mapping[str, Any], schema: Schema, key: str) -> Iterator[Violation]:
        known = schema.get("properties", {})
        others = schema.get("additionalProperties", True)
        for name in schema.get("required", ()):
            if name not in value:
                yield key, Diagnostic("ZL011", f"key '{name}' is missing{_within(key)}", hint=_example(name, known))
        for name, item in value.items():
            path = f"{key}.{name}" if key else name
            if "propertyNames" in schema and not _fits(name, schema["propertyNames"]):
                yield path, _unexpected(name, schema["propertyNames"], path)
            elif name in known:
                yield from self.violations(item, known[name], path)
            elif isinstance(others, Mapping):
                yield from self.violations(item, others, path)
            elif others is False:
                hint = suggestion(name, known) or "known keys: " + ", ".join(known)
                yield path, Diagnostic("ZL010", f"unknown key {quoted(name)}{_within(key)}", hint=hint)

    def _array(self, value: Sequence[Any], schema: Schema, key: str) -> Iterator[Violation]:
        if "items" in schema:
            for index, item in enumerate(value):
                yield from self.violations(item, schema["items"], f"{key}[{index}]")


def _fits(value: Any, schema: Schema) -> bool:
    """Whether the value by itself, without what is in it, is what the schema takes."""
    if "const" in schema:
        return type(value) is type(schema["const"]) and bool(value == schema["const"])
    if "type" in schema and not _has_type(value, schema["type"]):
        return False
    match value:
        case bool():
            return True
        case int() | float():
            above = "exclusiveMinimum" not in schema or value > schema["exclusiveMinimum"]
            return bool(above and schema.get("minimum", value) <= value <= schema.get("maximum", value))
        case str():
            fits = schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value))
            return bool(fits) and ("pattern" not in schema or bool(_pattern(schema["pattern"]).search(value)))
        case list():
            fits = schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value))
            return bool(fits) and not (schema.get("uniqueItems") and len({repr(v) for v in value}) < len(value))
        case dict():
            return bool(len(value) >= schema.get("minProperties", 0))
        case _:
            return True


def _has_type(value: Any, names: str | Sequence[str]) -> bool:
    if isinstance(names, str):
        names = (names,)
    # In Python true is an int; in YAML it is not.
    return any(isinstance(value, _TYPES[n]) and (n == "boolean" or not isinstance(value, bool)) for n in names)


@cache
def _pattern(pattern: str) -> re.Pattern[str]:
    # In Python `$` also matches before a final newline.
    return re.compile(pattern[:-1] + r"\Z" if pattern.endswith("$") else pattern)


def _enum(value: Any, schema: Schema, key: str) -> Iterator[Violation]:
    if value in schema["enum"]:
        return
    allowed = schema["enum"]
    hint = suggestion(value, allowed) if isinstance(value, str) else ""
    expected = ", ".join(allowed[:-1]) + f" or {allowed[-1]}"
    yield key, Diagnostic("ZL014", f"expected {expected}{_at(key)}, found {kind(value)}", hint=hint)


def _unexpected(value: Any, schema: Schema, key: str) -> Diagnostic:
    expected = schema.get("title") or schema.get("type") or "something else"
    too_long = isinstance(value, str) and len(value) > schema.get("maxLength", len(value))
    found = f"{len(value)} characters" if too_long else kind(value)
    if isinstance(value, list) and _has_type(value, schema.get("type", "array")):
        unique = len({repr(v) for v in value}) == len(value)
        found = f"one of {len(value)}" if unique and value else "an empty one" if not value else "one with repetitions"
    return Diagnostic(schema.get("x-code", "ZL013"), f"expected {expected}{_at(key)}, found {found}")


def _within(key: str) -> str:
    return f" in {printable(key)}" if key else ""


def _at(key: str) -> str:
    return f" for {printable(key)}" if key else ""


def _example(name: str, known: Mapping[str, Schema]) -> str:
    examples = known.get(name, {}).get("examples")
    if not examples or isinstance(examples[0], dict | list):
        return ""
    return f"for example {name}: {examples[0]}"
