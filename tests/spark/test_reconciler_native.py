"""The reconciler's contract on real tables: shorter, with the formats' own OPTIMIZE, checkpoints and expiry."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from reconciler import Reconciler
from spark.arenas import DeltaArena, IcebergArena
from spark.vacuum import vacuum

from zlayout.formats.delta.write.jvm import DeltaJvm
from zlayout.spark.session import SparkRuntime
from zlayout.spec.model import Project, TableName

SEQUENCES = 20
STEPS = 6


class DeltaSubject(DeltaArena):
    def delete(self, low: int, high: int) -> None:
        self.runtime.session.sql(f"DELETE FROM delta.`{self.path}` WHERE id >= {low} AND id < {high}")

    def update(self, low: int, high: int, value: int) -> None:
        self.runtime.session.sql(f"UPDATE delta.`{self.path}` SET a = {value} WHERE id >= {low} AND id < {high}")

    def repartition(self, fields: tuple[str, ...]) -> None:
        """Delta cannot."""

    def optimize(self) -> None:
        self.runtime.session.sql(f"OPTIMIZE delta.`{self.path}`")

    def checkpoint(self) -> None:
        delta = DeltaJvm(self.runtime.session, self.path)
        delta.snapshot().deltaLog().checkpoint()

    def expire(self) -> None:
        vacuum(self.runtime.session, f"delta.`{self.path}`")


class IcebergSubject(IcebergArena):
    _fields: tuple[str, ...] = ()

    def create(self, rows: pa.Table, files: int, partition_by: tuple[str, ...] = ()) -> None:
        super().create(rows, files, partition_by)
        self._fields = partition_by

    def delete(self, low: int, high: int) -> None:
        self.runtime.session.sql(f"DELETE FROM {self.table} WHERE id >= {low} AND id < {high}")

    def update(self, low: int, high: int, value: int) -> None:
        self.runtime.session.sql(f"UPDATE {self.table} SET a = {value} WHERE id >= {low} AND id < {high}")

    def repartition(self, fields: tuple[str, ...]) -> None:
        now = {field.source for field in self.backend.observe(self.table, ()).partition_fields}
        for name in now - set(fields):
            self.runtime.session.sql(f"ALTER TABLE {self.table} DROP PARTITION FIELD {name}")
        for name in set(fields) - now:
            self.runtime.session.sql(f"ALTER TABLE {self.table} ADD PARTITION FIELD {name}")

    def optimize(self) -> None:
        catalog, name = self.table.catalog, ".".join(self.table.identifier)
        self.runtime.session.sql(
            f"CALL {catalog}.system.rewrite_data_files(table => '{name}', options => map('rewrite-all', 'true'))"
        )

    def checkpoint(self) -> None:
        catalog, name = self.table.catalog, ".".join(self.table.identifier)
        self.runtime.session.sql(f"CALL {catalog}.system.rewrite_manifests('{name}')")

    def expire(self) -> None:
        catalog, name = self.table.catalog, ".".join(self.table.identifier)
        self.runtime.session.sql(
            f"CALL {catalog}.system.expire_snapshots(table => '{name}', older_than => now(), retain_last => 1)"
        )


@pytest.mark.parametrize("kind", [DeltaSubject, IcebergSubject], ids=["delta", "iceberg"])
def test_one_apply_is_always_enough(
    kind: type[DeltaSubject | IcebergSubject], project: Project, runtime: SparkRuntime, tmp_path: Path
) -> None:
    made = 0

    class Machine(Reconciler):
        curves = ("kd",)

        def make(self, rows: pa.Table, files: int, partitioned: bool) -> DeltaSubject | IcebergSubject:
            nonlocal made
            made += 1
            catalog = "lake" if kind is DeltaSubject else "ice"
            folder = tmp_path / str(made)
            folder.mkdir()
            subject = kind(project, runtime, TableName(catalog, ("db",), f"r{made}"), folder, "zlayout", "kd")
            subject.create(rows, files, ("region",) if partitioned else ())
            return subject

    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=SEQUENCES,
            stateful_step_count=STEPS,
            deadline=None,
            # a failing sequence takes a minute; the first one found is good enough
            phases=[Phase.explicit, Phase.reuse, Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
    )
