"""Wrap lines of text."""

from __future__ import annotations

import textwrap


def wrapped(line: str, width: int, indent: int) -> list[str]:
    """Wrap a line at `width` characters. Longer words, such as paths, are not divided."""
    if len(line) <= width:
        return [line]
    wrapper = textwrap.TextWrapper(width, subsequent_indent=" " * indent, replace_whitespace=False)
    wrapper.break_long_words = wrapper.break_on_hyphens = False
    return wrapper.wrap(line)
