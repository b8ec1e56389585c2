"""The command `import`: write the layout spec of an existing table, or print it."""

from __future__ import annotations

from pathlib import Path

from zlayout.app.columns import split_columns
from zlayout.app.import_ import import_layout
from zlayout.app.project import layout_of, load_project
from zlayout.cli.console import Console
from zlayout.spec.load import find_project, shown

STDOUT = Path("-")


def import_command(start: Path, table: str, columns: str | None, out: Path | None, console: Console) -> int:
    """Write the layout spec and print its path. Raises the errors of `zlayout.import_layout`."""
    project = load_project(find_project(start))
    names = split_columns(columns or "")
    imported = import_layout(project, table, names)
    if out == STDOUT:
        console.result(imported.text)
        return 0
    path = imported.write(project, out)
    console.result(f"wrote {shown(path)}\n")
    if imported.source is not None:
        console.say(
            f"The ordering is from {imported.source}, not from zlayout. Run `zlayout plan` to see what a rewrite gains."
        )
    if layout_of(load_project(project.root), imported.table) is None:
        console.say(
            f"`layouts:` in zlayout.yaml does not match {shown(path)}. Move the file, or add a pattern.", "warning"
        )
    return 0
