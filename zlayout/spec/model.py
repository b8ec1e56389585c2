"""The data classes of a project and its layout specs, and the parsing of windows, durations and cuts.

`Project` is `zlayout.yaml` with its layout specs, `LayoutSpec` is one layout spec, and `Layout` has the settings from
which a layout id is computed. `zlayout.spec.load` reads them from YAML.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from zlayout.errors import Diagnostic, Location, SpecError
from zlayout.predicate.model import Compare, Predicate, literal
from zlayout.predicate.parse import parse_where, to_sql
from zlayout.table.partition import PartitionField
from zlayout.text import quote_value

# Maintenance windows: `maintenance:` of `zlayout.yaml`.


DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_DAY = f"(?:{'|'.join(DAYS)})"
_WINDOW = re.compile(rf"(?:({_DAY}(?:-{_DAY})?(?:,{_DAY}(?:-{_DAY})?)*) )?(\d\d):([0-5]\d)-(\d\d):([0-5]\d)")
_DAY_MINUTES = 24 * 60
_DURATION = re.compile(r"(\d{1,5})([mhd])", re.ASCII)
_UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}


@dataclass(frozen=True, slots=True)
class Window:
    """A period that begins on some days of the week.

    Attributes:
        days: The days on which it begins; 0 is Monday.
        start, end: Its limits in minutes after midnight of its first day. An end above 1440 is on the next day.
    """

    days: frozenset[int]
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Maintenance:
    """When `apply` may rewrite tables.

    Attributes:
        windows: The windows in which tables are rewritten; empty for any time.
        timezone: The IANA name of the time zone of the windows.
        avoid_hot: How long a partition is hot after another writer wrote a file in it; None if no partition is.
    """

    windows: tuple[Window, ...]
    timezone: str = "UTC"
    avoid_hot: timedelta | None = None

    def end(self, now: datetime) -> datetime | None:
        """Return when the window around `now` ends; None outside of all windows.

        Windows that overlap or follow each other without a gap count as one. If there is no gap at all, the result is
        more than a week after `now`.
        """
        found: datetime | None = None
        for start, end in self._periods(now):
            if start <= (found or now) < end:
                found = end
        return found

    def next_start(self, now: datetime) -> datetime:
        """Return when the next window begins, in the declared time zone."""
        return min(start for start, _ in self._periods(now) if start > now).astimezone(self._zone)

    @property
    def _zone(self) -> ZoneInfo:
        return ZoneInfo(self.timezone)

    def _periods(self, now: datetime) -> Iterator[tuple[datetime, datetime]]:
        today = now.astimezone(self._zone).date()
        days = [today + timedelta(days) for days in range(-2, 10)]
        yield from sorted(
            self._period(day, window) for day in days for window in self.windows if day.weekday() in window.days
        )

    def _period(self, day: date, window: Window) -> tuple[datetime, datetime]:
        """Return start and end (UTC). A window that begins at a time that clocks skip begins when they do so."""
        (start, skipped), (end, end_skipped) = (self._instant(day, minutes) for minutes in (window.start, window.end))
        if skipped:
            start = self._set_forward(start)
            if end_skipped or end <= start:
                end = start + timedelta(minutes=window.end - window.start)
        return start, end

    def _instant(self, day: date, minutes: int) -> tuple[datetime, bool]:
        """Return the instant (UTC) of a time of a day, the first of the two if clocks show it twice."""
        # The second result is whether clocks skip the time: the instant is then after they are set forward.
        later, minute = divmod(minutes, _DAY_MINUTES)  # minutes after midnight, possibly of a later day
        shown = datetime.combine(day + timedelta(later), time(*divmod(minute, 60)), self._zone)
        found = shown.astimezone(UTC)
        return found, found.astimezone(self._zone).replace(tzinfo=None) != shown.replace(tzinfo=None)

    def _set_forward(self, after: datetime) -> datetime:
        """Return the instant (UTC) at which clocks were last set forward, at most a day before `after`."""
        before, offset = after - timedelta(days=1), after.astimezone(self._zone).utcoffset()
        while after - before > timedelta(seconds=1):
            middle = before + (after - before) / 2
            if middle.astimezone(self._zone).utcoffset() == offset:
                after = middle
            else:
                before = middle
        return (after + timedelta(seconds=30)).replace(second=0, microsecond=0)


def maintenance_of(entry: Mapping[str, Any]) -> Maintenance:
    """Return the configuration that `maintenance:` declares.

    Args:
        entry: The value of `maintenance:`, which conforms to the schema.

    Raises:
        ValueError: A window, the time zone or `avoid_hot` is invalid. The arguments of the error are the key below
            `maintenance` and its value.
    """
    timezone = entry.get("timezone", "UTC")
    try:
        ZoneInfo(timezone)
    except (OSError, ValueError, KeyError) as error:
        raise ValueError("timezone", timezone) from error
    windows = tuple(_window(number, text) for number, text in enumerate(entry.get("windows", ())))
    hot = entry.get("avoid_hot")
    return Maintenance(windows, timezone, duration_of(hot) if hot else None)


def duration_of(text: str) -> timedelta:
    """Parse a duration such as `90m`, `1h` or `2d`. Raises ValueError, as `maintenance_of`, for any other text."""
    found = _DURATION.fullmatch(text)
    if found is None:
        raise ValueError("avoid_hot", text)
    return int(found[1]) * _UNITS[found[2]]


def hot_after(avoid_hot: timedelta | None, maintenance: Maintenance | None, now: datetime | None = None) -> int | None:
    """Return the time since which a write makes its partition hot.

    Args:
        avoid_hot: The duration that overrides the declared one; None for the declared one, 0 for no hot partitions.
        maintenance: The configuration of the project; None if it declares none.
        now: The present time; None for that of the clock.

    Returns:
        Milliseconds since 1970 (UTC); None if no partition is hot.
    """
    declared = maintenance.avoid_hot if maintenance else None
    duration = declared if avoid_hot is None else avoid_hot
    return max(int(((now or datetime.now(UTC)) - duration).timestamp() * 1000), 0) if duration else None


def _window(number: int, text: str) -> Window:
    if found := _WINDOW.fullmatch(text):
        start, end = (60 * int(found[at]) + int(found[at + 1]) for at in (2, 4))
        if start < _DAY_MINUTES and end <= _DAY_MINUTES and start != end:
            return Window(_days(found[1]), start, end if end > start else end + _DAY_MINUTES)
    raise ValueError(f"windows[{number}]", text)


def _days(text: str | None) -> frozenset[int]:
    """Parse days such as `Mon-Fri,Sun` or `Sat-Mon`, 0 for Monday; all days for None."""
    if text is None:
        return frozenset(range(7))
    days: set[int] = set()
    for part in text.split(","):
        first, last = (DAYS.index(name) for name in (part[:3], part[-3:]))
        days |= {day % 7 for day in range(first, last + (7 if last < first else 0) + 1)}
    return frozenset(days)


# The layout settings: `Layout` with its layout id, and the cuts of curve `workload`.


CURVES = ("kd", "zorder", "hilbert", "linear")
# A kd tree below declared cuts. It is not one of CURVES, because a search cannot try it without cuts.
WORKLOAD_CURVE = "workload"
_WEIGHTED_CURVES = ("kd", "zorder", WORKLOAD_CURVE)
_CURVES_WITH_RANGE_IDS = ("zorder", "hilbert")
# Part of the layout id. Increase it if the same settings would produce other files.
ALGORITHM_VERSION = 1
# The key of the column ids in a layout record. It is not a layout setting, and not part of the layout id.
COLUMN_IDS = "column_ids"
# The only setting in the layout record of a file that the format itself clustered: the clustering columns.
CLUSTERED_BY = "clustered_by"
CLUSTERING_CURVE = "hilbert"  # the curve of liquid clustering
# A target size counts as unchanged if it differs from the recorded one by at most this share of the recorded one. File
# sizes vary as much within one rewrite.
SIMILAR_SIZE = 0.25
_NOWHERE = Location("")


@dataclass(frozen=True, slots=True)
class ZorderColumn:
    """A z-order column.

    Attributes:
        name: The name of the column, dotted if it is nested.
        weight: How often queries filter on it, relative to the other z-order columns.
        id: The column id in the table (`zlayout.table.state.Column`); empty if it is unknown.
    """

    name: str
    weight: float = 1.0
    id: str = field(default="", compare=False)


@dataclass(frozen=True)  # without slots, which prevent cached properties
class Layout:
    """All settings that determine which row goes to which file, once the partitioning is known.

    The partitioning is not included, because the table records how each file is partitioned.

    Attributes:
        columns: The z-order columns; empty for compaction alone, which keeps the order of the rows.
        curve: The declared curve.
        range_ids: The number of ranges into which the values of each column are divided.
        noise: Whether rows with equal keys are distributed over several files.
        target_size: The size of a file in bytes.
        sort_within: Whether the rows inside each file are sorted along the curve.
        engine: `zlayout` or `native`.
        cuts: The declared cuts of curve `workload`: comparisons of z-order columns by `<` or `<=`, in the order in
            which they are tried.
    """

    columns: tuple[ZorderColumn, ...]
    curve: str
    range_ids: int
    noise: bool
    target_size: int
    sort_within: bool
    engine: str
    cuts: tuple[Compare, ...] = ()

    @property
    def orders(self) -> bool:
        """Whether rewrites order the rows. If not, they only combine small files and remove deleted rows."""
        return bool(self.columns)

    @property
    def effective_curve(self) -> str:
        """The curve that influences the result.

        It is kd for a single column without cuts and with engine zlayout, else the declared curve.
        """
        is_sort = len(self.columns) == 1 and self.engine == "zlayout" and not self.cuts
        return "kd" if is_sort else self.curve

    @property
    def uses_range_ids(self) -> bool:
        """Whether range ids influence the result. Curves without range ids cut at values."""
        return self.effective_curve in _CURVES_WITH_RANGE_IDS

    @property
    def weights(self) -> dict[str, float]:
        """The effective weight of each column: 1 for hilbert, linear, engine native and a single column."""
        weighs = self.engine == "zlayout" and self.curve in _WEIGHTED_CURVES and len(self.columns) > 1
        return {c.name: c.weight if weighs else 1.0 for c in self.columns}

    def settings(self) -> dict[str, Any]:
        """Return the layout settings as JSON values by dotted name, with range ids only if the curve uses them."""
        if not self.orders:
            return {"files.target_size": self.target_size, "engine": self.engine}
        range_ids = {"zorder.range_ids": self.range_ids} if self.curve in _CURVES_WITH_RANGE_IDS else {}
        return {
            "zorder.columns": [
                c.name if c.weight == 1.0 else {"name": c.name, "weight": c.weight} for c in self.columns
            ],
            "zorder.curve": self.curve,
            **({"zorder.cuts": [to_sql(cut) for cut in self.cuts]} if self.cuts else {}),
            **range_ids,
            "zorder.noise": self.noise,
            "files.target_size": self.target_size,
            "files.sort_within": self.sort_within,
            "engine": self.engine,
        }

    def recorded_settings(self) -> dict[str, Any]:
        """Return the layout settings as a layout record contains them: with the column ids, if all are known."""
        ids = [column.id for column in self.columns]
        return {**self.settings(), **({COLUMN_IDS: ids} if ids and all(ids) else {})}

    def identified(self, ids: Sequence[str]) -> Layout:
        """Return this layout with these column ids, one for each z-order column."""
        columns = tuple(replace(column, id=id_) for column, id_ in zip(self.columns, ids, strict=True))
        return replace(self, columns=columns)

    @cached_property
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
        """Return whether files with a layout record count as laid out by this layout.

        They do if the layout id of this layout equals the recorded one. They also do if the target sizes are similar
        (SIMILAR_SIZE) and the layout ids would be equal with the same target size. Files that the format itself
        clustered count as laid out by engine native if their clustering columns are the z-order columns, in any order.

        Args:
            layout_id, settings: Those of the layout record.
        """
        if (clustered_by := settings.get(CLUSTERED_BY)) is not None:
            return self.engine == "native" and sorted(clustered_by) == sorted(column.name for column in self.columns)
        if layout_id == self.layout_id:
            return True
        size = settings.get("files.target_size")
        if type(size) is not int or abs(self.target_size - size) > SIMILAR_SIZE * size:
            return False
        return replace(self, target_size=size).layout_id == layout_id


def parse_cut(text: str, location: Location) -> Compare:
    """Parse one cut: a column, `<` or `<=`, and a literal.

    Raises:
        SpecError: ZL058 for any other text.
    """
    try:
        found = parse_where(text, location)
    except SpecError:
        found = None
    if isinstance(found, Compare) and found.operator in ("<", "<="):
        return found
    message = f"expected column < literal or column <= literal in zorder.cuts, found {quote_value(text)}"
    raise SpecError.of("ZL058", message, hint="for example l_shipdate < DATE '1995-01-01'", location=location)


def parsed_cuts(recorded: Any) -> tuple[Compare, ...] | None:
    """Return the cuts in the value of a layout record; None if it is not a list of cuts."""
    try:
        return tuple(parse_cut(text, _NOWHERE) for text in recorded)
    except (SpecError, TypeError):
        return None


def cut_problems(layout: Layout, locations: dict[str, Location], location: Location) -> Iterator[Diagnostic]:
    """Check the cuts of a layout.

    Args:
        layout: The layout.
        locations: The location of each dotted key in the spec or in the defaults of the project.
        location: The location to report if neither cuts nor a curve are declared.

    Yields:
        ZL058 for cuts without curve `workload`, for this curve without cuts, for duplicate cuts, and for cuts of
        columns that are not z-order columns.
    """
    at = locations.get("zorder.cuts") or locations.get("zorder.curve") or location
    if layout.cuts and layout.curve != WORKLOAD_CURVE:
        message = f"expected curve workload with zorder.cuts, found {layout.curve}"
        yield Diagnostic("ZL058", message, hint="set curve: workload, or remove the cuts", location=at)
    if layout.curve == WORKLOAD_CURVE and not layout.cuts:
        hint = "add cuts, which zlayout advise finds for a workload, or use curve kd"
        yield Diagnostic("ZL058", "expected zorder.cuts with curve workload, found none", hint=hint, location=at)
    names = {column.name.lower() for column in layout.columns}
    for index, cut in enumerate(layout.cuts):
        at = locations[f"zorder.cuts[{index}]"]
        if cut.column.lower() not in names:
            message = f"expected a column of zorder.columns in zorder.cuts, found {quote_value(cut.column)}"
            yield Diagnostic("ZL058", message, hint="add it to zorder.columns, or remove the cut", location=at)
        elif cut in layout.cuts[:index]:
            message = f"duplicate cut at {literal(cut.value)} in zorder.cuts"
            yield Diagnostic("ZL058", message, hint="keep the first one", location=at)


def cut_texts(cuts: Sequence[Compare]) -> list[str]:
    """Return cuts as a layout spec declares them, with columns in backticks only where the parser needs them."""
    plain = [f"{cut.column} {cut.operator} {literal(cut.value)}" for cut in cuts]
    return [text if parsed_cuts([text]) == (cut,) else to_sql(cut) for text, cut in zip(plain, cuts, strict=True)]


# Table names, layout specs, rules, and the project.


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

    `repr` omits these two limits. `zlayout.planner.selection.acceptance` makes a digest of it, so that accepted
    partitions stay accepted if only these two change.

    Attributes:
        unclustered: The largest share of rows in files that are not laid out, 0 to 1.
        touched: The largest touched ratio, at least 1.
        small_files: The largest share of small files, 0 to 1.
        deleted_rows: The largest share of deleted rows, 0 to 1.
        workload: Of the bytes that the queries read, the largest share that another layout may save, 0 to 1.
        rarely_read: The largest share of the executions of the workload that may read decayed partitions which wait
            (`zlayout.planner.passes.rarely_read`), 0 to 1; None if no partition waits.
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
    """A layout spec for all tables that a pattern matches. `zlayout.spec.layouts` decides which table has which rule.

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
        options: The keys `warehouse`, `uri`, `tables`, `file_locations`, `storage`, `properties`,
            `yield_to_writers` and `vended_credentials`, as far as they are declared. Variables are replaced, and
            relative paths are resolved against the root of the project. They may hold secrets, so that `repr` does not
            show them.
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

    def of_compute(self, seconds: float) -> float:
        """Return the price of a duration of compute."""
        return self.compute_per_hour * seconds / 3600


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
class KeySkipping:
    """How an engine skips files of a table by the keys of the tables that are joined to it, while a query runs.

    It compares the lowest and the highest key with the bounds of a file, except where it compares each key.

    Attributes:
        rows: Up to this number of matching rows of the other table, it compares each of their integer keys.
        min_files, min_bytes: It skips no files of a table with fewer files or bytes.
        partitions: It skips only whole partitions, and compares each key with the partition values.
        max_bytes: It uses no keys of another table with more bytes; None for no limit.
    """

    rows: int = 0
    min_files: int = 0
    min_bytes: int = 0
    partitions: bool = False
    max_bytes: int | None = None


