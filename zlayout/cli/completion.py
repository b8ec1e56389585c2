"""Complete table names and tags in a shell from the YAML files of the project."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import typer

from zlayout.errors import ZlayoutError


def complete_tables(context: typer.Context, incomplete: str) -> Iterator[tuple[str, str]]:
    """Yield (word, help) for table names and `tag:NAME` that start with `incomplete`; nothing on errors."""
    from zlayout.app.project import load_project

    try:
        project = load_project(context.params.get("project") or Path())
    except ZlayoutError:
        return
    layouts = (*project.layouts, *(rule.spec for rule in project.rules))
    words = {str(spec.table): spec.description or spec.location.path for spec in layouts}
    words |= {f"tag:{tag}": "tables with this tag" for spec in layouts for tag in spec.tags}
    yield from ((word, note) for word, note in sorted(words.items()) if word.startswith(incomplete))
