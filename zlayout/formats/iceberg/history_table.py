"""The history as an Iceberg table, read and written by pyiceberg without a JVM."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from zlayout.formats.iceberg.read.catalog import loaded_catalog
from zlayout.records.arrow import OVERDUE, SCHEMA, attempt, from_arrow, oldest_kept, require_history, to_arrow
from zlayout.records.model import Record, newest
from zlayout.spec.model import CatalogConfig, TableName

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

_WRITER_CLASS = "write.py-location-provider.impl"


class IcebergHistory:
    """A history in one Iceberg table. Satisfies `HistoryStore`."""

    def __init__(self, catalog: CatalogConfig, table: TableName, keep_days: int) -> None:
        self._catalog, self._table, self._keep_days = catalog, table, keep_days

    def append(self, records: Sequence[Record]) -> None:
        from pyiceberg.exceptions import CommitFailedException, TableAlreadyExistsError

        rows = to_arrow(records)

        def commit() -> Table:
            with loaded_catalog(self._catalog) as catalog:
                table = self._open(catalog) or self._create(catalog)
                table.append(rows)
                return table

        def remove() -> None:
            with loaded_catalog(self._catalog) as catalog:
                if (table := self._open(catalog)) is not None:
                    table.delete(f"time < '{oldest_kept(self._keep_days).isoformat()}'")

        if self._is_overdue(attempt(commit, (CommitFailedException, TableAlreadyExistsError))):
            attempt(remove, (CommitFailedException,))

    def read(self, tables: Iterable[str], limit: int) -> dict[str, list[Record]]:
        with loaded_catalog(self._catalog) as catalog:
            table = self._open(catalog)
            if table is None:
                return {}
            rows = table.scan().to_arrow()
        rows = rows.filter(pc.field("table").isin(list(tables)))
        return newest(from_arrow(rows.select(SCHEMA.names).cast(SCHEMA)), limit)

    def _open(self, catalog: Catalog) -> Table | None:
        """Load the table; None if it does not exist.

        Raises:
            ValueError: It is not a history table, or its properties name a class that pyiceberg would import to write.
        """
        from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

        try:
            table = catalog.load_table(self._table.identifier)
        except (NoSuchTableError, NoSuchNamespaceError):
            return None
        require_history(field.name for field in table.schema().fields)
        if _WRITER_CLASS in table.metadata.properties:
            raise ValueError(f"the table property {_WRITER_CLASS} names a class, which zlayout does not import")
        return table

    def _create(self, catalog: Catalog) -> Table:
        try:
            catalog.create_namespace_if_not_exists(self._table.namespace)
        except Exception:  # another process may have created it: a SQL catalog then reports an error of its database
            if not catalog.namespace_exists(self._table.namespace):
                raise
        return catalog.create_table(self._table.identifier, SCHEMA)

    def _is_overdue(self, table: Table) -> bool:
        """Return whether the table may have records that should have been removed, by the bounds in its manifests."""
        limit = oldest_kept(self._keep_days, OVERDUE).isoformat()
        return any(True for _ in table.scan(row_filter=f"time < '{limit}'").plan_files())
