"""Truncates string bounds as Delta's writer does."""

from __future__ import annotations

from typing import Any

_LAST_ASCII = "\x7f"
_LAST_CHARACTER = "\U0010ffff"


def truncate_lower(value: Any, prefix: int) -> Any:
    """Truncate a string (UTF-8 bytes) to its first `prefix` characters. Other values are returned unchanged."""
    return value.decode()[:prefix] if isinstance(value, bytes) else value


def truncate_upper(value: Any, prefix: int) -> Any:
    """Truncate a string (UTF-8 bytes) to an upper bound of it. Other values are returned unchanged.

    This is the rule of Delta's `StatisticsCollection.truncateMaxStringAgg`, which counts lengths in UTF-16 units:
    truncate the string, and append a character that is greater than the first removed character. The character U+10FFFF
    is never removed, because none is greater. So the bound can be longer than `prefix`.

    Returns:
        The bound; None if it would need more than twice the length `prefix`.
    """
    if not isinstance(value, bytes):
        return value
    text, units = value.decode(), 0
    for at, character in enumerate(text):
        if units > 2 * prefix:
            return None
        if units >= prefix and character != _LAST_CHARACTER:
            return text[:at] + (_LAST_ASCII if character < _LAST_ASCII else _LAST_CHARACTER)
        units += 1 if character < "\U00010000" else 2
    return text if units <= 2 * prefix else None
