"""Whether the declared layout can be simulated, and what is said where it is not."""

from dataclasses import replace

import pytest
from unit.planner.plans import SPEC, File, state

from zlayout.advisor.query_costs import CLUSTERED, declared_layout, searched
from zlayout.formats.delta.backend import DeltaBackend
from zlayout.formats.iceberg.backend import IcebergBackend
from zlayout.planner.work import Capabilities
from zlayout.table.partition import PartitionField

DELTA, ICEBERG = DeltaBackend.capabilities, IcebergBackend.capabilities
TABLE = state(File(0, 9))
CHOICE = "The declared layout uses engine native. All simulated layouts use engine zlayout."
UNKNOWN = (
    "The declared layout is not simulated: "
    "the result of engine native of iceberg with curve zorder cannot be predicted."
)


@pytest.mark.parametrize(
    ("capabilities", "engine", "curve", "simulated", "notes"),
    [
        (ICEBERG, "zlayout", "zorder", True, ()),
        (DELTA, "native", "zorder", True, (CHOICE,)),
        (ICEBERG, "native", "linear", True, (CHOICE,)),
        (ICEBERG, "native", "zorder", False, (CHOICE, UNKNOWN)),
    ],
)
def test_what_cannot_be_predicted_is_not_simulated(
    capabilities: Capabilities, engine: str, curve: str, simulated: bool, notes: tuple[str, ...]
) -> None:
    spec = replace(SPEC, layout=replace(SPEC.layout, engine=engine, curve=curve))
    assert declared_layout(spec, TABLE, capabilities) == (spec.layout if simulated else None, notes)
    assert searched(spec, TABLE).engine == "zlayout"


def test_layouts_for_a_clustered_table_are_those_that_its_optimize_has() -> None:
    clustered = replace(TABLE, clustering=("a",))
    assert declared_layout(SPEC, clustered, DELTA) == (None, (CLUSTERED,))
    found = searched(SPEC, clustered)
    assert (found.columns, found.curve, found.engine) == ((), "hilbert", "native")


def test_another_partitioning_is_not_simulated() -> None:
    spec = replace(SPEC, partition_by=(PartitionField("a"),))
    note = "The declared layout is not simulated: it changes the partitioning, and simulations keep the partitioning."
    assert declared_layout(spec, TABLE, DELTA) == (None, (note,))


def test_without_columns_there_is_no_declared_layout() -> None:
    spec = replace(SPEC, layout=replace(SPEC.layout, columns=(), engine="native"))
    assert declared_layout(spec, TABLE, ICEBERG) == (None, ())
