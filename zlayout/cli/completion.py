"""What the shell completes for tables: names, tags and paths of the layouts, read from YAML alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import typer

from zlayout.errors import ZlayoutError


def complete_tables(context: typer.Context, incomplete: str) -> Iterator[tuple[str, str]]:
    """(word, help) for each table whose name starts with `incomplete`, and `tag:NAME` likewise; none on any error."""
    from zlayout.cli.project import open_project

    try:
        layouts = open_project(context.params.get("project") or Path()).layouts
    except ZlayoutError:
        return
    words = {str(spec.table): spec.description or spec.location.path for spec in layouts}
    words |= {f"tag:{tag}": "tables with this tag" for spec in layouts for tag in spec.tags}
    yield from ((word, note) for word, note in sorted(words.items()) if word.startswith(incomplete))
