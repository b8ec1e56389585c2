"""The Iceberg backend: one catalog, read through pyiceberg and changed through Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from zlayout.errors import CommitConflict, Diagnostic, Refused
from zlayout.formats.base import Capabilities, Notify, Outcome, Progress, Work
from zlayout.formats.iceberg.read.observe import observe
from zlayout.formats.iceberg.read.support import mixes_row_ids, partition_refusals
from zlayout.formats.kernel.engine_check import fallback_notices, fallback_reason, refused_in_fallback
from zlayout.spark.jvm import session_conf
from zlayout.spark.session import SparkRuntime
from zlayout.spec.model import CatalogConfig, Layout, TableName
from zlayout.table.state import PartitionField, TableState

if TYPE_CHECKING:
    from zlayout.formats.iceberg.write.jvm import IcebergJvm

VECTORIZED = "spark.sql.iceberg.vectorization.enabled"


class IcebergBackend:
    """Satisfies `zlayout.formats.base.Backend`."""

    capabilities = Capabilities("iceberg", partition_evolution=True, native_by_rank=False)

    def __init__(self, catalog: CatalogConfig, runtime: SparkRuntime) -> None:
        self._catalog = catalog
        self._runtime = runtime

    def observe(self, table: TableName, columns: Sequence[str], version: int | None = None) -> TableState:
        """See `zlayout.formats.iceberg.read.observe.observe`."""
        return observe(self._catalog, table, columns, version)

    def native_diagnostics(self, layout: Layout, state: TableState) -> tuple[Diagnostic, ...]:
        """ZL401 for each setting that `rewrite_data_files` cannot honour, ZL223 for columns it cannot order."""
        from zlayout.formats.iceberg.write.native import native_diagnostics, unordered_columns

        return native_diagnostics(layout) + tuple(unordered_columns(layout, state))

    def partition_diagnostics(self, fields: tuple[PartitionField, ...], state: TableState) -> tuple[Diagnostic, ...]:
        return partition_refusals(fields, state)

    def execute(self, work: Work, notify: Notify) -> Iterator[Outcome]:
        """Settings first, then the rewrite. Raises Refused before any write, EngineError, CommitUnknown."""
        from zlayout.formats.iceberg.write import native
        from zlayout.formats.iceberg.write.jvm import IcebergJvm, java_errors

        state = self.observe(work.table, (), work.version)
        repartition = self.partition_diagnostics(work.partition_by or (), state)
        if refusals := (*state.refusals, *repartition):
            raise Refused(*refusals)
        if work.table_id not in (None, state.table_id):
            message = f"{work.table}: expected the table {work.table_id}, found {state.table_id}"
            raise CommitConflict.of("ZL320", message, hint="the table was replaced; plan again")
        by_iceberg = work.layout.engine == "native"
        if work.groups and by_iceberg:
            native.refuse_native(work, state)
        with java_errors(f"looking at the versions for {work.table}"):
            reason = fallback_reason(self._runtime.session, "iceberg") if work.groups else None
        if reason is not None and not by_iceberg:
            by_iceberg = True
            yield from self._fallback(work, state, reason)
        jvm = IcebergJvm(self._runtime.session)
        with session_conf(jvm.session, {VECTORIZED: "false"} if mixes_row_ids(state) else {}):
            yield from self._changed(jvm, work, notify, by_iceberg=by_iceberg)

    def _changed(self, jvm: IcebergJvm, work: Work, notify: Notify, *, by_iceberg: bool) -> Iterator[Outcome]:
        from zlayout.formats.iceberg.write import native
        from zlayout.formats.iceberg.write.settings import change_settings

        if by_iceberg:  # engine zlayout finds out group by group
            native.require_appends_only(jvm.load(work.table), work)
        notify(Progress(str(work.table), "changing settings"))
        changed = change_settings(jvm, work)
        if changed is not None:
            yield changed
        if work.groups and by_iceberg:
            yield from native.rewrite(jvm, self._catalog, work, notify)
        elif work.groups:
            from zlayout.formats.iceberg.write import commit

            yield from commit.rewrite(jvm, self._catalog, work, notify)

    def _fallback(self, work: Work, state: TableState, reason: str) -> Iterator[Outcome]:
        """Say that Iceberg's own rewrite does the work. Raises Refused ZL223, ZL224 for what that cannot do."""
        from zlayout.formats.iceberg.write import native

        try:
            native.refuse_native(work, state)
        except Refused as refused:
            raise refused_in_fallback(refused, reason) from refused
        yield from fallback_notices(work.table, reason, native.native_diagnostics(work.layout))
