"""Parse a strict subset of YAML 1.2 to plain data, with the location of every key.

The data is built from the events of PyYAML, and consists only of strings, numbers, booleans, None, lists and dicts.
Aliases are rejected, because the data of a small file with aliases can be larger than any limit.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from zlayout.errors import Diagnostic, Location, SpecError
from zlayout.reading import read_at_most
from zlayout.text import describe_value, quote_value

MAX_BYTES = 256 * 1024
MAX_DEPTH = 20
MAX_DIGITS = 30  # of an integer
MAX_ERRORS = 20  # per file; further errors are not reported

_KEYWORDS = {
    word: value
    for name, value in (("true", True), ("false", False), ("null", None))
    for word in (name, name.title(), name.upper())
}
_KEYWORDS |= {"~": None, "": None}
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]{1,4})?")
_INVALID = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# Texts of characters that libyaml and PyYAML read in the same way. The two differ in block scalars, complex keys,
# escapes, directives, tabs, and line breaks other than \n. Therefore % > ? \ | are excluded.
_PLAIN = re.compile(r"[\n\x20-\x24\x26-=@-\x5b\x5d-{}~]*")
# Characters that an escape in double quotes can produce and that are rejected: NUL and surrogates.
_INVALID_ESCAPED = re.compile("[\\x00\\ud800-\\udfff]")
_CONFLICT = re.compile("^<<<<<<< ", re.MULTILINE)  # how git begins the lines of a merge conflict


@dataclass(frozen=True, slots=True)
class Document:
    """A YAML file as data.

    Attributes:
        data: The content of the file.
        locations: The location of each dotted key, such as `zorder`, `zorder.columns` or `zorder.columns[1].name`.
        location: The start of the file.
    """

    data: dict[str, Any]
    locations: Mapping[str, Location]
    location: Location


def read(path: Path, shown: str) -> Document:
    """Read and parse a file.

    Args:
        path: The file.
        shown: Its name in messages.

    Raises:
        SpecError: The errors of the file, at most MAX_ERRORS, with the codes ZL002 to ZL008.
    """
    try:
        content = read_at_most(path, MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        message = reason if isinstance(error, IsADirectoryError) else f"cannot read the file: {reason}"
        raise SpecError.of("ZL002", message, location=Location(shown)) from error
    return parse(content, shown)


def parse(content: bytes, shown: str) -> Document:
    """Parse the content of a file. Arguments and errors are those of `read`."""
    text = _text(content, shown)
    if _PLAIN.fullmatch(text):  # libyaml is 20 times as fast, but only PyYAML describes errors well
        document, errors = _parsed(text, shown, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        if not errors:
            return document
    document, errors = _parsed(text, shown, yaml.SafeLoader)
    if errors and (conflict := _CONFLICT.search(text)):
        location = _location(text[: conflict.start()], shown)
        raise SpecError.of("ZL005", "invalid YAML: a merge conflict", hint="resolve the conflict", location=location)
    if errors:
        raise SpecError(*errors)
    return document


def _parsed(text: str, shown: str, reader: type[yaml.SafeLoader]) -> tuple[Document, list[Diagnostic]]:
    builder, data = _Builder(shown, reader), {}
    try:
        data = builder.document(text)
    except _TooManyError:
        pass
    except yaml.YAMLError as error:
        builder.errors.append(_syntax(error, shown))
    return Document(data, builder.locations, Location(shown, 1, 1)), builder.errors


def _text(content: bytes, shown: str) -> str:
    if len(content) > MAX_BYTES:
        message = f"expected a file of at most {MAX_BYTES // 1024} KiB, found more"
        raise SpecError.of("ZL004", message, location=Location(shown))
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        at = _location(content[: error.start].decode("utf-8", "replace"), shown)
        message = f"expected UTF-8 text, found byte 0x{content[error.start]:02x}"
        raise SpecError.of("ZL003", message, location=at) from error
    if invalid := _INVALID.search(text):
        message = f"expected text, found the character U+{ord(invalid[0]):04X}"
        raise SpecError.of("ZL003", message, location=_location(text[: invalid.start()], shown))
    return text


def _location(before: str, shown: str) -> Location:
    lines = before.split("\n")
    return Location(shown, len(lines), len(lines[-1]) + 1)


def _at(mark: Any, shown: str) -> Location:
    return Location(shown, mark.line + 1, mark.column + 1) if mark else Location(shown)


def _syntax(error: yaml.YAMLError, shown: str) -> Diagnostic:
    location, problem = Location(shown), str(error)
    if isinstance(error, yaml.MarkedYAMLError):
        location = _at(error.problem_mark or error.context_mark, shown)
        problem = ", ".join(part for part in (error.context, error.problem) if part)
    if "'\\t'" in problem:
        return Diagnostic("ZL005", "expected spaces, found a tab", hint="use spaces instead of tabs", location=location)
    return Diagnostic("ZL005", f"invalid YAML: {problem}", location=location)


def _events(text: str, reader: type[yaml.SafeLoader]) -> Iterator[Event]:
    loader = reader(text)
    events: Iterator[Event] = iter(loader.get_event, None)
    try:
        yield from events
    except (ValueError, OverflowError) as error:
        # PyYAML passes the digits of an escape to chr() and those of %YAML to int() without checking their range.
        raise yaml.MarkedYAMLError(problem="a number out of range", problem_mark=loader.get_mark()) from error


class _TooManyError(Exception):
    """The file has MAX_ERRORS errors, or is nested deeper than MAX_DEPTH. They have been reported."""


class _Builder:
    """Continues after an error, so that it finds all errors."""

    def __init__(self, shown: str, reader: type[yaml.SafeLoader]) -> None:
        self.shown = shown
        self.reader = reader
        self.locations: dict[str, Location] = {}
        self.errors: list[Diagnostic] = []

    def document(self, text: str) -> dict[str, Any]:
        events = _events(text, self.reader)
        data: Any = None
        for number, event in enumerate(event for event in events if isinstance(event, DocumentStartEvent)):
            if number:
                self._report("ZL006", "expected one YAML document, found several", event, "use one file for each")
                break
            data = self._value(next(events), events, "", 1)
        if not self.errors and not isinstance(data, dict):
            found = "nothing" if data is None else describe_value(data)
            self.errors.append(
                Diagnostic("ZL008", f"expected keys and values, found {found}", location=Location(self.shown, 1, 1))
            )
        return data if isinstance(data, dict) else {}

    def _value(self, event: Event, events: Iterator[Event], key: str, depth: int) -> Any:
        if depth > MAX_DEPTH:
            self._report("ZL004", f"expected at most {MAX_DEPTH} levels, found more", event)
            raise _TooManyError
        if isinstance(event, AliasEvent):
            self._report("ZL006", "YAML aliases (*) are not supported", event, "write the value out")
            return None
        assert isinstance(event, NodeEvent)
        if event.anchor is not None:
            self._report("ZL006", "YAML anchors (&) are not supported", event, "write the value out where it is needed")
        if getattr(event, "tag", None) is not None:
            self._report("ZL006", "YAML tags (!) are not supported", event, "quote the value if it is text")
        if isinstance(event, MappingStartEvent):
            return self._mapping(events, key, depth)
        if isinstance(event, SequenceStartEvent):
            return self._sequence(events, key, depth)
        assert isinstance(event, ScalarEvent)
        value = self._scalar(event)
        if not event.style and isinstance(value, str) and _INTEGER.fullmatch(value):
            message = f"expected an integer of at most {MAX_DIGITS} digits, found {_digits(value)} digits"
            self._report("ZL013", message, event, "quote the value if it is text")
        return value

    def _mapping(self, events: Iterator[Event], key: str, depth: int) -> dict[str, Any]:
        data: dict[str, Any] = {}
        while not isinstance(event := next(events), MappingEndEvent):
            name = self._key(event, events, depth)
            path = f"{key}.{name}" if key else name
            if name in data:
                message = f"duplicate key {quote_value(name)} (first defined on line {self.locations[path].line})"
                self._report("ZL007", message, event, "keep one of them")
                self._value(next(events), events, path, depth + 1)
                continue
            self.locations[path] = _at(event.start_mark, self.shown)
            data[name] = self._value(next(events), events, path, depth + 1)
        return data

    def _scalar(self, event: ScalarEvent) -> Any:
        if not event.style:  # None from PyYAML, '' from libyaml
            return plain_value(event.value)
        if invalid := _INVALID_ESCAPED.search(event.value):
            self._report("ZL003", f"expected text, found the character U+{ord(invalid[0]):04X}", event)
        return event.value

    def _key(self, event: Event, events: Iterator[Event], depth: int) -> str:
        if not isinstance(event, ScalarEvent):
            if not isinstance(event, AliasEvent):
                self._report("ZL006", "expected a name as key, found a list or a map", event)
            self._value(event, events, "", depth + 1)
            return ""
        if not event.style and event.value == "<<":
            self._report("ZL006", "YAML merge keys (<<) are not supported", event, "use defaults: in zlayout.yaml")
        if event.anchor is not None or event.tag is not None:
            self._report("ZL006", "a key cannot have an anchor or a tag", event)
        self._scalar(event)
        return str(event.value)

    def _sequence(self, events: Iterator[Event], key: str, depth: int) -> list[Any]:
        data: list[Any] = []
        while not isinstance(event := next(events), SequenceEndEvent):
            path = f"{key}[{len(data)}]"
            self.locations[path] = _at(event.start_mark, self.shown)
            data.append(self._value(event, events, path, depth + 1))
        return data

    def _report(self, code: str, message: str, event: Event, hint: str = "") -> None:
        self.errors.append(Diagnostic(code, message, hint=hint, location=_at(event.start_mark, self.shown)))
        if len(self.errors) >= MAX_ERRORS:
            raise _TooManyError


def plain_value(text: str) -> Any:
    """Return the value of an unquoted scalar.

    The value is that of the core schema of YAML 1.2, except that numbers with leading zeros, hexadecimal and octal
    numbers, infinity and NaN are strings, and so are integers of more than MAX_DIGITS digits, which `parse` refuses. As
    in YAML 1.2, dates, 1_000 and 1:30 are strings too.
    """
    if text in _KEYWORDS:
        return _KEYWORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text) if _digits(text) <= MAX_DIGITS else text
    if _FLOAT.fullmatch(text) and math.isfinite(number := float(text)):
        return number
    return text


def _digits(integer: str) -> int:
    return len(integer.lstrip("+-"))


def dump(value: object, allow_unicode: bool = True, **style: Any) -> str:
    """Return a value as YAML, from which `parse` reads the same value. style: options of `yaml.dump`."""
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=allow_unicode, **style)
    return text


class _Dumper(yaml.SafeDumper):
    """A dumper that also quotes strings such as 1e5, which are numbers in YAML 1.2 but not for PyYAML."""

    def represent_str(self, data: str) -> yaml.ScalarNode:
        style = None if isinstance(plain_value(data), str) else "'"
        return self.represent_scalar("tag:yaml.org,2002:str", data, style)


_Dumper.add_representer(str, _Dumper.represent_str)
