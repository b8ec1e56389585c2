"""Load `zlayout.yaml` and its layout specs as a `Project`, and report the errors of all files together.

`find_project` searches for the folder of a project, and `load_project` reads it, with environment variables replaced.
"""

from __future__ import annotations

import os
import os.path
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

from zlayout.errors import Diagnostic, Location, SpecError
from zlayout.secrets import is_secret, passwords, remember
from zlayout.spec.allowed import check_settings, java_string
from zlayout.spec.catalogs import catalog, check_catalog
from zlayout.spec.check import REMOVED_KEYS, Violation, located, validate
from zlayout.spec.layouts import LAYOUT_PATTERNS, WORKLOAD_PATTERNS, layout_rule, layout_spec
from zlayout.spec.model import (
    CatalogConfig,
    Export,
    HistoryConfig,
    LayoutRule,
    LayoutSpec,
    Maintenance,
    Prices,
    Project,
    SparkConfig,
    maintenance_of,
)
from zlayout.spec.yaml import Document, read
from zlayout.text import quote_value

# The search for files that match a pattern of `layouts:` or `workload:`.
#
# Each folder is listed at most once for each part of the pattern, and wildcards do not follow links to folders.
# Therefore neither a pattern nor a link can make the search long.


WILDCARDS = "*?["


def is_relative(pattern: str) -> bool:
    """Return whether a pattern matches only what is below its folder, except through links."""
    return bool(pattern) and not os.path.isabs(pattern) and ".." not in pattern.split("/") and pattern.isprintable()


