"""Iceberg's rules for metrics, delete files and partition filters, worked out by hand."""

import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortField, SortOrder
from pyiceberg.transforms import parse_transform
from pyiceberg.types import IntegerType, ListType, LongType, NestedField, StringType, StructType

from zlayout.formats.iceberg.read.manifests import EQUALITY_DELETES, POSITION_DELETES, DataColumns, DeleteFile
from zlayout.formats.iceberg.read.observe import attribute_deletes
from zlayout.formats.iceberg.read.support import (
    MetricsConfig,
    MetricsMode,
    also_selected,
    can_rebase,
    truncated_lengths,
)
from zlayout.table.state import Partition, PartitionField

P = "write.metadata.metrics."
SCHEMA = Schema(
    NestedField(1, "a", LongType(), required=False),
    NestedField(2, "s", StructType(NestedField(4, "x", IntegerType(), required=False)), required=False),
    NestedField(3, "b", StringType(), required=False),
    NestedField(5, "l", ListType(6, StringType(), element_required=False), required=False),
)
BOUNDS, NONE = MetricsMode(True, 16), MetricsMode(False)


def config(properties: dict[str, str], *sorted_by: SortField) -> MetricsConfig:
    return MetricsConfig(properties, SCHEMA, SortOrder(*sorted_by))


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({}, BOUNDS),
        ({P + "default": "none"}, NONE),
        ({P + "default": "counts"}, NONE),
        ({P + "default": "full"}, MetricsMode(True)),
        ({P + "default": "truncate(64)"}, MetricsMode(True, 64)),
        ({P + "default": "nonsense"}, BOUNDS),
        ({P + "column.a": "none"}, NONE),
        ({P + "default": "none", P + "column.a": "truncate(4)"}, MetricsMode(True, 4)),
    ],
)
def test_mode_of_a_column(properties: dict[str, str], expected: MetricsMode) -> None:
    assert config(properties).mode(1) == expected


@pytest.mark.parametrize(
    ("version", "changes", "expected"),
    [
        (2, ("delete", "update", "merge"), True),
        (3, ("delete", "update", "merge"), True),
        (1, ("delete", "update", "merge"), False),
        (2, ("delete", "update"), False),
        (2, (), False),
    ],
)
def test_rewrites_can_be_rebased_where_deletes_are_merged_on_read(
    version: int, changes: tuple[str, ...], expected: bool
) -> None:
    properties = {f"write.{change}.mode": "merge-on-read" for change in changes}
    metadata: Any = SimpleNamespace(format_version=version, properties=properties, schema=lambda: SCHEMA)
    assert can_rebase(metadata) is expected


def test_only_the_first_columns_have_metrics_and_nested_ones_come_last() -> None:
    two = config({P + "max-inferred-column-defaults": "2"})
    assert [two.mode(field).bounds for field in (1, 3, 4)] == [True, True, False]
    assert config({P + "max-inferred-column-defaults": "²"}).mode(4).bounds
    declared = config({P + "max-inferred-column-defaults": "0", P + "default": "truncate(16)"})
    assert declared.mode(4) == BOUNDS
    assert two.enable(4) == ((P + "column.s.x", "truncate(16)"),)


@pytest.mark.parametrize(
    ("properties", "value"),
    [
        ({}, "truncate(256)"),
        ({P + "default": "truncate(64)"}, "truncate(256)"),
        ({P + "default": "full"}, None),
        ({P + "column.b": "truncate(256)"}, None),
        ({P + "column.b": "truncate(1000)"}, None),
        ({P + "default": "full", P + "column.b": "truncate(8)"}, "truncate(256)"),
    ],
)
def test_longer_bounds_never_shorten(properties: dict[str, str], value: str | None) -> None:
    assert config(properties).lengthen(3) == (((P + "column.b", value),) if value else ())


def test_text_bounds_are_long_from_the_start() -> None:
    assert config({P + "default": "none"}).enable(3, long=True) == ((P + "column.b", "truncate(256)"),)


