"""Names and strings quoted for Spark SQL, so that no character in them has a special meaning."""

from __future__ import annotations

import re
from collections.abc import Iterable

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
