"""The commands `init`, `doctor` and `import`, with which a project begins."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from textwrap import indent

from zlayout.cli.console import Console, ReadingShown
from zlayout.errors import Location, SpecError, TableError, ZlayoutError
from zlayout.report.words import printable, without_commands, wrapped
from zlayout.secrets import without_secrets
from zlayout.session.concurrent_reads import Reading
from zlayout.session.doctor import MAX_POLICY_LENGTH, CheckStatus, Step, doctor, iam_policies
from zlayout.session.import_ import (
    RECORDED,
    UNORDERED,
    ImportedLayout,
    NotImported,
    import_dbt,
    import_layout,
    import_tables,
    is_pattern,
    proposed_rules,
    split_columns,
)
from zlayout.session.init import (
    BY_STATISTICS,
    DEFAULTS,
    Found,
    Request,
    can_have_layout,
    check_catalog_name,
    check_format,
    check_type,
    find_tables,
    offline_layouts,
    propose,
    require_new,
    type_of_uri,
    write_project,
)
from zlayout.session.project import MAX_NAMES_SHOWN, layout_of, load_project
from zlayout.spec.formats import FORMATS
from zlayout.spec.layouts import parse_table
from zlayout.spec.load import PROJECT_FILE, shown
from zlayout.spec.model import Project
from zlayout.text import first_of, json_text, plural, quote_value, size

# The command `init`: ask for missing options, find the tables, and write the project.


FORMAT = f"Format of the tables, {' or '.join(FORMATS)} [{DEFAULTS['format']}]"
CATALOG = f"Name of the catalog, with which the names of its tables begin [{DEFAULTS['catalog']}]"
WAREHOUSE = f"Warehouse: the folder or URL below which the tables are stored [{DEFAULTS['warehouse']}]"
CHOICE = "Tables to lay out, as numbers (1,3-5) or patterns (sales.*) [all]: "
MAX_LISTED = 200  # tables that are shown to choose from
MAX_PLANNED_WHOLE = 10  # the plan of more tables has one line for each


def init_command(
    request: Request, console: Console, *, ask: bool, choose_all: bool = False, offline: bool = False
) -> int:
    """Write the project, and print the paths of its files and its plan.

    Args:
        request: What the options name, '' for missing ones.
        console: Where to write.
        ask: Whether to ask for missing options.
        choose_all: Whether to propose layouts for all tables.
        offline: Whether to write what the options name without connecting to the catalog.

    Raises:
        SpecError, TableError, EngineError: Those of `zlayout.session.init`. No file is left behind.
    """
    require_new(request.folder / PROJECT_FILE)  # before the questions
    if ask:
        request = replace(request, answers=_asked(request.answers, console))
    if offline:
        layouts = offline_layouts(request)
    else:
        project = request.project()
        with ReadingShown(console) as shown_reading:
            found = find_tables(replace(request, reading=replace(request.reading, on_progress=shown_reading)), project)
        chosen = _chosen(found, request, console, ask=ask, choose_all=choose_all)
        layouts = propose(request, project, chosen, partial(_say_event, console))
    for path in write_project(request, layouts):
        console.result(f"wrote {path}\n")
    if request.ci:
        of_ci = "workflows install" if request.ci == "github" else "jobs install"
        console.say(
            f"The {of_ci} what .zlayout/requirements-plan.txt and .zlayout/requirements-apply.txt pin: "
            "their first lines have the commands that write these files."
        )
    if request.ci == "gitlab":
        console.say("To run the jobs, add `include: {local: zlayout.gitlab-ci.yml}` to .gitlab-ci.yml.")
    _after_init(request, layouts, console, offline=offline)
    return 0


def _chosen(
    found: Sequence[Found], request: Request, console: Console, *, ask: bool, choose_all: bool
) -> Sequence[Found]:
    usable = [one for one in found if can_have_layout(one)]
    unusable = [one for one in found if isinstance(one, NotImported) and not can_have_layout(one)]
    others = [one for one in unusable if one.error.diagnostics[0].code in _OTHER_ENTRIES]
    failed = [one for one in unusable if one not in others]
    if not usable:
        raise next(one.error for one in (*failed, *others))
    for one in failed:
        console.say(f"left out: {one.table}: {one.error}", "warning")
    if others:
        names = first_of([str(one.table) for one in others], MAX_NAMES_SHOWN)
        console.say(f"left out, because they are not tables of the catalog's format: {names}", "warning")
    if request.answers.get("table") or choose_all:
        return usable
    if not ask:
        hint = "use --all, or --table with a name or a pattern"
        raise SpecError.of("ZL088", f"none of {plural(len(usable), 'table')} was chosen", hint=hint)
    _list(usable, console)
    while True:
        try:
            return _parse_choice(usable, console.ask(CHOICE))
        except SpecError as error:
            for diagnostic in error.diagnostics:
                console.diagnose(diagnostic)


def _list(found: Sequence[Found], console: Console) -> None:
    console.say(f"{'':>4}  {'size':>9}  {'files':>9}  {'last write (UTC)':<16}  table")
    for number, one in enumerate(found[:MAX_LISTED], 1):
        total, files, written = one.measured
        at = datetime.fromtimestamp(written / 1000, UTC).strftime("%Y-%m-%d %H:%M") if written else ""
        console.say(f"{number:>4}  {size(total):>9}  {files:>9,}  {at:<16}  {one.table}")
    if len(found) > MAX_LISTED:
        console.say(f"and {len(found) - MAX_LISTED:,} more, which patterns can name")


def _parse_choice(found: Sequence[Found], answer: str) -> list[Found]:
    names = {str(one.table): one for one in found}
    chosen: set[str] = set()
    for part in filter(None, (text.strip() for text in answer.split(","))) if answer else ("*",):
        first, _, last = part.partition("-")
        if part.replace("-", "", 1).isdecimal() and first and len(part) < 20:
            numbers = range(int(first), int(last or first) + 1)
            named = list(names)[max(numbers.start - 1, 0) : max(numbers.stop - 1, 0)] if numbers.start else []
        else:
            named = [name for name in names if any(fnmatchcase(name, f"{start}{part}") for start in ("", "*."))]
        if not named:
            hint = f"the numbers are 1 to {len(found)}; * and ? are wildcards of patterns"
            raise SpecError.of("ZL088", f"expected numbers or patterns of tables, found {quote_value(part)}", hint=hint)
        chosen.update(named)
    return [one for name, one in names.items() if name in chosen]


def _say_event(console: Console, event: object) -> None:
    from zlayout.session.advise import SampleStarted

    if isinstance(event, SampleStarted):
        console.say(f"drawing {event.rows:,} of {plural(event.total, 'row')} of {event.table}")


def _after_init(request: Request, layouts: Sequence[ImportedLayout], console: Console, *, offline: bool) -> None:
    if offline:
        if not layouts:
            console.say("No layout was written. Next: `zlayout import TABLE` for each table.", "warning")
        else:
            console.say("Next: run `zlayout validate`, then `zlayout plan`.")
        return
    from zlayout.cli.terminal import PlanTerminal, Reports, command_line
    from zlayout.session.session import PlanRequest, Session

    written = load_project(request.folder)
    for one in layouts:
        spec = layout_of(written, one.table)
        assert spec is not None
        order = f"order by [{', '.join(spec.column_names)}]" if spec.column_names else "compaction alone"
        console.say(f"{one.table}: {order} ({one.source or RECORDED})")
    if any((one.source or "").startswith(BY_STATISTICS) for one in layouts):
        console.say(
            "Columns by statistics are a guess: `zlayout advise TABLE --workload FILE` compares columns by queries."
        )
    command = command_line("apply", PlanRequest(), request.folder)
    shown_as = Console(console.color, summary=len(layouts) > MAX_PLANNED_WHOLE)
    terminal = PlanTerminal(shown_as, "text", Reports(), next_command=command)
    Session(written, terminal).plan(PlanRequest(reading=request.reading))


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
    if answers["table"]:
        parse_table(answers["table"], Location("--table"))
    else:
        need("catalog", CATALOG, check_catalog_name)
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


def iam_command(project: Path, catalogs: Sequence[str], console: Console, reading: Reading) -> int:
    """Print the IAM policies as JSON. Return 1 if one is not exact or there is none, else 0."""
    found = iam_policies(load_project(project), catalogs, reading)
    for diagnostic in found.problems:
        console.diagnose(replace(diagnostic, severity="warning"))
    if not found.apply["Statement"]:
        console.say("no table of these catalogs is on AWS", "warning")
        return 1
    console.result(json_text({"plan": found.plan, "apply": found.apply}) + "\n")
    if len(json_text(found.apply, None)) > MAX_POLICY_LENGTH:
        console.say(
            f"The policy for apply has more than {MAX_POLICY_LENGTH:,} characters, the limit of a managed policy. "
            "Divide it, for example by catalogs: `zlayout doctor --iam CATALOG`.",
            "warning",
        )
    return 1 if found.problems else 0


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
