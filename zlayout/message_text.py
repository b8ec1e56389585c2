"""Values of users as text inside messages."""

from __future__ import annotations

MAX_QUOTED = 60  # characters


def quote_value(text: str) -> str:
    """The text in single quotes, cut at MAX_QUOTED characters, with `escaped` applied."""
    return f"'{escape_unprintable(text if len(text) <= MAX_QUOTED else text[: MAX_QUOTED - 3] + '...')}'"


def escape_unprintable(text: str) -> str:
    """The text with control, bidirectional and other characters that do not print written as escapes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def describe_value(value: object) -> str:
    """A YAML value in words."""
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
