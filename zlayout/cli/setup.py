"""The commands `init`, `doctor` and `import`, with which a project begins."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from textwrap import indent

from zlayout.cli.console import Console
from zlayout.errors import Location, SpecError, TableError, ZlayoutError
from zlayout.message_text import first_of, plural
from zlayout.report.words import printable, without_commands, wrapped
from zlayout.secrets import without_secrets
from zlayout.session.concurrent_reads import Reading
from zlayout.session.doctor import CheckStatus, Step, doctor
from zlayout.session.import_ import (
    UNORDERED,
    ImportedLayout,
    NotImported,
    import_layout,
    import_tables,
    is_pattern,
    proposed_rules,
)
from zlayout.session.init import DEFAULTS, check_format, check_type, init, require_new, split_columns, type_of_uri
from zlayout.session.project import MAX_NAMES_SHOWN, layout_of, load_project
from zlayout.spec.formats import FORMATS
from zlayout.spec.layouts import parse_table
from zlayout.spec.load import PROJECT_FILE, shown
from zlayout.spec.model import Project

# The command `init`: ask for missing options, write the project, and list its files.


FORMAT = f"Format of the tables, {' or '.join(FORMATS)} [{DEFAULTS['format']}]"
TABLE = f"First table, as catalog.namespace.table [{DEFAULTS['table']}]"
COLUMNS = f"Columns that queries filter on, most important first [{DEFAULTS['columns']}]"
WAREHOUSE = f"Warehouse: the folder or URL below which the tables are stored [{DEFAULTS['warehouse']}]"


def init_command(folder: Path, given: Mapping[str, str], ci: str, ask: bool, console: Console) -> int:
    """Write the files and print their paths. Raises the errors of `zlayout.session.init.init`.

    Args:
        folder: The folder of the project.
        given: The values of the options by name, '' for missing ones.
        ci: The CI to write files for; empty for none.
        ask: Whether to ask for missing options.
        console: Where to write.
    """
    require_new(folder / PROJECT_FILE)  # before the questions
    for path in init(folder, _asked(given, console) if ask else given, ci):
        console.result(f"wrote {path}\n")
    if not ask and (missing := [f"--{name}" for name in ("table", "columns") if not given[name]]):
        console.say(
            f"The layout is an example, because {' and '.join(missing)} had no value: change it first.", "warning"
        )
    if ci:
        of_ci = "workflows install" if ci == "github" else "jobs install"
        console.say(
            f"The {of_ci} what .zlayout/requirements-plan.txt and .zlayout/requirements-apply.txt pin: "
            "their first lines have the commands that write these files."
        )
    if ci == "gitlab":
        console.say("To run the jobs, add `include: {local: zlayout.gitlab-ci.yml}` to .gitlab-ci.yml.")
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
    types = FORMATS[format].catalog_types
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
    return f"Type of the catalog, {_either(tuple(FORMATS[format].catalog_types))}{default and f' [{default}]'}"


def _either(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else words[0]


# The command `doctor`: print each check of the catalogs.


_STEP_WIDTH = max(map(len, Step))


def doctor_command(project: Path, catalogs: Sequence[str], console: Console, *, spark: bool, timeout: float) -> int:
    """Print each check when it is done. Return 1 if one failed, else 0. Raises the errors of `doctor`."""
    failed, catalog = False, ""
    for check in doctor(load_project(project), catalogs, spark=spark, timeout=timeout):
        if check.catalog != catalog:
            catalog = check.catalog
            console.result(f"{catalog}\n")
        failed |= check.status is CheckStatus.FAILED
        start = f"  {check.status:<8} {check.step:<{_STEP_WIDTH}} "
        width = console.text_options().width - len(start)
        for text in filter(None, (without_secrets(check.detail), check.hint)):
            for line in wrapped(printable(text), width, 0):
                console.result(f"{start}{line}\n")
                start = " " * len(start)
    return 1 if failed else 0


# The command `import`: write the layouts of existing tables.


STDOUT = Path("-")
# The codes of table errors that a pattern may cause, because a catalog also has entries that are not tables of its
# format. Every other table error is a failure.
_OTHER_ENTRIES = frozenset({"ZL110", "ZL135", "ZL140"})
_HAS_LAYOUT = "ZL064"
# What to do with tables whose order is not known.
ORDERED_BY = (
    "ZL065: declare a rule for many tables, name the columns that queries filter on with --columns a,b, find them with "
    "`zlayout advise TABLE --workload FILE`, or declare compaction alone, by a layout with `files` and without `zorder`"
)


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
    return _write_all(import_tables(project, pattern, columns, reading), project, console)


def import_dbt_command(
    start: Path, manifest: Path, pattern: str | None, columns: str | None, out: Path | None, console: Console
) -> int:
    """Write the layouts of the models of dbt, and list what has no layout. Raises the errors of `import_dbt`."""
    from zlayout.session.dbt import import_dbt

    if out is not None or columns is not None:
        hint = "leave it out: the models declare the columns, and each layout has the path of its model"
        raise SpecError.of("ZL038", f"--dbt excludes {'--columns' if out is None else '--out'}", hint=hint)
    project = load_project(start)
    found = import_dbt(project, manifest, pattern)
    for reason, models in found.left_out.items():
        console.say(f"left out: {reason}: {first_of(models, MAX_NAMES_SHOWN)}")
    for diagnostic in found.problems:
        console.say(f"not imported: {diagnostic}", "warning")
    return _write_all(found.layouts, project, console)


def _write_all(found: Sequence[ImportedLayout | NotImported], project: Project, console: Console) -> int:
    imported: list[ImportedLayout] = []
    failed, declared, unordered = False, 0, []
    for one in found:
        try:
            if isinstance(one, NotImported):
                raise one.error
            _write(one, project, None, console)
            imported.append(one)
        except ZlayoutError as error:
            failed |= isinstance(error, TableError) and error.diagnostics[0].code not in _OTHER_ENTRIES
            declared += error.diagnostics[0].code == _HAS_LAYOUT
            if error.diagnostics[0].code == UNORDERED:
                unordered.append(str(one.table))
                continue
            for diagnostic in error.diagnostics:
                console.say(f"not imported: {one.table}: {diagnostic}", "warning")
    _after(project, imported, None, console)
    if unordered:
        tables = f"{plural(len(unordered), 'table')} of unknown order: {first_of(unordered, MAX_NAMES_SHOWN)}"
        console.say(f"not imported: {tables} ({ORDERED_BY})", "warning")
    for rule in proposed_rules(found):
        same = f"{plural(len(rule.tables), 'table')} have the same columns ({first_of(rule.columns, MAX_NAMES_SHOWN)})"
        text = indent(rule.text, "  ").rstrip()
        console.say(
            f"{same}. A layout file with this rule combines their small files; add `zorder` for an order:\n{text}"
        )
    nothing = not imported and bool(unordered or not declared)
    if nothing:
        console.say("nothing was imported", "warning")
    return 1 if failed or nothing else 0


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
