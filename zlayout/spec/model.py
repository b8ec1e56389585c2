"""The data classes of a project and its layout specs. `zlayout.spec.load` reads them from YAML."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from zlayout.errors import Location
from zlayout.predicate.model import Predicate
from zlayout.spec.history import HistoryConfig
from zlayout.spec.notify import NotifyConfig
from zlayout.table.partition import PartitionField

CURVES = ("kd", "zorder", "hilbert", "linear")
_CURVES_WITH_RANGE_IDS = ("zorder", "hilbert")
# Part of the layout id. Raise it if the same settings would produce other files.
ALGORITHM_VERSION = 1
# The key of the column ids in the settings that a table stores. It is no layout setting, and not part of the layout id.
COLUMN_IDS = "column_ids"


@dataclass(frozen=True, slots=True)
class TableName:
    """The name of a table: catalog.namespace.table. The namespace may have no, one or several levels."""

    catalog: str
    namespace: tuple[str, ...]
    name: str

    @property
    def identifier(self) -> tuple[str, ...]:
        """The name inside its catalog."""
        return (*self.namespace, self.name)

    def __str__(self) -> str:
        return ".".join((self.catalog, *self.identifier))


# A change of the target size up to this share of the recorded one is no drift: files vary as much in any case.
SIMILAR_SIZE = 0.25


@dataclass(frozen=True, slots=True)
class ZorderColumn:
    """A z-order column.

    weight: how often queries filter on it, relative to the other z-order columns. id: the column id in the table, see
    `Column`; empty if unknown.
    """

    name: str
    weight: float = 1.0
    id: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Layout:
    """All settings that determine which row goes to which file, once the partitioning is known.

    columns: empty for compaction alone, which keeps the order of the rows. target_size: bytes. The partitioning is not
    included, because the table records how each file is partitioned.
    """

    columns: tuple[ZorderColumn, ...]
    curve: str
    range_ids: int
    noise: bool
    target_size: int
    sort_within: bool
    engine: str

    @property
    def orders(self) -> bool:
        """Whether rows are ordered. If not, rewrites only combine small files and remove deleted rows."""
        return bool(self.columns)

    @property
    def effective_curve(self) -> str:
        """The curve that influences the result: kd for a single column with engine zlayout, else the declared one."""
        return "kd" if len(self.columns) == 1 and self.engine == "zlayout" else self.curve

    @property
    def uses_range_ids(self) -> bool:
        """Whether range ids influence the result. kd and linear cut at values of the sample instead."""
        return self.effective_curve in _CURVES_WITH_RANGE_IDS

    @property
    def weights(self) -> dict[str, float]:
        """The effective weight of each column: 1 for hilbert, linear, engine native and a single column."""
        weighs = self.engine == "zlayout" and self.curve in ("kd", "zorder") and len(self.columns) > 1
        return {c.name: c.weight if weighs else 1.0 for c in self.columns}

    def settings(self) -> dict[str, Any]:
        """The layout settings as JSON values under their dotted names, with range ids only if the curve uses them."""
        if not self.orders:
            return {"files.target_size": self.target_size, "engine": self.engine}
        range_ids = {"zorder.range_ids": self.range_ids} if self.curve in _CURVES_WITH_RANGE_IDS else {}
        return {
            "zorder.columns": [
                c.name if c.weight == 1.0 else {"name": c.name, "weight": c.weight} for c in self.columns
            ],
            "zorder.curve": self.curve,
            **range_ids,
            "zorder.noise": self.noise,
            "files.target_size": self.target_size,
            "files.sort_within": self.sort_within,
            "engine": self.engine,
        }

    def recorded_settings(self) -> dict[str, Any]:
        """The layout settings as a table stores them: with the ids of the columns, which renames do not change."""
        ids = [column.id for column in self.columns]
        return {**self.settings(), **({COLUMN_IDS: ids} if ids and all(ids) else {})}

    def identified(self, ids: Sequence[str]) -> Layout:
        """This layout with a column id for each z-order column."""
        columns = tuple(replace(column, id=known) for column, known in zip(self.columns, ids, strict=True))
        return replace(self, columns=columns)

    @property
    def layout_id(self) -> str:
        """The first 16 hex digits of the SHA-256 of the canonical JSON of the effective layout settings.

        Layouts that differ only in settings without effect have the same id: docs/adr/0005-layout-id.md.
        """
        columns = tuple(ZorderColumn(name, weight) for name, weight in self.weights.items())
        effective = replace(self, columns=columns, curve=self.effective_curve)
        document = {"algorithm": ALGORITHM_VERSION, **effective.settings()}
        canonical = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(canonical.encode()).hexdigest()[:16]

    def covers(self, layout_id: str, settings: Mapping[str, Any]) -> bool:
        """Return whether files with a layout record (its layout id and settings) count as laid out by this layout.

        They do if the layout id is that of this layout, with the declared target size or with a recorded one that
        differs from it by at most SIMILAR_SIZE.
        """
        if layout_id == self.layout_id:
            return True
        size = settings.get("files.target_size")
        if type(size) is not int or abs(self.target_size - size) > SIMILAR_SIZE * size:
            return False
        return replace(self, target_size=size).layout_id == layout_id


# At the default target size, a commit of so many bytes has 2,048 new files, which the driver holds as objects.
COMMIT_BYTES = 256 * 2**30


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The limits of the decay measures: shares from 0 to 1, and for `touched` the touched ratio (at least 1).

    workload: the share of the bytes that queries read by the declared layout and that another layout may save. It is
    no decay measure and decides on no rewrite, and is therefore not part of the text that `acceptance` digests.
    """

    unclustered: float = 0.10
    touched: float = 1.5
    small_files: float = 0.20
    deleted_rows: float = 0.10
    workload: float = field(default=0.20, repr=False)


