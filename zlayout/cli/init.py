"""The command `init`: ask on a terminal for what no option gives, write the project, list its files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from zlayout.app.init import DEFAULTS, check_format, init, takes_uri
from zlayout.cli.console import Console
from zlayout.formats.registry import FORMATS

QUESTIONS = {
    "format": f"Format of the tables, {' or '.join(FORMATS)}",
    "table": "A table, as catalog.namespace.table",
    "columns": "The columns that queries filter on, most important first",
    "warehouse": "Where the tables are: a folder or URL",
    "uri": "The Iceberg catalog: sqlite:///file, or the https:// address of a REST catalog",
}


def init_command(folder: Path, given: Mapping[str, str], workflows: bool, ask: bool, console: Console) -> int:
    """Write the files and print their paths. Raises what `zlayout.app.init.init` raises.

    given: values of the options, '' for those that were not given. ask: whether to ask for these.
    """
    answers = dict(given)
    for name, question in QUESTIONS.items() if ask else ():
        if not answers[name] and (name != "uri" or takes_uri(answers["format"])):
            answers[name] = console.ask(f"{question} [{DEFAULTS[name]}]: ") or DEFAULTS[name]
        if name == "format":
            check_format(answers[name])
    for path in init(folder, answers, workflows=workflows):
        console.result(f"wrote {path}\n")
    console.say("Next: run `zlayout validate`, then `zlayout plan`. For existing tables: `zlayout import TABLE`.")
    return 0
