"""Load a project, and find tables and layouts in it by name."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from zlayout.app.arguments import require_project
from zlayout.errors import Location, SpecError
from zlayout.spec.load import find_project
from zlayout.spec.load import load_project as load
from zlayout.spec.model import CatalogConfig, LayoutSpec, Project, TableName
from zlayout.spec.names import parse_table


def load_project(path: str | os.PathLike[str] = ".", environ: Mapping[str, str] | None = None) -> Project:
    """Load `zlayout.yaml` and the layout specs that it refers to. Reads no table.

    Args:
        path: The path of a `zlayout.yaml`, or a folder. The nearest `zlayout.yaml` in the folder or above is used.
        environ: Values for `${VAR}` in `zlayout.yaml`. Default: the environment of the process.

    Returns:
        The project, with its layouts sorted by table name.

    Raises:
        SpecError: There is no `zlayout.yaml`, or files are invalid. The error has a diagnostic for each problem.
    """
    start = Path(path)
    return load(find_project(start) if start.is_dir() else start, os.environ if environ is None else environ)


def known_table(project: Project, text: str) -> TableName:
    """Parse the name of a table in a catalog of the project.

    Raises:
        SpecError: ZL020 (invalid table name), ZL021 (unknown catalog), ZL084 (not a project).
    """
    require_project(project)
    name = parse_table(text, Location("TABLE"))
    known_catalog(project, name.catalog)
    return name


def known_catalog(project: Project, name: str) -> CatalogConfig:
    """Return a catalog of the project. Raises SpecError ZL021 if it has no such catalog."""
    if name not in project.catalogs:
        known = ", ".join(sorted(project.catalogs))
        raise SpecError.of("ZL021", f"unknown catalog {name!r}", hint=f"known catalogs: {known}")
    return project.catalogs[name]


def layout_of(project: Project, name: TableName) -> LayoutSpec | None:
    """Return the layout spec of a table; None if the project declares none."""
    return next((spec for spec in project.layouts if spec.table == name), None)
