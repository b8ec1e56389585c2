"""How HTML pages are rendered: the one place that decides what goes into them as it is (nothing but our own markup)."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from zlayout.report.words import printable

if TYPE_CHECKING:
    import jinja2


def environment(filters: dict[str, Callable[..., Any]]) -> jinja2.Environment:
    """A Jinja environment that escapes all values, drops control and bidi characters, and knows no missing names."""
    import jinja2
    import markupsafe

    made = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # Whatever is put into a page; markup is ours, made from what was put through here or `charts` before.
        finalize=lambda value: value if isinstance(value, markupsafe.Markup) else printable(str(value)),
    )
    made.filters |= filters
    return made


def source_hash(text: str) -> str:
    """The source expression of a Content-Security-Policy that allows just this inline text."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
