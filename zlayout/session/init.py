"""Write a new project: find the tables of a catalog, propose a layout for each, and write all files or none."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pyarrow.types as pt

from zlayout.errors import Location, SpecError, ZlayoutError
from zlayout.formats.base import Backend
from zlayout.formats.registry import backend_for
from zlayout.session.concurrent_reads import Reading, read_each
from zlayout.session.files import hint_for, write_atomically
from zlayout.session.import_ import (
    SCHEMAS,
    ImportedLayout,
    NotImported,
    declared_size,
    file_name,
    import_tables,
    import_workload,
    imported_layout,
    is_pattern,
    ordering_of,
    require_usable,
    settings_from,
    table_text,
)
from zlayout.spark.session import SparkRuntime
from zlayout.spec.check import schema_text
from zlayout.spec.formats import FORMATS
from zlayout.spec.layouts import layout_spec, parse_table, with_layout
from zlayout.spec.load import PROJECT_FILE, Folder, load_project, shown
from zlayout.spec.model import Project, TableName
from zlayout.spec.yaml import Document, dump, parse
from zlayout.table.external import Ordering
from zlayout.table.metrics import layout_metrics
from zlayout.table.state import TableState
from zlayout.text import plural, quote_value

if TYPE_CHECKING:
    from zlayout.session.advise import AdviceEvent


# The files for each CI, by their paths in a project. Their names are those of the templates.
_GITHUB = Path(".github", "workflows")
CI_FILES = {
    "github": (_GITHUB / "zlayout-pull-request.yml", _GITHUB / "zlayout-apply.yml", _GITHUB / "zlayout-nightly.yml"),
    "gitlab": (Path("zlayout.gitlab-ci.yml"),),
}
DEFAULTS = {
    "format": next(iter(FORMATS)),
    "catalog": "lake",
    "warehouse": "./warehouse",
    "type": "",
    "uri": "sqlite:///catalog.db",
}

PROJECT = """\
# yaml-language-server: $schema={schemas}/project.schema.json
# Catalogs, Spark configuration and defaults of this project.
version: 1
layouts: [layouts/**/*.yaml, layouts/**/*.yml]
catalogs:
  {catalog}:
{options}spark:
  master: local[*]
