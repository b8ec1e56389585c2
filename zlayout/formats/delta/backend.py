"""The Delta Lake backend: observe through deltalake, execute through Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.fs as pa_fs
from deltalake.fs import DeltaStorageHandler

from zlayout.errors import CommitConflict, Diagnostic, Refused
from zlayout.formats.base import Capabilities, Group, Notify, Outcome, Progress, Work
from zlayout.formats.catalogs import delta_location, storage_options
from zlayout.formats.delta.read.features import partition_refusals
from zlayout.formats.delta.read.observe import observe_delta
from zlayout.formats.kernel.engine_check import fallback_notices, fallback_reason, refused_in_fallback, untested
from zlayout.spark.session import SparkRuntime
from zlayout.spec.model import CatalogConfig, Layout, TableName
from zlayout.table.state import PartitionField, TableState

if TYPE_CHECKING:
    from zlayout.formats.delta.write.jvm import DeltaJvm


class DeltaBackend:
    """Delta tables of one catalog, addressed by location."""

    capabilities = Capabilities("delta", partition_evolution=False, native_by_rank=True)

    def __init__(self, catalog: CatalogConfig, runtime: SparkRuntime) -> None:
        self._catalog = catalog
        self._runtime = runtime

    def observe(self, table: TableName, columns: Sequence[str], version: int | None = None) -> TableState:
        """See `zlayout.formats.base.Backend`. Raises TableError ZL101, ZL110 to ZL113."""
        location = delta_location(self._catalog, table)
        return observe_delta(table, location, columns, version, storage_options(self._catalog))

    def native_diagnostics(self, layout: Layout, state: TableState) -> tuple[Diagnostic, ...]:
        from zlayout.formats.delta.write.native import native_diagnostics

        return native_diagnostics(layout, state)

    def partition_diagnostics(
        self,
        fields: tuple[PartitionField, ...],  # noqa: ARG002
        state: TableState,
    ) -> tuple[Diagnostic, ...]:
        return partition_refusals(state.features, state.properties, partitioned=bool(state.partition_fields))

    def execute(self, work: Work, notify: Notify) -> Iterator[Outcome]:
        """See `zlayout.formats.base.Backend`.

        Raises Refused ZL204, ZL21x before any write; EngineError ZL305, ZL306, ZL310, ZL314; CommitConflict ZL320,
        ZL321.
        """
        from zlayout.formats.delta.write.failures import spark_errors
        from zlayout.formats.delta.write.jvm import DeltaJvm
        from zlayout.formats.delta.write.partition_values import refuse_changing_values
        from zlayout.formats.delta.write.repartition import refuse_empty_text, repartition
        from zlayout.formats.delta.write.settings import set_properties

        state = self._checked(work)
        with spark_errors(str(work.table), "looking at its versions"):
            writes = work.groups or work.partition_by is not None
            reason = fallback_reason(self._runtime.session, "delta") if writes else None
        if reason is not None and work.partition_by is not None:
            raise untested(f"{work.table}: changing partition_by", reason)
        native = work.layout.engine == "native" or reason is not None
        if reason is not None and work.layout.engine != "native":
            yield from self._fallback(work, state, reason)
        storage = self._storage(state.location)
        delta = DeltaJvm(self._runtime.session, state.location)
        notify(Progress(str(work.table), "changing settings"))
        if state.partition_fields and writes:
            refuse_changing_values(delta, work)
        if work.partition_by:
            refuse_empty_text(delta, work)
        if work.properties:
            yield set_properties(delta, storage, work, state.version)
        if work.partition_by is not None:
            snapshot, state = self._pinned(delta, state, work)
            yield repartition(delta, storage, snapshot, state, work, notify)
        if work.properties or work.partition_by is not None:
            state = self.observe(work.table, _columns(work))
        if work.partition_by is not None:
            work = replace(work, groups=_regrouped(work, state), covers_table=True)
        if work.groups:
            yield from self._rewrite(delta, storage, state, work, notify, native=native)

    def _rewrite(
        self, delta: DeltaJvm, storage: pa_fs.FileSystem, state: TableState, work: Work, notify: Notify, *, native: bool
    ) -> Iterator[Outcome]:
        if not native:
            from zlayout.formats.delta.write.commit import run_zlayout

            snapshot, state = self._pinned(delta, state, work)
            yield from run_zlayout(delta, storage, snapshot, state, work, notify)
            return
        from zlayout.formats.delta.write.native import run_native

        yield from run_native(delta, storage, state, work, notify, lambda: self.observe(work.table, ()))

    def _fallback(self, work: Work, state: TableState, reason: str) -> Iterator[Outcome]:
        """Say that OPTIMIZE does the work. Raises Refused ZL216 when it would rewrite files that are not planned."""
        from zlayout.formats.delta.write.native import native_diagnostics, refuse_partial

        try:
            refuse_partial(work, self.observe(work.table, (), work.version))
        except Refused as refused:
            raise refused_in_fallback(refused, reason) from refused
        yield from fallback_notices(work.table, reason, native_diagnostics(work.layout, state))

    def _checked(self, work: Work) -> TableState:
        """The table as it is now, which must be one that zlayout rewrites and not older than the plan."""
        state = self.observe(work.table, _columns(work))
        self._require_allowed(work, state)
        if state.version < work.version:
            raise _replaced(work, f"version {work.version} or later", str(state.version))
        if work.table_id not in (None, state.table_id):
            raise _replaced(work, f"the table {work.table_id}", state.table_id)
        work.require_planned(state.properties, state.partition_fields)
        return state

    def _require_allowed(self, work: Work, state: TableState) -> None:
        change = () if work.partition_by is None else self.partition_diagnostics(work.partition_by, state)
        if refusals := (*state.refusals, *change):
            raise Refused(*refusals)

    def _pinned(self, delta: DeltaJvm, state: TableState, work: Work) -> tuple[Any, TableState]:
        """The snapshot to rewrite and what it holds, checked like `state` where the table moved on since.

        Raises Refused ZL21x, CommitConflict ZL320 when it is another table by now.
        """
        from zlayout.formats.delta.write.failures import spark_errors

        with spark_errors(str(work.table), "reading its log"):
            snapshot = delta.snapshot()
            version, table_id = int(snapshot.version()), str(snapshot.metadata().id())
        now = state if version == state.version else self.observe(work.table, _columns(work), version)
        self._require_allowed(work, now)
        if table_id != state.table_id:
            raise _replaced(work, f"the table {state.table_id}", table_id)
        work.require_planned(now.properties, now.partition_fields)
        return snapshot, now

    def _storage(self, location: str) -> pa_fs.FileSystem:
        return pa_fs.PyFileSystem(DeltaStorageHandler(location, storage_options(self._catalog)))


def _replaced(work: Work, expected: str, found: str) -> CommitConflict:
    message = f"{work.table}: expected {expected}, found {found}"
    return CommitConflict(Diagnostic("ZL320", message, hint="the table was replaced; plan again"))


def _columns(work: Work) -> tuple[str, ...]:
    return tuple(column.name for column in work.layout.columns)


def _regrouped(work: Work, state: TableState) -> tuple[Group, ...]:
    """After a full rewrite the planned files are gone: one group for each new partition, all ids accounted for."""
    groups = []
    for at in range(len(state.files.partitions)):
        files = state.files.take(np.flatnonzero(state.files.partition == at))
        target = max(1, round(int(files.bytes.sum()) / work.layout.target_size))
        groups.append(Group(work.groups[at].id if at < len(work.groups) else f"partition-{at}", files, target))
    return tuple(groups)