# By the engine of queries. Spark: dynamic partition pruning by a broadcast join with a table of at most
# spark.sql.autoBroadcastJoinThreshold bytes, measured in tests/spark/test_partition_pruning.py. DuckDB: the setting
# dynamic_or_filter_threshold, measured with version 2.0 in tests/unit/session/test_duckdb_reads.py. Databricks:
# deltaTableFilesThreshold and deltaTableSizeThreshold of
# https://docs.databricks.com/delta/optimizations/dynamic-file-pruning.html.
QUERY_ENGINES = {
    "spark": KeySkipping(partitions=True, max_bytes=10 * 1024**2),
    "databricks": KeySkipping(min_files=10, min_bytes=10_000_000_000),
    "duckdb": KeySkipping(rows=50),
    "snowflake": KeySkipping(),
    "trino": KeySkipping(),
}


@dataclass(frozen=True, slots=True)
class Export:
    """`workload.exports.NAME` of `zlayout.yaml`: a table that queries join, exported to files of the project.

    Attributes:
        table: The name of the table in queries.
        files: The pattern of the files, relative to the folder of the project. It ends with .parquet or .csv.
        columns: The types of the columns of CSV files that are read, by name; empty for Parquet files.
        location: Where the export is declared.
    """

    table: str
    files: str
    columns: Mapping[str, str]
    location: Location


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
        query_engine: The engine of the queries in workloads, one of `QUERY_ENGINES`.
        exports: Tables that the queries join and that are read from files, by the name in queries in lower case.
        workload: The workload files of tables whose layout names none, and of those without a layout.
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
    query_engine: str = "spark"
    exports: Mapping[str, Export] = field(default_factory=dict)
    workload: tuple[Path, ...] = ()

    @property
    def key_skipping(self) -> KeySkipping:
        """How the engine of the queries skips files by join keys."""
        return QUERY_ENGINES[self.query_engine]

    def __repr__(self) -> str:
        counts = f"layouts: {len(self.layouts):,}, rules: {len(self.rules):,}"
        return f"<{type(self).__name__} {self.root}, {counts}, catalogs: {', '.join(self.catalogs)}>"
