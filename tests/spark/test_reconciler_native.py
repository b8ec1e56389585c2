"""The reconciler's contract on real tables: shorter, with the formats' own OPTIMIZE, checkpoints and expiry."""

from pathlib import Path
from typing import Any

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

STEPS = 6


class Changes:
    """What writers do to the rows of an arena."""

    def delete(self: Any, low: int, high: int) -> None:
        self.sql(f"DELETE FROM {self} WHERE id >= {low} AND id < {high}")

    def update(self: Any, low: int, high: int, value: int) -> None:
        self.sql(f"UPDATE {self} SET a = {value} WHERE id >= {low} AND id < {high}")


class DeltaChanges(Changes, DeltaArena):
    def repartition(self, fields: tuple[str, ...]) -> None:
        """Delta cannot."""

    def optimize(self) -> None:
        self.sql(f"OPTIMIZE {self}")

    def checkpoint(self) -> None:
        DeltaJvm(self.runtime.session, self.path).snapshot().deltaLog().checkpoint()

    def expire(self) -> None:
        vacuum(self.runtime.session, str(self))


class IcebergChanges(Changes, IcebergArena):
    def repartition(self, fields: tuple[str, ...]) -> None:
        now = {field.source for field in self.backend.observe(self.table, ()).partition_fields}
        for name in now - set(fields):
            self.sql(f"ALTER TABLE {self} DROP PARTITION FIELD {name}")
        for name in set(fields) - now:
            self.sql(f"ALTER TABLE {self} ADD PARTITION FIELD {name}")

    def call(self, procedure: str, options: str = "") -> None:
        self.sql(f"CALL ice.system.{procedure}(table => '{'.'.join(self.table.identifier)}'{options})")

    def optimize(self) -> None:
        self.call("rewrite_data_files", ", options => map('rewrite-all', 'true')")

    def checkpoint(self) -> None:
        self.call("rewrite_manifests")

    def expire(self) -> None:
        self.call("expire_snapshots", ", older_than => now(), retain_last => 1")


@pytest.mark.parametrize("sequences", [2, pytest.param(20, marks=pytest.mark.long)])
@pytest.mark.parametrize("kind", [DeltaChanges, IcebergChanges], ids=["delta", "iceberg"])
def test_one_apply_is_always_enough(
    kind: type[DeltaChanges | IcebergChanges], sequences: int, project: Project, runtime: SparkRuntime, tmp_path: Path
) -> None:
    made = 0

    class Machine(Reconciler):
        curves = ("kd",)

        def make(self, rows: pa.Table, files: int, partitioned: bool) -> DeltaChanges | IcebergChanges:
            nonlocal made
            made += 1
            catalog = "lake" if kind is DeltaChanges else "ice"
            folder = tmp_path / str(made)
            folder.mkdir()
            subject = kind(project, runtime, TableName(catalog, ("db",), f"r{made}"), folder, "zlayout", "kd")
            subject.create(rows, files, ("region",) if partitioned else ())
            return subject

    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=sequences,
            stateful_step_count=STEPS,
            deadline=None,
            # a failing sequence takes a minute; the first one found is good enough
            phases=[Phase.explicit, Phase.reuse, Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
    )
