"""Engine `native` on Iceberg in a session without a JVM: calls the procedure `rewrite_data_files` by SQL.

The procedure runs the same action as `native`, but stores neither run id nor layout id in its snapshots. Therefore the
new rewrites of planned files are those of the run, and only the table properties `zlayout.state` and `zlayout.runs`
state their layout and their run (docs/adr/0044-native-by-sql.md).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from zlayout.errors import CommitConflict, Refused, TableError, first_line
from zlayout.formats.base import Commit, GroupFailed, Notify, PlannedTable, Progress, Stage
from zlayout.formats.iceberg.read import state_property as recorded
from zlayout.formats.iceberg.read.catalog import load_table
from zlayout.formats.iceberg.read.history import (
    RunCommit,
    ancestors,
    head,
    live_snapshots,
    operation_of,
    rewrites_since,
    summary_of,
)
from zlayout.formats.iceberg.read.observe import NO_SNAPSHOT
from zlayout.formats.iceberg.read.schema import argument, spec_fields, transform_name
from zlayout.formats.iceberg.read.support import has_row_ids_in_orc, native_order, unreadable_row_ids
from zlayout.formats.iceberg.write.jvm import FAILURES, without_derived
from zlayout.formats.iceberg.write.native import Past, options, require_only_appends, settle
from zlayout.formats.kernel.outcome import java_errors, ran
from zlayout.formats.kernel.requirements import partitions_of, paths_of
from zlayout.spark.connect import is_lost, statement_errors
from zlayout.spark.versions import numbers
from zlayout.spec.formats import FORMATS
from zlayout.spec.model import CatalogConfig, Layout, TableName
from zlayout.table.partition_values import any_of, far_date, literal
from zlayout.table.state import Partition, PartitionField, TableState
from zlayout.text import path_of, quote_identifier, quote_path, string_literal

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata
    from pyspark.sql import Row, SparkSession

_FAILURES = replace(FAILURES, history="the snapshots of the table (operation replace)")
_EXTENSIONS = "spark.sql.extensions"
_FIRST_WITH_HILBERT = "1.12"
_ELSEWHERE = "run `zlayout apply` inside spark-submit on the cluster"
_TIMES = ("year", "month", "day", "hour")


@dataclass(slots=True)
class IcebergSql:
    """One Iceberg table in one session without a JVM.

    Attributes:
        answer: What the procedure returned; None before it has returned.
    """

    spark: SparkSession
    catalog: CatalogConfig
    table: TableName
    answer: Row | None = field(default=None, init=False)

    @property
    def name(self) -> str:
        """The name of the table in SQL."""
        return quote_path((self.table.catalog, *self.table.identifier))

    @property
    def functions(self) -> str:
        """The namespace of Iceberg's functions and procedures in SQL."""
        return f"{quote_identifier(self.table.catalog)}.system"

    def metadata(self) -> TableMetadata:
        """Read the metadata of the table, on the client."""
        return load_table(self.catalog, self.table).metadata

    def version(self) -> str:
        """The version of the server's Iceberg."""
        return str(self.spark.sql(f"SELECT {self.functions}.iceberg_version()").collect()[0][0])


# What is checked before any write.


def require_expressible(work: PlannedTable, state: TableState, *, yields: bool) -> None:
    """Check that SQL can express the rewrite.

    Args:
        state: The table.
        yields: Whether the catalog requires that the snapshots permit a server to undo them.

    Raises:
        Refused: ZL204.
    """
    reason, hint = "", _ELSEWHERE
    if work.table.branch:
        reason = "a rewrite on a branch"
    elif work.groups and (work.spec.commit_properties or yields):
        reason = f"{'yield_to_writers' if yields else 'commit.properties'}, which sets properties of snapshots,"
        hint = f"remove it, or {_ELSEWHERE}"
    elif work.groups and not work.covers_table:
        fields = {f: None for partition in partitions_of(work.groups) for f in partition.fields}
        unknown = [str(f) for f in fields if state.column(f.source) is None]
        if unknown:
            reason = f"selecting partitions by {', '.join(unknown)}, whose column was dropped,"
    if reason:
        message = f"{work.table}: {reason} needs the driver's JVM, which Spark Connect does not give"
        raise Refused.of("ZL204", message, hint=hint)


