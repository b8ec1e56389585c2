"""Counts for messages; values and lists of users for messages, quoted, escaped and shortened."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
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
