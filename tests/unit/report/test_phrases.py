"""The phrases that several reports use."""

import pytest

from zlayout.planner.model import Decay, Measure
from zlayout.report.phrases import decay_text


@pytest.mark.parametrize(
    ("measure", "value", "tolerance", "text"),
    [
        (Measure.DELETED_ROWS, 0.25, 0.1, "deleted_rows 25%, tolerance 10%"),
        (Measure.DELETED_ROWS, 0.1004, 0.1, "deleted_rows 10.04%, tolerance 10.00%"),
        (Measure.UNCLUSTERED, 0.0996, 0.1, "unclustered 9.96%, tolerance 10.00% (within)"),
        (Measure.UNCLUSTERED, 0.1, 0.1, "unclustered 10%, tolerance 10% (within)"),
        (Measure.TOUCHED, 1.502, 1.5, "touched 1.502x, tolerance 1.500x"),
        (Measure.TOUCHED, 1.7, 1.5, "touched 1.70x, tolerance 1.50x"),
    ],
)
def test_the_text_shows_whether_a_measure_exceeds_its_tolerance(
    measure: Measure, value: float, tolerance: float, text: str
) -> None:
    assert decay_text(Decay(measure, value, tolerance)) == text
