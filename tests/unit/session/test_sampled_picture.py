"""The picture of a plan with a sample: it shows the files from which the forecast is computed."""

import numpy as np
import pytest
from unit.session.test_sampling import SHAPES, Table

from zlayout.planner.model import Plan
from zlayout.planner.run_report import Boxes
from zlayout.session.results import with_pictures
from zlayout.table.metrics import layout_metrics
from zlayout.table.partition import PartitionField


def _area(boxes: Boxes) -> float:
    """The area of all boxes, as a share of the map."""
    p = np.array(boxes.positions, float).reshape(-1, 4) / 1000
    return float(((p[:, 1] - p[:, 0]) * (p[:, 3] - p[:, 2])).sum())


@pytest.mark.parametrize("shape", ["uniform", "correlated", "skewed", "text"])
def test_the_drawn_files_are_those_that_the_rewrite_writes(shape: str) -> None:
    """As many files with as much overlap: also where columns are correlated, which bounds alone do not show."""
    table = Table(SHAPES[shape])
    planned = table.plan()
    decision = table.sampled(planned)
    assert decision.after is not None
    names = ("a", "b")
    drawn = [m.touched for m in layout_metrics(decision.after, names)]
    (picture,) = with_pictures(Plan("0.1.0", (decision.plan,)), [decision]).pictures.values()
    measured = [c.touched for c in table.apply(planned)]
    assert drawn == pytest.approx(measured, rel=0.15, abs=0.4)
    again = table.plan()
    (after,) = with_pictures(Plan("0.1.0", (again.plan,)), [again]).pictures.values()
    assert picture.sampled
    assert picture.after.files == after.before.files
    assert _area(picture.after) == pytest.approx(_area(after.before), rel=0.15)


def test_without_a_sample_and_after_a_partitioning_change_no_files_are_drawn() -> None:
    table = Table(SHAPES["uniform"])
    assert table.plan().after is None
    moved = Table(SHAPES["three values"], ("b",), partition_by=(PartitionField("a", "identity"),))
    assert moved.sampled(moved.plan()).after is None
