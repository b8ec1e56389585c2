"""The data classes of a project and its layout specs. `zlayout.spec.load` reads them from YAML."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from zlayout.errors import Location
from zlayout.predicate.model import Predicate
from zlayout.spec.layout import Layout
from zlayout.spec.maintenance import Maintenance
from zlayout.table.partition import PartitionField

MAIN = "main"  # the branch that every Iceberg table has


@dataclass(frozen=True, slots=True)
class TableName:
    """The name of a table: catalog.namespace.table. The namespace may have no, one or several levels.

    branch: the branch of the table that is read and changed; empty for main, and for formats without branches.
    """

    catalog: str
    namespace: tuple[str, ...]
    name: str
    branch: str = ""

    @property
    def identifier(self) -> tuple[str, ...]:
        """The name inside its catalog."""
        return (*self.namespace, self.name)

    def on(self, branch: str) -> TableName:
        """Return this table with another branch."""
        return replace(self, branch="" if branch == MAIN else branch)

    def __str__(self) -> str:
        return ".".join((self.catalog, *self.identifier)) + (f"@{self.branch}" if self.branch else "")


# At the default target size, a commit of so many bytes has 2,048 new files, which the driver holds as objects.
COMMIT_BYTES = 256 * 2**30


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The limits of the decay measures: shares from 0 to 1, and for `touched` the touched ratio (at least 1).

    workload: the share of the bytes that queries read by the declared layout and that another layout may save.
    rarely_read: the share of the executions of the workload that may read decayed partitions which wait, see
        `zlayout.planner.waiting`; None if none waits.

    The last two are no decay measures, and are therefore not part of the text that `acceptance` digests.
    """

    unclustered: float = 0.10
    touched: float = 1.5
    small_files: float = 0.20
    deleted_rows: float = 0.10
    workload: float = field(default=0.20, repr=False)
    rarely_read: float | None = field(default=None, repr=False)


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
    ref: the branch of the table that the layout is for.
    partition_timezone: the time zone of timestamps in partition values without one; empty if it is not declared.
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
    ref: str = MAIN
    partition_timezone: str = ""

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
        """Return the location of a dotted key, or of its nearest parent that the file contains."""
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
        """Return the layout of one table that has this rule."""
        return replace(self.spec, table=table)


@dataclass(frozen=True, slots=True)
class CatalogConfig:
    """One entry of `catalogs:`.

    options: the keys besides format and type, with variables replaced, and with the relative paths in `warehouse`,
    `uri` and `tables` resolved against the root of the project. They may hold secrets, so they are not shown by `repr`.
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
class HistoryConfig:
    """`history:` of `zlayout.yaml`: the SQLite file, or the Delta or Iceberg table, with the history records.

    path: the SQLite file; ignored if there is a table. table: the name of the table as declared; empty for the file.
    keep_days: records that are older are removed.
    """

    path: Path
    keep_days: int
    table: str = ""


@dataclass(frozen=True, slots=True)
class NotifyConfig:
    """`notify:` of `zlayout.yaml`.

    variable: the environment variable with the URL to send notifications to, which is a secret. template: the path of a
    Jinja template below the project; empty for the built-in message.
    """

    variable: str
    template: str = ""


@dataclass(frozen=True, slots=True)
class Project:
    """`zlayout.yaml` and the layout specs that it refers to, sorted by table name.

    layouts: the layouts that name their table. rules: those that match tables by a pattern.
    sample: whether plans read a sample of the key columns to forecast the result.
    prices: what reading and rewriting cost; None if they are not declared. history: None if none is kept.
    notify: None if no notifications are sent. maintenance: None if apply may rewrite tables at any time.
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
    maintenance: Maintenance | None = None

    def __repr__(self) -> str:
        counts = f"layouts: {len(self.layouts):,}, rules: {len(self.rules):,}"
        return f"<{type(self).__name__} {self.root}, {counts}, catalogs: {', '.join(self.catalogs)}>"
