"""Every order in which two rewriters and two writers can meet, and every way in which one of them can fail."""

from collections.abc import Iterator

import pytest
from model.schedule import Violation
from model.worlds import SCENARIOS, Scenario, search, stand_ins
from reliability import count

CASES = [pytest.param(s, marks=pytest.mark.long) if s.long else s for s in SCENARIOS]


@pytest.fixture(scope="module", autouse=True)
def _stand_ins() -> Iterator[None]:
    with stand_ins():
        yield


@pytest.mark.parametrize("scenario", CASES, ids=str)
def test_no_schedule_breaks_a_promise(scenario: Scenario) -> None:
    try:
        found = search(scenario)
    except Violation as violation:
        count("violations")
        pytest.fail("\n".join([str(violation), *violation.trace]))
    assert found.schedules >= found.ends > 0
    count("schedules_model", found.schedules)