@pytest.mark.parametrize(
    ("transform", "expected"),
    [
        *((name, BOUNDS) for name in ("identity", "truncate[4]", "year", "month", "day", "hour")),
        ("bucket[4]", NONE),
        ("void", NONE),
    ],
)
def test_columns_of_the_sort_order_have_bounds_if_their_transform_preserves_the_order(
    transform: str, expected: MetricsMode
) -> None:
    """As `SortOrderUtil.orderPreservingSortedColumns` of Iceberg 1.12 selects them for `MetricsConfig`."""
    assert config({P + "default": "none"}, SortField(3, parse_transform(transform))).mode(3) == expected


def test_cut_lengths() -> None:
    assert truncated_lengths(MetricsMode(True, 8)) == {8}
    assert truncated_lengths(MetricsMode(True, 64)) == {16, 64}
    assert truncated_lengths(MetricsMode(True)) == {16}


def data(*deletes: DeleteFile) -> DataColumns:
    """Files f0 and f1 of 100 and 300 rows in partition 1 (sequence 1 and 3), f2 of 50 rows in partition 2 (1)."""
    return DataColumns(
        path=["f0", "f1", "f2"],
        rows=[100, 300, 50],
        sequence=[1, 3, 1],
        written=[1, 3, 1],
        partition=[0, 0, 1],
        partitions={(1, (1,)): 0, (1, (2,)): 1},
        deletes=list(deletes),
    )


def delete(content: int, sequence: int, rows: int, referenced: str | None = None, **changes: object) -> DeleteFile:
    made = DeleteFile(f"d{sequence}", content, False, (1, (1,)), sequence, rows, referenced, None, None)
    return made._replace(**changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("deletes", "counts", "keys"),
    [
        ([], [0, 0, 0], ["", "", ""]),
        ([delete(POSITION_DELETES, 2, 7, "f0")], [7, 0, 0], ["d2", "", ""]),
        ([delete(POSITION_DELETES, 0, 7, "f0")], [0, 0, 0], ["", "", ""]),
        ([delete(POSITION_DELETES, 3, 40)], [10, 30, 0], ["d3", "d3", ""]),
        ([delete(POSITION_DELETES, 3, 40, lowest="f1", highest="f9")], [0, 40, 0], ["", "d3", ""]),
        ([delete(EQUALITY_DELETES, 3, 40)], [40, 0, 0], ["digest", "", ""]),
        ([delete(EQUALITY_DELETES, 4, 45, partition=(0, ()))], [10, 30, 5], ["digest", "digest", "digest"]),
        ([delete(POSITION_DELETES, 5, 9, "f0"), delete(POSITION_DELETES, 4, 1, "f0")], [10, 0, 0], ["d4\nd5", "", ""]),
        ([delete(POSITION_DELETES, 5, 999, "f2"), delete(POSITION_DELETES, 5, 9, "gone")], [0, 0, 50], ["", "", "d5"]),
    ],
)
def test_deletes_by_file_partition_and_sequence(deletes: list[DeleteFile], counts: list[int], keys: list[str]) -> None:
    found = attribute_deletes(data(*deletes), frozenset({0}))
    assert found.rows.tolist() == counts
    assert [re.sub("[0-9a-f]{32}", "digest", key) for key in found.key.to_pylist()] == keys
    several = [key for key in keys if key and keys.count(key) > 1]
    assert found.shared.tolist() == [key in several for key in keys]


@pytest.mark.parametrize(
    ("deletes", "exact"),
    [
        ([], True),
        ([delete(POSITION_DELETES, 2, 7, "f0"), delete(POSITION_DELETES, 4, 7, "f1")], True),
        ([delete(POSITION_DELETES, 2, 7, "f0"), delete(POSITION_DELETES, 4, 7, "f0")], False),
        ([delete(POSITION_DELETES, 3, 40)], False),
        ([delete(POSITION_DELETES, 3, 40, lowest="f1", highest="f9")], False),
        ([delete(EQUALITY_DELETES, 3, 40)], False),
        ([delete(POSITION_DELETES, 5, 7, "f0", vector=True), delete(POSITION_DELETES, 2, 9)], True),
    ],
)
def test_a_number_of_deleted_rows_is_exact_or_an_estimate(deletes: list[DeleteFile], exact: bool) -> None:
    """Two delete files for one data file may name the same row; one for several may name files that are gone."""
    assert attribute_deletes(data(*deletes), frozenset({0})).estimated.any() == (not exact)


