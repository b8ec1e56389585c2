"""Load a project, find its tables and layouts by name, glob, tag or path, and check arguments of the public API."""

from __future__ import annotations

import difflib
import math
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from fnmatch import fnmatchcase
from numbers import Integral, Real
from pathlib import Path
from types import MappingProxyType

from zlayout.errors import Location, SpecError
from zlayout.spec.layouts import covers, may_match, parse_table, size_in_bytes
from zlayout.spec.load import WILDCARDS, find_project
from zlayout.spec.load import load_project as load
from zlayout.spec.model import CatalogConfig, LayoutSpec, Project, TableName, duration_of
from zlayout.text import first_of, quote_value

# Arguments of the public API, some of which options of the command line have too.


def require(argument: object, expected: type, hint: str) -> None:
    """Raise SpecError ZL084 for an argument of the public API that is not of the expected class."""
    if not isinstance(argument, expected):
        raise SpecError.of("ZL084", f"expected a {expected.__name__}, found {_found(argument)}", hint=hint)


def require_project(project: object) -> None:
    """Raise SpecError ZL084 for anything but a project."""
    require(project, Project, "use zlayout.load_project(PATH)")


def require_number(name: str, value: object) -> None:
    """Raise SpecError ZL084 unless the argument `name` of the public API is a number of at least 0; infinity is one."""
    if not _as_float(value) >= 0:
        raise _invalid(name, value, "a number of at least 0", 60)


def require_positive(name: str, value: object, most: float) -> None:
    """Raise SpecError ZL084 unless the argument `name` of the public API is a number above 0, and at most `most`."""
    if not 0 < _as_float(value) <= most:
        raise _invalid(name, value, f"a number above 0, at most {most:,.0f},", 7)


MAX_NEW_FILES = 10_000_000  # that are simulated


def require_count(name: str, value: object, most: int | None = None) -> None:
    """Raise SpecError ZL084 unless the argument `name` of the public API is an integer above 0, and at most `most`."""
    if isinstance(value, bool) or not isinstance(value, Integral) or not 1 <= int(value) <= (most or math.inf):
        raise _invalid(name, value, "an integer above 0" if most is None else f"an integer from 1 to {most:,}", 8)


def require_choice(name: str, value: object, choices: Iterable[str]) -> None:
    """Raise SpecError ZL084 unless the argument `name` of the public API is one of the given strings."""
    if value not in (known := tuple(map(str, choices))):
        raise _invalid(name, value, " or ".join(known), known[0])


def _invalid(name: str, value: object, expected: str, example: object) -> SpecError:
    message = f"expected {expected} for {name}, found {_found(value)}"
    return SpecError.of("ZL084", message, hint=f"use for example {name}={example!r}")


