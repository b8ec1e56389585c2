"""The command `init`: ask for missing options, write the project, and list its files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from zlayout.app.init import DEFAULTS, check_format, check_type, init, require_new, type_of_uri
from zlayout.cli.console import Console
from zlayout.errors import Location, SpecError
from zlayout.formats.registry import FORMATS
from zlayout.spec.load import PROJECT_FILE
from zlayout.spec.names import parse_table

FORMAT = f"Format of the tables, {' or '.join(FORMATS)} [{DEFAULTS['format']}]"
TABLE = f"First table, as catalog.namespace.table [{DEFAULTS['table']}]"
COLUMNS = f"Columns that queries filter on, most important first [{DEFAULTS['columns']}]"
WAREHOUSE = f"Warehouse: the folder or URL below which the tables are stored [{DEFAULTS['warehouse']}]"


def init_command(folder: Path, given: Mapping[str, str], workflows: bool, ask: bool, console: Console) -> int:
    """Write the files and print their paths. Raises the errors of `zlayout.app.init.init`.

    Args:
        folder: The folder of the project.
        given: The values of the options by name, '' for missing ones.
        workflows: Whether to write workflows for CI.
        ask: Whether to ask for missing options.
        console: Where to write.
    """
    require_new(folder / PROJECT_FILE)  # before the questions
    for path in init(folder, _asked(given, console) if ask else given, workflows=workflows):
        console.result(f"wrote {path}\n")
    if not ask and (missing := [f"--{name}" for name in ("table", "columns") if not given[name]]):
        console.say(
            f"The layout is an example, because {' and '.join(missing)} had no value: change it first.", "warning"
        )
    if workflows:
        console.say(
            "The workflows install what .zlayout/requirements-plan.txt and .zlayout/requirements-apply.txt pin: "
            "their first lines have the commands that write these files."
        )
    console.say("Next: run `zlayout validate`, then `zlayout plan`. To add an existing table: `zlayout import TABLE`.")
    return 0


def _asked(given: Mapping[str, str], console: Console) -> dict[str, str]:
    answers = dict(given)

    def need(name: str, question: str, check: Callable[[str], object] = str, default: str | None = None) -> str:
        default = DEFAULTS[name] if default is None else default
        if answers[name]:
            check(answers[name])
        while not answers[name]:
            answer = console.ask(f"{question}: ")
            try:
                check(answer or default)
            except SpecError as error:
                if not answer:
                    raise
                for diagnostic in error.diagnostics:
                    console.diagnose(replace(diagnostic, location=None))
                continue
            answers[name] = answer or default
            break
        return answers[name]

    format = need("format", FORMAT, check_format)
    types = FORMATS[format].traits.catalog_types
    need("table", TABLE, lambda table: parse_table(table, Location("--table")))
    need("columns", COLUMNS)
    of_uri = type_of_uri(format, answers["uri"]) if answers["uri"] else None
    if of_uri is None:
        # If an address is given that does not determine the type, the question for the type has no default.
        default = "" if answers["uri"] else next(iter(types))
        need("type", _type_question(format, default), partial(check_type, format), default)
    keys = types[answers["type"] or of_uri or next(iter(types))]
    if "warehouse" in (*keys.required, *keys.any_of):
        need("warehouse", WAREHOUSE)
    if "uri" in keys.required:
        schemes = _either([f"{scheme}://" for scheme in keys.uri_schemes])
        default = DEFAULTS["uri"] if DEFAULTS["uri"].startswith(keys.uri_schemes) else ""
        need("uri", f"Address of the catalog, with {schemes}{default and f' [{default}]'}", default=default)
    return answers


def _type_question(format: str, default: str) -> str:
    return f"Type of the catalog, {_either(tuple(FORMATS[format].traits.catalog_types))}{default and f' [{default}]'}"


def _either(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else words[0]
