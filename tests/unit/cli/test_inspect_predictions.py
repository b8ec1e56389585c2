"""`inspect` prints predictions beside measurements once the declared layout has been carried out."""

from __future__ import annotations

from zlayout.cli.inspect import _prediction_checks
from zlayout.planner.forecast import PredictionCheck


def test_predicted_measured_and_their_ratio() -> None:
    checks = (PredictionCheck("l_shipdate", 4.7, 4.1), PredictionCheck("b", 120.0, 0.0))
    lines = list(_prediction_checks(checks, 3, 5))
    assert lines[0] == ""
    assert "in 3 of 5 partitions" in lines[1]
    assert [line.split() for line in lines[2:]] == [
        ["column", "predicted", "measured", "ratio"],
        ["l_shipdate", "4.7", "4.1", "1.15"],
        ["b", "120", "0"],
    ]


def test_nothing_before_the_first_apply() -> None:
    assert list(_prediction_checks((), 0, 5)) == []
