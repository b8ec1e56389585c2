"""An Iceberg table with a run of zlayout, which pyiceberg has written: without Spark."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.update import SetSnapshotRefUpdate
from pyiceberg.types import LongType, NestedField

from zlayout.formats.base import Commit
from zlayout.formats.iceberg.backend import IcebergBackend
from zlayout.formats.iceberg.read import state_property as recorded
from zlayout.formats.iceberg.read.catalog import open_catalog
from zlayout.formats.undo import Undo
from zlayout.spec.client_options import pyiceberg_properties
from zlayout.spec.model import CatalogConfig, TableName

RUN, FILES, ROWS = "run-1", 3, 10
LIMITS = {"min-snapshots-to-keep": 7, "max-snapshot-age-ms": 86_400_000}
ACCEPTED = "zlayout.accepted"


@dataclass
class RewrittenTable:
    """A table of three appended files, which a run has replaced by one.

    Attributes:
        catalog: The catalog, with the namespace `db`.
        backend: The backend of a session without a JVM.
        rows: The rows of before the run.
        files: The paths of the files of before the run.
        properties: The properties of before the run.
    """

    catalog: CatalogConfig
    backend: IcebergBackend = field(init=False)
    rows: pa.Table = field(init=False)
    files: list[str] = field(init=False)
    properties: Mapping[str, str] = field(init=False)

    def __post_init__(self) -> None:
        runtime: Any = SimpleNamespace(has_jvm=False)
        self.backend = IcebergBackend(self.catalog, runtime)
        self.writer = open_catalog(self.catalog, pyiceberg_properties(self.catalog))
        self.name = TableName(self.catalog.name, ("db",), f"t{uuid.uuid4().hex[:8]}")
        columns = [NestedField(at, name, LongType()) for at, name in enumerate(("id", "a"), 1)]
        kept = {recorded.PROPERTY: recorded.render({}), ACCEPTED: "before"}
        self.writer.create_table(self.name.identifier, Schema(*columns), properties=kept)
        for at in range(FILES):
            self.append(at * ROWS)
        self.rows, self.files, self.properties = self.read(), self.paths(), dict(self.loaded.properties)
        self._run()

    @property
    def loaded(self) -> Table:
        return self.writer.load_table(self.name.identifier)

    def append(self, start: int) -> None:
        self.loaded.append(pa.table({"id": range(start, start + ROWS), "a": [start] * ROWS}))

    def read(self) -> pa.Table:
        return self.loaded.scan().to_arrow().sort_by("id")

    def paths(self) -> list[str]:
        return sorted(task.file.file_path for task in self.loaded.scan().plan_files())

    def current(self) -> Any:
        return self.loaded.metadata.current_snapshot_id

    def undo(self) -> Undo:
        return self.backend.undo(self.name, None)

    def roll_back(self, undo: Undo | None = None) -> Commit:
        return self.backend.roll_back(undo or self.undo(), "undo-1", {}, lambda _: None)

    def _run(self) -> None:
        """Rewrite the table as a run: the rewrite with its id, then the records. And give `main` limits."""
        table = self.loaded
        transaction = table.transaction()
        with transaction.update_snapshot(snapshot_properties={recorded.RUN: RUN}).overwrite() as rewrite:
            for task in table.scan().plan_files():
                rewrite.delete_data_file(task.file)
            for file in _dataframe_to_data_files(table.metadata, self.rows, table.io):
                rewrite.append_data_file(file)
        transaction.commit_transaction()
        made = self.current()
        state = recorded.add({}, "layout", [made], {"curve": "linear"})
        with self.loaded.transaction() as transaction:
            transaction.set_properties({recorded.PROPERTY: recorded.render(state)})
            transaction.remove_properties(ACCEPTED)
            main = {"ref-name": "main", "type": SnapshotRefType.BRANCH, "snapshot-id": made, **LIMITS}
            transaction._apply((SetSnapshotRefUpdate.model_validate(main),))
