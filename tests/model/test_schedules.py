"""Every order in which two rewriters and two writers can meet, and every way in which one of them can fail."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from model.schedule import Violation
from model.worlds import SCENARIOS, Scenario, search, stand_ins
from reliability import count

LONG = bool(os.environ.get("ZLAYOUT_LONG"))


@pytest.fixture(scope="module", autouse=True)
def _stand_ins() -> Iterator[None]:
    with stand_ins():
        yield


@pytest.mark.parametrize("scenario", [s for s in SCENARIOS if LONG or not s.long], ids=str)
def test_no_schedule_breaks_a_promise(scenario: Scenario) -> None:
    try:
        found = search(scenario)
    except Violation as violation:
        count("violations")
        pytest.fail("\n".join([str(violation), *violation.trace]))
    assert found.schedules >= found.states - 1 > 0
    count("schedules_model", found.schedules)