def require_same_table(sql: IcebergSql, work: PlannedTable, state: TableState) -> None:
    """Check that the server has Iceberg's extension, and that its catalog has the planned table, which it can read.

    A snapshot id is a random number. A table without snapshots is recognized by its location.

    Raises:
        Refused: ZL207, ZL208, ZL227, ZL228; ZL223 for a curve that the server's Iceberg does not have.
        CommitConflict: ZL320, if the server has another table of this name.
    """
    from pyspark.errors import AnalysisException

    extension = FORMATS["iceberg"].spark_extension
    if extension not in (sql.spark.conf.get(_EXTENSIONS, "") or ""):
        message = f"the Spark server lacks {_EXTENSIONS}={extension}"
        raise Refused.of("ZL207", message, hint="start the server with this setting, and with the jar of Iceberg")
    try:
        if state.version == NO_SNAPSHOT:
            found = sql.spark.sql(f"SHOW TBLPROPERTIES {sql.name} ('location')").collect()
            same = [row["value"] for row in found] == [state.location]
        else:
            listed = f"SELECT 1 FROM {sql.name}.snapshots WHERE snapshot_id = {state.version}"
            same = bool(sql.spark.sql(listed).collect())
    except AnalysisException as error:
        message = f"{work.table}: the Spark server finds no such Iceberg table"
        hint = "give the server the same catalog as zlayout.yaml (zlayout.spark_conf(project) returns its settings)"
        raise Refused.of("ZL208", message, hint=hint, detail=first_line(error)) from error
    if not same:
        expected = f"at {state.location}" if state.version == NO_SNAPSHOT else f"with snapshot {state.version}"
        message = f"{work.table}: expected the table {expected}, the Spark server finds another one of this name"
        hint = "the server has another catalog, or the table was replaced or restored: compare them, and plan again"
        raise CommitConflict.of("ZL320", message, hint=hint)
    _require_readable(sql, work, state)


def _require_readable(sql: IcebergSql, work: PlannedTable, state: TableState) -> None:
    if not work.groups:
        return
    version = sql.version()
    try:
        assert sql.spark.table(sql.name).schema is not None
    except Exception as error:
        if is_lost(error):
            raise
        message = f"the Iceberg {version} of the Spark server cannot read {work.table}"
        hint = "use Spark 4.1 with Iceberg 1.12, or rewrite the table with the engine that writes it"
        raise Refused.of("ZL227", message, hint=hint, detail=first_line(error)) from error
    if has_row_ids_in_orc(state) and numbers(str(sql.spark.version)) < (4, 1):
        raise Refused(unreadable_row_ids(str(work.table)))
    if native_order(work.layout) == "hilbert" and numbers(version) < numbers(_FIRST_WITH_HILBERT):
        message = f"{work.table}: rewrite_data_files of Iceberg {version} has no curve hilbert"
        raise Refused.of("ZL223", message, hint=f"use curve zorder, or Iceberg {_FIRST_WITH_HILBERT}")


def require_appends_only(metadata: TableMetadata, work: PlannedTable, own: Collection[int]) -> None:
    """Check that other writers have only appended files since the work's version.

    Args:
        metadata: The metadata of the table.
        own: The snapshots that the run has made.

    Raises:
        Refused: ZL225.
    """
    history = (
        Past(one.snapshot_id, operation_of(one), summary_of(one), one.snapshot_id in own)
        for one in ancestors(metadata, head(metadata, work.table))
    )
    require_only_appends(work, history)


# The statements.


def statement(sql: IcebergSql, work: PlannedTable, state: TableState, spec_id: int) -> str:
    """Return the CALL that rewrites the partitions of a plan. spec_id: the partition spec of the new files."""
    pairs = (string_literal(part) for pair in options(work, spec_id).items() for part in pair)
    arguments = {
        "table": string_literal(sql.name),
        "strategy": "'sort'",
        "sort_order": string_literal(sort_order(work.layout)),
        "options": f"map({', '.join(pairs)})",
    }
    if not work.covers_table and (condition := where(sql.functions, partitions_of(work.groups), state)):
        arguments["where"] = string_literal(condition)
    named = ", ".join(f"{name} => {value}" for name, value in arguments.items())
    return f"CALL {sql.functions}.rewrite_data_files({named})"