"""

LAYOUT_HEAD = f"# yaml-language-server: $schema=../{SCHEMAS}/layout.schema.json\n"


# The tables of the catalog.


MAX_TABLES = 1000  # that are read to choose from
MAX_MEASURED_COLUMNS = 32  # of a table whose order is not known
MAX_PROPOSED_COLUMNS = 2
# The statistics show an order by a column if an equality query opens at most this share of at least so many files.
ORDERED_SHARE, MIN_FILES = 0.5, 4
BY_STATISTICS = "the statistics of"  # with the number of files: where the ordering is from
NO_ORDER, ONE_FILE = "no order is known", "its rows fit in one file"  # why compaction alone is proposed


Found = ImportedLayout | NotImported  # a table of the catalog, with the order that it has, or without


@dataclass(frozen=True, slots=True)
class Request:
    """What a new project is made of.

    Attributes:
        answers: Values by the keys of `DEFAULTS`, and `table`: a table or a pattern, whose catalog is that of the
            project. Missing and empty values get the default. The default of `type` is the catalog type that the scheme
            of the uri belongs to. The default uri is used only for the catalog type that its scheme belongs to, and the
            default warehouse only if a catalog of this type needs one.
        columns: The z-order columns of all tables. Default: those that `propose` finds.
        workload: Query histories and workload files.
        ci: The CI to write files for, a key of `CI_FILES`; empty for none.
        reading: The limits on reading the tables.
    """

    folder: Path
    answers: Mapping[str, str]
    columns: Sequence[str] = ()
    workload: Sequence[Path] = ()
    ci: str = ""
    reading: Reading = field(default_factory=Reading)

    @property
    def complete(self) -> dict[str, str]:
        """The answers with defaults. Raises SpecError ZL020, ZL048."""
        return _complete(self.answers)

    def project(self) -> Project:
        """Return the project without layouts, from no file. Raises the errors of `load_project`."""
        path = Path(os.path.abspath(self.folder)) / PROJECT_FILE
        return load_project(path, os.environ, _Unwritten(path.parent, _project(self.complete)))


class _Unwritten(Folder):
    def __init__(self, root: Path, text: str) -> None:
        super().__init__(root)
        self._text = text

    def entries(self, folder: Path) -> list[tuple[str, bool]]:  # noqa: ARG002
        return []

    def exists(self, path: Path) -> bool:  # noqa: ARG002
        return False

    def read(self, path: Path) -> Document:
        return parse(self._text.encode(), shown(path))


def find_tables(request: Request, project: Project) -> list[Found]:
    """List the tables of the catalog and read the metadata of each.

    Raises:
        SpecError: ZL020, an invalid table or pattern; ZL038, no table matches, or more than MAX_TABLES do.
        TableError: The catalog cannot be reached.
    """
    return import_tables(project, _pattern(request), (), request.reading, MAX_TABLES)


def can_have_layout(found: Found) -> bool:
    """Return whether a layout can be proposed for a table: it has columns, but no layout yet."""
    return isinstance(found, ImportedLayout) or bool(found.columns)


def _pattern(request: Request) -> str:
    catalog = request.complete["catalog"]
    return request.answers.get("table") or f"{catalog}.*.*"


# The proposals.


def propose(
    request: Request,
    project: Project,
    chosen: Sequence[Found],
    on_event: Callable[[AdviceEvent], None] = lambda _event: None,
) -> list[ImportedLayout]:
    """Propose a layout for each table.

    It declares the columns of the request; or else the order that the table has; or else what `advise` recommends for
    the workload; or else columns by the statistics in the metadata; or else, and for a table that fits in one file,
    compaction alone.

    Args:
        request: The request.
        project: Its project.
        chosen: Tables that can have a layout.
        on_event: Called with the events of `advise`.

    Raises:
        SpecError: ZL012, ZL034, ZL035: a column of the request is no z-order column of a table; the workload cannot be
            read.
        TableError: A table cannot be read.
        EngineError: `advise` cannot draw a sample.
    """
    (catalog,) = project.catalogs.values()
    backend = backend_for(catalog, SparkRuntime(project))

    def read(found: Found) -> ImportedLayout:
        if isinstance(found, ImportedLayout) and not request.columns:
            return found
        return _proposed(found.table, backend, request.columns)

    layouts = []
    for one in read_each(chosen, lambda found: found.table, read, request.reading):
        if isinstance(one, ZlayoutError):
            raise one
        layouts.append(one)
    if request.workload and not request.columns:
        unordered = {found.table for found in chosen if isinstance(found, NotImported)}
        with TemporaryDirectory() as folder:
            workload = Path(folder) / WORKLOAD.name
            workload.write_text(import_workload(project, request.workload).text, "utf-8")
            layouts = [_advised(project, one, workload, on_event) if one.table in unordered else one for one in layouts]
    return layouts


def _proposed(table: TableName, backend: Backend, columns: Sequence[str]) -> ImportedLayout:
    state = backend.observe(table, ())
    if columns:
        ordering = ordering_of(state, columns)
        assert ordering is not None
        require_usable(ordering.columns, state, Location("--columns"))
        return _with_order(table, state, ordering)
    partitioned = {field.source for field in state.partition_fields}
    usable = [c.name for c in state.columns if c.orderable and c.stats and c.name not in partitioned]
    state = backend.observe(table, usable[:MAX_MEASURED_COLUMNS], state.version if state.version >= 0 else None)
    size = declared_size(state)
    fits = state.files.target_files(size) == 1
    if not fits and (names := columns_by_statistics(state)):
        return _with_order(table, state, Ordering(names, "", f"{BY_STATISTICS} {plural(len(state.files), 'file')}"))
    return imported_layout(table, state, {"files.target_size": size}, ONE_FILE if fits else NO_ORDER)


def _with_order(table: TableName, state: TableState, ordering: Ordering) -> ImportedLayout:
    settings = settings_from(state, ordering) | {"files.target_size": declared_size(state)}
    return imported_layout(table, state, settings, ordering.source)


def columns_by_statistics(state: TableState) -> tuple[str, ...]:
    """Return the columns whose bounds suggest an order, at most MAX_PROPOSED_COLUMNS; empty if there are none.

    These are the date or timestamp of which a query opens the fewest files, because most tables are queried by time,
    and then the columns by which the files are already ordered. Columns without bounds in most files, with nulls alone
    in most files, or with one value are not considered.

    Args:
        state: A table that was observed with the columns to consider.
    """
    found = [
        column
        for column in layout_metrics(state.files, tuple(state.files.bounds))
        if 2 * (column.unbounded + column.all_null) < column.files and column.distinct > 1
    ]
    found.sort(key=lambda column: column.touched)  # stable: equal columns keep the order of the table
    types = {column.name: column.type for column in state.columns}
    times = [c.column for c in found if pt.is_date(types[c.column]) or pt.is_timestamp(types[c.column])][:1]
    ordered = [
        column.column
        for column in found
        if column.files >= MIN_FILES
        and column.touched <= ORDERED_SHARE * column.files
        and column.column not in times
        and not pt.is_temporal(types[column.column])
    ]
    return (*times, *ordered)[:MAX_PROPOSED_COLUMNS]


def _advised(
    project: Project, proposed: ImportedLayout, workload: Path, on_event: Callable[[AdviceEvent], None]
) -> ImportedLayout:
    from zlayout.session.advise import advise  # imported here because it imports the parser of SQL and numpy's solvers

    try:
        best = advise(project, table_text(proposed.table), [workload], on_event=on_event).best
    except SpecError as error:
        if error.diagnostics[0].code not in NOTHING_TO_ADVISE:
            raise
        best = None
    if best is None:
        return proposed
    declared = layout_spec(parse(proposed.text.encode(), "the proposed layout"), {}, {}, None).layout
    text = with_layout(proposed.text, declared, best.layout, best.partition_by).partition("\n")[2]
    source = f"zlayout advise for {WORKLOAD.as_posix()}"
    return ImportedLayout(proposed.table, f"# Imported by zlayout. The ordering is from {source}.\n{text}", source)


# The files of a new project.


WORKLOAD = Path("workloads", "queries.sql")
# The codes with which `advise` finds nothing to do: no query on the table, or no rows.
NOTHING_TO_ADVISE = ("ZL073", "ZL075")


def offline_layouts(request: Request) -> list[ImportedLayout]:
    """Return the layout of the table of the request, of which nothing is read; none if it names no table.

    Raises:
        SpecError: ZL020, ZL048; ZL038, the table is a pattern.
    """
    if not (table := request.answers.get("table")):
        return []
    if is_pattern(table):
        hint = "name one table, or leave out --offline"
        raise SpecError.of("ZL038", f"--offline cannot find the tables of the pattern {table}", hint=hint)
    name = parse_table(table, Location("--table"))
    body: dict[str, object] = {"version": 1, "table": table_text(name)}
    body |= {"zorder": {"columns": list(request.columns)}} if request.columns else {}
    text = dump(body | {"files": {"target_size": "128MiB"}}, default_flow_style=None, width=110)
    return [ImportedLayout(name, "# Written without reading the table.\n" + text, "--columns")]


def write_project(request: Request, layouts: Iterable[ImportedLayout]) -> tuple[Path, ...]:
    """Write `zlayout.yaml`, the layouts, the workload, schemas for editors and, on request, files for CI.

    Returns:
        The paths of the files, in the order of writing.

    Raises:
        SpecError: An answer is invalid, or a file exists or cannot be written. No file is left behind.
    """
    answers, folder = request.complete, request.folder
    contents = {Path(PROJECT_FILE): _project(answers)}
    for one in layouts:
        contents[_layout_path(one.table, contents)] = LAYOUT_HEAD + one.text
    if request.workload:
        contents[WORKLOAD] = import_workload(request.project(), request.workload).text
    contents |= {Path(SCHEMAS) / f"{name}.schema.json": schema_text(name) for name in ("project", "layout")}
    templates = files("zlayout.session").joinpath("templates")
    extras = ",".join(filter(None, ("zlayout[report", _extra(answers))))
    for path in CI_FILES.get(request.ci, ()):
        contents[path] = templates.joinpath(path.name).read_text("utf-8").replace("zlayout[report", extras)
    for path in contents:
        require_new(folder / path)
    _write(folder, contents)
    return tuple(folder / path for path in contents)


def _layout_path(table: TableName, taken: Mapping[Path, str]) -> Path:
    """Two tables may have the same name of a file."""
    first = path = Path("layouts", file_name(table))
    number = 1
    while path in taken:
        number += 1
        path = first.with_stem(f"{first.stem}_{number}")
    return path


def require_new(path: Path) -> None:
    """Raise SpecError ZL047 if a file or a link exists."""
    if os.path.lexists(path):
        raise SpecError.of("ZL047", f"{path} already exists", hint="use another folder")


def check_catalog_name(name: str) -> None:
    """Raise SpecError ZL020 for a text that is no name of a catalog."""
    if parse_table(f"{name}.*.*", Location("catalog")) != TableName(name, ("*",), "*"):
        raise SpecError.of(
            "ZL020", f"expected the name of a catalog, found {quote_value(name)}", hint="for example lake"
        )


def check_format(format: str) -> None:
    """Raise SpecError ZL048 for an unknown format."""
    if format not in FORMATS:
        raise SpecError.of("ZL048", f"expected a format out of {', '.join(FORMATS)}, found {format!r}")


def _complete(answers: Mapping[str, str]) -> dict[str, str]:
    complete = {key: answers.get(key) or default for key, default in DEFAULTS.items()}
    if answers.get("table"):
        complete["catalog"] = parse_table(answers["table"], Location("--table")).catalog
    check_format(complete["format"])
    if FORMATS[complete["format"]].type_is_optional:
        complete["uri"] = answers.get("uri", "")
    type_ = complete["type"] = _catalog_type(complete["format"], complete["type"], complete["uri"])
    keys = FORMATS[complete["format"]].catalog_types[type_]
    if type_ != type_of_uri(complete["format"], complete["uri"]):
        complete["uri"] = answers.get("uri", "")
    if "warehouse" not in (*keys.required, *keys.any_of):
        complete["warehouse"] = answers.get("warehouse", "")
    return complete


def type_of_uri(format: str, uri: str) -> str | None:
    """Return the type of a catalog with this uri, by its scheme; None if the scheme belongs to no type."""
    scheme = uri.partition(":")[0].partition("+")[0].lower()
    types = FORMATS[format].catalog_types.items()
    return next((name for name, keys in types if scheme in keys.uri_schemes), None)


def check_type(format: str, type_: str) -> None:
    """Raise SpecError ZL048 for an unknown catalog type."""
    types = FORMATS[format].catalog_types
    if type_ not in types:
        raise SpecError.of("ZL048", f"expected a catalog type out of {', '.join(types)}, found {type_!r}")


def _catalog_type(format: str, type_: str, uri: str) -> str:
    types = FORMATS[format].catalog_types
    found = type_ or (type_of_uri(format, uri) if uri else next(iter(types)))
    if found is None:
        known = ", ".join(f"{scheme}:" for keys in types.values() for scheme in keys.uri_schemes)
        raise SpecError.of(
            "ZL048",
            f"expected a uri that begins with one of {known}, found {uri!r}",
            hint=f"name the type of the catalog: --catalog-type {' or '.join(types)}",
        )
    check_type(format, found)
    return found


def _extra(answers: Mapping[str, str]) -> str:
    scheme = answers["uri"].partition(":")[0].partition("+")[0].lower()
    of_databases = {"postgresql": "postgres", "mysql": "mysql"}
    return {"sql": of_databases.get(scheme, "sql"), "glue": "glue", "hive": "hive"}.get(answers["type"], "")


def _project(answers: Mapping[str, str]) -> str:
    options = {key: answers[key] for key in ("format", "type", "warehouse", "uri")}
    lines = "".join(f"    {key}: {_scalar(value)}\n" for key, value in options.items() if value)
    return PROJECT.format(schemas=SCHEMAS, catalog=_scalar(answers["catalog"]), options=lines)


def _scalar(value: str) -> str:
    text = dump(value, default_flow_style=True, width=10_000)
    return text.removesuffix("...\n").strip()


def _write(folder: Path, contents: Mapping[Path, str]) -> None:
    written: list[Path] = []
    at = folder
    try:
        for path, text in contents.items():
            at = folder / path
            write_atomically(at, text, within=folder, make_folder=True)
            written.append(at)
        load_project(folder, os.environ)
    except OSError as error:
        _remove(written)
        message = f"cannot write {at}: {error.strerror}"
        raise SpecError.of("ZL067", message, hint=hint_for(error, "use a folder in which you may write")) from error
    except BaseException:  # Ctrl-C too leaves all files or none
        _remove(written)
        raise


def _remove(written: list[Path]) -> None:
    for path in written:
        path.unlink(missing_ok=True)
