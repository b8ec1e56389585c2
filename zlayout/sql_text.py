"""Names and strings quoted for Spark SQL, so that no character in them has a special meaning."""

from __future__ import annotations

from collections.abc import Iterable


def quote_identifier(part: str) -> str:
    """One part of a SQL name in backticks."""
    return "`" + part.replace("`", "``") + "`"


def quote_path(parts: Iterable[str]) -> str:
    """The parts of a SQL name, each in backticks, joined by dots."""
    return ".".join(map(quote_identifier, parts))


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