def sort_order(layout: Layout) -> str:
    """Return the order of a layout in the procedure's own language. Nulls come first, as in the Java action."""
    columns = [quote_path(path_of(column.name)) for column in layout.columns]
    if (order := native_order(layout)) == "sort":
        return ", ".join(f"{column} ASC NULLS FIRST" for column in columns)
    return f"{order}({', '.join(columns)})"


def where(functions: str, chosen: Sequence[Partition], state: TableState) -> str:
    """Return a condition that Iceberg converts to the expression of `write.jvm.partition_filter`; '' for all files.

    Args:
        functions: The namespace of Iceberg's functions in SQL.
        chosen: The partitions.
        state: The table, which has the columns of their fields.
    """
    by_fields: dict[tuple[PartitionField, ...], list[tuple[Any, ...]]] = {}
    for partition in chosen:
        by_fields.setdefault(partition.fields, []).append(partition.values)
    if () in by_fields:
        return ""
    return any_of([part for fields, rows in by_fields.items() for part in _of_spec(functions, fields, rows, state)])


def _of_spec(
    functions: str, fields: tuple[PartitionField, ...], rows: list[tuple[Any, ...]], state: TableState
) -> Iterator[str]:
    needed = without_derived(fields)
    if len(needed) > 1:
        for row in rows:
            yield "(" + " AND ".join(_equal(functions, fields[at], row[at], state) for at in needed) + ")"
        return
    one = fields[needed[0]]
    values = list(dict.fromkeys(row[needed[0]] for row in rows))
    compared = [value for value in values if value is not None and not isinstance(value, bool | float)]
    yield from (_equal(functions, one, value, state) for value in values if value not in compared)
    if compared:
        listed = ", ".join(_literal(one, value, state) for value in compared)
        yield f"{_term(functions, one)} IN ({listed})"


def _equal(functions: str, field: PartitionField, value: Any, state: TableState) -> str:
    source = quote_path(path_of(field.source))
    if value is None:  # Iceberg converts no condition that a function is null, and each transform of null is null
        return f"{source} IS NULL"
    test = f"{_term(functions, field)} = {_literal(field, value, state)}"
    # Spark replaces `flag = FALSE` by `NOT flag`, which Iceberg takes for `flag != TRUE`, also true for null
    return f"({test} AND {source} IS NOT NULL)" if isinstance(value, bool) else test


def _term(functions: str, field: PartitionField) -> str:
    name, width, source = transform_name(field), argument(field), quote_path(path_of(field.source))
    if name == "identity":
        return source
    if name in _TIMES:
        return f"{functions}.{name}s({source})"
    return f"{functions}.{name}({width}, {source})"


def _literal(field: PartitionField, value: Any, state: TableState) -> str:
    name, column = transform_name(field), state.column(field.source)
    if name == "day":
        return literal(far_date(value), pa.date32())
    if column is None or name in ("bucket", *_TIMES):
        return str(int(value))
    return literal(value, column.type)


# The commits.


def change_settings(sql: IcebergSql, work: PlannedTable) -> Commit | None:
    """Set the properties of the work.

    Returns:
        The commit, None if the table has these properties already.

    Raises:
        CommitConflict: ZL320, if another writer changed one of them since the plan; ZL321.
        EngineError: ZL314.
        CommitUnknown: ZL331.
    """
    if not work.properties:
        return None
    metadata = sql.metadata()
    work.require_planned(metadata.properties, spec_fields(metadata.spec(), metadata.schema()))
    if not _set(sql, dict(work.properties), f"changing the settings of {work.table} in run {work.run_id}"):
        return None
    snapshot = head(sql.metadata(), work.table)
    return Commit("settings", NO_SNAPSHOT if snapshot is None else snapshot.snapshot_id)