class Folder:
    """The files in the folder of a project, as they are on disk. `zlayout.session.revisions` has those of a commit."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def matching(self, pattern: str) -> Iterator[Path]:
        """Yield the matching paths below the folder.

        Args:
            pattern: A relative path. `*`, `?` and `[...]` match characters of one name, `**` matches any number of
                folders.

        Raises:
            ValueError: `**` is only a part of a name.
        """
        parts = PurePosixPath(pattern).parts
        if any("**" in part and part != "**" for part in parts):
            raise ValueError("Invalid pattern: '**' can only be an entire path component")
        todo, seen = [(self.root, 0)], set()
        while todo:
            at = path, index = todo.pop()
            if at in seen:
                continue
            seen.add(at)
            if index == len(parts):
                yield path
            elif parts[index] == "**":
                todo.append((path, index + 1))
                todo += [(path / name, index) for name, is_folder in self.entries(path) if is_folder]
            elif any(c in parts[index] for c in WILDCARDS):
                last = index + 1 == len(parts)
                found = (entry for entry in self.entries(path) if fnmatchcase(entry[0], parts[index]))
                todo += [(path / name, index + 1) for name, is_folder in found if last or is_folder]
            elif self.exists(path / parts[index]):
                todo.append((path / parts[index], index + 1))

    def entries(self, folder: Path) -> list[tuple[str, bool]]:
        """Return the names in a folder, and which of them are folders and not links."""
        try:
            with os.scandir(folder) as entries:
                return [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
        except OSError:
            return []

    def exists(self, path: Path) -> bool:
        """Return whether there is a file, a folder or a link."""
        return os.path.lexists(path)

    def read(self, path: Path) -> Document:
        """Read and parse a YAML file. Raises SpecError as `zlayout.spec.yaml.read`."""
        return read(path, shown(path))

    def contains(self, path: Path) -> bool:
        """Return whether no link leads from the path to a file outside of the folder."""
        try:
            return path.resolve(strict=False).is_relative_to(self.root.resolve())
        except (OSError, RuntimeError):
            return True  # A link points to itself. Reading the file reports the error.


# Environment variables: `${VAR}`, `${VAR:-default}` and `${VAR:?message}`.
#
# They are allowed only in some fields of `zlayout.yaml`, and in no layout spec, so that a layout id is the same on
# every machine. Messages never contain values, which may be secrets.


_VARIABLE = re.compile(r"\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?:(?P<how>:-|:\?)(?P<text>[^}]*))?\}")
_WITH_VARIABLES = (
    ("catalogs", "*", "warehouse"),
    ("catalogs", "*", "uri"),
    ("catalogs", "*", "tables", "*"),
    ("catalogs", "*", "properties", "*"),
    ("catalogs", "*", "storage", "*"),
    ("spark", "master"),
    ("spark", "conf", "*"),
    ("commit", "properties", "*"),
)

KeyPath = tuple[str, ...]
# A catalog property or a Spark setting that consists of one variable is treated as a secret if its value has at least
# this number of characters, even if neither name suggests a secret.
MIN_UNNAMED_LENGTH = 8


def literal_only(document: Document) -> Iterator[Violation]:
    """Yield ZL017 for each text and each key of a layout spec that contains `${`."""
    for path, key, text, _ in _strings(document.data):
        if "${" in text:
            yield key, _misplaced(path)


def substitute(data: Mapping[str, Any], environ: Mapping[str, str]) -> tuple[dict[str, Any], list[Violation]]:
    """Replace the variables in a project's data. Variables in the inserted values are not replaced.

    Args:
        data: The content of `zlayout.yaml`.
        environ: The environment variables.

    Returns:
        The data with values, and ZL017, ZL018 and ZL019 for variables that are not allowed, not set or not valid.
    """
    problems: list[Violation] = []
    values: dict[KeyPath, str] = {}
    for path, key, text, is_name in _strings(data):
        found: list[Diagnostic] = []
        if "${" in text:
            if is_name or not _may_have_variables(path):
                problems.append((key, _misplaced(path)))
                continue
            values[path], found = _expand(text, environ)
        elif is_name:
            continue
        found = found or list(_replaced_elsewhere(path, values.get(path, text)))
        problems.extend((key, diagnostic) for diagnostic in found)
    return _replaced(data, values), problems


def written_secrets(document: Document) -> Iterator[Violation]:
    """Yield ZL042 for each secret that `zlayout.yaml` contains instead of a variable, or would store in commits."""
    hint = "replace it with ${NAME} and set NAME in the environment, or use a profile or the role of the machine"
    for path, key, text, is_name in _strings(document.data):
        if is_name:
            continue
        if path[0] == "commit" and is_secret(path[-1]):
            hint_of_commit = "remove it: every reader of the table can read what a commit stores"
            yield key, Diagnostic("ZL042", f"{quote_value(key)} would store a secret", hint=hint_of_commit)
        elif _may_have_variables(path) and "storage" not in path and text.lower() not in ("true", "false"):
            # ZL037 reports credentials in `storage.endpoint`.
            literal = _VARIABLE.sub(lambda m: m["text"] if m["how"] == ":-" else "", text)
            has_variable = any(m["how"] != ":-" for m in _VARIABLE.finditer(text))
            if passwords(literal) or (is_secret(path[-1]) and literal and not has_variable):
                yield key, Diagnostic("ZL042", f"{quote_value(key)} contains a secret", hint=hint)


def configuration_values(
    data: Mapping[str, Any], values: Mapping[str, Any], environ: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Yield the configuration values of a project with names that show which of them are secrets.

    Args:
        data: The content of `zlayout.yaml`.
        values: The result of `substitute` for `data`.
        environ: The environment variables.

    Yields:
        (name, value) of each string in `values` and of each variable in `data`. A catalog property or a Spark setting
        of at least MIN_UNNAMED_LENGTH characters that consists of one variable is also yielded under a name that begins
        with "secret".
    """
    written = {path: text for path, _, text, is_name in _strings(data) if not is_name}
    for path, _, text, is_name in _strings(values):
        if is_name:
            continue
        name = path[-1]
        yield name, text
        raw = written.get(path, "")
        for match in _VARIABLE.finditer(raw):
            yield match["name"], environ.get(match["name"], "")
            may_be_secret = path[0] != "commit" and path[-2:-1] in (("properties",), ("conf",))
            if match[0] == raw and may_be_secret and len(text) >= MIN_UNNAMED_LENGTH:
                yield f"secret {name}", text


def _misplaced(path: KeyPath) -> Diagnostic:
    where = path[-1] if path else "here"
    fields = "warehouse, uri, tables, storage and properties of catalogs, spark.master, spark.conf, commit.properties"
    return Diagnostic(
        "ZL017", f"${{...}} is not allowed in {quote_value(where)}", hint=f"use it in zlayout.yaml only: {fields}"
    )


def _may_have_variables(path: KeyPath) -> bool:
    return any(
        len(path) == len(field) and all(f in ("*", p) for f, p in zip(field, path, strict=True))
        for field in _WITH_VARIABLES
    )


