"""The history as a Delta table, read and written by deltalake without a JVM."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow.compute as pc
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError, TableNotFoundError

from zlayout.formats.delta.read.location import delta_location, is_misread
from zlayout.formats.delta.read.names.lookup import Names
from zlayout.formats.storage import deltalake_options
from zlayout.records.arrow import OVERDUE, SCHEMA, attempt, from_arrow, oldest_kept, require_history, to_arrow
from zlayout.records.model import Record, newest
from zlayout.spec.model import CatalogConfig, TableName


class DeltaHistory:
    """A history in one Delta table. Satisfies `HistoryStore`.

    The first `append` creates the table in a catalog of type `path`. In any other catalog, the table must exist.
    """

    def __init__(self, catalog: CatalogConfig, table: TableName, keep_days: int) -> None:
        self._catalog, self._table, self._keep_days = catalog, table, keep_days

    def append(self, records: Sequence[Record]) -> None:
        location, options = self._location()
        rows = to_arrow(records)

        def commit() -> None:
            self._open(location, options)
            write_deltalake(location, rows, mode="append", storage_options=options)

        attempt(commit, (CommitFailedError,))
        table = self._open(location, options)
        if table is not None and self._is_overdue(table):
            table.delete(f"time < '{oldest_kept(self._keep_days).isoformat()}'")

    def read(self, tables: Iterable[str], limit: int) -> dict[str, list[Record]]:
        table = self._open(*self._location())
        if table is None:
            return {}
        rows = table.to_pyarrow_dataset().to_table(filter=pc.field("table").isin(list(tables)))
        return newest(from_arrow(rows.cast(SCHEMA)), limit)

    def _location(self) -> tuple[str, dict[str, str]]:
        """Return the location of the table, and the storage options of deltalake.

        Raises:
            TableError: ZL101, ZL133 to ZL136.
            ValueError: If deltalake cannot read the location.
        """
        located = Names(self._catalog).located(self._table)
        location = delta_location(located, self._table)
        if is_misread(location):
            raise ValueError(f"deltalake decodes '%' and the two digits in {location}, and reads another folder")
        return location, deltalake_options(located)

    def _open(self, location: str, options: dict[str, str]) -> DeltaTable | None:
        """Open the table; None if it does not exist. Raises ValueError if it is not a history."""
        try:
            table = DeltaTable(location, storage_options=options)
        except TableNotFoundError:
            return None
        require_history(field.name for field in table.schema().fields)
        return table

    def _is_overdue(self, table: DeltaTable) -> bool:
        """Return whether the statistics of a file show records that are old enough to be removed: see `OVERDUE`."""
        files = table.get_add_actions(flatten=True)
        times = [time.as_py() for time in files.column("min.time")] if "min.time" in files.schema.names else []
        oldest = min((time for time in times if time is not None), default=None)
        limit = oldest_kept(self._keep_days, OVERDUE)
        return oldest is not None and (oldest if oldest.tzinfo else oldest.replace(tzinfo=limit.tzinfo)) < limit
