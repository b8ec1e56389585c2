"""Find the tables that the rules of a project match, and the layout and the branch that each of them has."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import TypeVar

from zlayout.errors import Diagnostic, Location, Refused, SpecError, ZlayoutError
from zlayout.formats.base import Backend, Listed
from zlayout.formats.registry import backend_for
from zlayout.planner.model import Changes, LayoutChange, RemovedLayout
from zlayout.session.concurrent_reads import Reading, read_each
from zlayout.session.project import CHANGED, is_name, select_layouts
from zlayout.session.revisions import Revision, catalog_settings, effective_settings, layout_change, read_revision
from zlayout.spark.session import SparkRuntime
from zlayout.spec.formats import FORMATS
from zlayout.spec.layouts import holds, matches, narrowest_of, parse_table, rule_of, within
from zlayout.spec.model import CatalogConfig, LayoutRule, LayoutSpec, Project, TableName
from zlayout.table.state import TableState
from zlayout.text import first_of, quote_value

# The codes of the errors for listed names that are not tables of the catalog's format: tables of other formats, and
# folders. Rules do not apply to these names.
_OTHER_FORMATS = ("ZL110", "ZL135")
_HIDDEN = "ZL140"  # a table to which rules do not apply, because its folder is hidden
_BRANCH_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]{0,199}")  # as `ref` in the JSON Schema of layouts
MAX_NAMES_SHOWN = 3
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Declared:
    """The layouts of selected tables of a project: those that name their table, and those by rules.

    Attributes:
        layouts: One layout for each table, sorted by table name, and one for each rule whose tables cannot be listed.
        errors: Why a table has no usable layout, or why the tables of a rule cannot be listed; by the table of the
            layout.
        diagnostics: The diagnostics that concern no single table, for example about a rule that matches nothing.
        changed: How layouts differ from those at another revision, if the selection has `changed:REV`.
        changes: That revision, and the layouts that are gone.
    """

    layouts: tuple[LayoutSpec, ...]
    errors: Mapping[TableName, ZlayoutError] = field(default_factory=dict)
    diagnostics: tuple[Diagnostic, ...] = ()
    changed: Mapping[TableName, LayoutChange] = field(default_factory=dict)
    changes: Changes | None = None


def selected_layouts(
    project: Project, select: str | Iterable[str], exclude: str | Iterable[str], reading: Reading
) -> Declared:
    """List the tables that rules match, and select from the layouts of all tables as `select_layouts` does.

    A catalog is asked for its tables only if the selection may contain tables of its rules, and never if the selection
    consists of table names.

    Raises:
        SpecError: ZL045, a pattern or an excluded name matches no layout.
        TableError: The tables of a rule that is gone since the revision of `changed:REV` cannot be listed.
    """
    wanted, excluded = (((p,) if isinstance(p, str) else tuple(p)) for p in (select, exclude))
    since = changed_layouts(project, (*wanted, *excluded), reading)
    others = [pattern for pattern in wanted if pattern not in since]
    found = _declared(project, others, excluded, reading) if others or not wanted else Declared(project.layouts)
    for pattern, changed in since.items():
        known = {spec.table for spec in found.layouts}
        more = [spec for spec in changed.layouts if spec.table not in known]
        diagnostics = dict.fromkeys((*found.diagnostics, *(changed.diagnostics if pattern in wanted else ())))
        found = _sorted([*found.layouts, *more], {**changed.errors, **found.errors}, diagnostics)
    unlisted = {table for table in found.errors if not is_name(str(table))}
    if found.layouts or wanted or not project.rules:
        marked = {text: one.changed for text, one in since.items()}
        chosen = select_layouts(found.layouts, wanted, excluded, marked, unlisted)
    else:
        chosen = ()
    errors = {spec.table: found.errors[spec.table] for spec in chosen if spec.table in found.errors}
    compared = next((since[pattern] for pattern in wanted if pattern in since), Declared(()))
    return Declared(chosen, errors, found.diagnostics, compared.changed, compared.changes)


def changed_layouts(project: Project, patterns: Iterable[str], reading: Reading) -> dict[str, Declared]:
    """Return the layouts that each `changed:REV` among the patterns selects.

    A catalog is asked for its tables only if a rule differs.

    Raises:
        SpecError: ZL092 to ZL096, the project at the merge base cannot be read.
        TableError: The tables of a rule that is gone cannot be listed.
    """
    named = dict.fromkeys(pattern for pattern in patterns if pattern.startswith(CHANGED))
    if not named:
        return {}
    return {text: _since(project, read_revision(project.root, text.removeprefix(CHANGED)), reading) for text in named}


def _since(project: Project, revision: Revision, reading: Reading) -> Declared:
    old = revision.project or replace(project, layouts=(), rules=(), catalogs={})
    then, now = cache(revision.file_then), cache(revision.file_now)
    rules_then, rules_now = _rule_values(old, then), _rule_values(project, now)
    new = [rule for rule, values in zip(project.rules, rules_now, strict=True) if values not in rules_then]
    gone = [rule for rule, values in zip(old.rules, rules_then, strict=True) if values not in rules_now]
    gone = [rule for rule in gone if rule.pattern.catalog in project.catalogs]
    listed, failed = _listed(project, [*new, *gone], reading)
    unlisted = [rule.spec for rule in new if rule.pattern in failed]
    if lost := {rule.pattern for rule in gone} & failed.keys() - {spec.table for spec in unlisted}:
        raise failed[min(lost, key=str)]
    names = [one.table for one in listed if not _is_other(one)]
    tables = [*(spec.table for each in (old, project) for spec in each.layouts), *names]
    problems = _problems(listed)
    before = layouts_of_tables(replace(old, catalogs=project.catalogs), tables, reading, problems)
    after = layouts_of_tables(project, tables, reading, problems)
    earlier = {spec.table: spec for spec in before.layouts}
    found_errors = {**after.errors, **{spec.table: failed[spec.table] for spec in unlisted}}
    changed: dict[TableName, LayoutChange] = {}
    for spec in (*after.layouts, *unlisted):
        one = earlier.pop(spec.table, None)
        catalogs = [catalog_settings(each.catalogs.get(spec.table.catalog)) for each in (old, project)]
        settings = None if one is None else effective_settings(one, then)
        change = layout_change(settings, effective_settings(spec, now), spec, *catalogs)
        if change.is_change or (spec.table in found_errors and spec.table not in before.errors):
            changed[spec.table] = change
    removed = sorted((str(table), spec) for table, spec in earlier.items())
    same = sum(spec.table not in changed for spec in project.layouts) + len(project.rules) - len(new)
    changes = Changes(
        revision.name,
        revision.commit,
        tuple(RemovedLayout(table, spec.location, spec.rule) for table, spec in removed),
        same,
    )
    diagnostics = [d for rule in new if rule.pattern not in failed for d in _remarks(rule, names, listed)]
    if not (changed or removed):
        diagnostics.append(Diagnostic("ZL470", f"no layout differs from {revision}", "note"))
    if revision.replaced:
        message = (
            "HEAD changes zlayout.yaml, and that of the merge base is in use: this plan does not have what it changes"
        )
        hint = "review the file as code; `zlayout drift` shows after the merge what its defaults and catalogs change"
        diagnostics.append(Diagnostic("ZL471", message, "warning", hint, Location("zlayout.yaml")))
    layouts = [spec for spec in (*after.layouts, *unlisted) if spec.table in changed]
    errors_of_changed = {table: error for table, error in found_errors.items() if table in changed}
    return replace(_sorted(layouts, errors_of_changed, diagnostics), changed=changed, changes=changes)


def _rule_values(project: Project, workload_file: Callable[[Path], str]) -> list[object]:
    return [
        (
            rule.pattern,
            rule.exclude,
            rule.only,
            effective_settings(rule.spec, workload_file),
            catalog_settings(project.catalogs.get(rule.pattern.catalog)),
        )
        for rule in project.rules
    ]


def layouts_of_tables(
    project: Project,
    tables: Iterable[TableName],
    reading: Reading,
    problems: Mapping[TableName, ZlayoutError] | None = None,
) -> Declared:
    """Return the layouts of tables with these names, their own or by rules. No catalog is asked for its tables.

    problems: The known errors of tables, which are not read for the conditions of rules.
    """
    exact = {spec.table: spec for spec in project.layouts}
    names = tuple(dict.fromkeys(tables))
    by_rules = _by_rules(project, [name for name in names if name not in exact], reading, problems)
    return _sorted([*(exact[name] for name in names if name in exact), *by_rules.layouts], by_rules.errors)


def layout_of_table(project: Project, table: TableName, state: TableState) -> LayoutSpec | None:
    """Return the layout of an observed table, its own or by a rule; None if it has none.

    Raises:
        SpecError: ZL039, several rules apply.
    """
    own = next((spec for spec in project.layouts if spec.table == table), None)
    rule = None if own else rule_of([rule for rule in project.rules if holds(rule.only, state)], table)
    return rule.for_table(table) if rule else own


def _declared(project: Project, wanted: Sequence[str], excluded: Sequence[str], reading: Reading) -> Declared:
    if not project.rules:
        return Declared(project.layouts)
    exact = {spec.table for spec in project.layouts}
    if wanted and all(map(is_name, wanted)):
        known = {str(table) for table in exact}
        texts = [text for text in (*wanted, *filter(is_name, excluded)) if text not in known and "." in text]
        named = [parse_table(text, Location("SELECT")) for text in texts]
        found = _by_rules(project, named, reading)
        return _sorted([*project.layouts, *found.layouts], found.errors)
    rules = [rule for rule in project.rules if not wanted or any(_may_select(rule, text) for text in wanted)]
    listed, failed = _listed(project, rules, reading)
    names = [one.table for one in listed if not _is_other(one)]
    found = _by_rules(project, [name for name in names if name not in exact], reading, _problems(listed))
    errors = {**found.errors, **failed}
    unlisted = [rule.spec for rule in rules if rule.pattern in failed]
    diagnostics = [d for rule in rules if rule.pattern not in failed for d in _remarks(rule, names, listed)]
    return _sorted([*project.layouts, *found.layouts, *unlisted], errors, diagnostics)


def _sorted(
    layouts: Iterable[LayoutSpec], errors: Mapping[TableName, ZlayoutError], diagnostics: Iterable[Diagnostic] = ()
) -> Declared:
    return Declared(tuple(sorted(layouts, key=lambda spec: str(spec.table))), errors, tuple(diagnostics))


def _listed(
    project: Project, rules: Sequence[LayoutRule], reading: Reading
) -> tuple[list[Listed], dict[TableName, ZlayoutError]]:
    patterns = list(dict.fromkeys(rule.pattern for rule in rules))
    widest = [p for p in patterns if not any(within(p, q) and not within(q, p) for q in patterns)]
    found = _read_each(project, widest, lambda backend, pattern: list(backend.list_tables(pattern)), reading)
    tables = {one.table: one for names in found.values() if isinstance(names, list) for one in names}
    broken = {pattern: error for pattern, error in found.items() if isinstance(error, ZlayoutError)}
    failed = {p: error for wide, error in broken.items() for p in patterns if within(p, wide)}
    return list(tables.values()), failed


def _by_rules(
    project: Project,
    tables: Sequence[TableName],
    reading: Reading,
    problems: Mapping[TableName, ZlayoutError] | None = None,
) -> Declared:
    """problems: The known errors of tables, which are not read."""
    problems = problems or {}
    candidates = {table: [rule for rule in project.rules if matches(rule, table)] for table in tables}
    # Only the tables whose rules have a condition are observed.
    conditional = [t for t, rules in candidates.items() if t not in problems and any(rule.only for rule in rules)]
    states = {**problems, **_read_each(project, conditional, lambda backend, t: backend.observe(t, ()), reading)}
    layouts: list[LayoutSpec] = []
    errors: dict[TableName, ZlayoutError] = {}
    for table, rules in candidates.items():
        state = states.get(table) if rules else None
        try:
            if isinstance(state, ZlayoutError):
                raise state
            meeting = [rule for rule in rules if state is None or holds(rule.only, state)]
            rule = rule_of(meeting, table)
        except ZlayoutError as error:
            layouts.append(narrowest_of(rules)[0].for_table(table))
            errors[table] = error
        else:
            layouts += [rule.for_table(table)] if rule else []
    return Declared(tuple(layouts), errors)


def _read_each(
    project: Project, names: Sequence[TableName], read: Callable[[Backend, TableName], Result], reading: Reading
) -> dict[TableName, Result | ZlayoutError]:
    runtime = SparkRuntime(project)
    backends = {name: backend_for(project.catalogs[name], runtime) for name in {name.catalog for name in names}}
    found = read_each(names, lambda name: name, lambda name: read(backends[name.catalog], name), reading)
    return dict(zip(names, found, strict=True))


def _may_select(rule: LayoutRule, text: str) -> bool:
    if text.startswith("tag:"):
        return any(fnmatchcase(tag, text[4:]) for tag in rule.spec.tags)
    if text.startswith("path:"):
        return fnmatchcase(rule.spec.location.path, text[5:])
    return not is_name(text) or "." not in text or matches(rule, parse_table(text, rule.spec.location))


def _problems(listed: Iterable[Listed]) -> dict[TableName, ZlayoutError]:
    return {one.table: one.problem for one in listed if one.problem is not None}


def _is_other(listed: Listed) -> bool:
    return listed.problem is not None and listed.problem.diagnostics[0].code in (*_OTHER_FORMATS, _HIDDEN)


def _remarks(rule: LayoutRule, names: Sequence[TableName], listed: Sequence[Listed]) -> list[Diagnostic]:
    left = [one for one in listed if _is_other(one) and matches(rule, one.table)]
    hidden = [str(one.table) for one in left if one.problem and one.problem.diagnostics[0].code == _HIDDEN]
    other = [str(one.table) for one in left if str(one.table) not in hidden]
    if not any(matches(rule, name) for name in names):
        message = f"the rule {quote_value(rule.spec.rule)} matches no table"
        hint = f"check catalog, namespace and letter case; list all tables with `zlayout import '{rule.pattern}'`"
        found = [Diagnostic("ZL444", message, severity="warning", hint=hint, location=rule.spec.location)]
    else:
        found = []
    if hidden:
        message = f"the rule {quote_value(rule.spec.rule)} leaves out tables in folders whose names begin with _ or ."
        message += f": {first_of(hidden, MAX_NAMES_SHOWN)}"
        hint = "give such a table a layout of its own, or exclude these names to remove this note"
        found.append(Diagnostic("ZL445", message, severity="note", hint=hint, location=rule.spec.location))
    if not other or any(d.code == "ZL444" for d in found):
        return found
    left_out = f"names that are not tables of the catalog's format: {first_of(other, MAX_NAMES_SHOWN)}"
    message = f"the rule {quote_value(rule.spec.rule)} leaves out {left_out}"
    hint = "nothing needs to be done; exclude these names to remove this note"
    return [*found, Diagnostic("ZL445", message, severity="note", hint=hint, location=rule.spec.location)]


def on_branch(project: Project, declared: Declared, branch: str | None) -> Declared:
    """Return the layouts with the branch of each table: `branch`, or the declared one if `branch` is None.

    Tables of a format without branches get the error ZL237, unless the branch is main.

    Raises:
        SpecError: ZL054.
    """
    layouts, errors = [], {}
    for spec in declared.layouts:
        directed = replace(spec, table=table_on(spec.table, spec, branch))
        error = declared.errors.get(spec.table) or _without_branches(project.catalogs[spec.table.catalog], directed)
        if error is not None:
            errors[directed.table] = error
        layouts.append(directed)
    return replace(declared, layouts=tuple(layouts), errors=errors)


def table_on(table: TableName, spec: LayoutSpec | None, branch: str | None) -> TableName:
    """Return the table with the branch `branch`, or if that is None, with the branch that its layout declares.

    Raises:
        SpecError: ZL054, if `branch` is not the name of a branch.
    """
    if branch is not None and not _BRANCH_NAME.fullmatch(branch):
        message = f"expected the name of a branch, of letters, digits and _ . / -, found {quote_value(branch)}"
        raise SpecError.of("ZL054", message, hint="give --branch NAME, or leave it out for the branch of the layout")
    return table.on(branch if branch is not None else spec.ref if spec is not None else "")


def require_branches(catalog: CatalogConfig, table: TableName) -> None:
    """Check that the format of a table has branches, if the table name has one.

    Raises:
        Refused: ZL237.
    """
    traits = FORMATS[catalog.format]
    if table.branch and not traits.branches:
        raise Refused.of(
            "ZL237",
            f"{table.on('')}: {traits.title} tables have no branches, found branch {quote_value(table.branch)}",
            hint="leave out the table, or --branch and ref",
        )


def _without_branches(catalog: CatalogConfig, spec: LayoutSpec) -> Refused | None:
    try:
        require_branches(catalog, spec.table)
    except Refused as error:
        return error
    return None
