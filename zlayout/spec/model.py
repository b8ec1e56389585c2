"""The data classes of a project and its layout specs. `zlayout.spec.load` reads them from YAML."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
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
    """The name of a table: catalog.namespace.table.

    Attributes:
        catalog: The name of the catalog in `zlayout.yaml`.
        namespace: The levels of the namespace; empty if there is none.
        name: The name of the table in its namespace.
        branch: The branch that is read and changed; empty for `main`, and for formats without branches.
    """

    catalog: str
    namespace: tuple[str, ...]
    name: str
    branch: str = ""

    @property
    def identifier(self) -> tuple[str, ...]:
        """The namespace and the name, without the catalog."""
        return (*self.namespace, self.name)

    def on(self, branch: str) -> TableName:
        """Return the name of the same table with another branch."""
        return replace(self, branch="" if branch == MAIN else branch)

    def __str__(self) -> str:
        return ".".join((self.catalog, *self.identifier)) + (f"@{self.branch}" if self.branch else "")


# At the default target size, a commit of this size has 2,048 new files, which the Spark driver holds as objects.
COMMIT_BYTES = 256 * 2**30


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The limits of the decay measures, and two limits that concern the workload.

    `repr` omits these two limits. `zlayout.planner.accepted.acceptance` makes a digest of it, so that accepted
    partitions stay accepted if only these two change.

    Attributes:
        unclustered: The largest share of rows in files that are not laid out, 0 to 1.
        touched: The largest touched ratio, at least 1.
        small_files: The largest share of small files, 0 to 1.
        deleted_rows: The largest share of deleted rows, 0 to 1.
        workload: Of the bytes that the queries read, the largest share that another layout may save, 0 to 1.
        rarely_read: The largest share of the executions of the workload that may read decayed partitions which wait
            (`zlayout.planner.waiting`), 0 to 1; None if no partition waits.
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

    Attributes:
        table: The table; for a rule, its pattern.
        layout: The layout settings.
        location: The location of the key `table` or `match`.
        partition_by: The declared partitioning; None if the spec has no such key. The table then keeps its own.
        where: The condition that selects the scope; None for all partitions.
        where_may_be_empty: Whether it is intended that `where` matches no partition.
        tolerance: The limits of decay.
        max_group_size: The maximum number of bytes that one rewrite reads and one commit replaces; None for no limit.
        tags: Names to select layouts by.
        description: Free text.
        workload: The workload files that the spec declares; without a declaration, those of the project.
        locations: The location of each dotted key in the YAML file.
        commit_properties: `commit.properties` of the project, which each commit stores for audits.
        rule: The pattern of the rule that gave the table this layout; empty if the spec names the table itself.
        ref: The branch that is laid out.
        partition_timezone: The time zone of timestamps that partition values store without one; empty if it is not
            declared.
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
        """The names of the z-order columns."""
        return tuple(c.name for c in self.layout.columns)

    @property
    def commit_bytes(self) -> int | None:
        """The maximum number of bytes that one commit of several groups replaces; None for no limit.

        Engine native has no default, because it rewrites a whole table by one statement.
        """
        return self.max_group_size or (COMMIT_BYTES if self.layout.engine == "zlayout" else None)

    def location_of(self, key: str) -> Location:
        """Return the location of a dotted key, of the nearest map around it that the file contains, or of the spec."""
        while key:
            if key in self.locations:
                return self.locations[key]
            key = key.rpartition(".")[0]
        return self.location


@dataclass(frozen=True, slots=True)
class Conditions:
    """The conditions that a table must meet for a rule to apply to it.

    Attributes:
        min_size, max_size: The smallest and the largest size of its live files in bytes; None for no limit.
        partitioned: Whether it must be partitioned, or must not be; None for both.
        columns: The columns that it must have.
    """

    min_size: int | None = None
    max_size: int | None = None
    partitioned: bool | None = None
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LayoutRule:
    """A layout spec for all tables that a pattern matches. `zlayout.spec.rules` decides which table has which rule.

    Attributes:
        pattern: The name of a catalog, and globs for namespace and table.
        exclude: Patterns of tables that the rule does not apply to.
        only: The conditions on a table; None if there are none.
        spec: The layout spec, whose table is the pattern.
    """

    pattern: TableName
    exclude: tuple[TableName, ...]
    only: Conditions | None
    spec: LayoutSpec

    def for_table(self, table: TableName) -> LayoutSpec:
        """Return the layout spec of one table that has this rule."""
        return replace(self.spec, table=table)


@dataclass(frozen=True, slots=True)
class CatalogConfig:
    """One entry of `catalogs:`.

    Attributes:
        format: The name of its format.
        type: The catalog type, for example `rest`.
        options: The keys `warehouse`, `uri`, `tables`, `file_locations`, `storage`, `properties` and
            `yield_to_writers`, as far as they are declared. Variables are replaced, and relative paths are resolved
            against the root of the project. They may hold secrets, so that `repr` does not show them.
        location: The location of the entry in `zlayout.yaml`.
    """

    name: str
    format: str
    type: str
    options: Mapping[str, Any] = field(repr=False)
    location: Location

    def file_locations(self, table: TableName) -> tuple[str, ...]:
        """Return the locations outside of a table's own location in which it may have files."""
        names = ".".join(table.identifier).split(".")
        return tuple(
            location
            for pattern, locations in self.options.get("file_locations", {}).items()
            if len(parts := pattern.split(".")) == len(names) and all(map(fnmatchcase, names, parts))
            for location in locations
        )


@dataclass(frozen=True, slots=True)
class SparkConfig:
    """`spark:` of `zlayout.yaml`.

    Attributes:
        master: The Spark master; None for that of spark-submit, or `local[*]` without spark-submit.
        conf: The Spark settings as strings.
    """

    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)  # may hold secrets


@dataclass(frozen=True, slots=True)
class Prices:
    """`prices:` of `zlayout.yaml`, in any currency.

    Attributes:
        scan_per_tib: The price of one TiB (2**40 bytes) that queries read.
        compute_per_hour: The price of one hour of the compute that `apply` runs on.
    """

    scan_per_tib: float
    compute_per_hour: float


@dataclass(frozen=True, slots=True)
class HistoryConfig:
    """`history:` of `zlayout.yaml`: the SQLite file with the history records.

    Attributes:
        path: The SQLite file.
        keep_days: The age in days above which records are removed.
    """

    path: Path
    keep_days: int


@dataclass(frozen=True, slots=True)
class Project:
    """`zlayout.yaml` and the layout specs that it refers to.

    Attributes:
        root: The folder of `zlayout.yaml`.
        catalogs: The catalogs by name.
        spark: The Spark configuration.
        layouts: The layout specs that name their table, sorted by table name.
        sample: Whether plans read a sample of the key columns to forecast the result.
        rules: The layout specs that match tables by a pattern, sorted by pattern.
        prices: The prices of reading and rewriting; None if they are not declared.
        history: Where history records are kept; None if none are kept.
        maintenance: When `apply` may rewrite tables; None for any time.
    """

    root: Path
    catalogs: Mapping[str, CatalogConfig]
    spark: SparkConfig
    layouts: tuple[LayoutSpec, ...]
    sample: bool = False
    rules: tuple[LayoutRule, ...] = ()
    prices: Prices | None = None
    history: HistoryConfig | None = None
    maintenance: Maintenance | None = None

    def __repr__(self) -> str:
        counts = f"layouts: {len(self.layouts):,}, rules: {len(self.rules):,}"
        return f"<{type(self).__name__} {self.root}, {counts}, catalogs: {', '.join(self.catalogs)}>"
