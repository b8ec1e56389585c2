"""Names and text as Spark's SQL has them, so that nothing in them can mean anything else."""

from __future__ import annotations

from collections.abc import Iterable


def quoted(part: str) -> str:
    """One part of a name in backticks."""
    return "`" + part.replace("`", "``") + "`"


def quoted_name(parts: Iterable[str]) -> str:
    """A name of several parts, each in backticks."""
    return ".".join(map(quoted, parts))


def string_literal(text: str) -> str:
    """A Spark string literal; all but plain printable ASCII is written as escapes."""
    return "'" + "".join(map(_escaped, text)) + "'"


def _escaped(character: str) -> str:
    if character in "'\\":
        return "\\" + character
    if " " <= character <= "~":
        return character
    point = ord(character)
    return f"\\u{point:04x}" if point < 0x10000 else f"\\U{point:08x}"
