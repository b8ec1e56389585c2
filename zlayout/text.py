"""Text for messages and for Spark SQL, so that no character in what others wrote has a special meaning.

Messages have counts, and values and lists of users, quoted, escaped and shortened. SQL has quoted names and strings.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

MAX_QUOTED_LENGTH = 60  # characters
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def quote_value(text: str) -> str:
    """The text in single quotes, shortened to MAX_QUOTED_LENGTH characters and escaped."""
    shown = text if len(text) <= MAX_QUOTED_LENGTH else text[: MAX_QUOTED_LENGTH - 3] + "..."
    return f"'{escape_unprintable(shown)}'"


def first_of(texts: Sequence[str], limit: int) -> str:
    """Return the first `limit` texts, separated by commas, and how many more there are."""
    return ", ".join(texts[:limit]) + (f" and {len(texts) - limit:,} more" if len(texts) > limit else "")


def plural(count: int, noun: str) -> str:
    """Write a count with its noun, for example `1 file`, `2,000 files` or `3 queries`."""
    if count != 1:
        noun = f"{noun[:-1]}ies" if noun.endswith("ry") else f"{noun}s"
    return f"{count:,} {noun}"


def size(count: int) -> str:
    """Write bytes in a binary unit with about three digits, for example `1.2 TiB`."""
    value = float(count)
    for unit in _UNITS:
        if round(value) < 1024 or unit == _UNITS[-1]:
            break
        value /= 1024
    return f"{count} B" if unit == "B" else f"{value:.3g} {unit}" if value < 999.5 else f"{value:.0f} {unit}"


def escape_unprintable(text: str) -> str:
    """The text with escapes instead of control, bidirectional and other unprintable characters."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def json_text(document: Mapping[str, Any], indent: int | None = 2) -> str:
    """The document as ASCII JSON, without commands to the log of a CI service, such as `##vso[`: a sign is escaped."""
    return _COMMAND.sub(r"#\\u0023", json.dumps(document, indent=indent, allow_nan=False))


_COMMAND = re.compile(r"##(?=\w{0,40}\[)")


def describe_value(value: object) -> str:
    """The wording for a YAML value in a message, for example `the number 5`, `'text'` or `a list`."""
    match value:
        case None:
            return "nothing"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return f"the number {value}"
        case str():
            return quote_value(value)
        case list():
            return "a list"
        case _:
            return "a map"


# Text in Spark SQL.


_PART = re.compile(r"`((?:[^`]|``)+)`|([^`.]+)")
_SPECIAL = frozenset(".,`")


def quote_identifier(part: str) -> str:
    """One part of a SQL name in backticks."""
    return "`" + part.replace("`", "``") + "`"


def quote_path(parts: Iterable[str]) -> str:
    """The parts of a SQL name, each in backticks, joined by dots."""
    return ".".join(map(quote_identifier, parts))


def parse_path(text: str) -> tuple[str, ...] | None:
    """Return the parts of a name such as "a.`b.c`"; None if the text is not a name."""
    parts: list[str] = []
    position = 0
    while found := _PART.match(text, position):
        parts.append(found[1].replace("``", "`") if found[1] else found[2])
        position = found.end()
        if position == len(text):
            return tuple(parts)
        if text[position] != ".":
            return None
        position += 1
    return None


def dotted(path: Iterable[str]) -> str:
    """Return the name of a column. A part that contains a dot, comma or backtick is in backticks.

    Table states and layout specs have columns of all formats by this name.
    """
    return ".".join(quote_identifier(part) if _SPECIAL & set(part) else part for part in path)


def path_of(name: str) -> tuple[str, ...]:
    """Return the path of the column that has this name: the inverse of `dotted`. Other text is one part."""
    return parse_path(name) or (name,)


def column_name(text: str) -> str:
    """Return the name that a column has in table states, given its name as a user may write it."""
    return dotted(path_of(text))


def string_literal(text: str) -> str:
    """A Spark string literal; characters other than printable ASCII are written as escapes."""
    return "'" + "".join(map(_escaped, text)) + "'"


def _escaped(character: str) -> str:
    if character in "'\\":
        return "\\" + character
    if " " <= character <= "~":
        return character
    point = ord(character)
    return f"\\u{point:04x}" if point < 0x10000 else f"\\U{point:08x}"
