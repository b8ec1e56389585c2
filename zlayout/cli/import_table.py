"""`import`: a layout from a live table. Never overwrites a file, never makes a second layout of a table."""

from __future__ import annotations

import os
import re
from pathlib import Path

from zlayout.app.import_ import recorded_settings, settings_from, spec_text
from zlayout.cli.console import Console
from zlayout.cli.files import write_whole
from zlayout.cli.init import SCHEMAS
from zlayout.cli.project import known_table
from zlayout.errors import SpecError
from zlayout.formats.base import Backend
from zlayout.formats.registry import backend_for
from zlayout.report.words import printable
from zlayout.spark.session import SparkRuntime
from zlayout.spec.layouts import layout_spec
from zlayout.spec.load import find_project, load_project, shown
from zlayout.spec.model import TableName
from zlayout.spec.validation import validate
from zlayout.spec.yaml import parse
from zlayout.table.state import Ordering

STDOUT = Path("-")


def import_command(start: Path, table: str, columns: str | None, out: Path | None, console: Console) -> int:
    """Write the layout and say where. Raises SpecError ZL021, ZL063 to ZL066, TableError for an unreadable table."""
    root = find_project(start)
    project = load_project(root, os.environ)
    name = known_table(project, table)
    for spec in project.layouts:
        if spec.table == name:
            hint = "change that one, or remove it first"
            raise SpecError.of("ZL064", f"{name} has a layout already", hint=hint, location=spec.location)
    path = out if out is not None else root / "layouts" / _file_name(name)
    if path != STDOUT and path.exists():
        raise SpecError.of("ZL063", f"{shown(path)} exists already", hint="give another file with --out")
    backend = backend_for(project.catalogs[name.catalog], SparkRuntime(project))
    text, source = _imported(backend, name, columns)
    text = _modeline(root, path) + text
    if path == STDOUT:
        console.result(text)
        return 0
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text)
    except OSError as error:
        raise SpecError.of(
            "ZL066", f"cannot write {shown(path)}: {error.strerror}", hint="check folder and permissions"
        ) from error
    console.result(f"wrote {shown(path)}\n")
    if source is not None:
        console.say(
            f"Its order is from {source}, not by zlayout: `zlayout plan` says whether a rewrite would gain anything."
        )
    if all(spec.table != name for spec in load_project(root, os.environ).layouts):
        console.say(
            f"`layouts:` of zlayout.yaml does not lead to {shown(path)}: move the file, or add it there.", "warning"
        )
    return 0


def _imported(backend: Backend, name: TableName, columns: str | None) -> tuple[str, str | None]:
    """The layout's text; and where its order is from, None where zlayout itself recorded it."""
    state = backend.observe(name, ())
    recorded = recorded_settings(state) if columns is None else None
    source = "what zlayout recorded in the table"
    if recorded is None:
        ordering = _given(columns) or state.ordering
        if ordering is None:
            raise SpecError.of(
                "ZL065",
                f"nothing in {name} says how its files are ordered",
                hint="name what queries filter on: --columns a,b",
            )
        recorded, source = settings_from(state, ordering), ordering.source
        if missing := [c for c in ordering.columns if state.column(c) is None]:
            names = ", ".join(c.name for c in state.columns)
            raise SpecError.of("ZL012", f"unknown column {missing[0]!r}", hint=f"there are: {names:.300}")
        if odd := [c for c in ordering.columns if (known := state.column(c)) and not known.orderable]:
            raise SpecError.of("ZL034", f"column {odd[0]!r} has no order", hint="name other columns with --columns")
        if twice := [f.source for f in state.partition_fields if str(f) in ordering.columns]:
            message = f"{name} is partitioned by {twice[0]!r} already"
            raise SpecError.of("ZL035", message, hint="name other columns with --columns")
    text = spec_text(name, state.partition_fields, recorded, source)
    _check(text)
    return text, None if source.startswith("what zlayout") else source


def _modeline(root: Path, path: Path) -> str:
    """The line by which editors find the schema that `init` wrote; empty where it did not."""
    schema = root / SCHEMAS / "layout.schema.json"
    if path == STDOUT or not schema.is_file():
        return ""
    return f"# yaml-language-server: $schema={Path(os.path.relpath(schema, path.absolute().parent)).as_posix()}\n"


def _given(columns: str | None) -> Ordering | None:
    names = tuple(dict.fromkeys(c.strip() for c in (columns or "").split(",") if c.strip()))
    return Ordering(names, "", "--columns") if names else None


def _check(text: str) -> None:
    """Raise SpecError for a text that is no layout: a name in the table that a layout cannot hold."""
    document = parse(text.encode(), "the imported layout")
    if problems := validate(document, "layout"):
        raise SpecError(*problems)
    layout_spec(document, {}, {}, None)


def _file_name(table: TableName) -> str:
    return re.sub(r"[^\w-]+", "_", printable("_".join(table.identifier))) + ".yaml"
