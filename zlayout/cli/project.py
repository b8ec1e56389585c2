"""What a command is about: the project of the folder it was given, or the nearest one above, and a table in it."""

from __future__ import annotations

import os
from pathlib import Path

from zlayout.errors import Location, SpecError
from zlayout.spec.load import find_project, load_project
from zlayout.spec.model import Project, TableName
from zlayout.spec.names import parse_table


def open_project(start: Path) -> Project:
    """The project of a zlayout.yaml, or of the nearest one at or above a folder. Raises SpecError."""
    return load_project(find_project(start) if start.is_dir() else start, os.environ)


def known_table(project: Project, text: str) -> TableName:
    """The table that an argument names. Raises SpecError ZL020 (not a table's name), ZL021 (no such catalog)."""
    name = parse_table(text, Location("TABLE"))
    if name.catalog not in project.catalogs:
        known = ", ".join(sorted(project.catalogs))
        raise SpecError.of("ZL021", f"unknown catalog {name.catalog!r}", hint=f"there is: {known}")
    return name
