"""Load `zlayout.yaml` and its layout specs as a `Project`, and report the errors of all files together."""

from __future__ import annotations

import os
import os.path
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

from zlayout.errors import Diagnostic, Location, SpecError
from zlayout.message_text import quote_value
from zlayout.secrets import remember
from zlayout.spec.allowed import check_settings, java_string
from zlayout.spec.catalogs import catalog, check_catalog
from zlayout.spec.defaults import LAYOUT_PATTERNS, WORKLOAD_PATTERNS
from zlayout.spec.environment import configuration_values, literal_only, substitute, written_secrets
from zlayout.spec.layouts import layout_spec
from zlayout.spec.maintenance import Maintenance, maintenance_of
from zlayout.spec.model import (
    CatalogConfig,
    HistoryConfig,
    LayoutRule,
    LayoutSpec,
    Prices,
    Project,
    SparkConfig,
)
from zlayout.spec.patterns import WILDCARDS, matching
from zlayout.spec.rules import layout_rule
from zlayout.spec.validation import REMOVED_KEYS, located, validate
from zlayout.spec.yaml import Document, read

PROJECT_FILE = "zlayout.yaml"
HISTORY_PATH, HISTORY_KEEP = ".zlayout/history.db", "400d"


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


def load_project(root_or_file: Path, environ: Mapping[str, str]) -> Project:
    """Read a project and all its layout specs.

    Args:
        root_or_file: The folder of the project, or its `zlayout.yaml`.
        environ: The environment variables.

    Raises:
        SpecError: The errors of all files, sorted by location.
    """
    path = Path(os.path.abspath(root_or_file))
    path = path / PROJECT_FILE if path.is_dir() else path
    if not path.exists():
        raise SpecError.of("ZL001", f"file {shown(path)} does not exist", hint="run zlayout init to create one")
    loading = _Loading(path, environ)
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


class _Loading:
    """Continues after an error, so that it finds all errors."""

    def __init__(self, path: Path, environ: Mapping[str, str]) -> None:
        self.path = path
        self.root = path.parent
        self.environ = environ
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

    def _document(self) -> tuple[Document, dict[str, Any]]:
        """Return the document as written, and its data with variables replaced."""
        unread = Document({}, {}, Location(shown(self.path), 1, 1))
        if not self._is_in_project(self.path, "keep zlayout.yaml and the target of its link in the same folder"):
            return unread, {}
        try:
            document = read(self.path, shown(self.path))
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
        if not pattern or os.path.isabs(pattern) or ".." in pattern.split("/") or not pattern.isprintable():
            message = f"expected a pattern below zlayout.yaml, found {quote_value(pattern)}"
            self._error("ZL027", message, at, "use a relative pattern without '..'")
            return
        try:
            found = [p for p in matching(self.root, pattern) if p != self.path]
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
            document = read(path, shown(path))
            problems = [*validate(document, "layout")]
            problems += [located(document, key, d) for key, d in literal_only(document)]
            if problems:
                raise SpecError(*problems)
            spec = layout_spec(document, *self._known)
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
        """The workload files of layout specs that declare none."""
        return self._workload_files((pattern, Location(shown(self.path), 1, 1)) for pattern in WORKLOAD_PATTERNS)

    def _workload_files(self, patterns: Iterable[tuple[str, Location]]) -> tuple[Path, ...]:
        found = sorted({path for pattern, at in patterns for path in self._files(pattern, at)})
        hint = "keep a workload and the target of its link in the folder of the project"
        return tuple(path for path in found if self._is_in_project(path, hint))

    def _is_in_project(self, path: Path, hint: str) -> bool:
        if not (inside := _inside(path, self.root)):
            self._error("ZL026", "the link points outside the project", Location(shown(path)), hint)
        return inside

    def _error(self, code: str, message: str, location: Location, hint: str = "") -> None:
        self.errors.append(Diagnostic(code, message, hint=hint, location=location))


def _inside(path: Path, root: Path) -> bool:
    try:
        return path.resolve(strict=False).is_relative_to(root.resolve())
    except (OSError, RuntimeError):
        return True  # A link points to itself. Reading the file reports the error.


def _spec_of(declared: LayoutSpec | LayoutRule) -> LayoutSpec:
    return declared.spec if isinstance(declared, LayoutRule) else declared


def _below(prefix: str, locations: Mapping[str, Location]) -> dict[str, Location]:
    return {key.removeprefix(prefix): at for key, at in locations.items() if key.startswith(prefix)}
