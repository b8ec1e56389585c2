"""Render HTML pages. Only markup that zlayout made is inserted without escaping."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from zlayout.report.words import printable

if TYPE_CHECKING:
    import jinja2


def environment(filters: dict[str, Callable[..., Any]]) -> jinja2.Environment:
    """Make a Jinja environment that escapes values, replaces control and bidi characters, and rejects missing names."""
    import jinja2
    import markupsafe

    made = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # Called for each value of a page. Existing markup was made by `charts` or by this function.
        finalize=lambda value: value if isinstance(value, markupsafe.Markup) else printable(str(value)),
    )
    made.filters |= filters
    return made


def source_hash(text: str) -> str:
    """Return the source expression of a Content-Security-Policy that allows exactly this inline text."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
