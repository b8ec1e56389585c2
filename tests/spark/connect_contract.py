"""The contract over Spark Connect: `test_connect.py` runs it in an environment that has the client alone.

Each test of the contract either holds or is refused by the code that it names here. None is skipped.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from contract import Contract
from pyspark.sql import DataFrame
from spark.arenas import DeltaArena, IcebergArena, SparkArena
from spark.connect_tables import CATALOG, URL

from zlayout.errors import Location, Refused
from zlayout.spark.session import ConnectRuntime
from zlayout.spec.model import CatalogConfig, Project, SparkConfig, TableName
from zlayout.table.state import PartitionField

PLACE = Location("zlayout.yaml")
ICE = {"uri": f"sqlite:///{CATALOG}/ice.db", "warehouse": f"file://{CATALOG}/iceberg"}

PLANS_ALONE = {
    "test_observation_counts_what_is_there",
    "test_unknown_column_is_an_error_with_its_place",
    "test_saved_plan_is_refused_after_a_delete_and_fine_after_an_append",
    "test_saved_plan_is_refused_for_another_layout",
    "test_empty_table_and_single_file_have_nothing_to_do",
}


class OverConnect(SparkArena):
    """An arena whose rows a client of Spark Connect writes, on every version of Spark without a shuffle."""

    def frame(self, rows: pa.Table, files: int) -> DataFrame:
        parts = []
        for part in np.array_split(np.arange(len(rows)), files):
            self._batches += 1
            pq.write_table(rows.take(part), path := self.folder / f"batch{self._batches}.parquet")
            parts.append(self.runtime.session.read.parquet(str(path)))
        return reduce(DataFrame.unionAll, parts)


class DeltaOverConnect(OverConnect, DeltaArena):
    """A table of format Delta."""


class IcebergOverConnect(OverConnect, IcebergArena):
    """A table of format Iceberg."""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    warehouse = str(tmp_path_factory.mktemp("lake"))
    catalogs = {
        "lake": CatalogConfig("lake", "delta", "path", {"warehouse": warehouse}, PLACE),
        "ice": CatalogConfig("ice", "iceberg", "sql", ICE, PLACE),
    }
    return Project(Path(warehouse), catalogs, SparkConfig("", {}), ())


@pytest.fixture(scope="module")
def runtime(project: Project) -> Iterator[ConnectRuntime]:
    with ConnectRuntime(project, (), URL) as runtime:
        yield runtime


@pytest.fixture(params=[DeltaOverConnect, IcebergOverConnect], ids=["delta", "iceberg"])
def arena(request: pytest.FixtureRequest, project: Project, runtime: ConnectRuntime, tmp_path: Path) -> SparkArena:
    """A fresh table, to be laid out by engine native."""
    table = TableName(request.param.catalog, ("db",), f"t{uuid.uuid4().hex[:8]}")
    if request.param is IcebergOverConnect:
        runtime.session.sql("CREATE NAMESPACE IF NOT EXISTS ice.db").collect()
    arena: SparkArena = request.param(project, runtime, table, tmp_path, "native", "zorder")
    return arena


def refused(code: str) -> Any:
    return pytest.raises(Refused, match=f"^{code} ")


class NativeContract(Contract):
    """The tests of the contract, and those that Spark Connect refuses."""

    def test_cuts_are_bounds_of_files_and_the_next_plan_is_empty(self, arena: SparkArena) -> None:
        with refused("ZL204"):
            super().test_cuts_are_bounds_of_files_and_the_next_plan_is_empty(
                replace(arena, engine="zlayout", curve="kd")
            )

    def test_a_rollback_returns_the_files_and_the_plan_and_keeps_an_append(self, arena: SparkArena) -> None:
        """Delta's is refused, and Iceberg's where it must keep an append, thus at the end of the test."""
        with refused("ZL204"):
            super().test_a_rollback_returns_the_files_and_the_plan_and_keeps_an_append(arena)
        assert len(arena.rows()) == self.rows + (20 if arena.format == "iceberg" else 0)

    def test_new_partitioning(self, arena: SparkArena) -> None:
        with refused("ZL204"):
            super().test_new_partitioning(arena)
        assert arena.backend.observe(arena.table, ()).partition_fields == ()


@pytest.mark.long
class TestNative(NativeContract):
    """Every test of the contract."""


@pytest.mark.parametrize(
    "test", ["apply_reaches_the_layout_and_the_next_plan_is_empty", "only_partitions_in_scope_are_rewritten"]
)
def test_each_day(test: str, arena: SparkArena) -> None:
    getattr(NativeContract(), f"test_{test}")(arena)


@pytest.mark.long
@pytest.mark.parametrize("test", [name for name in vars(Contract) if name.startswith("test_")])
def test_engine_zlayout_is_refused_before_any_write(test: str, arena: SparkArena) -> None:
    """Those tests of the contract that apply no plan hold for it, too."""
    with nullcontext() if test in PLANS_ALONE else refused("ZL204"):
        getattr(Contract(), test)(replace(arena, engine="zlayout", curve="kd"))
    state = arena.backend.observe(arena.table, ())
    assert state.files.layouts == ()
    assert [name for name in state.properties if name.startswith("zlayout.")] == []
    assert state.partition_fields in ((), (PartitionField("region"),))
