"""`init`: a project to start from. Asks on a terminal, takes flags elsewhere, never overwrites a file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from zlayout.cli.console import Console
from zlayout.errors import Location, SpecError
from zlayout.spec.load import load_project
from zlayout.spec.names import parse_table
from zlayout.spec.schema import schema_text
from zlayout.spec.yaml import dump

WORKFLOWS = ("zlayout-pull-request.yml", "zlayout-nightly.yml")
SCHEMAS = ".zlayout"
FORMATS = ("delta", "iceberg")
DEFAULTS = {
    "format": "delta",
    "table": "lake.sales.orders",
    "columns": "order_date, customer_id",
    "warehouse": "./warehouse",
    "uri": "sqlite:///catalog.db",
}
QUESTIONS = {
    "format": "Format of the tables, delta or iceberg",
    "table": "A table, as catalog.namespace.table",
    "columns": "The columns that queries filter on, most important first",
    "warehouse": "Where the tables are: a folder or URL",
    "uri": "The Iceberg catalog: sqlite:///file, or the https:// address of a REST catalog",
}

PROJECT = """\
# yaml-language-server: $schema={schemas}/project.schema.json
# Catalogs, Spark and defaults of this project.
version: 1
layouts: [layouts/**/*.yaml, layouts/**/*.yml]
catalogs:
  {catalog}:
{options}spark:
  master: local[*]
"""

LAYOUT = """\
# yaml-language-server: $schema=../{schemas}/layout.schema.json
# How one table should be laid out.
version: 1
table: {table}
zorder:
  columns: {columns}  # what queries filter on; order is significant
files:
  target_size: 128MiB
"""


@dataclass(frozen=True, slots=True)
class InitRequest:
    """What was given on the command line, '' where nothing was. ask: whether to ask for the rest."""

    given: Mapping[str, str]
    workflows: bool
    ask: bool


def init_command(folder: Path, request: InitRequest, console: Console) -> int:
    """Write the starting files. Raises SpecError ZL020, ZL047 for a file that is there, ZL048, ZL013 and others."""
    answers = _answers(request, console)
    table = parse_table(answers["table"], Location("--table"))
    contents = {
        Path("zlayout.yaml"): _project(table.catalog, answers),
        Path("layouts") / f"{_plain(table.name)}.yaml": _layout(answers),
        **{Path(SCHEMAS) / f"{name}.schema.json": schema_text(name) for name in ("project", "layout")},
    }
    if request.workflows:
        templates = files("zlayout.cli").joinpath("templates")
        contents |= {Path(".github", "workflows", n): templates.joinpath(n).read_text("utf-8") for n in WORKFLOWS}
    for path in contents:
        if (folder / path).exists():
            hint = "init never overwrites; choose another folder"
            raise SpecError.of("ZL047", f"{folder / path} exists already", hint=hint)
    _write(folder, contents)
    for path in contents:
        console.result(f"wrote {folder / path}\n")
    console.say("Next: `zlayout validate`, then `zlayout plan`. For tables that exist: `zlayout import TABLE`.")
    return 0


def _answers(request: InitRequest, console: Console) -> dict[str, str]:
    answers: dict[str, str] = {}
    for name, default in DEFAULTS.items():
        if name == "uri" and answers["format"] != "iceberg":
            if request.given.get(name):
                raise SpecError.of("ZL048", "--uri is the catalog of Iceberg tables", hint="--format iceberg")
            continue
        answer = request.given.get(name, "")
        if not answer and request.ask:
            answer = console.ask(f"{QUESTIONS[name]} [{default}]: ")
        answers[name] = answer or default
        if name == "format" and answers[name] not in FORMATS:
            raise SpecError.of("ZL048", f"unknown format {answers[name]!r}, expected one of {', '.join(FORMATS)}")
    return answers


def _project(catalog: str, answers: Mapping[str, str]) -> str:
    options = {"format": answers["format"], "type": "path", "warehouse": answers["warehouse"]}
    if answers["format"] == "iceberg":
        kind = "rest" if answers["uri"].startswith(("http:", "https:")) else "sql"
        options |= {"type": kind, "uri": answers["uri"]}
    lines = "".join(f"    {key}: {_scalar(value)}\n" for key, value in options.items())
    return PROJECT.format(schemas=SCHEMAS, catalog=_scalar(catalog), options=lines)


def _layout(answers: Mapping[str, str]) -> str:
    columns = [c.strip() for c in answers["columns"].split(",") if c.strip()]
    return LAYOUT.format(schemas=SCHEMAS, table=_scalar(answers["table"]), columns=_scalar(columns))


def _scalar(value: str | list[str]) -> str:
    """A value as YAML in one line, quoted where it must be."""
    text = dump(value, default_flow_style=True, width=10_000)
    return text.removesuffix("...\n").strip()


def _plain(name: str) -> str:
    return "".join(c if c.isalnum() or c in "-_" else "_" for c in name)


def _write(folder: Path, contents: Mapping[Path, str]) -> None:
    """Write all files and load them as a project; what does not load is taken away again, with the reason."""
    written = []
    try:
        for path, text in contents.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            written.append(folder / path)  # before it is whole: a full disk leaves a part of it
            (folder / path).write_text(text, encoding="utf-8")
        load_project(folder, os.environ)
    except OSError as error:
        _remove(written)
        raise SpecError.of(
            "ZL067", f"cannot write {error.filename}: {error.strerror}", hint="choose a folder you may write to"
        ) from error
    except SpecError:
        _remove(written)
        raise


def _remove(written: list[Path]) -> None:
    for path in written:
        path.unlink(missing_ok=True)
