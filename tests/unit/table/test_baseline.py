"""The stored text of a baseline, and measuring one."""

import numpy as np
import pyarrow as pa
import pytest
from support.builders import make_bounds, make_file_table

from zlayout.table.metrics import measure_baselines
from zlayout.table.state import Baseline, parse_baseline


@pytest.mark.parametrize(
    "baseline", [Baseline(1, (1.0,)), Baseline(60, (3.52, 60.0)), Baseline(123_456, (0.0, 1.5, 2e4, 7.25))]
)
def test_what_is_stored_can_be_parsed(baseline: Baseline) -> None:
    assert parse_baseline(str(baseline)) == baseline


def test_four_digits_are_stored() -> None:
    assert str(Baseline(99_999, (1234.567, 99_999.0, 1 / 3))) == "99999 1235 1e+05 0.3333"
    assert parse_baseline("99999 1235 1e+05 0.3333") is not None  # 1e+05 is above the number of files by rounding


@pytest.mark.parametrize(
    "text",
    [
        None,
        7,
        "",
        " ",
        "60",
        "60 ",
        "60 nan",
        "60 inf",
        "60 -1",
        "60 61",
        "0 0",
        "-5 1",
        "1e3 1",
        "60 3.5 x",
        "60  3.5",
        "६० 3",
        "9" * 5000 + " 1",
        "60 " + "1 " * 400 + "1",
        "99999999999999999 1",
        '{"files": 60}',
    ],
)
def test_anything_else_is_no_baseline(text: object) -> None:
    assert parse_baseline(text) is None


def test_each_group_is_measured_on_its_own() -> None:
    # Two disjoint files; three files with the same interval; a file without any value.
    bounds = make_bounds([0, 10, 0, 0, 0, None], [9, 19, 19, 19, 19, None], pa.int64())
    bounds.null_count[5] = 10
    files = make_file_table([10] * 6, bounds={"a": bounds})
    found = measure_baselines(files, ["a"], np.array([0, 0, 1, 1, 1, 2], np.int32), 3)
    assert [str(baseline) for baseline in found] == ["2 1", "3 3", "1 0"]
    assert measure_baselines(files.take(np.array([], np.int64)), ["a"], np.array([], np.int32), 0) == ()
