"""Columns in threads or one by one: the same results, in the same order; a fast argsort is an argsort."""

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zlayout.table.order import order_of
from zlayout.table.state import MIN_FILES_FOR_THREADS, both, side_by_side


def test_many_files_are_measured_side_by_side() -> None:
    met = threading.Barrier(2)

    def measure(column: str) -> str:
        met.wait(timeout=30)
        return column.upper()

    assert side_by_side(measure, ("a", "b"), MIN_FILES_FOR_THREADS) == ["A", "B"]
    assert both(lambda: measure("a"), lambda: len(measure("b")), MIN_FILES_FOR_THREADS) == ("A", 1)


def test_few_files_are_not_worth_a_thread() -> None:
    threads = side_by_side(lambda _: threading.get_ident(), ("a", "b"), MIN_FILES_FOR_THREADS - 1)
    assert set(threads) == {threading.get_ident()}
    assert both(threading.get_ident, threading.get_ident, MIN_FILES_FOR_THREADS - 1) == (*threads,)


@pytest.mark.parametrize("limit", [3, 2**40, 2**63 - 1])
@given(data=st.data())
def test_order(limit: int, data: st.DataObject) -> None:
    values = np.array(data.draw(st.lists(st.integers(-limit, limit), max_size=50)), np.int64)
    order = order_of(values)
    assert sorted(order.tolist()) == list(range(len(values)))
    assert values[order].tolist() == sorted(values.tolist())