def rewrite(
    sql: IcebergSql,
    work: PlannedTable,
    state: TableState,
    notify: Notify,
    observe: Callable[[int | None], TableState],
    own: set[int],
) -> Iterator[Commit | GroupFailed]:
    """Call the procedure for the partitions of the work, then record the layout and the run.

    Args:
        state: The table at the work's version.
        observe: Observes the table at a snapshot.
        own: The snapshots that the run has made, to which the new ones are added.

    Raises:
        As `native.rewrite` does.
    """
    metadata = sql.metadata()
    require_appends_only(metadata, work, own)
    call = statement(sql, work, state, metadata.default_spec_id)
    earlier = frozenset(one.snapshot_id for one in metadata.snapshots)
    with java_errors(f"checking {work.table}", _FAILURES):
        application = sql.spark.conf.get("spark.app.id", None)
    planned = frozenset(paths_of(work.groups).to_pylist())
    notify(Progress(str(work.table), Stage.REWRITING, f"with Iceberg's {native_order(work.layout)}"))

    def run() -> int:
        sql.answer = None
        with statement_errors(sql.spark):
            (sql.answer,) = sql.spark.sql(call).collect()
        return int(sql.answer["failed_data_files_count"])

    def look() -> tuple[RunCommit, ...]:
        found = rewrites_since(sql.catalog, work.table, earlier, application)
        if _are_those_of(sql.answer, found):  # with those that rewrote other files than planned
            return found
        return tuple(commit for commit in found if not planned.isdisjoint(commit.change.removed))

    done = yield from settle(work, run, look, _FAILURES, state.files, observe)
    own.update(commit.snapshot for commit in done)
    if done and _are_those_of(sql.answer, done):
        yield from _record(sql, work, done)


def _are_those_of(answer: Row | None, done: Iterable[RunCommit]) -> bool:
    """Return whether commits replaced as many files as the procedure states, so that no other rewrite is among them."""
    removed = sum(len(commit.change.removed) for commit in done)
    added = sum(len(commit.change.added) for commit in done)
    return answer is not None and (removed, added) == (
        answer["rewritten_data_files_count"],
        answer["added_data_files_count"],
    )


def _record(sql: IcebergSql, work: PlannedTable, done: Sequence[RunCommit]) -> Iterator[Commit]:
    metadata = sql.metadata()
    state = recorded.known(metadata.properties, ((one.snapshot_id, summary_of(one)) for one in metadata.snapshots))
    made = [commit.snapshot for commit in done]
    try:
        dead = recorded.listed(state) - live_snapshots(sql.catalog, work.table)
    except TableError:
        dead = frozenset()
    known = {one.snapshot_id for one in metadata.snapshots}
    runs = {at: run for at, run in recorded.runs(metadata.properties).items() if at in known}
    wanted = {
        recorded.PROPERTY: recorded.render(recorded.after(state, work.layout, made, dead)),
        recorded.RUNS: recorded.render_runs(runs | dict.fromkeys(made, work.run_id)),
    }
    if _set(sql, wanted, f"recording the layout of {work.table}"):
        yield Commit("record", made[-1])


def _set(sql: IcebergSql, wanted: dict[str, str], doing: str) -> bool:
    """Set table properties, without compare-and-set. Return whether a commit was needed."""
    # Of two changes of one property at the same time, one is lost.

    def missing() -> dict[str, str]:
        now = sql.metadata().properties
        return {key: value for key, value in wanted.items() if now.get(key) != value}

    def run() -> None:
        pairs = ", ".join(f"{_literal_of(key)} = {_literal_of(value)}" for key, value in needed.items())
        with statement_errors(sql.spark):
            sql.spark.sql(f"ALTER TABLE {sql.name} SET TBLPROPERTIES ({pairs})").collect()

    def look() -> list[bool]:
        return [] if missing() else [True]

    with java_errors(doing, _FAILURES):
        needed = missing()
    if not needed:
        return False
    done, failure = ran(doing, run, look, _FAILURES)
    if not done:
        raise failure or CommitConflict.of(
            "ZL321", f"{doing}: another writer changed the properties", hint="plan and apply again"
        )
    return True


def _literal_of(text: str) -> str:
    # Iceberg's parser takes ALTER TABLE with words such as "drop branch", also in a string, for its own statement.
    return string_literal(text).replace(" ", "\\u0020")
