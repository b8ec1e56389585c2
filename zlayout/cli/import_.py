"""The command `import`: write the layout of an existing table, or print it."""

from __future__ import annotations

from pathlib import Path

from zlayout.app.import_ import import_layout
from zlayout.app.project import layout_of, load_project
from zlayout.cli.console import Console
from zlayout.spec.load import find_project, shown

STDOUT = Path("-")


def import_command(start: Path, table: str, columns: str | None, out: Path | None, console: Console) -> int:
    """Write the layout and print its path. Raises what `zlayout.app.import_` raises."""
    project = load_project(find_project(start))
    names = tuple(c.strip() for c in (columns or "").split(",") if c.strip())
    imported = import_layout(project, table, names)
    if out == STDOUT:
        console.result(imported.text)
        return 0
    path = imported.write(project, out)
    console.result(f"wrote {shown(path)}\n")
    if imported.source is not None:
        console.say(
            f"Its order is from {imported.source}, not from zlayout: run `zlayout plan` to see whether a rewrite gains."
        )
    if layout_of(load_project(project.root), imported.table) is None:
        console.say(
            f"`layouts:` in zlayout.yaml does not match {shown(path)}: move the file, or add a pattern.", "warning"
        )
    return 0