def _replaced_elsewhere(path: KeyPath, value: str) -> Iterator[Diagnostic]:
    """A variable that Spark, Hadoop or Iceberg replaces would be in use without being known as a secret."""
    # Spark and Hadoop replace `${env:NAME}` and `${env.NAME}` in settings, but not in commit properties.
    if "${" in value and _may_have_variables(path) and path[0] != "commit":
        message = "expected a value without '${' after replacing variables, because Spark and Hadoop would replace it"
        yield Diagnostic("ZL019", message, hint="write ${NAME} alone, and set NAME to the final value")
    elif value.startswith("env:") and path[0] == "catalogs" and _may_have_variables(path):
        message = "expected a value that does not begin with env:, because Iceberg would replace it"
        yield Diagnostic("ZL019", message, hint="write ${NAME}")


def _expand(text: str, environ: Mapping[str, str]) -> tuple[str, list[Diagnostic]]:
    problems: list[Diagnostic] = []
    if text.count("${") != len(_VARIABLE.findall(text)):
        return text, [Diagnostic("ZL019", "expected ${NAME}, ${NAME:-default} or ${NAME:?message}, found another '${'")]

    def value(match: re.Match[str]) -> str:
        name, how, extra = match["name"], match["how"], match["text"]
        found = environ.get(name)
        if found or (found is not None and how is None):
            return found
        if how == ":-":
            return str(extra)
        hint = f"set it, or write ${{{name}:-default}}"
        reason = f": {quote_value(extra)[1:-1]}" if extra else ""
        problems.append(Diagnostic("ZL018", f"the environment variable {name} is not set{reason}", hint=hint))
        return ""

    expanded = _VARIABLE.sub(value, text)
    if not expanded and not problems:
        problems.append(Diagnostic("ZL018", "expected a value, found an empty string after replacing ${...}"))
    if "\x00" in expanded or "\n" in expanded:
        problems.append(Diagnostic("ZL018", "expected one line of text, found a line break or NUL from ${...}"))
    return expanded, problems


def _strings(data: Any, path: KeyPath = (), key: str = "") -> Iterator[tuple[KeyPath, str, str, bool]]:
    """Yield (path of keys, dotted key, string, whether the string is a key) for each string in nested data."""
    if isinstance(data, str):
        yield path, key, data, False
    elif isinstance(data, list):
        for index, item in enumerate(data):
            yield from _strings(item, (*path, f"[{index}]"), f"{key}[{index}]")
    elif isinstance(data, dict):
        for name, item in data.items():
            below = f"{key}.{name}" if key else name
            yield (*path, name), below, name, True
            yield from _strings(item, (*path, name), below)


def _replaced(data: Mapping[str, Any], values: Mapping[KeyPath, str], path: KeyPath = ()) -> dict[str, Any]:
    return {
        name: _replaced(item, values, (*path, name)) if isinstance(item, Mapping) else values.get((*path, name), item)
        for name, item in data.items()
    }


# The project.


PROJECT_FILE = "zlayout.yaml"
HISTORY_PATH, HISTORY_KEEP = ".zlayout/history.db", "400d"
_EXPORTED_COLUMN = re.compile(
    r"(\S|\S.*\S)\s+(integer|string|date|boolean|decimal\(([0-9]{1,2}),\s*([0-9]{1,2})\))", re.DOTALL
)


def find_project(start: Path, *, named: bool = False) -> Path:
    """Return the nearest folder at or above `start` with a `zlayout.yaml`.

    Args:
        start: A folder.
        named: Whether the user named this folder. A project in it is then used whoever owns it.

    Raises:
        SpecError: ZL001, there is no `zlayout.yaml`; ZL087, another user may have put it there.
    """
    start = Path(os.path.abspath(start))
    for folder in (start, *start.parents):
        if (folder / PROJECT_FILE).is_file():
            if not (named and folder == start):
                _require_own(folder, start)
            return folder
    message = f"no {PROJECT_FILE} in {start} or above it"
    hint = "run zlayout init to create one, or name the folder of the project with --project"
    raise SpecError.of("ZL001", message, hint=hint)


