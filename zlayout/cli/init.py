"""The command `init`: ask for missing options, write the project, and list its files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from zlayout.app.init import DEFAULTS, check_format, check_type, init, type_of_uri
from zlayout.cli.console import Console
from zlayout.formats.registry import FORMATS

FORMAT = f"Format of the tables, {' or '.join(FORMATS)} [{DEFAULTS['format']}]"
TABLE = f"First table, as catalog.namespace.table [{DEFAULTS['table']}]"
COLUMNS = f"Columns that queries filter on, most important first [{DEFAULTS['columns']}]"
WAREHOUSE = f"Warehouse: the folder or URL below which the tables are stored [{DEFAULTS['warehouse']}]"


def init_command(folder: Path, given: Mapping[str, str], workflows: bool, ask: bool, console: Console) -> int:
    """Write the files and print their paths. Raises the errors of `zlayout.app.init.init`.

    given: the values of options, '' for missing ones. ask: whether to ask for missing options.
    """
    for path in init(folder, _asked(given, console) if ask else given, workflows=workflows):
        console.result(f"wrote {path}\n")
    console.say("Next: run `zlayout validate`, then `zlayout plan`. To add an existing table: `zlayout import TABLE`.")
    return 0


def _asked(given: Mapping[str, str], console: Console) -> dict[str, str]:
    """Ask for the missing answers that the format and the type of the catalog need. Raises SpecError ZL048."""
    answers = dict(given)

    def need(name: str, question: str) -> str:
        answers[name] = answers[name] or console.ask(f"{question}: ")
        return answers[name] or DEFAULTS[name]

    format = need("format", FORMAT)
    check_format(format)
    types = FORMATS[format].traits.catalog_types
    need("table", TABLE)
    need("columns", COLUMNS)
    of_uri = type_of_uri(format, answers["uri"]) if answers["uri"] else None
    if of_uri is None:
        # An address of no known type has no default type either.
        default = "" if answers["uri"] else next(iter(types))
        answers["type"] = need("type", _type_question(format, default)) or default
        check_type(format, answers["type"])
    keys = types[answers["type"] or of_uri or next(iter(types))]
    if "warehouse" in (*keys.required, *keys.any_of):
        need("warehouse", WAREHOUSE)
    if "uri" in keys.required:
        schemes = _either([f"{scheme}://" for scheme in keys.uri_schemes])
        default = DEFAULTS["uri"] if DEFAULTS["uri"].startswith(keys.uri_schemes) else ""
        need("uri", f"Address of the catalog, with {schemes}{default and f' [{default}]'}")
    return answers


def _type_question(format: str, default: str) -> str:
    """Return the question for the type of the catalog. default: '' for none."""
    return f"Type of the catalog, {_either(tuple(FORMATS[format].traits.catalog_types))}{default and f' [{default}]'}"


def _either(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else words[0]
