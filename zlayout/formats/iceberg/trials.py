"""Trials of Iceberg tables, which are branches."""

from __future__ import annotations

from zlayout.formats.iceberg.read.trial import live_rows, read_trial
from zlayout.formats.trial import Trial
from zlayout.spark.session import SparkRuntime
from zlayout.spec.model import CatalogConfig, TableName
from zlayout.table.state import TableState


class IcebergTrials:
    """See `zlayout.formats.trial.Trials`."""

    def __init__(self, catalog: CatalogConfig, runtime: SparkRuntime) -> None:
        self._catalog = catalog
        self._runtime = runtime

    def placed(self, table: TableName, where: str) -> tuple[CatalogConfig, TableName]:
        return self._catalog, table.on(where)

    def read(self, table: TableName, where: str) -> Trial | None:
        """Raises Refused ZL238; TableError ZL121 to ZL123."""
        return read_trial(self._catalog, table.on(where))

    def rows(self, trial: Trial) -> tuple[int, int] | None:
        """Raises TableError ZL121 to ZL125."""
        return live_rows(self._catalog, trial)

    def begin(self, table: TableName, state: TableState, where: str) -> None:
        """Raises CommitConflict ZL320, ZL321; CommitUnknown ZL331."""
        from zlayout.formats.iceberg.write.jvm import IcebergJvm
        from zlayout.formats.iceberg.write.trial import begin

        begin(IcebergJvm(self._runtime.session), table.on(where), state.table_id, state.version)

    def publish(self, trial: Trial) -> None:
        """Raises CommitConflict ZL320, ZL321; CommitUnknown ZL331."""
        from zlayout.formats.iceberg.write.jvm import IcebergJvm
        from zlayout.formats.iceberg.write.trial import publish

        publish(IcebergJvm(self._runtime.session), trial)

    def drop(self, trial: Trial) -> None:
        """Raises CommitConflict ZL320, ZL321; CommitUnknown ZL331."""
        from zlayout.formats.iceberg.write.jvm import IcebergJvm
        from zlayout.formats.iceberg.write.trial import drop

        drop(IcebergJvm(self._runtime.session), trial)