def _require_own(folder: Path, start: Path) -> None:
    """Reject a project that was found, not named, if another user may have put `zlayout.yaml` into its folder."""
    if not hasattr(os, "geteuid"):  # Windows
        return
    of_folder, user = folder.stat(), os.geteuid()
    # In a container, the owner of the folder where the search starts is often another user.
    trusted = {user, 0, start.stat().st_uid if start.exists() else user}
    others = [found.st_uid for found in (os.lstat(folder / PROJECT_FILE), of_folder) if found.st_uid not in trusted]
    if others:
        reason = f"it belongs to another user (uid {others[0]})"
    # Above the folder where the search starts, only the user's own folders may be open to everyone.
    elif folder != start and of_folder.st_uid != user and of_folder.st_mode & stat.S_IWOTH:
        reason = "every user may write to its folder"
    else:
        return
    message = f"{folder / PROJECT_FILE} was found but not named, and {reason}"
    raise SpecError.of("ZL087", message, hint=f"to use it, name it: --project {folder}")


def load_project(root_or_file: Path, environ: Mapping[str, str], folder: Folder | None = None) -> Project:
    """Read a project and all its layout specs.

    Args:
        root_or_file: The folder of the project, or its `zlayout.yaml`.
        environ: The environment variables.
        folder: The files of the project. Default: those on disk.

    Raises:
        SpecError: The errors of all files, sorted by location.
    """
    path = Path(os.path.abspath(root_or_file))
    path = path / PROJECT_FILE if path.is_dir() else path
    if folder is None and not path.exists():
        raise SpecError.of("ZL001", f"file {shown(path)} does not exist", hint="run zlayout init to create one")
    loading = _Loading(path, environ, folder or Folder(path.parent))
    project = loading.project()
    if loading.errors:
        raise SpecError(*sorted(set(loading.errors), key=lambda d: (d.location or Location(""), d.code, d.message)))
    return project


def shown(path: Path) -> str:
    """Return a path as messages show it.

    The path is relative to the working directory, unless the two have only the root folder in common.
    """
    here = os.getcwd()
    relative = os.path.relpath(path, here)
    up = relative.split(os.sep).count("..")
    name = relative if up == 0 or up < here.count(os.sep) else str(path)
    # Bytes that are not valid UTF-8 are replaced, because they could not be written to a terminal or a file.
    return os.fsencode(name).decode("utf-8", "replace")


def checked_layout(
    document: Document,
    defaults: Mapping[str, Any],
    default_locations: Mapping[str, Location],
    catalogs: Mapping[str, CatalogConfig] | None,
) -> LayoutSpec:
    """Return the layout spec of a document as `layout_spec` does, after it was checked against the schema."""
    problems = [*validate(document, "layout")]
    problems += [located(document, key, d) for key, d in literal_only(document)]
    if problems:
        raise SpecError(*problems)
    return layout_spec(document, defaults, default_locations, catalogs)


