"""The command `import`: write the layouts of existing tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from zlayout.app.columns import split_columns
from zlayout.app.concurrent_reads import Reading
from zlayout.app.import_ import ImportedLayout, NotImported, import_layout, import_tables, is_pattern
from zlayout.app.project import layout_of, load_project
from zlayout.cli.console import Console
from zlayout.errors import SpecError, TableError, ZlayoutError
from zlayout.report.words import without_commands
from zlayout.spec.load import shown
from zlayout.spec.model import Project

STDOUT = Path("-")
# The codes of table errors that a pattern may cause, because a catalog also has entries that are not tables of its
# format. Every other table error is a failure.
_OTHER_ENTRIES = frozenset({"ZL110", "ZL135"})


def import_command(
    start: Path, table: str, columns: str | None, out: Path | None, console: Console, reading: Reading
) -> int:
    """Write the layout spec and print its path. Raises the errors of `zlayout.import_layout`."""
    project = load_project(start)
    names = split_columns(columns or "")
    if is_pattern(table):
        return _import_tables(project, table, names, out, console, reading)
    imported = import_layout(project, table, names, timeout=reading.timeout)
    if out == STDOUT:
        console.result(without_commands(imported.text))
        return 0
    _write(imported, project, out, console)
    _after(project, [imported], out, console)
    return 0


def _import_tables(
    project: Project, pattern: str, columns: Sequence[str], out: Path | None, console: Console, reading: Reading
) -> int:
    if out is not None:
        hint = "leave out --out: each table gets a file in layouts/"
        raise SpecError.of("ZL038", "--out names one file, and a pattern may match many tables", hint=hint)
    imported: list[ImportedLayout] = []
    failed = False
    for one in import_tables(project, pattern, columns, reading):
        try:
            if isinstance(one, NotImported):
                raise one.error
            _write(one, project, None, console)
            imported.append(one)
        except ZlayoutError as error:
            failed |= isinstance(error, TableError) and error.diagnostics[0].code not in _OTHER_ENTRIES
            for diagnostic in error.diagnostics:
                console.say(f"not imported: {one.table}: {diagnostic}", "warning")
    _after(project, imported, None, console)
    return 1 if failed else 0


def _write(imported: ImportedLayout, project: Project, out: Path | None, console: Console) -> None:
    console.result(f"wrote {shown(imported.write(project, out))}\n")


def _after(project: Project, imported: Sequence[ImportedLayout], out: Path | None, console: Console) -> None:
    for source in dict.fromkeys(one.source for one in imported if one.source is not None):
        console.say(f"The ordering is from {source}, not from zlayout. Run `zlayout plan` to see what a rewrite gains.")
    again = load_project(project.root) if imported else project
    for one in imported:
        if layout_of(again, one.table) is None:
            console.say(
                f"`layouts:` in zlayout.yaml does not match {shown(one.path(project, out))}. Move the file, or add a "
                "pattern.",
                "warning",
            )
