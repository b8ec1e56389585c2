"""The Iceberg backend, which observes tables through pyiceberg and carries out plans through Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa

from zlayout.errors import Diagnostic, Refused
from zlayout.formats.base import (
    Capabilities,
    Commit,
    Event,
    Listed,
    Notify,
    PlannedTable,
    Progress,
    RunMetrics,
    SampleSource,
    Stage,
)
from zlayout.formats.iceberg.read.catalog import list_tables, list_warehouse, load_table
from zlayout.formats.iceberg.read.history import last_run, undo_run
from zlayout.formats.iceberg.read.observe import NO_SNAPSHOT, observe
from zlayout.formats.iceberg.read.schema import iceberg_name, leaf_fields, mapped_names
from zlayout.formats.iceberg.read.support import (
    EMPTY_MAIN,
    empty_main,
    has_names_in_two_cases,
    has_row_ids_in_orc,
    native_diagnostics,
    needs_row_reader,
    outside_files,
    partition_refusals,
    unordered_columns,
)
from zlayout.formats.kernel.requirements import (
    partitions_of,
    paths_of,
    require_allowed,
    require_no_settings,
    require_own_files,
    require_table,
)
from zlayout.formats.row_groups import KeyFiles, by_field_id, read_stored_rows, sample_row_groups
from zlayout.formats.undo import Undo
from zlayout.spark.jvm import session_conf
from zlayout.spark.session import SparkRuntime
from zlayout.spark.versions import numbers
from zlayout.spec.model import CatalogConfig, Layout, TableName
from zlayout.table.samples import KeySample, NotParquetError, StoredRows
from zlayout.table.state import Int64, PartitionField, TableState
from zlayout.text import quote_path

DRAW_BITS = 31  # number of bits in the random number of a row
# An entry in the summary of a replace snapshot. It permits Apache Polaris to undo the snapshot if a commit of another
# writer conflicts with it (`CatalogHandlerUtils`).
YIELDS = {"polaris.internal.conflict-resolution.by-operation-type.replace": "rollback"}
VECTORIZED = "spark.sql.iceberg.vectorization.enabled"
VECTORIZED_OPTION = "vectorization-enabled"  # the same setting for one read
CASE_SENSITIVE = "spark.sql.caseSensitive"


class IcebergBackend:
    """Iceberg tables of one catalog, addressed by name."""

    capabilities = Capabilities("iceberg", partition_evolution=True, native_by_rank=False)

    def __init__(self, catalog: CatalogConfig, runtime: SparkRuntime) -> None:
        self._catalog = catalog
        self.runtime = runtime
        self._made: dict[str, set[int]] = {}  # the snapshots of each run without a JVM, whose summaries have no run id

    def observe(self, table: TableName, columns: Sequence[str], version: int | None = None) -> TableState:
        """See `zlayout.formats.iceberg.read.observe.observe`."""
        return observe(self._catalog, table, columns, version)

    def list_tables(self, pattern: TableName) -> Iterator[Listed]:
        """See `zlayout.formats.base.Backend`. Raises TableError ZL121."""
        return list_tables(self._catalog, pattern)

    def list_storage(self, table: TableName) -> str | None:  # noqa: ARG002
        """See `zlayout.formats.base.Backend`. Lists the warehouse, if it is a URL."""
        return list_warehouse(self._catalog)

    def last_run(self, table: TableName, state: TableState) -> RunMetrics | None:  # noqa: ARG002
        """See `zlayout.formats.base.Backend`. Raises TableError ZL121 to ZL123, ZL127; Refused ZL238."""
        return last_run(self._catalog, table)

    def undo(self, table: TableName, run: str | None) -> Undo:
        """See `zlayout.formats.base.Backend` and `undo_run`. Raises also Refused ZL242."""

        def observed(snapshot: int | None) -> TableState:
            state = self.observe(table, (), snapshot)
            require_own_files(state)  # properties of the table say where a rollback writes the new metadata
            return state

        return undo_run(self._catalog, table, observed, run)

    def roll_back(self, undo: Undo, run_id: str, properties: Mapping[str, str], notify: Notify) -> Commit:  # noqa: ARG002
        """See `zlayout.formats.base.Backend`. Ignores commit properties: a rollback has no snapshot of its own."""
        from zlayout.formats.iceberg.write.jvm import FAILURES, INTERNALS, IcebergJvm
        from zlayout.formats.iceberg.write.rollback import roll_back, roll_back_by_catalog
        from zlayout.formats.kernel.execute import checked_undo, same_undo

        notify(Progress(str(undo.table), Stage.STARTING))
        has_jvm = self.runtime.has_jvm
        now = checked_undo(self, INTERNALS, FAILURES, undo) if has_jvm else same_undo(self, undo)
        notify(Progress(str(undo.table), Stage.COMMITTING))
        if not has_jvm:
            return roll_back_by_catalog(self._catalog, now, run_id)
        return roll_back(IcebergJvm(self.runtime.session), now, run_id)

    def sample_source(self, table: TableName, state: TableState, seed: int) -> SampleSource:
        """See `zlayout.formats.base.Backend`. The random number is a hash of a row's file and position.

        Raises:
            Refused: ZL242.
            TableError: ZL137, ZL138 for a table of a REST catalog.
        """
        from pyspark.sql import functions as F

        require_own_files(state)
        if self._catalog.type == "rest":
            from zlayout.formats.iceberg.write.jvm import IcebergJvm

            IcebergJvm(self.runtime.session).load(table)
        session, path = self.runtime.session, (table.catalog, *table.identifier)
        low_bits = F.xxhash64("_file", "_pos", F.lit(seed)).bitwiseAND((1 << DRAW_BITS) - 1)
        options = {VECTORIZED_OPTION: "false"} if needs_row_reader(state) else {}
        if state.version != NO_SNAPSHOT:
            if numbers(session.version) < (4,):  # Spark 3.5 ignores `versionAsOf` for a table that is read by its name
                path = (*path, f"snapshot_id_{state.version}")
            else:  # with the other form, Spark requests a table of this longer name, which a REST catalog may refuse
                options["versionAsOf"] = str(state.version)
        return SampleSource(
            frame=session.read.options(**options).table(quote_path(path)),
            file=F.col("_file"),
            draw=low_bits / float(1 << DRAW_BITS),
            paths=lambda: state.files.path.cast(pa.string()),
        )

    def sample_keys(
        self, table: TableName, state: TableState, chosen: Int64, columns: Sequence[str], max_bytes: int, seed: int
    ) -> KeySample:
        """See `zlayout.formats.base.Backend`. Raises Refused ZL242; NotParquetError if a file is not Parquet."""
        source = self._key_files(table, state)
        wanted = [column for column in state.columns if column.name in columns]
        return sample_row_groups(source, state.files, chosen, wanted, max_bytes, seed)

    def stored_rows(
        self, table: TableName, state: TableState, chosen: Int64, columns: Sequence[str], max_bytes: int
    ) -> StoredRows | None:
        """See `zlayout.formats.base.Backend`. Raises Refused ZL242; NotParquetError if a file is not Parquet."""
        source = self._key_files(table, state)
        wanted = [column for column in state.columns if column.name in columns]
        return read_stored_rows(source, state.files, chosen, wanted, max_bytes)

    def _key_files(self, table: TableName, state: TableState) -> KeyFiles:
        require_own_files(state)
        loaded, files = load_table(self._catalog, table), state.files

        def open_file(path: str) -> pa.NativeFile:
            if path.endswith((".orc", ".avro")):
                raise NotParquetError(path.rpartition(".")[2].upper())
            opened = loaded.io.new_input(path).open(seekable=True)
            # A PythonFile seeks to the end of the file to find its size, and GCS reports an error there.
            return opened if isinstance(opened, pa.NativeFile) else pa.PythonFile(opened, mode="r")

        leaves = dict(leaf_fields(loaded.schema().fields))

        def constant(column: str, file: int) -> Any:
            partition = files.partitions[files.partition[file]]
            values = {str(field): value for field, value in zip(partition.fields, partition.values, strict=True)}
            return values.get(column, leaves[column].initial_default)

        ids = {leaf: field.field_id for leaf, field in leaves.items()}
        mapped = mapped_names(loaded) or {iceberg_name(leaf): field_id for leaf, field_id in ids.items()}
        return KeyFiles(open_file, by_field_id(ids, mapped), constant, state.required)

    def native_diagnostics(self, layout: Layout, state: TableState) -> tuple[Diagnostic, ...]:
        """Return ZL401 for each setting that engine native does not support; ZL223 as `unordered_columns`; ZL229."""
        found = self.unsupported_settings(layout, state) + tuple(unordered_columns(layout, state))
        # a table with files is then that of a branch
        return (*found, empty_main(state.table)) if EMPTY_MAIN in state.features and len(state.files) else found

    def native_refusals(self, work: PlannedTable, state: TableState) -> tuple[Diagnostic, ...]:
        """See `zlayout.formats.base.Backend`. Returns ZL224."""
        groups = work.groups
        return () if work.covers_table else tuple(outside_files(state, partitions_of(groups), paths_of(groups)))

    def unsupported_settings(self, layout: Layout, state: TableState) -> tuple[Diagnostic, ...]:  # noqa: ARG002
        """See `zlayout.formats.kernel.execute.Steps`."""
        return native_diagnostics(layout)

    def partition_diagnostics(self, fields: tuple[PartitionField, ...], state: TableState) -> tuple[Diagnostic, ...]:
        """See `zlayout.formats.base.Backend`. Returns ZL226."""
        return partition_refusals(fields, state)

    def execute(self, work: PlannedTable, notify: Notify) -> Iterator[Event]:
        """See `zlayout.formats.kernel.execute.execute`."""
        from zlayout.formats.iceberg.write.jvm import FAILURES, INTERNALS
        from zlayout.formats.kernel.execute import execute

        yield from execute(self, INTERNALS, FAILURES, work, notify)

    def checked(self, work: PlannedTable) -> TableState:
        """See `zlayout.formats.kernel.execute.Steps`. Observes the table at the work's version."""
        measured = tuple(column.name for column in work.layout.columns) if work.groups else ()
        state = self.observe(work.table, measured, work.version)
        require_allowed(state, self.partition_diagnostics(work.partition_by or (), state))
        require_no_settings(work)
        require_table(work, state.table_id, work.table_id)
        return state

    def refuse_native(self, work: PlannedTable, state: TableState, *, declared: bool) -> None:  # noqa: ARG002
        """See `zlayout.formats.kernel.execute.Steps`. Raises Refused ZL223, ZL224."""
        if found := (*unordered_columns(work.layout, state), *self.native_refusals(work, state)):
            raise Refused(*found)

    def carry_out(self, work: PlannedTable, state: TableState, notify: Notify, *, native: bool) -> Iterator[Event]:
        """See `zlayout.formats.kernel.execute.Steps`.

        Raises:
            Refused: ZL225, ZL227, ZL228, ZL229, ZL242, before any write; ZL225 also after a change of settings.
                Without a JVM also ZL204, ZL207, ZL208, ZL223, before any write.
        """
        if not self.runtime.has_jvm:
            yield from self._by_sql(work, state, notify)
            return
        from zlayout.formats.iceberg.write import commit
        from zlayout.formats.iceberg.write import native as by_iceberg
        from zlayout.formats.iceberg.write.jvm import IcebergJvm
        from zlayout.formats.iceberg.write.settings import change_settings
        from zlayout.formats.iceberg.write.staging import (
            require_native,
            require_row_ids,
            require_row_ids_of_orc,
            require_types,
        )

        jvm = IcebergJvm(self.runtime.session)
        require_types(jvm, work.table)
        if self._catalog.options.get("yield_to_writers"):
            properties = {**work.spec.commit_properties, **YIELDS}
            work = replace(work, spec=replace(work.spec, commit_properties=properties))
        if work.groups and has_row_ids_in_orc(state):
            require_row_ids_of_orc(jvm, work.table)
        with session_conf(jvm.session, _conf(state)):
            if native:  # engine zlayout needs no such check: it drops the groups whose files have changed
                require_native(jvm, work.table)
                require_own_files(self.observe(work.table, ()))  # it also rewrites files that were added since the plan
                by_iceberg.require_appends_only(jvm.load(work.table), work)
            elif work.groups:
                require_row_ids(jvm, work)
            changes = work.properties or work.partition_by is not None
            notify(Progress(str(work.table), Stage.CHANGING_SETTINGS if changes else Stage.STARTING))
            changed = change_settings(jvm, work)
            if changed is not None:
                yield changed
            if work.groups and native:
                observe = partial(self.observe, work.table, ())
                yield from by_iceberg.rewrite(jvm, self._catalog, work, notify, state.files, observe)
            elif work.groups:
                yield from commit.rewrite(jvm, self._catalog, work, notify, state.files)

    def _by_sql(self, work: PlannedTable, state: TableState, notify: Notify) -> Iterator[Event]:
        from zlayout.formats.iceberg.write import by_sql
        from zlayout.formats.iceberg.write.jvm import java_errors

        notify(Progress(str(work.table), Stage.CHANGING_SETTINGS if work.properties else Stage.STARTING))
        by_sql.require_expressible(work, state, yields=bool(self._catalog.options.get("yield_to_writers")))
        sql = by_sql.IcebergSql(self.runtime.session, self._catalog, work.table)
        own = self._made.setdefault(work.run_id, set())
        with session_conf(sql.spark, _conf(state)):
            with java_errors(f"checking {work.table}"):
                by_sql.require_same_table(sql, work, state)
            if work.groups:
                require_own_files(self.observe(work.table, ()))  # it also rewrites files that were added since the plan
                by_sql.require_appends_only(sql.metadata(), work, own)
            if (changed := by_sql.change_settings(sql, work)) is not None:
                yield changed
            if work.groups:
                yield from by_sql.rewrite(sql, work, state, notify, partial(self.observe, work.table, ()), own)


def _conf(state: TableState) -> dict[str, str]:
    conf = {VECTORIZED: "false"} if needs_row_reader(state) else {}
    return conf | {CASE_SENSITIVE: "true"} if has_names_in_two_cases(state) else conf
