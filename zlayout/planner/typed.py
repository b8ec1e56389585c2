"""JSON values to the dataclasses of the plan, strictly: what has another type, or a key too many, is no plan.

It ends at the first mistake, so that a file of nothing but mistakes costs no more than one of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints


class MismatchError(Exception):
    """What was expected, where. str() reads `tables.0.files: expected a whole number, found text`."""

    def __init__(self, path: str, expected: str, found: object) -> None:
        super().__init__(f"{path or 'the document'}: expected {expected}, found {_NAMES.get(type(found), 'nothing')}")


_NAMES: dict[type, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    list: "a list",
    dict: "an object",
}


def typed(value: Any, kind: Any, path: str = "") -> Any:
    """`value`, as json gives it, as a value of type `kind`. Raises MismatchError."""
    if kind is Any:
        return value
    if dataclasses.is_dataclass(kind):
        return _record(value, kind, path)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        if value is None and NoneType in arguments:
            return None
        return _alternative(value, [a for a in arguments if a is not NoneType], path)
    if origin is Mapping:
        if not isinstance(value, dict):
            raise MismatchError(path, _NAMES[dict], value)
        return {key: typed(item, arguments[1], f"{path}.{key[:60]}") for key, item in value.items()}
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        if not isinstance(value, str) or value not in list(kind):
            raise MismatchError(path, f"one of {', '.join(kind)}", value)
        return kind(value)
    if origin is tuple:
        return _items(value, arguments, path)
    if origin is Literal:
        if not isinstance(value, str) or value not in arguments:
            raise MismatchError(path, f"one of {', '.join(arguments)}", value)
        return value
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        raise MismatchError(path, _NAMES[kind], value)
    return value


def _alternative(value: Any, kinds: Sequence[Any], path: str) -> Any:
    """One of several types; records are told apart by their `kind`."""
    if len(kinds) == 1:
        return typed(value, kinds[0], path)
    if not isinstance(value, dict):
        raise MismatchError(path, _NAMES[dict], value)
    tags = {kind.__dataclass_fields__["kind"].default: kind for kind in kinds}
    tag = value.get("kind")
    if not isinstance(tag, str) or tag not in tags:
        raise MismatchError(f"{path}.kind", f"one of {', '.join(tags)}", tag)
    return _record(value, tags[tag], path)


def _record(value: Any, kind: Any, path: str) -> Any:
    if not isinstance(value, dict):
        raise MismatchError(path, _NAMES[dict], value)
    fields = _fields(kind)
    if unknown := next((key for key in value if key not in fields), None):
        raise MismatchError(f"{path}.{unknown[:60]}".lstrip("."), "no such key", value[unknown])
    for name, (_, needed) in fields.items():
        if needed and name not in value:
            raise MismatchError(f"{path}.{name}".lstrip("."), _expected(fields[name][0]), None)
    return kind(**{key: typed(item, fields[key][0], f"{path}.{key}".lstrip(".")) for key, item in value.items()})


def _items(value: Any, kinds: tuple[Any, ...], path: str) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise MismatchError(path, _NAMES[list], value)
    if kinds[-1] is ...:
        return tuple(typed(item, kinds[0], f"{path}.{n}") for n, item in enumerate(value))
    if len(value) != len(kinds):
        raise MismatchError(path, f"a list of {len(kinds)}", value)
    return tuple(typed(item, kind, f"{path}.{n}") for n, (item, kind) in enumerate(zip(value, kinds, strict=True)))


def _expected(kind: Any) -> str:
    return _NAMES.get(kind, "a list" if get_origin(kind) is tuple else "a value")


@cache
def _fields(kind: Any) -> dict[str, tuple[Any, bool]]:
    """The type of each field of a dataclass, and whether it must be given."""
    hints = get_type_hints(kind)
    missing = dataclasses.MISSING
    return {
        f.name: (hints[f.name], f.default is missing and f.default_factory is missing) for f in dataclasses.fields(kind)
    }
