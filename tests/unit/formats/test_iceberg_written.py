"""When other writers last wrote to each partition, from the metadata of a table that pyiceberg wrote."""

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from unit.formats.test_iceberg_observe import SCHEMA, rows

from zlayout.formats.iceberg.read.history import written_by_others
from zlayout.formats.iceberg.read.manifests import (
    EQUALITY_DELETES,
    POSITION_DELETES,
    DataColumns,
    DeleteFile,
    PartitionKey,
    read_live,
)
from zlayout.formats.iceberg.read.state_property import RUN, LaidOut, State

CITY = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "city"), spec_id=0)


@pytest.fixture
def table(catalog: Catalog) -> Table:
    """Oslo, then Rome, then Oslo again, which a run of zlayout wrote."""
    table = catalog.create_table("db.t", SCHEMA, partition_spec=CITY)
    table.append(rows(0, 10, "Oslo"))
    table.append(rows(10, 10, "Rome"))
    table.append(rows(20, 10, "Oslo"), snapshot_properties={RUN: "r1"})
    return table


def live(table: Table) -> DataColumns:
    snapshot = table.current_snapshot()
    return read_live(snapshot.manifests(table.io), table.io, [])


def found(table: Table, data: DataColumns, state: State | None = None, kept: int = 3) -> dict[str, int]:
    """The number of the append that last wrote to each partition, from 1; 0 for none. kept: of the snapshots."""
    known = table.metadata.model_copy(update={"snapshots": table.metadata.snapshots[-kept:]})
    times = [0] + [snapshot.timestamp_ms for snapshot in table.metadata.snapshots]
    latest, _ = written_by_others(data, known, state or {})
    keys: list[PartitionKey] = list(data.partitions)
    return {key[1][0]: times.index(int(time)) for key, time in zip(keys, latest, strict=True)}


def test_snapshots_of_zlayout_do_not_count(table: Table) -> None:
    data = live(table)
    assert found(table, data) == {"Oslo": 1, "Rome": 2}
    second = table.metadata.snapshots[1].snapshot_id
    assert found(table, data, {"id": LaidOut(snapshots=frozenset({second}))}) == {"Oslo": 1, "Rome": 0}


def test_an_expired_snapshot_is_unknown(table: Table) -> None:
    assert found(table, live(table), kept=2) == {"Oslo": 0, "Rome": 2}


def deleting(content: int, partition: PartitionKey, snapshot: int) -> DeleteFile:
    return DeleteFile("d", content, False, partition, 9, 1, None, None, None, snapshot=snapshot)


def test_delete_files_count_for_their_partition_or_for_all(table: Table) -> None:
    table.append(rows(30, 10, "Bern"))
    fourth = table.metadata.snapshots[3].snapshot_id
    data = live(table)
    oslo = next(key for key in data.partitions if key[1] == ("Oslo",))
    data.deletes.append(deleting(POSITION_DELETES, oslo, fourth))
    assert found(table, data, kept=4) == {"Oslo": 4, "Rome": 2, "Bern": 4}
    data.deletes[0] = deleting(EQUALITY_DELETES, (1, ()), fourth)
    assert found(table, data, kept=4) == {"Oslo": 1, "Rome": 2, "Bern": 4}  # no spec without fields has this id


@pytest.mark.parametrize("wrong", [[0], [1], [0, 1], [0, 1, 2]])
def test_a_snapshot_of_the_future_was_committed_before_the_next_one(table: Table, wrong: list[int]) -> None:
    """Its partition would be hot for ever."""
    data, far = live(table), 4_102_444_800_000  # the year 2100
    snapshots = list(table.metadata.snapshots)
    for number in wrong:
        snapshots[number] = snapshots[number].model_copy(update={"timestamp_ms": far})
    latest, future = written_by_others(data, table.metadata.model_copy(update={"snapshots": snapshots}), {})
    right = [0, *(0 if n in wrong else s.timestamp_ms for n, s in enumerate(snapshots)), 0]
    following = {n: next((t for t in right[n + 1 :] if t), 0) for n in (0, 1)}
    assert dict(zip([key[1][0] for key in data.partitions], latest.tolist(), strict=True)) == {
        "Oslo": following[0],
        "Rome": following[1],
    }
    assert future == len(wrong)
