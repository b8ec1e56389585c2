"""What is part of the layout id: all that decides which row goes to which file, and nothing else."""

from dataclasses import replace
from typing import Any

import pytest
from support.builders import make_layout

from zlayout.predicate.model import Compare
from zlayout.spec.model import Layout, ZorderColumn

ONE = make_layout("a")
TWO = replace(ONE, columns=(ZorderColumn("a"), ZorderColumn("b")))
CUT = Compare("a", "<", 5)
WEIGHTED = (ZorderColumn("a", 3.0), ZorderColumn("b"))


@pytest.mark.parametrize(
    ("layout", "change"),
    [
        (TWO, {"range_ids": 7}),
        (replace(TWO, curve="linear"), {"range_ids": 7}),
        (replace(TWO, curve="linear"), {"columns": WEIGHTED}),
        (replace(TWO, curve="hilbert"), {"columns": WEIGHTED}),
        (replace(TWO, engine="native"), {"columns": WEIGHTED}),
        (ONE, {"columns": (ZorderColumn("a", 3.0),)}),
        (ONE, {"curve": "hilbert", "range_ids": 7}),
        (ONE, {"curve": "linear"}),
    ],
)
def test_what_has_no_effect_does_not_change_it(layout: Layout, change: dict[str, Any]) -> None:
    assert replace(layout, **change).layout_id == layout.layout_id


@pytest.mark.parametrize(
    ("layout", "change"),
    [
        (TWO, {"columns": WEIGHTED}), (replace(TWO, curve="zorder"), {"columns": WEIGHTED}),
        (replace(TWO, curve="zorder"), {"range_ids": 7}), (TWO, {"curve": "zorder"}),
        (TWO, {"columns": TWO.columns[::-1]}), (TWO, {"engine": "native"}),
        (replace(ONE, engine="native"), {"curve": "linear"}), (ONE, {"noise": True}), (ONE, {"target_size": 1}),
        (ONE, {"sort_within": False}),
        (ONE, {"curve": "workload", "cuts": (CUT,)}),
        (replace(ONE, curve="workload", cuts=(CUT,)), {"cuts": (CUT, CUT)}),
        (replace(TWO, curve="workload", cuts=(CUT,)), {"columns": WEIGHTED}),
    ],
)  # fmt: skip
def test_what_has_an_effect_changes_it(layout: Layout, change: dict[str, Any]) -> None:
    assert replace(layout, **change).layout_id != layout.layout_id


def test_settings_are_reported_as_they_were_declared() -> None:
    declared = replace(ONE, curve="hilbert", columns=(ZorderColumn("a", 3.0),)).settings()
    assert (declared["zorder.curve"], declared["zorder.columns"]) == ("hilbert", [{"name": "a", "weight": 3.0}])
