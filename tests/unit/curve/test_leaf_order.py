"""The column that orders the rows inside a leaf, and the ids of its values."""

from datetime import date
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from support.builders import make_layout

from zlayout.curve.layout import LeafOrder, leaf_order
from zlayout.spec.model import ZorderColumn

ROWS = 20_000
FEW, OTHERS, MANY = np.arange(ROWS) % 7, np.arange(ROWS) % 3000, np.arange(ROWS)
COLUMNS = {"few": FEW, "seven": ROWS - FEW, "others": OTHERS, "many": MANY}
SAMPLE = {name: pa.array(values) for name, values in COLUMNS.items()}


def chosen(*columns: str | ZorderColumn, **settings: object) -> str | None:
    layout = make_layout(*columns, **settings)
    order = leaf_order({name: SAMPLE[name] for name in layout.weights}, layout)
    return order and order.column


def test_the_column_with_the_most_values_of_those_with_few_values() -> None:
    assert chosen(ZorderColumn("few", 2.0), "others") == "others"
    assert chosen(ZorderColumn("many", 3.0), "few") == "few"
    assert chosen("seven", "few") == "seven", "the first of equal weights"
    assert chosen("seven", ZorderColumn("few", 2.0)) == "few", "the highest weight"
    assert chosen("seven", ZorderColumn("few", 2.0), curve="hilbert") == "seven", "hilbert has no weights"


@pytest.mark.parametrize(
    ("values", "is_chosen"),
    [([5, 5], False), ([None, None], False), ([], False), ([5, 5, None], True), ([1, 2, 2, 1], True)],
)
def test_a_column_with_one_value_orders_nothing(values: list[int | None], is_chosen: bool) -> None:
    sample = {"a": pa.array(values, pa.int64())}
    assert (leaf_order(sample, make_layout("a")) is not None) == is_chosen


def test_rows_keep_their_order() -> None:
    assert chosen("many") is None
    assert chosen("few", engine="native") is None
    assert chosen("few", sort_within=False) is None
    assert leaf_order({}, make_layout()) is None


@pytest.mark.parametrize(("values", "is_few"), [(4095, True), (4096, False)])
def test_the_limit_of_values(values: int, is_few: bool) -> None:
    order = leaf_order({"a": pa.array(np.arange(ROWS) % values)}, make_layout("a"))
    assert (order is not None) == is_few
    if order:
        assert order.count == 4096


@pytest.mark.parametrize(("rows", "is_few"), [(1000, True), (999, False)])
def test_a_small_sample_must_have_values_twice(rows: int, is_few: bool) -> None:
    order = leaf_order({"a": pa.array([*(np.arange(rows) % 500).tolist(), *[None] * rows])}, make_layout("a"))
    assert (order is not None) == is_few


@pytest.mark.parametrize(
    ("sampled", "keys", "ids"),
    [
        ([3, None, 1, 3], [None, 0, 1, 2, 3, 4], [0, 0, 1, 1, 2, 2]),
        ([0.0, float("nan"), -1.5], [-0.0, 0.0, float("nan"), None, -2.0, 7.0], [2, 2, 3, 0, 0, 2]),
        (["b", "\U0001f600", "\uffff"], ["a", "b", "\uffff", "\U0001f600", None], [0, 1, 2, 3, 0]),
        ([Decimal("1.50"), Decimal("-2.00")], [Decimal("1.49"), Decimal("1.50"), None], [1, 2, 0]),
        ([date(2024, 1, 2), date(1960, 1, 1)], [date(2024, 1, 1), date(2024, 1, 2)], [1, 2]),
        ([None, True], [None, False, True], [0, 0, 1]),
    ],
)
def test_value_ids(sampled: list[object], keys: list[object], ids: list[int]) -> None:
    kind = pa.array([*sampled, *keys]).type
    order = leaf_order({"a": pa.array([*sampled, *sampled], kind)}, make_layout("a"))
    assert isinstance(order, LeafOrder)
    assert order.value_ids(pa.array(keys, kind)).tolist() == ids
    assert max(ids) < order.count
