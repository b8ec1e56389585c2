"""The command `init`: ask for missing options, write the project, and list its files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from zlayout.app.init import DEFAULTS, check_format, check_type, init, needs_uri, type_of_uri
from zlayout.cli.console import Console
from zlayout.formats.registry import FORMATS

QUESTIONS = {
    "format": f"Format of the tables, {' or '.join(FORMATS)}",
    "table": "First table, as catalog.namespace.table",
    "columns": "Columns that queries filter on, most important first",
    "warehouse": "Warehouse: the folder or URL below which the tables are stored",
    "uri": "Iceberg catalog: sqlite:///FILE, postgresql://, https:// (REST) or thrift:// (Hive)",
}
_TYPE = "Type of this catalog, {}"


def init_command(folder: Path, given: Mapping[str, str], workflows: bool, ask: bool, console: Console) -> int:
    """Write the files and print their paths. Raises the errors of `zlayout.app.init.init`.

    given: the values of options, '' for missing ones. ask: whether to ask for missing options.
    """
    answers = dict(given)
    for name, question in QUESTIONS.items() if ask else ():
        if not answers[name] and _matters(name, answers):
            answers[name] = console.ask(f"{question} [{DEFAULTS[name]}]: ")
        if name == "format":
            check_format(answers[name] or DEFAULTS[name])
    format = answers["format"] or DEFAULTS["format"]
    if ask and answers["uri"] and not answers["type"] and type_of_uri(format, answers["uri"]) is None:
        answers["type"] = console.ask(f"{_TYPE.format(' or '.join(FORMATS[format].traits.catalog_types))}: ")
        check_type(format, answers["type"])
    for path in init(folder, answers, workflows=workflows):
        console.result(f"wrote {path}\n")
    console.say("Next: run `zlayout validate`, then `zlayout plan`. To add an existing table: `zlayout import TABLE`.")
    return 0


def _matters(name: str, answers: Mapping[str, str]) -> bool:
    """Return whether to ask for an answer: a uri is needed only where the format and the given type need one."""
    return name != "uri" or (needs_uri(answers["format"] or DEFAULTS["format"]) and answers["type"] != "glue")
