"""The Delta Lake backend, which observes tables through deltalake and carries out plans through Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.fs as pa_fs
from deltalake import DeltaTable

from zlayout.errors import Diagnostic, Refused
from zlayout.formats.access import cause_of
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
from zlayout.formats.delta.names import Names, at_location, is_missing, warehouse_above
from zlayout.formats.delta.read.features import (
    native_diagnostics,
    native_refusals,
    partition_refusals,
    require_own_commits,
)
from zlayout.formats.delta.read.history import last_run, undo_run
from zlayout.formats.delta.read.log import (
    BY_COMMITS,
    RECORDS,
    LogFiles,
    checked_log,
    delta_location,
    local_path,
    sample_delta,
    stored_rows_of_delta,
    table_files,
)
from zlayout.formats.delta.read.observe import observe_delta
from zlayout.formats.kernel.requirements import (
    replaced,
    require_allowed,
    require_location,
    require_own_files,
    require_table,
)
from zlayout.formats.undo import Undo
from zlayout.planner.clustering import clustering_refusals, unclustered_hilbert, undo_refusals
from zlayout.spark.jvm import has_class, jvm_of, session_conf
from zlayout.spark.session import SparkRuntime
from zlayout.spec.client_options import VENDED_FILES, hadoop_conf
from zlayout.spec.model import CatalogConfig, Layout, TableName
from zlayout.table.outside import counted, find_outside
from zlayout.table.samples import KeySample, StoredRows
from zlayout.table.state import Int64, PartitionField, TableState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from zlayout.formats.delta.write.jvm import DeltaJvm
    from zlayout.formats.delta.write.transaction import Log

TIME_ZONE = "spark.sql.session.timeZone"


class DeltaBackend:
    """Delta tables of one catalog, addressed by location."""

    capabilities = Capabilities("delta", partition_evolution=False, native_by_rank=True)

    def __init__(self, catalog: CatalogConfig, runtime: SparkRuntime) -> None:
        self._catalog = catalog
        self._names = Names(catalog)
        self.runtime = runtime
        # the run id and the location of each table that `require_exclusive_commits` has accepted
        self._exclusive: set[tuple[str, str]] = set()

    def observe(self, table: TableName, columns: Sequence[str], version: int | None = None) -> TableState:
        """See `zlayout.formats.base.Backend`. Raises TableError ZL101, ZL110 to ZL114, ZL133 to ZL136."""
        state = self._observe_at(delta_location(self._names.located(table), table), table, columns, version)
        return replace(state, maintainers=(*state.maintainers, *self._names.maintainers(table)))

    def list_tables(self, pattern: TableName) -> Iterator[Listed]:
        """See `zlayout.formats.base.Backend`. Raises TableError ZL114, ZL133."""
        return self._names.listed(pattern)

    def list_storage(self, table: TableName) -> str:
        """See `zlayout.formats.base.Backend`. Opens the table with deltalake, which lists the log.

        Raises:
            TableError: ZL114, if there is neither the folder of the table nor its warehouse on this machine.
        """
        located = self._names.located(table)
        location = delta_location(located, table)
        if (path := local_path(location)) is not None and is_missing(path):
            return warehouse_above(self._catalog, path)
        try:
            # not `DeltaTable.is_deltatable`, which blocks all other threads while it waits for the storage
            options = self._options(table, location)
            checked_log(location, options, None)
            DeltaTable(location, storage_options=options)
        except Exception as error:
            if cause_of(error) is not None:
                raise  # any other error means that the storage was reached
        return location

    def last_run(self, table: TableName, state: TableState) -> RunMetrics | None:
        """See `zlayout.formats.base.Backend`."""
        return last_run(LogFiles(self._storage(table, state.location)), state.version)

    def sample_source(self, table: TableName, state: TableState, seed: int) -> SampleSource:
        """See `zlayout.formats.base.Backend`.

        Not every Delta table provides the position of a row in its file. Therefore the random numbers depend not only
        on the seed, but also on how Spark splits the files into tasks.

        Raises:
            Refused: ZL212, if the catalog of the table owns its commits; ZL242.
        """
        from pyspark.sql import functions as F

        from zlayout.formats.delta.write import jvm, transaction

        require_own_files(state)
        require_own_commits(state)
        location, session = state.location, session_at(self._catalog, self.runtime, table, state.location)
        conf = self._spark_conf(table, location)
        reader = session.read.format("delta").options(**conf).option("versionAsOf", str(state.version))
        frame = reader.load(location)

        def paths() -> pa.Array:
            with session_conf(session, conf):
                return transaction.file_uris(jvm.DeltaJvm(session, location).base_uri(), state.files.path.to_pylist())

        return SampleSource(
            frame=frame, file=jvm.metadata_column(frame).getField("file_path"), draw=F.rand(seed), paths=paths
        )

    def sample_keys(
        self, table: TableName, state: TableState, chosen: Int64, columns: Sequence[str], max_bytes: int, seed: int
    ) -> KeySample:
        """See `zlayout.formats.base.Backend`. Raises Refused ZL242."""
        require_own_files(state)
        return sample_delta(state, chosen, columns, max_bytes, seed, self._options(table, state.location))

    def stored_rows(
        self, table: TableName, state: TableState, chosen: Int64, columns: Sequence[str], max_bytes: int
    ) -> StoredRows | None:
        """See `zlayout.formats.base.Backend`. Raises Refused ZL242."""
        require_own_files(state)
        return stored_rows_of_delta(state, chosen, columns, max_bytes, self._options(table, state.location))

    def native_diagnostics(self, layout: Layout, state: TableState) -> tuple[Diagnostic, ...]:
        """See `zlayout.formats.base.Backend`. ZL223 if OPTIMIZE cannot do as the layout declares."""
        return (*unclustered_hilbert(layout, state), *native_refusals(state), *self.unsupported_settings(layout, state))

    def native_refusals(self, work: PlannedTable, state: TableState) -> tuple[Diagnostic, ...]:  # noqa: ARG002
        """See `zlayout.formats.base.Backend`. OPTIMIZE rewrites the files of the planned partitions alone."""
        return ()

    def unsupported_settings(self, layout: Layout, state: TableState) -> tuple[Diagnostic, ...]:
        return native_diagnostics(layout, state)

    def partition_diagnostics(
        self,
        fields: tuple[PartitionField, ...],
        state: TableState,
    ) -> tuple[Diagnostic, ...]:
        return tuple(partition_refusals(fields, state))

    def execute(self, work: PlannedTable, notify: Notify) -> Iterator[Event]:
        """See `zlayout.formats.kernel.execute.execute`."""
        from zlayout.formats.delta.write import jvm, transaction
        from zlayout.formats.kernel.execute import execute

        yield from execute(self, jvm.INTERNALS, transaction.FAILURES, work, notify)

    def checked(self, work: PlannedTable) -> TableState:
        """See `zlayout.formats.kernel.execute.Steps`. The returned version is not older than the plan."""
        state = self.observe(work.table, _columns(work))
        self._require_allowed(work, state)
        if state.version < work.version:
            raise replaced(work, f"version {work.version} or later", str(state.version))
        require_location(work, state.location)
        require_table(work, state.table_id, work.table_id)
        work.require_planned(state.properties, state.partition_fields, state.clustering)
        return state

    def refuse_native(self, work: PlannedTable, state: TableState, *, declared: bool) -> None:
        """See `zlayout.formats.kernel.execute.Steps`. Raises Refused ZL211, ZL216, ZL223."""
        from zlayout.formats.delta.write import optimize

        if not declared:
            refusals = clustering_refusals(replace(work.layout, engine="native"), state)
            require_allowed(state, (*refusals, *native_refusals(state)))
            optimize.refuse_partial(work, self._observe_at(state.location, work.table, (), work.version))

    def carry_out(self, work: PlannedTable, state: TableState, notify: Notify, *, native: bool) -> Iterator[Event]:
        """See `zlayout.formats.kernel.execute.Steps`.

        Raises:
            Refused: ZL204, ZL217, ZL218, ZL220, ZL242, before any write.
        """
        # Delta reads partition values without a time zone in the time zone of the session.
        zone = {TIME_ZONE: work.spec.partition_timezone} if work.spec.partition_timezone else {}
        if not self.runtime.has_jvm:
            with session_conf(self.runtime.session, zone):
                yield from self._by_sql(work, state, notify)
            return
        with session_conf(self.runtime.session, zone | self._spark_conf(work.table, state.location)):
            yield from self._carry_out(work, state, notify, native=native)

    def _by_sql(self, work: PlannedTable, state: TableState, notify: Notify) -> Iterator[Event]:
        from zlayout.formats.delta.write import by_sql, optimize, transaction

        changes = bool(work.properties) or work.cluster_by is not None
        notify(Progress(str(work.table), Stage.CHANGING_SETTINGS if changes else Stage.STARTING))
        delta = by_sql.DeltaSql(self.runtime.session, state.location)
        permitted = self._catalog.file_locations(work.table)
        with transaction.spark_errors(str(work.table), "checking the table"):
            by_sql.require_same_table(delta, work.table, state.table_id)
            by_sql.require_exclusive_commits(delta, work.table)
            if work.groups:
                by_sql.require_stored_values(work, state)
                by_sql.require_own_files(delta, work.table, tuple(permitted))
        storage, properties = partial(self._storage, work.table, state.location), work.spec.commit_properties
        log, version = transaction.Log(delta, storage, str(work.table), work.run_id, properties), state.version
        if work.properties:
            yield (done := optimize.set_properties(delta, log, work, version))
            version = done.version
        if work.cluster_by is not None:
            yield (done := optimize.set_clustering(delta, log, work, version))
            version = done.version
        if work.groups and not state.clustering and state.properties.get(RECORDS) != BY_COMMITS:
            yield optimize.mark_records(delta, log, work, version)
            changes = True
        if changes:
            state = self._observe_at(state.location, work.table, _columns(work))
            require_table(work, state.table_id, work.table_id)
            work.require_clustering(state.clustering, altered=True)
        if work.groups:
            observe = partial(self._observe_at, delta.location, work.table, ())
            yield from optimize.run_native(delta, log, state, work, notify, observe)

    def _carry_out(self, work: PlannedTable, state: TableState, notify: Notify, *, native: bool) -> Iterator[Event]:
        from zlayout.formats.delta.write import commit, optimize, repartition

        changes = work.properties or work.partition_by is not None or work.cluster_by is not None
        notify(Progress(str(work.table), Stage.CHANGING_SETTINGS if changes else Stage.STARTING))
        delta, log = self._opened(work.table, state.location, work.run_id, work.spec.commit_properties)
        if state.partition_fields and (work.groups or work.partition_by is not None):
            repartition.refuse_changing_values(delta, work)
        if work.partition_by:
            repartition.refuse_changing_strings(delta, work)
        version = state.version
        if work.properties:
            yield (done := optimize.set_properties(delta, log, work, version))
            version = done.version
        if work.cluster_by is not None:
            yield optimize.set_clustering(delta, log, work, version)
        if work.partition_by is not None:
            snapshot, state = self._pinned(delta, state, work)
            yield repartition.repartition(delta, log, snapshot, state, work, notify)
        if changes:
            state = self._observe_at(state.location, work.table, _columns(work))
            require_table(work, state.table_id, work.table_id)
            work.require_clustering(state.clustering, altered=True)
        if work.partition_by is not None:
            work = repartition.regrouped(work, state)
        if work.groups and native:
            self._require_own_files(delta, work.table)
            yield from optimize.run_native(
                delta, log, state, work, notify, partial(self._observe_at, delta.location, work.table, ())
            )
        elif work.groups:
            snapshot, state = self._pinned(delta, state, work)
            yield from commit.run_zlayout(delta, log, snapshot, state, work, notify)

    def undo(self, table: TableName, run: str | None) -> Undo:
        """See `zlayout.formats.base.Backend`. Raises Refused ZL211 to ZL213, ZL231 to ZL235, ZL260; TableError."""
        state = self.observe(table, ())
        require_allowed(state, undo_refusals(state))
        log = LogFiles(self._storage(table, state.location))
        return undo_run(table, log, state, partial(self._observe_at, state.location, table, ()), run)

    def roll_back(self, undo: Undo, run_id: str, properties: Mapping[str, str], notify: Notify) -> Commit:
        """See `zlayout.formats.base.Backend`. Raises Refused ZL204, ZL220 and those of `undo` before any write."""
        from zlayout.formats.delta.write import jvm, transaction
        from zlayout.formats.kernel.execute import checked_undo

        now = checked_undo(self, jvm.INTERNALS, transaction.FAILURES, undo)
        with session_conf(self.runtime.session, self._spark_conf(now.table, now.location)):
            delta, log = self._opened(now.table, now.location, run_id, properties)
            return transaction.roll_back(delta, log, now, notify)

    def _opened(
        self, table: TableName, location: str, run_id: str, properties: Mapping[str, str]
    ) -> tuple[DeltaJvm, Log]:
        """Open a table in Spark. The first time in a run, check that no commit can replace that of another writer."""
        from zlayout.formats.delta.write import jvm, transaction

        with transaction.spark_errors(str(table), "opening its log"):
            delta = jvm.DeltaJvm(session_at(self._catalog, self.runtime, table, location), location)
        if (checked := (run_id, location)) not in self._exclusive:  # a run may open a table several times
            with transaction.spark_errors(str(table), "checking its log folder"):
                jvm.require_exclusive_commits(delta, location, str(table))
            self._exclusive.add(checked)
        storage = partial(self._storage, table, location)
        return delta, transaction.Log(delta, storage, str(table), run_id, properties)

    def _require_own_files(self, delta: DeltaJvm, table: TableName) -> None:
        """Check the files that OPTIMIZE finds in the log, which may be others than those that were observed."""
        from zlayout.formats.delta.write.transaction import spark_errors

        # Delta's reader of the log uses the list of sidecars in `_last_checkpoint`, and other readers use the one in
        # the checkpoint. Engine zlayout compares all files.
        with spark_errors(str(table), "reading its log"):
            paths = delta.files.paths(delta.live_files(delta.snapshot()))
        found = find_outside(paths, delta.location, self._catalog.file_locations(table), uris=True)
        if refusals := counted([found], delta.location, table.catalog).refusals:
            raise Refused(*refusals)

    def _require_allowed(self, work: PlannedTable, state: TableState) -> None:
        change = () if work.partition_by is None else self.partition_diagnostics(work.partition_by, state)
        require_allowed(state, (*clustering_refusals(work.layout, state), *change))

    def _pinned(self, delta: DeltaJvm, state: TableState, work: PlannedTable) -> tuple[Any, TableState]:
        """Return the newest snapshot (py4j) and its state, which is checked as `state` was if the table has changed."""
        from zlayout.formats.delta.write.transaction import spark_errors

        with spark_errors(str(work.table), "reading its log"):
            snapshot = delta.snapshot()
            version, table_id = int(snapshot.version()), str(snapshot.metadata().id())
        now = (
            state if version == state.version else self._observe_at(state.location, work.table, _columns(work), version)
        )
        self._require_allowed(work, now)
        require_table(work, table_id, state.table_id)
        work.require_planned(now.properties, now.partition_fields, now.clustering)
        return snapshot, now

    def _observe_at(
        self, location: str, table: TableName, columns: Sequence[str], version: int | None = None
    ) -> TableState:
        """Observe the table at a location that was looked up before, so that all steps use the same location."""
        permitted = self._catalog.file_locations(table)
        state = observe_delta(table, location, columns, version, self._options(table, location), permitted)
        return replace(state, from_catalog=self._catalog.type != "path")

    def _options(self, table: TableName, location: str) -> dict[str, str]:
        return self._names.deltalake_options(table, location)

    def _spark_conf(self, table: TableName, location: str) -> dict[str, str]:
        conf = self._names.spark_conf(table, location)
        if conf and not has_class(jvm_of(self.runtime.session), VENDED_FILES):
            hint = f"use delta-spark 4.4, or remove vended_credentials of catalogs.{table.catalog}"
            message = f"the session lacks unitycatalog-hadoop 0.6, which uses the credentials for {table}"
            raise Refused.of("ZL261", message, hint=hint)
        return conf

    def _storage(self, table: TableName, location: str) -> pa_fs.FileSystem:
        return table_files(location, self._options(table, location))


def session_at(catalog: CatalogConfig, runtime: SparkRuntime, table: TableName, location: str) -> SparkSession:
    """Return the Spark session. For a Delta table by name, configure it for the storage at the table's location."""
    if catalog.type != "path":
        runtime.configure_store(hadoop_conf(at_location(catalog, table, location)))
    return runtime.session  # the active one of this thread, also if the store was configured in another


def _columns(work: PlannedTable) -> tuple[str, ...]:
    return tuple(column.name for column in work.layout.columns)
