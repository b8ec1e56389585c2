"""`inspect` prints predictions beside measurements once the declared layout has been carried out."""

from __future__ import annotations

from zlayout.cli.inspect import _promises
from zlayout.planner.forecast import Promise


def test_predicted_measured_and_their_ratio() -> None:
    kept = (Promise("l_shipdate", 4.7, 4.1), Promise("b", 120.0, 0.0))
    lines = list(_promises(kept, 3, 5))
    assert lines[0] == ""
    assert "in 3 of 5 partitions" in lines[1]
    assert [line.split() for line in lines[2:]] == [
        ["column", "predicted", "measured", "ratio"],
        ["l_shipdate", "4.7", "4.1", "1.15"],
        ["b", "120", "0"],
    ]


def test_nothing_before_the_first_apply() -> None:
    assert list(_promises((), 0, 5)) == []
