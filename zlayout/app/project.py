"""Load a project, and find in it the table that a name stands for."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from zlayout.errors import Location, SpecError
from zlayout.spec.load import find_project
from zlayout.spec.load import load_project as load
from zlayout.spec.model import LayoutSpec, Project, TableName
from zlayout.spec.names import parse_table


def load_project(path: str | os.PathLike[str] = ".", environ: Mapping[str, str] | None = None) -> Project:
    """Load `zlayout.yaml` and the layouts it names. Reads no table.

    Args:
        path: A `zlayout.yaml`, or a folder: then the nearest `zlayout.yaml` in it or above it.
        environ: Values for `${VAR}` in `zlayout.yaml`. Default: the environment of the process.

    Returns:
        The project, with its layouts sorted by table name.

    Raises:
        SpecError: No `zlayout.yaml` was found, or files are invalid; all problems of all files are in one error.
    """
    start = Path(path)
    return load(find_project(start) if start.is_dir() else start, os.environ if environ is None else environ)


def known_table(project: Project, text: str) -> TableName:
    """Parse the name of a table in one of the project's catalogs.

    Raises:
        SpecError: ZL020 (invalid table name), ZL021 (unknown catalog).
    """
    name = parse_table(text, Location("TABLE"))
    if name.catalog not in project.catalogs:
        known = ", ".join(sorted(project.catalogs))
        raise SpecError.of("ZL021", f"unknown catalog {name.catalog!r}", hint=f"known catalogs: {known}")
    return name


def layout_of(project: Project, name: TableName) -> LayoutSpec | None:
    """The layout that the project declares for a table; None if it declares none."""
    return next((spec for spec in project.layouts if spec.table == name), None)