class _Loading:
    """Continues after an error, so that it finds all errors."""

    def __init__(self, path: Path, environ: Mapping[str, str], folder: Folder) -> None:
        self.path = path
        self.root = path.parent
        self.environ = environ
        self.folder = folder
        self.errors: list[Diagnostic] = []

    def project(self) -> Project:
        document, data = self._document()
        locations = document.locations
        if self.errors:
            data = {}  # The layout specs are still read, to report their errors together with those of zlayout.yaml.
        catalogs = {name: self._catalog(name, entry, document) for name, entry in data.get("catalogs", {}).items()}
        defaults = data.get("defaults", {})
        self._known = (defaults, _below("defaults.", locations), catalogs if data else None)
        self._commit_properties = data.get("commit", {}).get("properties", {})
        declared = self._layouts(self._patterns(document))
        spark, prices = data.get("spark", {}), data.get("prices")
        return Project(
            root=self.root,
            catalogs=catalogs,
            spark=SparkConfig(
                spark.get("master"), {key: java_string(value) for key, value in spark.get("conf", {}).items()}
            ),
            layouts=tuple(one for one in declared if isinstance(one, LayoutSpec)),
            sample=bool(defaults.get("sample", False)),
            rules=tuple(one for one in declared if isinstance(one, LayoutRule)),
            prices=Prices(**{key: float(value) for key, value in prices.items()}) if prices else None,
            history=self._history(data["history"], locations) if "history" in data else None,
            maintenance=self._maintenance(data["maintenance"], locations) if "maintenance" in data else None,
            query_engine=data.get("workload", {}).get("engine", "spark"),
            exports=self._exports(data.get("workload", {}).get("exports", {}), locations),
            workload=self._workloads,
        )

    def _maintenance(self, entry: Mapping[str, Any], locations: Mapping[str, Location]) -> Maintenance | None:
        try:
            return maintenance_of(entry)
        except ValueError as error:
            key, found = error.args
            what = "the IANA name of a time zone" if key == "timezone" else "days and times"
            hint = "write Europe/Berlin or UTC" if key == "timezone" else "write Mon-Fri 22:00-05:00, or 22:00-05:00"
            at = locations[f"maintenance.{key}"]
            self._error("ZL053", f"expected {what}, found {quote_value(found)}", at, hint)
            return None

    def _history(self, entry: Mapping[str, Any], locations: Mapping[str, Location]) -> HistoryConfig | None:
        written = PurePosixPath(entry.get("path", HISTORY_PATH))
        path = self.root / written
        if written.is_absolute() or ".." in written.parts or not path.resolve().is_relative_to(self.root.resolve()):
            message = f"expected a file in the folder of the project for the history, found {quote_value(str(written))}"
            at = locations.get("history.path", locations["history"])
            self._error("ZL051", message, at, "use a relative path without '..', such as .zlayout/history.db")
            return None
        return HistoryConfig(path, int(entry.get("keep", HISTORY_KEEP).removesuffix("d")))

    def _exports(self, entries: Mapping[str, Any], locations: Mapping[str, Location]) -> dict[str, Export]:
        """The files are searched for when a query needs them, because a checkout may have none of them."""
        found: dict[str, Export] = {}
        for name, entry in entries.items():
            at, files = locations[f"workload.exports.{name}"], entry["files"]
            where = locations[f"workload.exports.{name}.files"]
            is_csv = files.endswith(".csv")
            if not is_relative(files) or "://" in files:
                message = f"expected files in the folder of the project, found {quote_value(files)}"
                self._error("ZL097", message, where, "copy the export into the project, and write a relative path")
            elif not is_csv and not files.endswith(".parquet"):
                message = f"expected files that end with .parquet or .csv, found {quote_value(files)}"
                self._error("ZL097", message, where)
            elif is_csv != ("columns" in entry):
                csv = "expected columns with their types for a CSV file, which states none"
                parquet = "expected no columns for Parquet files, which state the types of all columns"
                hint = "write columns: [id integer, name string]" if is_csv else "remove columns"
                self._error("ZL097", csv if is_csv else parquet, at, hint)
            elif name.lower() in found:
                message = f"duplicate export of {quote_value(name)} (names differ by letter case only)"
                self._error("ZL097", message, at, "keep one of the two")
            else:
                columns = self._columns(entry.get("columns", ()), f"workload.exports.{name}.columns", locations)
                found[name.lower()] = Export(name, files, columns, at)
        return found

    def _columns(self, written: Iterable[str], key: str, locations: Mapping[str, Location]) -> dict[str, str]:
        found: dict[str, str] = {}
        for index, text in enumerate(written):
            at = locations[f"{key}[{index}]"]
            parts = _EXPORTED_COLUMN.fullmatch(text)
            assert parts is not None  # the schema has the same pattern
            name, kind, precision, scale = parts.groups()
            if precision and not (int(scale) <= int(precision) and 1 <= int(precision) <= 38):
                self._error("ZL097", f"expected decimal(p,s) with s <= p <= 38, found {quote_value(kind)}", at)
            elif name.lower() in {other.lower() for other in found}:
                self._error("ZL097", f"duplicate column {quote_value(name)}", at, "keep one of the two")
            else:
                found[name] = kind
        return found

    def _document(self) -> tuple[Document, dict[str, Any]]:
        unread = Document({}, {}, Location(shown(self.path), 1, 1))
        if not self._is_in_project(self.path, "keep zlayout.yaml and the target of its link in the same folder"):
            return unread, {}
        try:
            document = self.folder.read(self.path)
        except SpecError as error:
            self.errors.extend(error.diagnostics)
            return unread, {}
        self.errors.extend(validate(document, "project"))
        kept = {key: value for key, value in document.data.items() if key not in REMOVED_KEYS}
        data, problems = substitute(kept, self.environ)
        remember(configuration_values(document.data, data, self.environ))
        unknown = {key for key, _ in problems}  # values with variables that could not be replaced
        problems += [found for found in check_settings(data) if found[0] not in unknown]
        problems += written_secrets(document)
        self.errors.extend(located(document, key, diagnostic) for key, diagnostic in problems)
        return document, data

    def _catalog(self, name: str, entry: Mapping[str, Any], document: Document) -> CatalogConfig:
        problems = check_catalog(name, entry, self.environ)
        self.errors.extend(located(document, key, diagnostic) for key, diagnostic in problems)
        at = document.locations[f"catalogs.{name}"]
        found = catalog(name, entry, self.root, at)
        if "${" in str(self.root) and "${" in str(found.options):
            # Spark and Hadoop would replace it by a variable or a setting.
            message = f"expected a folder without '${{' in its name for the relative paths of catalogs.{name}"
            self._error("ZL019", message, at, "rename the folder of the project, or write absolute paths")
        return found

    def _patterns(self, document: Document) -> Iterable[tuple[str, Location]]:
        written = document.data.get("layouts")
        if not isinstance(written, list):
            return [(pattern, document.location) for pattern in LAYOUT_PATTERNS]
        return [
            (pattern, document.locations[f"layouts[{index}]"])
            for index, pattern in enumerate(written)
            if isinstance(pattern, str) and "${" not in pattern
        ]

    def _layouts(self, patterns: Iterable[tuple[str, Location]]) -> list[LayoutSpec | LayoutRule]:
        found: dict[object, LayoutSpec | LayoutRule] = {}
        for path in sorted({path for pattern, at in patterns for path in self._files(pattern, at)}):
            if (declared := self._layout(path)) is None:
                continue
            spec = _spec_of(declared)
            key = (spec.table, declared.only) if isinstance(declared, LayoutRule) else spec.table
            first = found.setdefault(key, declared)
            if first is not declared:
                name = f"{'tables' if spec.rule else 'table'} {quote_value(str(spec.table))}"
                message = f"duplicate layout for {name} (first defined in {_spec_of(first).location})"
                self._error("ZL022", message, spec.location, "keep one of the two")
        return sorted(found.values(), key=lambda declared: str(_spec_of(declared).table))

    def _files(self, pattern: str, at: Location) -> Iterator[Path]:
        if not is_relative(pattern):
            message = f"expected a pattern below zlayout.yaml, found {quote_value(pattern)}"
            self._error("ZL027", message, at, "use a relative pattern without '..'")
            return
        try:
            found = [p for p in self.folder.matching(pattern) if p != self.path]
        except ValueError as error:
            self._error("ZL027", f"expected a file pattern, found {quote_value(pattern)}: {error}", at)
            return
        if not found and not any(c in pattern for c in WILDCARDS):
            self._error("ZL002", f"file {quote_value(pattern)} does not exist", at)
        yield from found

    def _layout(self, path: Path) -> LayoutSpec | LayoutRule | None:
        if not self._is_in_project(path, "keep a layout and the target of its link in the folder of the project"):
            return None
        try:
            document = self.folder.read(path)
            spec = checked_layout(document, *self._known)
            spec = replace(spec, workload=self._workload(document), commit_properties=self._commit_properties)
            return layout_rule(document, spec) if spec.rule else spec
        except SpecError as error:
            self.errors.extend(error.diagnostics)
            return None

    def _workload(self, document: Document) -> tuple[Path, ...]:
        if "workload" not in document.data:
            return self._workloads
        written = document.data["workload"]
        if isinstance(written, str):
            return self._workload_files([(written, document.locations["workload"])])
        return self._workload_files((p, document.locations[f"workload[{n}]"]) for n, p in enumerate(written))

    @cached_property
    def _workloads(self) -> tuple[Path, ...]:
        return self._workload_files((pattern, Location(shown(self.path), 1, 1)) for pattern in WORKLOAD_PATTERNS)

    def _workload_files(self, patterns: Iterable[tuple[str, Location]]) -> tuple[Path, ...]:
        found = sorted({path for pattern, at in patterns for path in self._files(pattern, at)})
        hint = "keep a workload and the target of its link in the folder of the project"
        return tuple(path for path in found if self._is_in_project(path, hint))

    def _is_in_project(self, path: Path, hint: str) -> bool:
        if not (inside := self.folder.contains(path)):
            self._error("ZL026", "the link points outside the project", Location(shown(path)), hint)
        return inside

    def _error(self, code: str, message: str, location: Location, hint: str = "") -> None:
        self.errors.append(Diagnostic(code, message, hint=hint, location=location))


def _spec_of(declared: LayoutSpec | LayoutRule) -> LayoutSpec:
    return declared.spec if isinstance(declared, LayoutRule) else declared


def _below(prefix: str, locations: Mapping[str, Location]) -> dict[str, Location]:
    return {key.removeprefix(prefix): at for key, at in locations.items() if key.startswith(prefix)}
