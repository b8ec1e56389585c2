"""Write the layout that `advise` recommends into the layout file of the table."""

from __future__ import annotations

from pathlib import Path

from zlayout.advisor.model import Study
from zlayout.app.files import write_atomically
from zlayout.app.project import known_table, layout_of, load_project
from zlayout.errors import SpecError
from zlayout.spec.edit import with_layout
from zlayout.spec.model import LayoutSpec, Project


def own_layout(project: Project, table: str) -> LayoutSpec:
    """Return the layout spec that names the table. Raises SpecError ZL076 if there is none."""
    spec = layout_of(project, known_table(project, table))
    if spec is None:
        hint = f"write one first: `zlayout import {table}`. A layout for many tables is not changed"
        raise SpecError.of("ZL076", f"no layout file names {table}", hint=hint)
    return spec


def write_advice(project: Project, found: Study) -> Path | None:
    """Write the best layout of a study into the layout file of its table, and read the project again.

    Returns:
        The path of the file; None if it stays as it is, because no layout is recommended or it is the declared one.

    Raises:
        SpecError: ZL076, the file cannot be changed. It then has its previous content.
    """
    spec = own_layout(project, found.table)
    if found.best is None or found.best.layout == spec.layout:
        return None
    path, wanted = Path(spec.location.path), found.best.layout
    try:
        before = path.read_bytes().decode("utf-8")
        write_atomically(path, with_layout(before, spec.layout, wanted))
        if _declared(project, found.table) == wanted:
            return path
        write_atomically(path, before)
        reason = "its text would not declare the recommended layout"
    except OSError as error:
        reason = error.strerror or type(error).__name__
    raise SpecError.of(
        "ZL076", f"cannot change {path}: {reason}", hint="copy the printed keys into the file", location=spec.location
    )


def _declared(project: Project, table: str) -> object:
    try:
        return own_layout(load_project(project.root), table).layout
    except SpecError:
        return None