def _as_float(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.nan


def _found(value: object) -> str:
    if isinstance(value, int | float):
        return repr(value)
    return quote_value(str(value)) if isinstance(value, str | os.PathLike) else type(value).__name__


def parse_budget(size: int | str | None) -> int | None:
    """Convert a budget to bytes; a string is a number or a size such as `100GiB`. Raises SpecError ZL050."""
    try:
        if isinstance(size, str):
            size = int(size) if size.isdecimal() else size_in_bytes(size)
        if size is None or (type(size) is int and size >= 0):
            return size
    except (KeyError, ArithmeticError):
        pass
    message = f"expected a size for --max-rewrite-bytes, found {size!r}"
    raise SpecError.of("ZL050", message, hint="use for example 100GiB")


def parse_duration(duration: timedelta | str | None) -> timedelta | None:
    """Return a duration; a string is of the form `90m`, `1h` or `2d`. Raises SpecError ZL056."""
    try:
        if duration is None or isinstance(duration, timedelta):
            return duration
        return duration_of(duration)
    except (TypeError, ValueError) as error:
        message = f"expected a duration for --avoid-hot, found {duration!r}"
        raise SpecError.of("ZL056", message, hint="use for example 30m, 1h or 2d") from error


# The project, its tables and its layouts.


def load_project(path: str | os.PathLike[str] = ".", environ: Mapping[str, str] | None = None) -> Project:
    """Load `zlayout.yaml` and the layout specs that it refers to. Reads no table.

    Args:
        path: The path of a `zlayout.yaml`, or a folder. The nearest `zlayout.yaml` in the folder or above is used. In
            the working directory "." and above any folder, it must belong to this user, to root, or to the owner of
            the folder in which the search starts.
        environ: Values for `${VAR}` in `zlayout.yaml`. Default: the environment of the process.

    Returns:
        The project, with its layouts sorted by table name.

    Raises:
        SpecError: No `zlayout.yaml`, one that another user may have put there, or invalid files, with all problems.
    """
    start = Path(path)
    found = find_project(start, named=start != Path()) if start.is_dir() else start
    return load(found, os.environ if environ is None else environ)


def known_table(project: Project, text: str) -> TableName:
    """Parse the name of a table in a catalog of the project.

    Raises:
        SpecError: ZL020 (invalid table name), ZL021 (unknown catalog), ZL084 (not a project).
    """
    require_project(project)
    name = parse_table(text, Location("TABLE"))
    known_catalog(project, name.catalog)
    return name


def known_catalog(project: Project, name: str) -> CatalogConfig:
    """Return a catalog of the project. Raises SpecError ZL021 if it has no such catalog."""
    if name not in project.catalogs:
        known = ", ".join(sorted(project.catalogs))
        raise SpecError.of("ZL021", f"unknown catalog {name!r}", hint=f"known catalogs: {known}")
    return project.catalogs[name]


def layout_of(project: Project, name: TableName) -> LayoutSpec | None:
    """Return the layout spec of a table; None if the project declares none."""
    return next((spec for spec in project.layouts if spec.table == name), None)


def validate(project: Path, paths: Sequence[Path] = ()) -> tuple[LayoutSpec, ...]:
    """Check a project, and return its layouts and those of its rules, or only those in the given files and folders.

    Args:
        project: The folder of the project. Ignored if `paths` are given: the project of the first path is used.
        paths: Layout files and folders. Default: all layouts.

    Raises:
        SpecError: One diagnostic for each problem of the files, and for each path that does not exist or has no layout.
    """
    for path in paths:
        if not path.exists():
            raise SpecError.of("ZL044", f"{path} does not exist", hint="use the path of a layout file or a folder")
    start = (paths[0] if paths[0].is_dir() else paths[0].parent) if paths else project
    loaded = load_project(start)
    declared = (*loaded.layouts, *(rule.spec for rule in loaded.rules))
    layouts = select_layouts(declared, (), ())
    for path in paths:
        if not any(_is_in(spec, path) for spec in layouts):
            hint = "check whether `layouts:` in zlayout.yaml matches a file there"
            raise SpecError.of("ZL045", f"expected a layout in {path}, found none", hint=hint)
    return tuple(spec for spec in layouts if not paths or any(_is_in(spec, path) for path in paths))


def _is_in(spec: LayoutSpec, path: Path) -> bool:
    file = Path(spec.location.path).resolve()
    return path.resolve() in (file, *file.parents)


MAX_NAMES_SHOWN = 10  # in an error message
CHANGED = "changed:"  # selects the layouts that differ from those at the merge base with the revision that follows


def select_layouts(
    layouts: Sequence[LayoutSpec],
    wanted: str | Iterable[str],
    excluded: str | Iterable[str],
    changed: Mapping[str, Collection[TableName]] = MappingProxyType({}),
    unlisted: Collection[TableName] = (),
) -> tuple[LayoutSpec, ...]:
    """Return the layouts that match any of `wanted` (all if empty) and none of `excluded`, in their order.

    A string is one pattern. Tags, paths and globs in `excluded` may match nothing, and so may `changed:REV`.

    Args:
        layouts: The layouts to select from.
        wanted, excluded: The patterns.
        changed: The tables that each `changed:REV` among the patterns selects.
        unlisted: The tables of layouts that stand for all tables of a pattern, which cannot be listed. Such a layout is
            selected if any table of the pattern may be, and excluded if all are.

    Raises:
        SpecError: ZL045, a pattern in `wanted` or a table name in `excluded` matches nothing, or there are no layouts.
            Without this check, a misspelled name would look like success, or would not exclude its table.
    """
    wanted, excluded = (((p,) if isinstance(p, str) else tuple(p)) for p in (wanted, excluded))
    if not layouts and not (wanted and changed.keys() >= set(wanted)):
        hint = "add a file that `layouts:` in zlayout.yaml matches"
        raise SpecError.of("ZL045", "expected at least one layout, found none", hint=hint)
    names = [str(spec.table) for spec in layouts]

    def may_select(spec: LayoutSpec, pattern: str) -> bool:
        is_another = is_name(pattern) and pattern in names
        if spec.table in unlisted and _is_of_tables(pattern) and not is_another:
            return may_match(spec.table, pattern)
        return _matches(spec, pattern, changed)

    def excludes(spec: LayoutSpec, pattern: str) -> bool:
        if spec.table in unlisted and _is_of_tables(pattern):
            return covers(pattern, str(spec.table))
        return _matches(spec, pattern, changed)

    for pattern in (*wanted, *filter(is_name, excluded)):
        if pattern not in changed and not any(may_select(spec, pattern) for spec in layouts):
            close = [name for name in names if name.endswith(f".{pattern}")]
            close = close or difflib.get_close_matches(pattern, names, 1)
            known = f"tables with a layout: {first_of(names, MAX_NAMES_SHOWN)}"
            hint = f"did you mean {close[0]}?" if close else known
            if pattern.endswith(".json"):
                hint = "this file does not exist; write a plan file with `zlayout plan --out FILE`"
                if Path(pattern).is_file():
                    hint = "a plan file is the only argument of apply and show, because it names its tables"
            raise SpecError.of("ZL045", f"no layout matches {pattern!r}", hint=hint)
    return tuple(
        spec
        for spec in layouts
        if (not wanted or any(may_select(spec, p) for p in wanted)) and not any(excludes(spec, p) for p in excluded)
    )


def named_layouts(layouts: Sequence[LayoutSpec], tables: Collection[str]) -> tuple[LayoutSpec, ...]:
    """Return the layouts of the tables of a saved plan. Raises SpecError ZL045 for a table without a layout."""
    chosen = tuple(spec for spec in layouts if str(spec.table) in tables)
    for name in sorted(set(tables) - {str(spec.table) for spec in chosen}):
        hint = "run `zlayout plan` again: the project changed"
        raise SpecError.of("ZL045", f"expected a layout of {quote_value(name)}, found none", hint=hint)
    return chosen


def is_name(pattern: str) -> bool:
    """Return whether the pattern is a table name, in contrast to a tag, a path, `changed:REV` or a glob."""
    return _is_of_tables(pattern) and not set(pattern) & set(WILDCARDS)


def _is_of_tables(pattern: str) -> bool:
    return not pattern.startswith(("tag:", "path:", CHANGED))


def _matches(spec: LayoutSpec, pattern: str, changed: Mapping[str, Collection[TableName]]) -> bool:
    if pattern in changed:
        return spec.table in changed[pattern]
    if pattern.startswith("tag:"):
        return any(fnmatchcase(tag, pattern[4:]) for tag in spec.tags)
    if pattern.startswith("path:"):
        return fnmatchcase(spec.location.path, pattern[5:])
    return fnmatchcase(str(spec.table), pattern)