@pytest.mark.parametrize("count", [1, 2, 3, 50])
def test_deletes_of_a_shared_file_are_counted_once(count: int) -> None:
    files = DataColumns(
        path=[f"f{n}" for n in range(count)],
        rows=[20] * count,
        sequence=[1] * count,
        written=[1] * count,
        partition=[0] * count,
        partitions={(1, (1,)): 0},
        deletes=[delete(POSITION_DELETES, 2, rows, key=f"d{rows}") for rows in (1, 4)],
    )
    assert attribute_deletes(files, frozenset({0})).rows.sum() == 5


@pytest.mark.parametrize("seed", range(30))
def test_equality_deletes_as_one_by_one(seed: int) -> None:
    random = np.random.default_rng(seed)
    count = int(random.integers(1, 12))
    partition = random.integers(0, 2, count).tolist()
    files = DataColumns(
        path=[f"f{n}" for n in range(count)],
        rows=random.integers(1, 50, count).tolist(),
        sequence=random.integers(0, 6, count).tolist(),
        written=[0] * count,
        partition=partition,
        partitions={(1, (1,)): 0, (1, (2,)): 1},
    )
    scopes = [(1, (1,)), (1, (2,)), (0, ())]
    files.deletes = [
        delete(EQUALITY_DELETES, int(random.integers(0, 7)), int(random.integers(1, 99)), key=f"d{n}")._replace(
            partition=scopes[int(random.integers(3))]
        )
        for n in range(int(random.integers(0, 9)))
    ]
    rows, applies = np.array(files.rows), [set[str]() for _ in range(count)]
    expected = np.zeros(count)
    for one in files.deletes:
        hit = [
            n
            for n in range(count)
            if one.sequence > files.sequence[n] and one.partition in (scopes[files.partition[n]], (0, ()))
        ]
        expected[hit] += np.minimum(rows[hit] / max(1, rows[hit].sum()) * one.rows, rows[hit])
        for n in hit:
            applies[n].add(one.key)
    found = attribute_deletes(files, frozenset({0}))
    expected = np.minimum(expected, rows)
    assert (np.abs(found.rows - expected) < 1 + 1e-6).all()
    assert abs(int(found.rows.sum()) - expected.sum()) <= 0.5 + 1e-6
    assert found.estimated.tolist() == [bool(names) for names in applies]
    others = [set[str]().union(*applies[:n], *applies[n + 1 :]) for n in range(count)]
    assert found.shared.tolist() == [bool(applies[n] & others[n]) for n in range(count)]
    keys = found.key.to_pylist()
    assert [key == "" for key in keys] == [not names for names in applies]
    for n in range(count):
        for m in range(n):
            if files.partition[n] == files.partition[m]:
                assert (keys[n] == keys[m]) == (applies[n] == applies[m])


def test_a_vector_replaces_older_deletes_by_position() -> None:
    old = delete(POSITION_DELETES, 3, 40)
    vector = delete(POSITION_DELETES, 4, 12, "f0", vector=True, key="puffin@4")
    found = attribute_deletes(data(old, vector), frozenset({0}))
    assert found.rows.tolist() == [12, 30, 0]
    assert found.shared.tolist() == [False, True, False]
    assert found.key.to_pylist() == ["d3\npuffin@4", "d3", ""]


def test_a_delete_cannot_name_a_file_that_was_written_after_it() -> None:
    files = data(delete(POSITION_DELETES, 3, 40))
    files.written = [4, 3, 1]
    found = attribute_deletes(files, frozenset({0}))
    assert found.rows.tolist() == [0, 40, 0]
    assert found.shared.tolist() == [False] * 3
    assert found.key.to_pylist() == ["", "d3", ""]


def test_what_a_partition_filter_selects() -> None:
    month, city = PartitionField("day", "month"), PartitionField("city")
    old = Partition(0, (month,), (5,))
    partitions = [
        old,
        Partition(0, (month,), (6,)),
        Partition(1, (month, city), (5, "x")),
        Partition(1, (month, city), (6, "x")),
        Partition(2, (), ()),
    ]
    assert also_selected(partitions, [old]) == [0, 2, 4]
    assert also_selected(partitions, [partitions[2]]) == [0, 2, 4]
    assert also_selected(partitions, [partitions[4]]) == [0, 1, 2, 3, 4]
    nulls = [Partition(0, (month,), (None,)), old]
    assert also_selected(nulls, nulls[:1]) == [0]
