"""Make layout specs from the manifest of a dbt project, `target/manifest.json`. No table is read.

A manifest is untrusted: its names, paths and settings may come from a pull request, or from a package of dbt.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from zlayout.errors import Diagnostic, Location, SpecError, ZlayoutError
from zlayout.reading import MAX_METADATA_BYTES, parse_json, read_at_most, require_parsable
from zlayout.report.words import printable
from zlayout.session.import_ import (
    DEFAULT_SIZE,
    ImportedLayout,
    NotImported,
    file_stem,
    java_size,
    require_no_layout,
    size_text,
    table_text,
    validated,
)
from zlayout.session.project import known_table
from zlayout.spec.formats import FORMATS
from zlayout.spec.layouts import matches_name, merge
from zlayout.spec.load import shown
from zlayout.spec.model import CLUSTERING_CURVE, CatalogConfig, Project, TableName
from zlayout.spec.yaml import MAX_BYTES, dump
from zlayout.text import describe_value, quote_value

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
    nodes, disabled, metadata = _read(manifest)
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
                raise _problem(f"{table} is the table of {other} too", "keep one of the two")
            source, body = model.body(table, catalog.format)
            text = _text(f"# Imported by zlayout from {model.id} of dbt.", body)
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


def _read(manifest: Path) -> tuple[dict[str, dict[str, Any]], list[str], dict[str, Any]]:
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


def _text(comment: str, body: Mapping[str, Any]) -> str:
    """Return a layout spec as YAML. Its size is checked before, because PyYAML is slow."""
    try:
        if len(json.dumps(body)) <= MAX_BYTES:
            return f"{printable(comment)}\n{dump(body, default_flow_style=None, width=110)}"
    except RecursionError as error:
        raise _problem("expected fewer levels in meta.zlayout, found more") from error
    raise _problem(f"expected at most {MAX_BYTES // 1024} KiB of settings for a layout, found more")


def _problem(message: str, hint: str = "") -> SpecError:
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
        raise _problem(f"expected one catalog{of} for {what}, found {len(found) or 'none'}", hint)

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
            raise _problem(f"expected one of {' and '.join(keys)}, found several", "keep one")
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
                raise _problem(f"meta.zlayout cannot have the key {rejected[0]}", "write a layout file instead")
            body = merge(body, self.meta)
        elif self.meta is not None:
            raise _problem(f"expected keys of a layout or false for meta.zlayout, found {describe_value(self.meta)}")
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
            raise _problem("expected names of at most 200 bytes for the path of the layout, found more")
        return "/".join(names) + ".yaml"

    def text(self, key: str) -> str:
        """Return a text of the model. Raises SpecError ZL091 for anything else."""
        if not isinstance(value := self.node.get(key), str) or not value:
            raise _problem(f"expected text for {key}, found {describe_value(value)}")
        return value

    def _names(self, key: str) -> list[str]:
        """Return the names in a setting: a list, or one text in which dbt's adapters accept commas."""
        value = self.config.get(key) or []
        if isinstance(value, str):
            value = [value] if set("(`") & set(value) else value.split(",")
        if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
            raise _problem(f"expected a column or a list of columns for {key}, found {describe_value(value)}")
        return [name.strip() for name in value]

    def _tags(self, *, valid: bool) -> list[str]:
        tags = self.node.get("tags") or []
        found = dict.fromkeys(tag for tag in tags if isinstance(tag, str)) if isinstance(tags, list) else ()
        return [tag for tag in found if (_TAG.fullmatch(tag) is not None) is valid]
