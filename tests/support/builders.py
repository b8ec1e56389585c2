"""Builders of layouts, specs, observed tables and work: a test gives only the values that it is about."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from zlayout.errors import Location
from zlayout.planner.model import (
    Action,
    ChangePartitioning,
    PropertyChange,
    PropertyReason,
    Reason,
    Requirements,
    SetProperties,
    Status,
    TablePlan,
)
from zlayout.planner.selection import Group
from zlayout.planner.work import PlannedTable
from zlayout.predicate.model import Compare
from zlayout.spec.model import Layout, LayoutSpec, TableName, ZorderColumn
from zlayout.table.partition import Partition, PartitionField
from zlayout.table.state import ColumnBounds, FileTable, LayoutRecord, TableState

UNPARTITIONED = Partition(0, (), ())
SPEC_PLACE = Location("layouts/t.yaml")


def make_layout(
    *columns: str | ZorderColumn,
    curve: str = "kd",
    range_ids: int = 1000,
    noise: bool = False,
    target_size: int = 1 << 20,
    sort_within: bool = True,
    engine: str = "zlayout",
    cuts: tuple[Compare, ...] = (),
) -> Layout:
    """Return a layout by these columns, each a name or a column with its weight. target_size: bytes."""
    keys = tuple(ZorderColumn(c) if isinstance(c, str) else c for c in columns)
    return Layout(keys, curve, range_ids, noise, target_size, sort_within, engine, cuts)


def make_spec(
    layout: Layout, table: str | TableName = "lake.db.t", location: Location = SPEC_PLACE, **settings: Any
) -> LayoutSpec:
    """Return the spec of one table. settings: any other fields of `LayoutSpec`."""
    if isinstance(table, str):
        catalog, *namespace, name = table.split(".")
        table = TableName(catalog, tuple(namespace), name)
    return LayoutSpec(table, layout, location, **settings)


def layout_record(layout: Layout) -> LayoutRecord:
    """Return what a table records of a layout by which its files were written."""
    return LayoutRecord(layout.layout_id, layout.settings())


def make_bounds(lower: Sequence[Any], upper: Sequence[Any], kind: pa.DataType | None = None) -> ColumnBounds:
    """Return exact bounds of N files without nulls, of the Arrow type `kind`."""
    files = len(lower)
    return ColumnBounds(pa.array(lower, kind), pa.array(upper, kind), np.zeros(files, np.int64), np.zeros(files, bool))


def make_file_table(
    rows: npt.ArrayLike,
    *,
    path: Sequence[str] | None = None,
    version_key: Sequence[str] | None = None,
    deleted: npt.ArrayLike = 0,
    shared_deletes: npt.ArrayLike = False,
    bytes: npt.ArrayLike = 100,
    partition: npt.ArrayLike | None = None,
    partitions: Sequence[Partition] | None = None,
    layout: npt.ArrayLike = -1,
    layouts: Sequence[LayoutRecord] = (),
    group: npt.ArrayLike = -1,
    bounds: Mapping[str, ColumnBounds] | None = None,
) -> FileTable:
    """Return a table of as many files as `rows` has numbers; every other column is one value or one for each file.

    Without `partitions`, each number in `partition` stands for a partition of its own.
    """
    files = len(np.asarray(rows))

    def column(values: npt.ArrayLike, kind: npt.DTypeLike) -> Any:
        return np.broadcast_to(np.asarray(values, kind), files).copy()

    owner = column(0 if partition is None else partition, np.int32)
    if partitions is None:
        last = int(owner.max(initial=0))
        partitions = [UNPARTITIONED] if partition is None else [Partition(0, (), (n,)) for n in range(last + 1)]
    return FileTable(
        path=pa.array([f"f{n}" for n in range(files)] if path is None else path, pa.string()),
        version_key=pa.array([""] * files if version_key is None else version_key, pa.string()),
        rows=column(rows, np.int64),
        deleted=column(deleted, np.int64),
        shared_deletes=column(shared_deletes, np.bool_),
        bytes=column(bytes, np.int64),
        partition=owner,
        partitions=tuple(partitions),
        layout=column(layout, np.int32),
        layouts=tuple(layouts),
        group=column(group, np.int32),
        bounds=bounds or {},
    )


def make_state(files: FileTable, **settings: Any) -> TableState:
    """Return an observation of a Delta table with these files. settings: any other fields of `TableState`."""
    defaults: dict[str, Any] = {
        "table": "lake.db.t",
        "format": "delta",
        "location": "/t",
        "table_id": "id-1",
        "version": 7,
        "schema_digest": "s1",
        "columns": (),
        "partition_fields": (),
        "spec_id": 0,
        "properties": {},
        "features": frozenset(),
        "refusals": (),
    }
    return TableState(files=files, **(defaults | settings))


def make_group(id: str, files: FileTable, target_files: int) -> Group:
    """Return a group of all of these files."""
    return Group(np.arange(len(files)), Reason.NOT_LAID_OUT, id=id, files=files, target_files=target_files)


def make_work(
    layout: Layout,
    table: TableName = TableName("lake", ("db",), "t"),  # noqa: B008 - frozen
    *,
    properties: Sequence[tuple[str, str]] = (),
    partition_by: tuple[PartitionField, ...] | None = None,
    groups: Sequence[Group] = (),
    had: Mapping[str, str] = {},
    table_id: str = "id-1",
    version: int = 7,
    partitioning: tuple[str, ...] = (),
    covers_table: bool = False,
    run_id: str = "run",
    verify: Literal["gate", "full"] = "gate",
    partition_timezone: str = "",
    commit_properties: Mapping[str, str] = {},
    rebases: bool = False,
) -> PlannedTable:
    """Return a work with the actions that do this. had: the values of properties when the plan was made."""
    actions: list[Action] = []
    if properties:
        reason = PropertyReason.NO_STATISTICS
        actions.append(
            SetProperties(tuple(PropertyChange(name, had.get(name), value, reason, "") for name, value in properties))
        )
    if partition_by is not None:
        after = tuple(map(str, partition_by))
        actions.append(ChangePartitioning(before=(), after=after, full_rewrite=False, location=None))
    actions += [group.action() for group in groups]
    spec = make_spec(
        layout,
        table,
        partition_by=partition_by,
        partition_timezone=partition_timezone,
        commit_properties=commit_properties,
    )
    plan = TablePlan(
        str(table),
        "delta",
        spec.location,
        Status.CHANGES,
        actions=tuple(actions),
        requirements=Requirements(table_id, version, "s1", layout.layout_id, partitioning, None, None, ""),
        files=sum(len(group.files) for group in groups) + (not covers_table),
        rebases=rebases,
    )
    pinned = {group.id: group for group in groups}
    return PlannedTable(spec, None, plan, pinned, run_id=run_id, verify=verify)