@dataclass(frozen=True, slots=True)
class LayoutSpec:
    """One layout spec, with defaults merged.

    partition_by: None if the spec has no such key; the table then keeps its partitioning.
    where_may_be_empty: whether it is intended that `where` matches no partition.
    max_group_size: the maximum number of bytes that one rewrite reads and one commit replaces; None for no limit.
    workload: the declared workload files, or all those of the project.
    locations: the location of each dotted key in the YAML file.
    commit_properties: `commit.properties` of the project, which each commit stores for audits.
    rule: the pattern of the rule that the table has this layout by; empty if the layout names the table itself.
    """

    table: TableName
    layout: Layout
    location: Location
    partition_by: tuple[PartitionField, ...] | None = None
    where: Predicate | None = None
    where_may_be_empty: bool = False
    tolerance: Tolerance = Tolerance()
    max_group_size: int | None = None
    tags: tuple[str, ...] = ()
    description: str = ""
    workload: tuple[Path, ...] = ()
    locations: Mapping[str, Location] = field(default_factory=dict)
    commit_properties: Mapping[str, str] = field(default_factory=dict)
    rule: str = ""

    @property
    def column_names(self) -> tuple[str, ...]:
        return tuple(c.name for c in self.layout.columns)

    @property
    def commit_bytes(self) -> int | None:
        """The maximum number of bytes of several groups that one commit replaces; None for no limit.

        Engine native has no default, because the format's own rewrite of a whole table is one statement.
        """
        return self.max_group_size or (COMMIT_BYTES if self.layout.engine == "zlayout" else None)

    def location_of(self, key: str) -> Location:
        """The location of a dotted key, or of its nearest parent that the file contains."""
        while key:
            if key in self.locations:
                return self.locations[key]
            key = key.rpartition(".")[0]
        return self.location


@dataclass(frozen=True, slots=True)
class Conditions:
    """What a table must be for a rule to apply to it.

    min_size, max_size: bytes of its live files. partitioned: whether it is partitioned. columns: columns that it has.
    """

    min_size: int | None = None
    max_size: int | None = None
    partitioned: bool | None = None
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LayoutRule:
    """A layout spec for all tables that a pattern matches. `zlayout.spec.rules` decides which table has which rule.

    pattern: the name of a catalog, and globs for namespace and table. exclude: patterns of tables that it leaves out.
    only: None if it applies to all other tables. spec: the layout; its table is the pattern.
    """

    pattern: TableName
    exclude: tuple[TableName, ...]
    only: Conditions | None
    spec: LayoutSpec

    def for_table(self, table: TableName) -> LayoutSpec:
        """The layout of one table that has this rule."""
        return replace(self.spec, table=table)


@dataclass(frozen=True, slots=True)
class CatalogConfig:
    """One entry of `catalogs:`.

    options: the keys besides format and type, with variables replaced, and with the relative paths in `warehouse`,
    `uri` and `tables` resolved against the root of the project. They may hold
    secrets, so they are not in the representation.
    """

    name: str
    format: str
    type: str
    options: Mapping[str, Any] = field(repr=False)
    location: Location


@dataclass(frozen=True, slots=True)
class SparkConfig:
    """`spark:` of `zlayout.yaml`. master: None for the master of spark-submit, or local[*] without spark-submit."""

    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)  # may hold secrets


@dataclass(frozen=True, slots=True)
class Prices:
    """`prices:` of `zlayout.yaml`, in any currency."""

    scan_per_tib: float
    compute_per_hour: float


@dataclass(frozen=True, slots=True)
class Project:
    """`zlayout.yaml` and the layout specs that it refers to, sorted by table name.

    layouts: the layouts that name their table. rules: those that match tables by a pattern.
    sample: whether plans read a sample of the key columns to forecast the result.
    prices: what reading and rewriting cost; None if they are not declared. history: None if none is kept.
    notify: None if no notifications are sent.
    """

    root: Path
    catalogs: Mapping[str, CatalogConfig]
    spark: SparkConfig
    layouts: tuple[LayoutSpec, ...]
    sample: bool = False
    rules: tuple[LayoutRule, ...] = ()
    prices: Prices | None = None
    history: HistoryConfig | None = None
    notify: NotifyConfig | None = None
