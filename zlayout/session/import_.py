"""Import what exists into a project: layout specs from tables and from dbt, and workloads from query histories.

`import_layout` and `import_tables` make layout specs, and `import_workload` makes a workload. The first functions check
the columns that a user names.

`import_dbt` makes layout specs from the manifest of a dbt project, `target/manifest.json`, and reads no table. A
manifest is untrusted: its names, paths and settings may come from a pull request, or from a package of dbt.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np

from zlayout.errors import Diagnostic, Location, SpecError, ZlayoutError
from zlayout.formats.base import Backend, Listed
from zlayout.formats.registry import backend_for
from zlayout.reading import MAX_METADATA_BYTES, parse_json, read_at_most, require_parsable
from zlayout.report.words import printable
from zlayout.session.concurrent_reads import TIMEOUT, Reading, read_each, read_table
from zlayout.session.files import write_result
from zlayout.session.project import (
    known_table,
    layout_of,
    require_choice,
    require_count,
    require_positive,
    require_project,
)
from zlayout.spark.session import SparkRuntime
from zlayout.spec.check import column_hint
from zlayout.spec.formats import FORMATS
from zlayout.spec.layouts import matches_name, within
from zlayout.spec.layouts import merge as merge_bodies
from zlayout.spec.load import WILDCARDS, checked_layout, shown
from zlayout.spec.model import CLUSTERING_CURVE, CatalogConfig, Layout, LayoutSpec, Project, TableName, ZorderColumn
from zlayout.spec.semantics import names_in_case_of
from zlayout.spec.yaml import MAX_BYTES, dump, parse
from zlayout.table.external import Ordering
from zlayout.table.partition import PartitionField
from zlayout.table.state import TableState
from zlayout.text import column_name, describe_value, quote_identifier, quote_value
from zlayout.workload.histories import BINS, Problem, Values, merge, read_history, to_file
from zlayout.workload.model import Dialect
from zlayout.workload.statements import MAX_WEIGHT

# The columns that an option names, and whether they can be z-order columns of a table.


LOCATION = Location("--columns")


def split_columns(text: str) -> tuple[str, ...]:
    """Split a comma-separated list of column names; empty names are ignored."""
    return tuple(column_name(name) for part in text.split(",") if (name := part.strip()))


def parse_columns(text: str) -> tuple[ZorderColumn, ...]:
    """Parse columns with weights, `a,b=2`.

    Raises:
        SpecError: ZL074, a missing name or an invalid weight.
    """
    columns = []
    for part in text.split(","):
        name, sign, weight = (piece.strip() for piece in part.partition("="))
        if not name:
            raise SpecError.of(
                "ZL074", f"expected column names, found {text!r}", hint="use for example a,b=2", location=LOCATION
            )
        columns.append(ZorderColumn(column_name(name), _weight(weight, part) if sign else 1.0))
    return tuple(columns)


def _weight(text: str, part: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        weight = 0.0
    if not 0 < weight <= 1000:  # the limits of the layout schema
        message = f"expected a weight above 0 and at most 1000, found {part.strip()!r}"
        raise SpecError.of("ZL074", message, hint="use for example b=2", location=LOCATION)
    return weight


def layouts_of(
    wanted: Sequence[tuple[ZorderColumn, ...]], curve: str | None, base: Layout, state: TableState
) -> tuple[Layout, ...]:
    """Make a layout from each list of columns and `base`. Raises ZL016 for duplicates, and as `require_usable`."""
    present, layouts = names_in_case_of(state), list[Layout]()
    for columns in wanted:
        names = [present(column.name) for column in columns]
        if duplicate := next((name for name in names if names.count(name) > 1), None):
            raise SpecError.of("ZL016", f"duplicate column {duplicate!r}", hint="keep the first", location=LOCATION)
        require_usable(names, state, LOCATION)
        renamed = tuple(replace(column, name=name) for column, name in zip(columns, names, strict=True))
        layouts.append(replace(base, columns=renamed, curve=curve or base.curve))
    return tuple(layouts)


def require_usable(names: Iterable[str], state: TableState, location: Location | None) -> None:
    """Raise SpecError ZL012, ZL034 or ZL035 for a column that cannot be a z-order column of the table."""
    known = {column.name: column for column in state.columns}
    partitioned = {field.source for field in state.partition_fields if field.transform == "identity"}
    for name in names:
        if name in partitioned:
            code, message = "ZL035", f"the table is already partitioned by {name!r}"
            hint = "use other columns: all rows of a partition have the same value"
        elif name not in known:
            code, message = "ZL012", f"unknown column {name!r}"
            hint = column_hint(name, known)
        elif not known[name].orderable:
            code, message = "ZL034", f"column {name!r} has no order"
            hint = "use other columns: its type has no minimum and maximum"
        else:
            continue
        raise SpecError.of(code, message, hint=hint, location=location)


# Layout specs from tables.


SCHEMAS = ".zlayout"  # the folder of the schemas for editors
MIB = 1024 * 1024
DEFAULT_SIZE = 128 * MIB
_SHIFTS = {unit: 10 * n for n, unit in enumerate(("", "k", "m", "g", "t", "p"))}
RECORDED = "the layout record of zlayout"
UNORDERED = "ZL065"
_PLAIN_NAME = re.compile(r"[\w-]+")  # other names are not part of proposed rules
MAX_EXCLUDED = 5  # of a proposed rule


@dataclass(frozen=True, slots=True)
class ImportedLayout:
    """A layout spec made from a table.

    Attributes:
        text: The spec as YAML.
        source: Where the ordering is from, for example `CLUSTER BY`, or why the spec declares compaction alone; None
            for the layout record of zlayout.
        file: The default file, below `layouts/`; '' for `<namespace>_<table>.yaml`.
        measured: The bytes and the number of the live files of the table, and when another writer last wrote to it, in
            milliseconds since 1970; 0 if unknown.
    """

    table: TableName
    text: str
    source: str | None
    file: str = ""
    measured: tuple[int, int, int] = (0, 0, 0)

    def path(self, project: Project, path: Path | None = None) -> Path:
        """Return the file to write: the given one, or by default that of the layout below `layouts/` of the project."""
        return project.root / "layouts" / (self.file or file_name(self.table)) if path is None else path

    def write(self, project: Project, path: Path | None = None) -> Path:
        """Write the spec into the project, with a comment that names the schema for editors; return the path.

        Args:
            project: The project that the layout was imported for.
            path: The file. Default: that of the layout below `layouts/` of the project.

        Raises:
            SpecError: ZL063 (the file exists), ZL066 (it cannot be written), ZL086 (its path contains a link).
        """
        path = self.path(project, path)
        if path.exists():
            raise SpecError.of("ZL063", f"{shown(path)} already exists", hint="use another file: --out FILE")
        schema = project.root / SCHEMAS / "layout.schema.json"
        modeline = ""
        if schema.is_file():
            relative = Path(os.path.relpath(schema, path.absolute().parent)).as_posix()
            modeline = f"# yaml-language-server: $schema={relative}\n"
        within = project.root if path == self.path(project) else None
        write_result(path, modeline + self.text, "ZL066", shown(path), within=within, make_folder=True)
        return path


def import_layout(
    project: Project, table: str, columns: Sequence[str] = (), *, timeout: float = TIMEOUT
) -> ImportedLayout:
    """Make a layout spec that describes the present layout of a table. Reads metadata only.

    Args:
        project: The project with the table's catalog.
        table: `catalog.namespace.table`; the project must not declare a layout for it.
        columns: The z-order columns. Default: those of the layout record, or of the external ordering.
        timeout: The limit on reading the table, in seconds.

    Raises:
        SpecError: An argument is invalid, the table has a layout or no known ordering, or a spec cannot contain a name.
        TableError: The table cannot be read.
    """
    name = known_table(project, table)
    backend = backend_for(project.catalogs[name.catalog], SparkRuntime(project))
    return read_table(lambda: layout_from(project, name, backend, columns), name, timeout)


def layout_from(project: Project, name: TableName, backend: Backend, columns: Sequence[str]) -> ImportedLayout:
    """Make a layout spec for a table as `import_layout` does, without a time limit."""
    require_no_layout(project, name)
    return layout_of_state(name, backend.observe(name, ()), columns)


def require_no_layout(project: Project, name: TableName) -> None:
    """Raise SpecError ZL064 if a layout names the table."""
    if (spec := layout_of(project, name)) is not None:
        hint = "change that layout, or remove it first"
        raise SpecError.of("ZL064", f"{name} already has a layout", hint=hint, location=spec.location)


def layout_of_state(name: TableName, state: TableState, columns: Sequence[str]) -> ImportedLayout:
    """Make a layout spec for an observed table. Raises SpecError ZL065 if its order is not known."""
    settings, source = None if columns else recorded_settings(state), RECORDED
    if settings is None:
        ordering = ordering_of(state, columns)
        if ordering is None:
            raise SpecError.of(
                UNORDERED,
                f"expected a layout record with z-order columns, or an external ordering, found neither in {name}",
                hint="use --columns a,b with the columns that queries filter on",
            )
        require_usable(ordering.columns, state, None)
        settings, source = settings_from(state, ordering), ordering.source
    return imported_layout(name, state, settings, source)


def imported_layout(name: TableName, state: TableState, settings: Mapping[str, Any], source: str) -> ImportedLayout:
    """Make a layout spec from layout settings. Raises SpecError if a spec cannot contain the names.

    source: As in `spec_text`.
    """
    text = spec_text(name, state.partition_fields, settings, source)
    validated(text, "the imported layout", None)
    return ImportedLayout(name, text, None if source is RECORDED else source)


def ordering_of(state: TableState, columns: Sequence[str]) -> Ordering | None:
    """Return the ordering by these columns, by default the external one; None if the table reports none.

    The curve of a clustered table is that of its OPTIMIZE, also with `columns`.
    """
    curve = CLUSTERING_CURVE if state.clustering else ""
    if columns:
        return Ordering(tuple(dict.fromkeys(map(names_in_case_of(state), columns))), curve, "--columns")
    return Ordering(state.clustering, curve, "CLUSTER BY") if state.clustering else state.ordering


def validated(text: str, name: str, catalogs: Mapping[str, CatalogConfig] | None) -> LayoutSpec:
    """Return the layout spec of a text. Raises SpecError for names and values that a layout spec cannot contain.

    Args:
        text: The YAML.
        name: Its name in messages.
        catalogs: The catalogs of the project, to check what depends on the format of the table; None not to check it.
    """
    return checked_layout(parse(text.encode(), name), {}, {}, catalogs)


def file_name(table: TableName) -> str:
    """Return the name of the layout file of a table, `<namespace>_<table>.yaml`."""
    return f"{file_stem('_'.join(table.identifier))}.yaml"


def file_stem(name: str) -> str:
    """Return a name as a part of a path, without dots and separators."""
    return re.sub(r"[^\w-]+", "_", printable(name))


def recorded_settings(state: TableState) -> Mapping[str, Any] | None:
    """Return the settings of the layout record that covers most bytes; None if there is no layout record.

    Three kinds of records are ignored: those of compaction alone, incomplete ones, which other programs may have
    changed, and those with columns that the table no longer has.
    """
    names = frozenset(column.name for column in state.columns)
    known = [n for n, record in enumerate(state.files.layouts) if _is_usable(record.settings, names)]
    if not known:
        return None
    size = [int(state.files.bytes[state.files.layout == n].sum()) for n in known]
    return state.files.layouts[known[int(np.argmax(size))]].settings if max(size) else None


def _is_usable(settings: Mapping[str, Any], names: Container[str]) -> bool:
    columns, size = settings.get("zorder.columns"), settings.get("files.target_size")
    if not isinstance(columns, list) or type(size) is not int:
        return False
    return all((column.get("name") if isinstance(column, dict) else column) in names for column in columns)


def settings_from(state: TableState, ordering: Ordering) -> dict[str, Any]:
    """Return layout settings for a table without a layout record: its ordering and its file size."""
    curve = {"zorder.curve": ordering.curve} if ordering.curve else {}
    engine = {"engine": "native"} if state.clustering else {}
    return {"zorder.columns": list(ordering.columns), **curve, "files.target_size": target_size(state), **engine}


def declared_size(state: TableState) -> int:
    """Return the target size in bytes that the table property states, or DEFAULT_SIZE."""
    return _stated_size(state) or DEFAULT_SIZE


def target_size(state: TableState) -> int:
    """Return the target size in bytes: the table property, or the present size of a typical file.

    Files up to the typical size contain half of the bytes of the table. The size is rounded to a power of two from
    1 MiB to 1 GiB. With fewer than 4 files, the result is DEFAULT_SIZE.
    """
    if size := _stated_size(state):
        return size
    if len(state.files) < 4:
        return DEFAULT_SIZE
    sizes = np.sort(state.files.bytes)
    middle = sizes[np.searchsorted(np.cumsum(sizes), sizes.sum() / 2)]
    return int(2 ** np.clip(np.rint(np.log2(max(int(middle), 1))), 20, 30))


def _stated_size(state: TableState) -> int:
    return java_size(state.properties.get(FORMATS[state.format].target_size_property, ""))


def java_size(text: str) -> int:
    """Return the bytes of a size as Spark and Delta write it, such as 134217728, `128mb` or `1g`; 0 if invalid."""
    match = re.fullmatch(r"\s*([0-9]{1,18})\s*(?:([kmgtp])?b?)\s*", text, re.IGNORECASE | re.ASCII)
    return int(match[1]) << _SHIFTS[(match[2] or "").lower()] if match else 0


def spec_text(table: TableName, fields: tuple[PartitionField, ...], settings: Mapping[str, Any], source: str) -> str:
    """Return a layout spec with these layout settings as YAML.

    source: Where the ordering is from, for a comment; why there is none if the settings have no columns.
    """
    zorder = {key.partition(".")[2]: value for key, value in settings.items() if key.startswith("zorder.")}
    files = {key.partition(".")[2]: value for key, value in settings.items() if key.startswith("files.")}
    files["target_size"] = size_text(files["target_size"])
    body: dict[str, Any] = {"version": 1, "table": table_text(table)}
    if fields:
        body["partition_by"] = [str(field) for field in fields]
    body |= ({"zorder": zorder} if zorder else {}) | {"files": files}
    if "engine" in settings:
        body["engine"] = settings["engine"]
    text = dump(body, default_flow_style=None, width=110)
    what = f"The ordering is from {source}" if zorder else f"Compaction alone: {source}"
    return f"# Imported by zlayout. {what}.\n{text}"


def table_text(table: TableName) -> str:
    """Return a table name as a spec contains it: parts with dots or backticks are put in backticks."""
    parts = (table.catalog, *table.identifier)
    return ".".join(quote_identifier(part) if set(part) & set(".`") else part for part in parts)


def size_text(size: int) -> int | str:
    """Return a number of bytes as a layout spec contains it."""
    for unit, name in ((MIB, "MiB"), (1024, "KiB")):
        if size % unit == 0:
            return f"{size // unit}{name}"
    return size


@dataclass(frozen=True, slots=True)
class NotImported:
    """A name that matches the pattern and was not imported.

    Attributes:
        error: The reason.
        columns: Name and type of each column of a table whose order is not known; otherwise empty.
        measured: As in `ImportedLayout`.
    """

    table: TableName
    error: ZlayoutError
    columns: tuple[tuple[str, str], ...] = ()
    measured: tuple[int, int, int] = (0, 0, 0)


def is_pattern(table: str) -> bool:
    """Return whether the text is a pattern: it contains a wildcard outside of backticks."""
    return any(character in part for part in table.split("`")[::2] for character in WILDCARDS)


def import_tables(
    project: Project,
    pattern: str,
    columns: Sequence[str] = (),
    reading: Reading = Reading(),
    max_tables: int | None = None,
) -> list[ImportedLayout | NotImported]:
    """Make a layout spec for each table that a pattern matches. Reads metadata only.

    Args:
        project: The project with the catalog.
        pattern: `catalog.namespace.table`, in which namespace and table may be globs; or the name of one table, for
            which the catalog need not list its tables.
        columns: The z-order columns of all layouts. Default: those of the layout record, or of the external ordering.
        reading: The limits on reading the tables.
        max_tables: The largest number of matching names. Default: no limit.

    Returns:
        For each matching name, sorted, its layout or the reason why it was not imported: it is not the name of a table
        of the format, or the table has a layout already, has no known ordering, or cannot be read.

    Raises:
        SpecError: ZL020 (invalid pattern), ZL021 (unknown catalog), ZL038 (no table matches, or too many do).
        TableError: The catalog cannot be reached, or is of a type that cannot list tables.
    """
    globs = known_table(project, pattern)
    backend = backend_for(project.catalogs[globs.catalog], SparkRuntime(project))
    listed: Sequence[Listed] = (Listed(globs),)
    if is_pattern(pattern):
        listed = read_table(lambda: tuple(backend.list_tables(globs)), globs, reading.timeout)
    if max_tables is not None and len(listed) > max_tables:
        message = f"{len(listed):,} names match {globs}, more than {max_tables:,}"
        raise SpecError.of("ZL038", message, hint="use a pattern that matches fewer tables")
    if not listed:
        hint = f"check namespace and letter case; list all with {globs.catalog}.*.*"
        raise SpecError.of("ZL038", f"no table of catalog {globs.catalog} matches {globs}", hint=hint)

    def read(one: Listed) -> ImportedLayout | NotImported:
        if one.problem is not None:
            raise one.problem
        require_no_layout(project, one.table)
        state = backend.observe(one.table, ())
        written = int(state.last_written.max(initial=0))
        measured = int(state.files.bytes.sum()), len(state.files), written
        try:
            return replace(layout_of_state(one.table, state, columns), measured=measured)
        except SpecError as error:
            unordered = error.diagnostics[0].code == UNORDERED
            found = tuple((column.name, str(column.type)) for column in state.columns) if unordered else ()
            return NotImported(one.table, error, found, measured)

    found = zip(listed, read_each(listed, lambda one: one.table, read, reading), strict=True)
    return [NotImported(name.table, one) if isinstance(one, ZlayoutError) else one for name, one in found]


@dataclass(frozen=True, slots=True)
class ProposedRule:
    """A rule for several tables with the same columns.

    Attributes:
        tables: The tables, for which the rule declares compaction alone.
        columns: The names of their columns.
        text: The layout file.
    """

    tables: tuple[TableName, ...]
    columns: tuple[str, ...]
    text: str


def proposed_rules(found: Sequence[ImportedLayout | NotImported]) -> list[ProposedRule]:
    """Propose a rule for each namespace and each list of columns that several tables without a known order have.

    Its pattern matches all names with the common beginning of these tables. Other tables without a known order
    are excluded; if they are more than MAX_EXCLUDED, no rule is proposed.

    Args:
        found: The result of `import_tables`.
    """
    unordered: list[TableName] = []
    alike: dict[object, list[NotImported]] = {}
    for one in found:
        if isinstance(one, NotImported) and one.columns:
            unordered.append(one.table)
            if all(_PLAIN_NAME.fullmatch(part) for part in one.table.identifier):
                alike.setdefault((one.table.namespace, tuple(sorted(one.columns))), []).append(one)
    rules = []
    for group in (group for group in alike.values() if len(group) > 1):
        tables = tuple(one.table for one in group)
        characters = zip(*(table.name for table in tables), strict=False)
        start = "".join(same[0] for same in takewhile(lambda each: len(set(each)) == 1, characters))
        pattern = replace(tables[0], name=f"{start}*")
        exclude = [table_text(table) for table in unordered if table not in tables and within(table, pattern)]
        if len(exclude) <= MAX_EXCLUDED:
            body: dict[str, Any] = {
                "version": 1,
                "match": table_text(pattern),
                **({"exclude": exclude} if exclude else {}),
            }
            body["files"] = {"target_size": size_text(DEFAULT_SIZE)}
            text = dump(body, default_flow_style=None, width=110)
            rules.append(ProposedRule(tables, tuple(name for name, _ in group[0].columns), text))
    return rules


# Workloads from the query histories of engines. No table is read, and no JVM is started.


@dataclass(frozen=True, slots=True)
class ImportedWorkload:
    """An imported workload.

    Attributes:
        text: The workload file: SQL statements with weights.
        statements: The number of its statements.
        executions: The number of executions of these statements.
        problems: The records that could not be read, with their locations.
        left_out: The number of records that are not part of the workload, by the reason.
    """

    text: str
    statements: int
    executions: float
    problems: tuple[Problem, ...]
    left_out: Mapping[str, int]

    def write(self, path: Path, *, replace: bool = False) -> Path:
        """Write the file atomically.

        Raises:
            SpecError: The file exists and `replace` is false, it cannot be written, or its path contains a link.
        """
        if path.exists() and not replace:
            raise SpecError.of("ZL079", f"{path} exists", hint="use --replace, or another --out")
        write_result(path, self.text, "ZL079", str(path), "use another --out", make_folder=True)
        return path


def import_workload(
    project: Project,
    paths: Iterable[str | Path],
    values: str | Values = Values.BIN,
    bins: int = BINS,
    days: float | None = None,
    dialect: str | Dialect = Dialect.SPARK,
    *,
    on_progress: Callable[[int, int], None] | None = None,
) -> ImportedWorkload:
    """Merge query histories by query shape.

    Args:
        project: The project. Table names in the workload keep the names of its catalogs.
        paths: Spark event logs, also folders of them; query histories of Trino, Databricks, Snowflake, Athena and
            BigQuery as CSV or JSON; scan reports of Iceberg and Delta; workload files.
        values: What happens to constants: "keep" all of them; "bin" them, so that a query shape has at most `bins`
            statements; or "omit" them.
        bins: The maximum number of statements of one query shape, if `values` is "bin".
        days: The number of days that the histories cover. Plans need it to compute the pay-back. Default: that of
            workload files that all state the same.
        dialect: The dialect of workload files. That of other files is known.
        on_progress: Called in this thread with the number of statements that were read, and the number of all.

    Raises:
        SpecError: An argument is invalid, a file is not a known history, or the files have no query on a table.
    """
    require_project(project)
    require_choice("values", values, Values)
    require_count("bins", bins)
    if days is not None:
        require_positive("days", days, MAX_WEIGHT)
    require_choice("dialect", dialect, Dialect)
    history = read_history(map(Path, paths), Dialect(dialect))
    merged = merge(history, frozenset(project.catalogs), Values(values), bins, on_progress)
    if not merged:
        first = [f"{problem.location}: {problem.reason}" for problem in history.problems[:1]]
        first += [f"left out: {count:,} {reason}" for reason, count in history.left_out.items()]
        message = "; ".join(("the files have no query on a table", *first))
        raise SpecError.of("ZL079", message, hint="export queries that have ended")
    problems, left_out = tuple(history.problems), dict(history.left_out)
    if days is None and len(history.days) == 1:
        (days,) = history.days
    return ImportedWorkload(to_file(merged, days), len(merged), sum(count for _, count in merged), problems, left_out)


# The manifest of a dbt project.


_SCHEMA = re.compile(r"https://schemas\.getdbt\.com/dbt/manifest/v([0-9]{1,3})\.json")
_MIN_SCHEMA = 7  # that of dbt 1.3
_RESOURCES = ("model", "seed", "snapshot")
_TABLES = ("table", "incremental", "seed", "snapshot")  # materializations that are tables
# Adapters that write to the catalogs of Spark. The tables of others are files of Delta or Iceberg only if their
# database is a catalog of the project.
_SPARK = ("spark", "databricks")
_ORDERINGS = ("zorder", "liquid_clustered_by", "cluster_by")
_UNSUPPORTED = {"clustered_by": "layouts have no buckets", "auto_liquid_cluster": "Databricks chooses the columns"}
_TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_TRANSFORM = re.compile(r"^(\w+?)s?\s*(?=\()")  # Spark's DDL has names in any case, and both day and days
# Keys of a layout that choose its tables or name other files.
_NOT_IN_META = ("version", "table", "match", "exclude", "only", "workload")
_MAX_NAME = 200  # characters of the name of a file


@dataclass(slots=True)
class DbtImport:
    """The result of an import from dbt.

    Attributes:
        layouts: In the order of the manifest, the layout of each table that declares one, or why it was not imported.
        problems: Why other models that declare a layout were not imported.
        left_out: What has no counterpart in a layout, by the reason: the ids of its models.
    """

    layouts: list[ImportedLayout | NotImported] = field(default_factory=list)
    problems: list[Diagnostic] = field(default_factory=list)
    left_out: dict[str, list[str]] = field(default_factory=dict)

    def leave_out(self, reason: str, model: str) -> None:
        """Add a model with this reason."""
        self.left_out.setdefault(reason, []).append(model)


def import_dbt(project: Project, manifest: Path, pattern: str | None = None) -> DbtImport:
    """Make a layout spec for each table of a dbt project that declares partitioning, an order or `meta.zlayout`.

    Args:
        project: The project with the catalogs.
        manifest: The file that `dbt parse` writes.
        pattern: `catalog.namespace.table`, in which namespace and table may be globs. Default: all tables.

    Raises:
        SpecError: ZL090 (no manifest of dbt), ZL020, ZL021 (invalid pattern, unknown catalog).
    """
    globs = None if pattern is None else known_table(project, pattern)
    nodes, disabled, metadata = _read_manifest(manifest)
    result = DbtImport(left_out={"disabled": disabled} if disabled else {})
    models = []
    for id, node in nodes.items():
        config = node.get("config")
        model = _Model(id, node, config if isinstance(config, dict) else {}, metadata.get("adapter_type"))
        if node.get("resource_type") not in _RESOURCES:
            continue
        if (materialized := model.config.get("materialized")) in _TABLES:
            models.append(model)
        else:
            result.leave_out(f"materialized as {describe_value(materialized)}", id)
    databases = {model.database for model in models if model.database is not None}
    tables: dict[TableName, str] = {}
    for model in models:
        at, table = Location(f"{shown(manifest)}: {model.id}"), None
        try:
            if (reason := model.not_declared()) is not None:
                result.leave_out(reason, model.id)
                continue
            catalog = model.catalog(project, globs, databases)
            table = TableName(catalog.name, (model.text("schema"),), model.text("alias"))
            if globs is not None and not matches_name(globs, table):
                continue
            require_no_layout(project, table)
            if (other := tables.setdefault(table, model.id)) != model.id:
                raise _model_problem(f"{table} is the table of {other} too", "keep one of the two")
            source, body = model.body(table, catalog.format)
            text = _text_of(f"# Imported by zlayout from {model.id} of dbt.", body)
            validated(text, at.path, project.catalogs)
            result.layouts.append(ImportedLayout(table, text, source, model.file(metadata.get("project_name"))))
        except ZlayoutError as error:
            located = [replace(d, location=d.location or at) for d in error.diagnostics]
            if table is None:
                result.problems += located
            else:
                result.layouts.append(NotImported(table, SpecError(*located)))
            continue
        for what in model.unsupported():
            result.leave_out(what, model.id)
    return result


def _read_manifest(manifest: Path) -> tuple[dict[str, dict[str, Any]], list[str], dict[str, Any]]:
    try:
        content = read_at_most(manifest, MAX_METADATA_BYTES + 1)
        require_parsable(content, "the file")
        document = parse_json(content.decode("utf-8-sig"))
        metadata, nodes = document["metadata"], document["nodes"]
        version = _SCHEMA.fullmatch(metadata["dbt_schema_version"])
        if version is None or not all(isinstance(node, dict) for node in nodes.values()):
            raise ValueError("it has another schema")
        if int(version[1]) < _MIN_SCHEMA:
            raise ValueError(f"it has version {version[1]}, before dbt 1.3")
        disabled = [id for id in document.get("disabled") or {} if id.partition(".")[0] in _RESOURCES]
        return nodes, disabled, metadata
    except OSError as error:
        message = f"cannot read the file: {error.strerror or error}"
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        message = f"expected a manifest of dbt: {str(error) or type(error).__name__}"
    hint = "name the manifest.json that `dbt parse` writes into the folder target of a dbt project"
    raise SpecError.of("ZL090", message, hint=hint, location=Location(shown(manifest)))


def _text_of(comment: str, body: Mapping[str, Any]) -> str:
    """Return a layout spec as YAML. Its size is checked before, because PyYAML is slow."""
    try:
        if len(json.dumps(body)) <= MAX_BYTES:
            return f"{printable(comment)}\n{dump(body, default_flow_style=None, width=110)}"
    except RecursionError as error:
        raise _model_problem("expected fewer levels in meta.zlayout, found more") from error
    raise _model_problem(f"expected at most {MAX_BYTES // 1024} KiB of settings for a layout, found more")


def _model_problem(message: str, hint: str = "") -> SpecError:
    return SpecError.of("ZL091", message, hint=hint)


@dataclass(frozen=True, slots=True)
class _Model:
    id: str
    node: Mapping[str, Any]
    config: Mapping[str, Any]
    adapter: object

    def not_declared(self) -> str | None:
        """Return why the model has no layout; None if it declares one."""
        if self.meta is False:
            return "with `meta.zlayout: false`"
        if self.meta is None and not any(self.config.get(key) for key in ("partition_by", *_ORDERINGS)):
            return f"without partition_by, {', '.join(_ORDERINGS)} or meta.zlayout"
        if self.format is None and self.adapter == "spark":
            return "without file_format"
        if self.format is not None and self.format not in tuple(FORMATS):
            return f"with file_format {describe_value(self.format)}"
        return None

    def unsupported(self) -> list[str]:
        """Return what of the model its layout does not have."""
        lost = [f"{key}: {reason}" for key, reason in _UNSUPPORTED.items() if self.config.get(key)]
        return lost + ["tags with other characters than letters, digits, _ . -"] * bool(self._tags(valid=False))

    @property
    def meta(self) -> object:
        metas = (found for found in (self.config.get("meta"), self.node.get("meta")) if isinstance(found, dict))
        return next((meta["zlayout"] for meta in metas if meta.get("zlayout") is not None), None)

    @property
    def format(self) -> object:
        """The name of the format; None if only the catalog determines it."""
        if self.config.get("table_format") == "iceberg":  # Databricks has it for Delta tables with UniForm too
            return None if self.adapter == "databricks" else "iceberg"
        return self.config.get("file_format") or ("delta" if self.adapter == "databricks" else None)

    @property
    def database(self) -> str | None:
        """The database; dbt-spark has none."""
        found = self.node.get("database")
        return found if isinstance(found, str) and found else None

    def catalog(self, project: Project, globs: TableName | None, databases: Collection[str]) -> CatalogConfig:
        """Return the catalog with the table.

        It is the one whose name or warehouse is the database of the model. A model of Spark whose database is no
        catalog has the one of the pattern, or the only one of its format if it has no database.

        Args:
            project: The project.
            globs: The pattern.
            databases: The databases of all models.
        """
        catalogs = project.catalogs
        possible = [one for one in catalogs.values() if self.format in (None, one.format)]
        found = [one for one in possible if one.name == self.database]
        found = found or [one for one in possible if self.database and one.options.get("warehouse") == self.database]
        if not found and self.adapter in _SPARK:
            names = catalogs.keys() | {one.options.get("warehouse") for one in catalogs.values()}
            if globs is not None and len([name for name in databases if name not in names]) < 2:
                found = [one for one in possible if one.name == globs.catalog]
            elif self.database is None:
                found = possible
        if len(found) == 1:
            return found[0]
        of = f" of format {self.format}" if self.format else ""
        what = f"database {quote_value(self.database)}" if self.database else "a model without a database"
        hint = "give the catalog in zlayout.yaml the name of the database"
        if self.adapter in _SPARK:
            hint = f"name the catalog: `zlayout import --dbt FILE 'CATALOG.*.*'`, or {hint}"
        raise _model_problem(f"expected one catalog{of} for {what}, found {len(found) or 'none'}", hint)

    def body(self, table: TableName, format: str) -> tuple[str | None, dict[str, Any]]:
        """Return the key that the ordering is from, and the layout spec."""
        body: dict[str, Any] = {"version": 1, "table": table_text(table)}
        if tags := self._tags(valid=True):
            body["tags"] = tags
        if partition_by := self._names("partition_by"):
            body["partition_by"] = [_TRANSFORM.sub(lambda name: name[1].lower(), key) for key in partition_by]
        orderings = [key for key in _ORDERINGS if self._names(key)]
        clustered = "liquid_clustered_by" in orderings and format == "delta" and self.adapter == "databricks"
        if len(keys := [*orderings, *["partition_by"] * (clustered and bool(partition_by))]) > 1:
            raise _model_problem(f"expected one of {' and '.join(keys)}, found several", "keep one")
        if orderings:
            columns = [re.sub(r"^`(.*)`$", r"\1", name).replace("``", "`") for name in self._names(orderings[0])]
            body["zorder"] = {"columns": columns}
            if clustered:
                body |= {"zorder": {"columns": columns, "curve": CLUSTERING_CURVE}, "engine": "native"}
        properties = self.config.get("tblproperties")
        size = properties.get(FORMATS[format].target_size_property) if isinstance(properties, dict) else None
        if (found := java_size(str(size))) > 0:
            body["files"] = {"target_size": size_text(found)}
        if isinstance(self.meta, dict):
            if rejected := [key for key in self.meta if key in _NOT_IN_META]:
                raise _model_problem(f"meta.zlayout cannot have the key {rejected[0]}", "write a layout file instead")
            body = merge_bodies(body, self.meta)
        elif self.meta is not None:
            raise _model_problem(
                f"expected keys of a layout or false for meta.zlayout, found {describe_value(self.meta)}"
            )
        if not {"zorder", "files"} & body.keys():
            body["files"] = {"target_size": size_text(DEFAULT_SIZE)}
        return f"`{orderings[0]}` of dbt" if orderings else None, body

    def file(self, project_name: object) -> str:
        """Return the file below `layouts/`: the path of the model below the first folder of its package."""
        folders = re.split(r"[/\\]", self.text("original_file_path"))[1:-1]
        package, version = self.node.get("package_name"), self.node.get("version")
        if package != project_name:
            folders.insert(0, self.text("package_name"))
        stem = self.text("name") if version is None else f"{self.text('name')}_v{version}"
        names = list(map(file_stem, (*folders, stem)))
        if any(len(name.encode()) > _MAX_NAME for name in names):
            raise _model_problem("expected names of at most 200 bytes for the path of the layout, found more")
        return "/".join(names) + ".yaml"

    def text(self, key: str) -> str:
        """Return a text of the model. Raises SpecError ZL091 for anything else."""
        if not isinstance(value := self.node.get(key), str) or not value:
            raise _model_problem(f"expected text for {key}, found {describe_value(value)}")
        return value

    def _names(self, key: str) -> list[str]:
        """Return the names in a setting: a list, or one text in which dbt's adapters accept commas."""
        value = self.config.get(key) or []
        if isinstance(value, str):
            value = [value] if set("(`") & set(value) else value.split(",")
        if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
            raise _model_problem(f"expected a column or a list of columns for {key}, found {describe_value(value)}")
        return [name.strip() for name in value]

    def _tags(self, *, valid: bool) -> list[str]:
        tags = self.node.get("tags") or []
        found = dict.fromkeys(tag for tag in tags if isinstance(tag, str)) if isinstance(tags, list) else ()
        return [tag for tag in found if (_TAG.fullmatch(tag) is not None) is valid]
