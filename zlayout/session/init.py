"""Write a new project with a first layout, and check the columns that a user names.

`init` writes the files of a project. Existing files are never overwritten.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

from zlayout.errors import Location, SpecError
from zlayout.session.files import hint_for, write_atomically
from zlayout.spec.check import column_hint, schema_text
from zlayout.spec.formats import FORMATS
from zlayout.spec.layouts import parse_table
from zlayout.spec.load import load_project
from zlayout.spec.model import Layout, ZorderColumn
from zlayout.spec.yaml import dump
from zlayout.sql_text import column_name
from zlayout.table.state import TableState

# The columns that an option names, and whether they can be z-order columns of a table.


LOCATION = Location("--columns")


def split_columns(text: str) -> tuple[str, ...]:
    """Split a comma-separated list of column names; empty names are ignored."""
    return tuple(column_name(name) for part in text.split(",") if (name := part.strip()))


def parse_columns(text: str) -> tuple[ZorderColumn, ...]:
    """Parse columns with weights, `a,b=2`.

    Raises:
        SpecError: ZL016, a duplicate column; ZL074, a missing name or an invalid weight.
    """
    columns = []
    for part in text.split(","):
        name, sign, weight = (piece.strip() for piece in part.partition("="))
        if not name:
            raise SpecError.of(
                "ZL074", f"expected column names, found {text!r}", hint="use for example a,b=2", location=LOCATION
            )
        columns.append(ZorderColumn(column_name(name), _weight(weight, part) if sign else 1.0))
    names = [c.name for c in columns]
    if duplicate := next((n for n in names if names.count(n) > 1), None):
        raise SpecError.of("ZL016", f"duplicate column {duplicate!r}", hint="keep the first", location=LOCATION)
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
    """Make a layout from each list of columns and `base`. Raises the errors of `require_usable`."""
    require_usable([column.name for columns in wanted for column in columns], state, LOCATION)
    return tuple(replace(base, columns=columns, curve=curve or base.curve) for columns in wanted)


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


# The files of a new project.


# The files for each CI, by their paths in a project. Their names are those of the templates.
_GITHUB = Path(".github", "workflows")
CI_FILES = {
    "github": (_GITHUB / "zlayout-pull-request.yml", _GITHUB / "zlayout-nightly.yml"),
    "gitlab": (Path("zlayout.gitlab-ci.yml"),),
}
SCHEMAS = ".zlayout"
DEFAULTS = {
    "format": next(iter(FORMATS)),
    "table": "lake.sales.orders",
    "columns": "order_date, customer_id",
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

LAYOUT = """\
# yaml-language-server: $schema=../{schemas}/layout.schema.json
# The layout of one table.
version: 1
table: {table}
zorder:
  columns: {columns}  # columns that queries filter on, most important first
files:
  target_size: 128MiB
"""


def init(folder: Path, answers: Mapping[str, str], ci: str = "") -> tuple[Path, ...]:
    """Write `zlayout.yaml`, one layout spec, schemas for editors and, on request, files for CI.

    Args:
        folder: The folder of the project; created if it does not exist.
        answers: Values by the keys of `DEFAULTS`. Missing and empty values get the default. The default of `type` is
            the catalog type that the scheme of the uri belongs to. The default uri is used only for the catalog type
            that its scheme belongs to, and the default warehouse only if a catalog of this type needs one.
        ci: The CI to write files for, a key of `CI_FILES`; empty for none.

    Returns:
        The paths of the files, in the order of writing.

    Raises:
        SpecError: An answer is invalid, or a file exists or cannot be written. No file is left behind.
    """
    answers = _complete(answers)
    table = parse_table(answers["table"], Location("--table"))
    contents = {
        Path("zlayout.yaml"): _project(table.catalog, answers),
        Path("layouts") / f"{_file_stem(table.name)}.yaml": _layout(answers),
        **{Path(SCHEMAS) / f"{name}.schema.json": schema_text(name) for name in ("project", "layout")},
    }
    templates = files("zlayout.session").joinpath("templates")
    extras = ",".join(filter(None, ("zlayout[report", _extra(answers))))
    for path in CI_FILES.get(ci, ()):
        contents[path] = templates.joinpath(path.name).read_text("utf-8").replace("zlayout[report", extras)
    for path in contents:
        require_new(folder / path)
    _write(folder, contents)
    return tuple(folder / path for path in contents)


def require_new(path: Path) -> None:
    """Raise SpecError ZL047 if a file or a link exists."""
    if os.path.lexists(path):
        raise SpecError.of("ZL047", f"{path} already exists", hint="use another folder")


def check_format(format: str) -> None:
    """Raise SpecError ZL048 for an unknown format."""
    if format not in FORMATS:
        raise SpecError.of("ZL048", f"expected a format out of {', '.join(FORMATS)}, found {format!r}")


def _complete(answers: Mapping[str, str]) -> dict[str, str]:
    complete = {key: answers.get(key) or default for key, default in DEFAULTS.items()}
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
    """Return the extra of zlayout that a catalog needs, '' for none."""
    scheme = answers["uri"].partition(":")[0].partition("+")[0].lower()
    of_databases = {"postgresql": "postgres", "mysql": "mysql"}
    return {"sql": of_databases.get(scheme, "sql"), "glue": "glue", "hive": "hive"}.get(answers["type"], "")


def _project(catalog: str, answers: Mapping[str, str]) -> str:
    options = {key: answers[key] for key in ("format", "type", "warehouse", "uri")}
    lines = "".join(f"    {key}: {_scalar(value)}\n" for key, value in options.items() if value)
    return PROJECT.format(schemas=SCHEMAS, catalog=_scalar(catalog), options=lines)


def _layout(answers: Mapping[str, str]) -> str:
    columns = list(split_columns(answers["columns"]))
    return LAYOUT.format(schemas=SCHEMAS, table=_scalar(answers["table"]), columns=_scalar(columns))


def _scalar(value: str | list[str]) -> str:
    text = dump(value, default_flow_style=True, width=10_000)
    return text.removesuffix("...\n").strip()


def _file_stem(name: str) -> str:
    return "".join(c if c.isalnum() or c in "-_" else "_" for c in name)


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
    except SpecError:
        _remove(written)
        raise


def _remove(written: list[Path]) -> None:
    for path in written:
        path.unlink(missing_ok=True)
